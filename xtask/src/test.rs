//! `cargo xtask test`: everything that must hold, in one command.

use clap::ValueEnum;

use crate::build::{cargo, cargo_with};
use crate::{crds, peers};

/// Runs the tests.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to run.
    #[arg(value_enum, default_value = "all")]
    scope: Scope,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Parts of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// Everything that is quick: what is pure, and what needs one process.
    Unit,
    /// End-to-end tests on a real federation.
    Federation,
    /// Format, lints, generated files, documentation, unit and federation.
    All,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let filter = args.filter.as_deref();
    match args.scope {
        Scope::Unit => unit(filter),
        Scope::Federation => federation(filter),
        Scope::All => {
            static_checks()?;
            unit(filter)?;
            federation(filter)
        }
    }
}

fn static_checks() -> anyhow::Result<()> {
    step("format");
    cargo(&["fmt", "--all", "--check"])?;
    step("lints");
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ])?;
    step("generated files");
    crds::run(true)?;
    step("documentation");
    let deny = [("RUSTDOCFLAGS", "--deny warnings")];
    cargo_with(
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
            "--locked",
        ],
        &deny,
    )
}

fn unit(filter: Option<&str>) -> anyhow::Result<()> {
    step("unit tests");
    let mut args = vec![
        "test",
        "--workspace",
        "--locked",
        "--lib",
        "--bins",
        "--test",
        "architecture",
        "--test",
        "binary",
    ];
    args.extend(filter);
    cargo(&args)
}

fn federation(filter: Option<&str>) -> anyhow::Result<()> {
    step("outside programs");
    peers()?;
    step("federation tests");
    let mut args = vec![
        "test",
        "--locked",
        "--package",
        "compute-federation",
        "--test",
        "federation",
    ];
    if let Some(filter) = filter {
        args.extend(["--", filter]);
    }
    cargo(&args)
}

fn step(name: &str) {
    eprintln!("== {name}");
}
