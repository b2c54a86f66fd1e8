//! Runs `compute-federation verify` against the hub.

use anyhow::{Context, ensure};
use harness::Federation;
use harness::audit::AuditPosition;
use harness::former::{CUSTOMIZATION, customization};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::Space;

/// Returns the report about the customizations of the hub, and whether the command exits with 0.
///
/// # Errors
///
/// When the command cannot compare, or if it writes something.
pub(crate) async fn verify(
    federation: &Federation,
    args: &[&str],
) -> anyhow::Result<(bool, Value)> {
    let position = AuditPosition::now(federation.planes())?;
    let output = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
        .args([
            "verify",
            "-o",
            "json",
            "--cases",
            "500",
            "--federation-kubeconfig",
        ])
        .arg(federation.hub().kubeconfig())
        .args(args)
        .kill_on_drop(true)
        .output()
        .await?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).with_context(|| error.clone())?;
    let mut writes = position.writes()?;
    writes.retain(|write| write.user_agent.contains("(verify)"));
    ensure!(writes.is_empty(), "{writes:?}");
    Ok((output.status.success(), report))
}

/// The replaced customization differs only as intended from the native interpreter. A customization with other rules
/// has unexplained differences.
pub(crate) async fn the_objects_of_the_hub_are_compared(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "verify").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2)])
        .await?;
    space.until_settled("web", 4).await?;
    let directory = TempDir::new()?;
    let file = directory.path().join("customization.json");
    let mut replaced = customization(CUSTOMIZATION, "WorkloadDeployment")?;
    std::fs::write(&file, replaced.to_string())?;
    let file = file.to_str().context("the path of the file")?;
    let (is_safe, report) = verify(federation, &["--customization", file]).await?;
    ensure!(is_safe, "{report:#}");
    let objects = report["onHub"]["objects"].as_u64();
    ensure!(objects.is_some_and(|objects| objects >= 2), "{report:#}");
    ensure!(report["generated"]["objects"] == 500, "{report:#}");
    let conclusion = report["conclusion"].as_str().unwrap_or_default();
    ensure!(conclusion.starts_with("Safe to remove: "), "{conclusion}");
    let is_of_status = |row: &Value| row["law"] == "cells-are-remembered";
    let differences = report["onHub"]["differences"].as_array();
    // The status of the hub names the cell already.
    ensure!(
        differences.is_some_and(|rows| rows.iter().any(is_of_status)),
        "{report:#}"
    );

    replaced["spec"]["customizations"]["statusAggregation"]["luaScript"] =
        "function AggregateStatus(desired, items)\n desired.status = {replicas = 7}\n return desired\nend".into();
    std::fs::write(file, replaced.to_string())?;
    let (is_safe, report) = verify(federation, &["--customization", file]).await?;
    ensure!(!is_safe, "{report:#}");
    let first = &report["onHub"]["differences"][0];
    ensure!(first["operation"] == "AggregateStatus", "{report:#}");
    ensure!(first.get("law").is_none(), "{report:#}");
    space.delete_workload("web").await?;
    space.until_empty().await
}
