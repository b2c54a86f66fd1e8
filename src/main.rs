//! The compute-federation binary: command line, configuration, wiring, admin endpoints and drain. No domain logic.

mod admin;
mod app;
mod args;
mod config;
mod leadership;
mod logging;
mod metrics_server;
mod serving;

use std::process::ExitCode;

use args::Args;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::from_command_line();
    logging::start(&args);
    match app::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
