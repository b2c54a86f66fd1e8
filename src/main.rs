//! The compute-federation binary: command line, configuration, wiring, admin endpoints and drain. It contains no domain
//! logic.

mod admin;
mod admission;
mod admission_clients;
mod allocator;
mod app;
mod args;
mod bind_address;
mod cell_rules;
mod certificate_metrics;
mod config;
mod customizations;
mod hub_client;
mod hub_error;
mod interpret;
mod interpreter;
mod leadership;
mod logging;
mod metrics_server;
mod object_files;
mod process_metrics;
mod reference;
mod scripts;
mod serving;
mod signals;
mod terminal;
mod user_agent;
mod verify;
mod webhook_server;

use std::process::ExitCode;

use args::{Command, CommandLine};
use logging::FlushGuard;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    allocator::shorten_purge_delay();
    let CommandLine { command, manager } = CommandLine::parse_process();
    allow_many_files();
    write_no_core_dumps();
    // The guard is dropped after the last line was logged.
    let _log: FlushGuard;
    let ended = match command {
        None => {
            _log = logging::start(&manager.log);
            app::run(manager)
        }
        Some(Command::Interpreter(args)) => {
            _log = logging::start(&args.log);
            interpreter::run(&args)
        }
        Some(Command::Interpret(args)) => return interpret::run(&args),
        Some(Command::Verify(args)) => return verify::run(&args),
        Some(Command::Rules(args)) => return cell_rules::run(&args),
        Some(Command::Reference) => {
            _log = logging::start(&manager.log);
            reference::run()
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Raises the limit of open files to the hard limit, because each connection is a file. If this fails, the process
/// continues with its current limit.
fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Has no core dumps written: the memory can contain Secrets of customers. If this fails, the process continues.
fn write_no_core_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
}
