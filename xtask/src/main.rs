//! The developer's commands: `cargo xtask --help`.

mod bench;
mod build;
mod crds;
mod demo;
mod observe;
mod output;
mod test;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use harness::peers::Peers;
use output::{Closed, print, tell};

/// The developer's commands.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows a Workload all the way through a real federation.
    Demo(demo::Args),
    /// Runs the tests.
    Test(test::Args),
    /// Measures side by side.
    Bench(bench::Args),
    /// Builds the outside programs and prints where they are.
    Peers,
    /// Writes the CRDs of deploy/base/crd from the Rust types.
    Crds {
        /// Only fail if a file differs.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    harness::reexec();
    let result = match Args::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Peers => peers(),
        Command::Crds { check } => crds::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has seen enough.
        Err(error) if error.is::<Closed>() => ExitCode::SUCCESS,
        Err(error) => {
            tell(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn peers() -> anyhow::Result<()> {
    let peers = Peers::find_or_build(|progress| tell(progress)).context("outside programs")?;
    for (name, path) in peers.programs() {
        print(format!("{name} {}", path.display()))?;
    }
    Ok(())
}
