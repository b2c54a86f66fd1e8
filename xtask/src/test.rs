//! `cargo xtask test`: the checks of the gate, in one command.

use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use harness::checkout::root;
use harness::node::{self, NodePrograms};
use harness::prometheus::PrometheusPrograms;
use serde_json::Value;

use crate::build::{cargo, cargo_output, cargo_with};
use crate::output::tell;
use crate::{alerts, bench, crds, docs, mutations, peers, tools};

/// Runs the tests.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tests to run.
    #[arg(value_enum, default_value = "all")]
    scope: Scope,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Parts of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// The quick tests: pure code, and tests that need one process.
    Unit,
    /// A comparison of the answers of the webhook server with those of the Go webhooks, and of the runtime for Lua
    /// customizations with Karmada's engine.
    Answers,
    /// Checks of alerts, recording rules and dashboards with promtool.
    Monitoring,
    /// End-to-end tests on a real federation.
    Federation,
    /// Tests of Pods on real nodes. They need root and cgroups; elsewhere they are skipped.
    Nodes,
    /// Tests that take many minutes, on a real federation and on nodes: a thousand rotations of certificates, a burst
    /// of a thousand objects, a kill after each write, cuts and pauses of minutes, a million requests to Lua scripts.
    Soak,
    /// Mutations of the source that break an invariant. The test of the invariant must fail. The filter is the number
    /// of an invariant, such as I-8. Takes about an hour for all.
    Mutations,
    /// Static checks, unit tests, a comparison of answers with the Go webhooks, checks of alerts and dashboards,
    /// federation tests and tests on nodes.
    All,
}

/// Tests of pure code, and tests that need one process.
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
    "memory",
    "--test",
    "short",
];
/// Unit tests of the controllers.
const CONTROLLERS: &[&str] = &["test", "--locked", "--package", "controllers", "--lib"];
/// Tests that run the binary alone.
const BINARY: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "binary",
];
/// Tests that need promtool.
const MONITORING: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "monitoring",
];
/// The runtime for Lua customizations beside Karmada's engine.
const LUA: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "lua",
];
/// Tests that need a federation.
const FEDERATION: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "federation",
];

/// Tests that need real nodes.
const NODES: &[&str] = &[
    "test",
    "--locked",
    "--package",
    "compute-federation",
    "--test",
    "nodes",
];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let filter = args.filter.as_deref();
    let suites: &[&[&str]] = match args.scope {
        Scope::Unit => &[UNIT],
        Scope::Monitoring => &[MONITORING],
        Scope::Federation => &[FEDERATION],
        Scope::Nodes => &[NODES],
        Scope::Soak => &[BINARY, LUA, FEDERATION, NODES],
        Scope::Answers => return answers(),
        Scope::Mutations => return mutations::run(filter),
        Scope::All => &[UNIT, MONITORING, FEDERATION, NODES],
    };
    if let Some(filter) = filter {
        require_match(suites, filter, args.scope)?;
    }
    match args.scope {
        Scope::Unit => unit(filter),
        Scope::Monitoring => monitoring(filter),
        Scope::Federation => federation(filter),
        Scope::Nodes => nodes(filter),
        Scope::Soak => soak(filter),
        Scope::Answers => answers(),
        Scope::Mutations => mutations::run(filter),
        Scope::All => {
            static_checks()?;
            unit(filter)?;
            if filter.is_none() {
                answers()?;
            }
            monitoring(filter)?;
            federation(filter)?;
            nodes(filter)
        }
    }
}

/// Fails if no test name contains the filter. Otherwise a run without any test would look like a success.
fn require_match(suites: &[&[&str]], filter: &str, scope: Scope) -> anyhow::Result<()> {
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
    step("dependencies");
    dependencies()?;
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
    step("each crate alone");
    each_crate_alone()?;
    step("generated files");
    crds::run(true)?;
    alerts::run(true)?;
    docs::check()?;
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

/// Checks licences, sources, versions and banned crates with `deny.toml`. Does not check advisories, because the
/// database of advisories needs the network.
fn dependencies() -> anyhow::Result<()> {
    let mut command = Command::new(tools::cargo_deny()?);
    command.args(["--locked", "--workspace", "check"]);
    command.args(["bans", "licenses", "sources"]);
    let status = command.current_dir(root()).status();
    let status = status.context("cargo-deny not started")?;
    ensure!(status.success(), "cargo deny check failed");
    Ok(())
}

/// Checks each crate of the workspace in a separate build. In a common build, a crate compiles even if only another
/// crate enables a feature that the crate needs.
fn each_crate_alone() -> anyhow::Result<()> {
    for name in members()? {
        cargo(&["check", "--quiet", "--locked", "--package", &name])?;
    }
    Ok(())
}

/// Returns the names of the workspace's crates.
fn members() -> anyhow::Result<Vec<String>> {
    let metadata = cargo_output(&["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let names = packages
        .into_iter()
        .flatten()
        .filter_map(|package| package.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

fn unit(filter: Option<&str>) -> anyhow::Result<()> {
    step("unit tests");
    cargo(&[UNIT, filter.as_slice()].concat())
}

fn answers() -> anyhow::Result<()> {
    step("answers of the Go webhooks");
    bench::check_answers()?;
    step("Lua customizations beside Karmada's engine");
    cargo(LUA)
}

fn monitoring(filter: Option<&str>) -> anyhow::Result<()> {
    step("external programs");
    PrometheusPrograms::find_or_build(|progress| tell(progress)).context("Prometheus")?;
    step("alerts and dashboards");
    cargo(&[MONITORING, filter.as_slice()].concat())
}

fn federation(filter: Option<&str>) -> anyhow::Result<()> {
    step("external programs");
    peers()?;
    step("federation tests");
    cargo(&[FEDERATION, filter.as_slice()].concat())
}

/// Runs the tests on nodes. On a machine without the needs of a node, the test program says why it skips them.
fn nodes(filter: Option<&str>) -> anyhow::Result<()> {
    step("external programs");
    peers()?;
    node_programs()?;
    step("tests on nodes");
    cargo(&[NODES, filter.as_slice()].concat())
}

/// Builds the programs of nodes, if this machine can run nodes.
fn node_programs() -> anyhow::Result<()> {
    if node::check().is_ok() {
        NodePrograms::find_or_build(|progress| tell(progress)).context("programs of nodes")?;
    }
    Ok(())
}

fn soak(filter: Option<&str>) -> anyhow::Result<()> {
    step("external programs");
    peers()?;
    node_programs()?;
    step("soak");
    // Each of these tests uses the whole machine, so the tests run one after the other.
    let alone = ["--", "--ignored", "--test-threads=1"];
    for suite in [CONTROLLERS, BINARY, LUA, FEDERATION, NODES] {
        cargo(&[suite, filter.as_slice(), alone.as_slice()].concat())?;
    }
    Ok(())
}

fn step(name: &str) {
    tell(format!("== {name}"));
}
