//! Checks the alerts, the recording rules and the dashboards of `deploy` with promtool. `tests/architecture/deploy.rs`
//! compares them with the metrics of the program, and `tests/federation/scrape.rs` loads them into Prometheus.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "monitoring/cases.rs"]
mod cases;
#[path = "monitoring/dashboards.rs"]
mod dashboards;

use std::path::Path;
use std::process::Command;

use harness::prometheus::PrometheusPrograms;

/// Runs promtool. Panics with its output if it fails.
fn promtool(args: &[&str], files: &[&Path]) {
    let programs = PrometheusPrograms::find_or_build(|progress| eprintln!("{progress}")).unwrap();
    let output = Command::new(programs.promtool())
        .args(args)
        .args(files)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "promtool {}:\n{}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
