//! Runs `compute-federation interpret` against the hub.

use std::path::Path;

use anyhow::ensure;
use harness::Federation;
use serde_json::Value;
use tokio::process::Command;

use crate::fixture::Space;

/// The command reads an object of the hub and its ResourceBinding. On a settled hub, the interpreter would change
/// nothing.
pub(crate) async fn an_object_of_the_hub_is_interpreted(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "interpret").await?;
    space.create_workload("web", &[("us", &["DFW"], 2)]).await?;
    space.until_settled("web", 2).await?;
    let object = format!("workloaddeployment/{}/web-us-dfw", space.hub_name);
    let kubeconfig = federation.hub().kubeconfig();
    let answered = interpret(kubeconfig, "AggregateStatus", &object).await?;
    ensure!(
        answered == "AggregateStatus changes nothing\n",
        "{answered}"
    );
    let answered = interpret(kubeconfig, "InterpretReplica", &format!("{object} -o=json")).await?;
    let answer: Value = serde_json::from_str(&answered)?;
    ensure!(answer["replicas"] == 2, "{answered}");
    let absent = format!("instance/{}/none", space.hub_name);
    let refused = interpret(kubeconfig, "InterpretReplica", &absent).await;
    let refused = refused.err().map(|error| error.to_string());
    ensure!(
        refused.as_ref().is_some_and(|it| it.contains("not found")),
        "{refused:?}"
    );
    space.delete_workload("web").await?;
    space.until_empty().await
}

async fn interpret(kubeconfig: &Path, operation: &str, rest: &str) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
        .args(["interpret", operation, "--federation-kubeconfig"])
        .arg(kubeconfig)
        .args(rest.split_whitespace())
        .kill_on_drop(true)
        .output()
        .await?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{error}");
    Ok(String::from_utf8(output.stdout)?)
}
