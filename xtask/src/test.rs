//! `cargo xtask test`: everything that must hold, in one command.

use anyhow::bail;
use clap::ValueEnum;

use crate::build::{cargo, cargo_output, cargo_with};
use crate::output::tell;
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
    /// What takes many minutes on a real federation: a thousand rotations of certificates, a burst of a thousand objects, a
    /// kill after each write, cuts and pauses of minutes.
    Soak,
    /// Format, lints, generated files, documentation, unit and federation.
    All,
}

/// What is pure, and what needs one process.
const UNIT: &[&str] = &[
    "test",
    "--workspace",
    "--locked",
    "--lib",
    "--bins",
    "--test",
    "architecture",
    "--test",
    "binary",
    "--test",
    "short",
];
/// What needs a federation.
const FEDERATION: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "federation",
];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let filter = args.filter.as_deref();
    let suites: &[&[&str]] = match args.scope {
        Scope::Unit => &[UNIT],
        Scope::Federation | Scope::Soak => &[FEDERATION],
        Scope::All => &[UNIT, FEDERATION],
    };
    if let Some(filter) = filter {
        is_name(suites, filter, args.scope)?;
    }
    match args.scope {
        Scope::Unit => unit(filter),
        Scope::Federation => federation(filter),
        Scope::Soak => soak(filter),
        Scope::All => {
            static_checks()?;
            unit(filter)?;
            federation(filter)
        }
    }
}

/// Fails if no test has the filter in its name: nothing would be tested, and look as if it were.
fn is_name(suites: &[&[&str]], filter: &str, scope: Scope) -> anyhow::Result<()> {
    let list: &[&str] = match scope {
        Scope::Soak => &["--", "--ignored", "--list"],
        _ => &["--", "--list"],
    };
    for suite in suites {
        let list = cargo_output(&[suite, [filter].as_slice(), list].concat())?;
        if list.lines().any(|line| line.ends_with(": test")) {
            return Ok(());
        }
    }
    bail!("no test has {filter:?} in its name")
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
    cargo(&[UNIT, filter.as_slice()].concat())
}

fn federation(filter: Option<&str>) -> anyhow::Result<()> {
    step("outside programs");
    peers()?;
    step("federation tests");
    cargo(&[FEDERATION, filter.as_slice()].concat())
}

fn soak(filter: Option<&str>) -> anyhow::Result<()> {
    step("outside programs");
    peers()?;
    step("soak");
    // One after the other: each is a load of its own.
    let alone = ["--", "--ignored", "--test-threads=1"];
    cargo(&[FEDERATION, filter.as_slice(), alone.as_slice()].concat())
}

fn step(name: &str) {
    tell(format!("== {name}"));
}
