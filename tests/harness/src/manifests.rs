//! Renders kustomizations of `deploy`, as an operator does.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::checkout;
use crate::peers::Peers;

/// Returns the objects of a kustomization, in the order of the output. `kubectl` contains kustomize.
///
/// # Errors
///
/// When the kustomization cannot be built.
pub async fn render(directory: &Path) -> anyhow::Result<Vec<Value>> {
    let output = Command::new(Peers::find_or_build(|_| ())?.program("kubectl"))
        .arg("kustomize")
        .arg(directory)
        .kill_on_drop(true)
        .output()
        .await?;
    let error = String::from_utf8_lossy(&output.stderr);
    // A warning names a deprecated field or a field without effect.
    ensure!(
        output.status.success() && error.is_empty(),
        "{}: {error}",
        directory.display()
    );
    let text = String::from_utf8(output.stdout)?;
    serde_saphyr::from_multiple(&text).with_context(|| directory.display().to_string())
}

/// Returns the objects of a kustomization of `deploy`, such as `overlays/cell`.
///
/// # Errors
///
/// When the kustomization cannot be built.
pub async fn deployed(path: &str) -> anyhow::Result<Vec<Value>> {
    render(&checkout::root().join("deploy").join(path)).await
}

/// Returns the objects of the kustomization of a consumer. `{deploy}` in the text stands for the path of `deploy`. The
/// kustomization is written into the directory.
///
/// # Errors
///
/// When the kustomization cannot be written or built.
pub async fn consumed(directory: &Path, kustomization: &str) -> anyhow::Result<Vec<Value>> {
    let directory = directory.canonicalize()?;
    let deploy = checkout::root().canonicalize()?.join("deploy");
    // kustomize refuses absolute paths.
    let up = "../".repeat(directory.components().count().saturating_sub(1));
    let relative = format!("{up}{}", deploy.strip_prefix("/")?.display());
    let text = kustomization.replace("{deploy}", &relative);
    fs::write(directory.join("kustomization.yaml"), text)?;
    render(&directory).await
}
