//! A real Karmada gets its answers about another kind from Lua scripts that compute-federation serves.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use harness::{Federation, ports, wait};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::fixture::{DFW, ORD, POLICY, Space, WITHIN, create, patch, policies};

const NAME: &str = "app";
const REGISTRATION: &str = "compute-federation-customizations";

/// The scripts report this number of replicas for each cell, and sum it.
fn customization(replicas: i32) -> Value {
    let reflect = format!("function ReflectStatus(o) return {{replicas = {replicas}}} end");
    let aggregate = "function AggregateStatus(desired, items)
  local sum = 0
  for i = 1, #items do
    sum = sum + (items[i].status or {replicas = 0}).replicas
  end
  desired.status = {replicas = sum}
  return desired
end";
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "deployments"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {
                "statusReflection": {"luaScript": reflect},
                "statusAggregation": {"luaScript": aggregate},
            },
        },
    })
}

/// Starts an interpreter that serves the scripts of a directory. Returns it with the registration that it prints for
/// them.
async fn interpreter(directory: &Path) -> anyhow::Result<(Child, Value)> {
    let port = ports::reserve()?;
    let mut process = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
        .args(["interpreter", "--self-signed"])
        .arg(format!("--port={port}"))
        .arg(format!("--customizations={}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut printed = String::new();
    let mut output = process.stdout.take().context("no standard output")?;
    output.read_to_string(&mut printed).await?;
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(&printed)?;
    documents.retain(|document| document["metadata"]["name"] == REGISTRATION);
    let registration = documents.pop().with_context(|| printed.clone())?;
    Ok((process, registration))
}

fn deployment() -> anyhow::Result<Deployment> {
    let labels = json!({"app": NAME});
    let containers = json!([{"name": "app", "image": "example.com/app:1"}]);
    Ok(Deployment::deserialize(json!({
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }))?)
}

pub(crate) async fn karmada_calls_the_scripts_of_another_kind(
    federation: &Federation,
) -> anyhow::Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("deployments.json");
    std::fs::write(&file, customization(7).to_string())?;
    let (_process, registration) = interpreter(directory.path()).await?;
    let kind = "ResourceInterpreterWebhookConfiguration";
    let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
    let hub = federation.hub().client();
    let registrations: Api<DynamicObject> = Api::all_with(hub, &ApiResource::from_gvk(&kind));
    create(&registrations, registration).await?;

    let space = Space::on_hub_alone(federation, "scripted").await?;
    let selected = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let cells = json!({"clusterAffinity": {"clusterNames": [DFW, ORD]}});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": POLICY},
        "spec": {"resourceSelectors": selected, "placement": cells},
    });
    create::<DynamicObject>(&policies(&space), policy).await?;
    let deployments: Api<Deployment> = space.on_hub();
    create(&deployments, json!(deployment()?)).await?;
    until_replicas(&deployments, 14).await?;

    // New scripts are used for the next events.
    std::fs::write(&file, customization(4).to_string())?;
    wait::eventually("the new scripts are used", WITHIN, || async {
        let label =
            json!({"metadata": {"labels": {"example.com/round": ports::reserve()?.to_string()}}});
        patch(&deployments, NAME, label).await?;
        let found = replicas(&deployments.get(NAME).await?);
        ensure!(found == Some(8), "{found:?}");
        Ok(())
    })
    .await?;

    registrations
        .delete(REGISTRATION, &DeleteParams::default())
        .await?;
    deployments.delete(NAME, &DeleteParams::default()).await?;
    wait::gone(&deployments, NAME, WITHIN).await
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.status.as_ref()?.replicas
}

async fn until_replicas(deployments: &Api<Deployment>, expected: i32) -> anyhow::Result<()> {
    let is_it = |deployment: &Deployment| replicas(deployment) == Some(expected);
    let what = format!("{expected} replicas");
    wait::until(deployments, NAME, &what, WITHIN, is_it)
        .await
        .map(drop)
}
