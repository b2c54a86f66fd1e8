//! The developer's commands: `cargo xtask --help`.

mod alerts;
mod bench;
mod build;
mod bundle;
mod crds;
mod demo;
mod docs;
mod image;
mod mutations;
mod observe;
mod output;
mod test;
mod tools;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use harness::kustomize;
use harness::peers::Peers;
use harness::prometheus::PrometheusPrograms;
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
    /// Shows a Workload on its way through a real federation.
    Demo(demo::Args),
    /// Runs the tests.
    Test(test::Args),
    /// Runs the benchmarks.
    Bench(bench::Args),
    /// Builds the external programs and prints where they are.
    Peers,
    /// Writes the generated files of deploy: the CRDs from the Rust types, the RBAC roles, and the VMRule from the
    /// PrometheusRule.
    Crds {
        /// Write nothing: fail if a file is stale.
        #[arg(long)]
        check: bool,
    },
    /// Writes the pages of docs/reference from the code.
    Docs(docs::Args),
    /// Writes the container image as an OCI layout and as an archive.
    Image(image::Args),
    /// Writes deploy as the OCI artifact that Flux reads.
    Bundle(bundle::Args),
}

fn main() -> ExitCode {
    harness::reexec();
    let result = match Args::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Peers => peers(),
        Command::Crds { check } => crds::run(check).and_then(|()| alerts::run(check)),
        Command::Docs(args) => docs::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Bundle(args) => bundle::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The program that reads the output has closed it, as `head` does.
        Err(error) if error.is::<Closed>() => ExitCode::SUCCESS,
        Err(error) => {
            tell(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn peers() -> anyhow::Result<()> {
    let peers = Peers::find_or_build(|progress| tell(progress)).context("external programs")?;
    for (name, path) in peers.programs() {
        print(format!("{name} {}", path.display()))?;
    }
    let kustomize = kustomize::find_or_build(|progress| tell(progress))?;
    print(format!("kustomize {}", kustomize.display()))?;
    let prometheus = PrometheusPrograms::find_or_build(|progress| tell(progress))?;
    for (name, path) in prometheus.programs() {
        print(format!("{name} {}", path.display()))?;
    }
    Ok(())
}
