//! Runs `kubectl`, as users and operators do.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use harness::peers::Peers;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs `kubectl`. If there is an object, writes it to the standard input of `kubectl`.
pub(crate) async fn kubectl(
    kubeconfig: &Path,
    args: &[&str],
    object: Option<&Value>,
) -> anyhow::Result<Output> {
    let mut child = Command::new(Peers::find_or_build(|_| ())?.program("kubectl"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child
        .stdin
        .take()
        .context("kubectl has no standard input")?;
    if let Some(object) = object {
        stdin.write_all(object.to_string().as_bytes()).await?;
    }
    drop(stdin);
    Ok(child.wait_with_output().await?)
}

/// Returns the JSON output of `kubectl`.
pub(crate) async fn kubectl_json(kubeconfig: &Path, args: &[&str]) -> anyhow::Result<Value> {
    let output = kubectl(kubeconfig, &[args, &["--output=json"]].concat(), None).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {args:?}: {error}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
