//! A real Karmada gets its answers about another kind from Lua scripts that compute-federation serves.

use std::path::Path;

use anyhow::ensure;
use harness::{Federation, ports, wait};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::{DFW, ORD, POLICY, Space, WITHIN, create, patch, policies};

const NAME: &str = "app";
const REGISTRATION: &str = "compute-federation-customizations";

/// The scripts report this number of replicas for each cell, and sum it. Those of `more` follow.
fn customization(replicas: i32, more: &Value) -> Value {
    let reflect = format!("function ReflectStatus(o) return {{replicas = {replicas}}} end");
    let aggregate = "function AggregateStatus(desired, items)
  local sum = 0
  for i = 1, #items do
    sum = sum + (items[i].status or {replicas = 0}).replicas
  end
  desired.status = {replicas = sum}
  return desired
end";
    let mut customization = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "deployments"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {
                "statusReflection": {"luaScript": reflect},
                "statusAggregation": {"luaScript": aggregate},
            },
        },
    });
    let scripts = &mut customization["spec"]["customizations"];
    for (name, script) in more.as_object().into_iter().flatten() {
        scripts[name] = script.clone();
    }
    customization
}

/// Lets the management process serve the customizations of a directory, or none.
async fn serve(federation: &Federation, directory: Option<&Path>) -> anyhow::Result<()> {
    let mut manager = federation.management()?.lock().await;
    manager.set_customizations(directory)?;
    manager.terminate().await;
    manager.restart().await
}

/// Returns the printed registration of the customizations of a directory, without a `caBundle`.
async fn registration(federation: &Federation, directory: &Path) -> anyhow::Result<Value> {
    let port = federation.management()?.lock().await.webhook_port();
    let printed = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
        .args(["interpreter", "registration"])
        .arg(format!("--url=https://127.0.0.1:{port}/interpret"))
        .arg(format!("--customizations={}", directory.display()))
        .output()
        .await?;
    Ok(serde_saphyr::from_slice(&printed.stdout)?)
}

/// Waits until the registration has the `caBundle` of the native one, and exactly these operations.
async fn until_kept(registrations: &Api<DynamicObject>, operations: &[&str]) -> anyhow::Result<()> {
    wait::eventually("the registration is kept", WITHIN, || async {
        let ours = registrations.get(REGISTRATION).await?;
        let native = registrations.get("compute-federation").await?;
        let bundle = |registration: &DynamicObject| {
            registration.data["webhooks"][0]["clientConfig"]["caBundle"].clone()
        };
        ensure!(bundle(&ours) == bundle(&native), "{}", bundle(&ours));
        let rules = &ours.data["webhooks"][0]["rules"];
        ensure!(rules[0]["operations"] == json!(operations), "{rules}");
        Ok(())
    })
    .await
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
    let registrations = registrations(federation);
    let result = is_scripted(federation, directory.path(), &registrations).await;
    // Without the scripts, Karmada would get an error for every Deployment.
    let params = DeleteParams::default();
    let deleted = match registrations.delete(REGISTRATION, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    };
    let restored = serve(federation, None).await;
    result?;
    deleted?;
    restored
}

fn registrations(federation: &Federation) -> Api<DynamicObject> {
    let kind = "ResourceInterpreterWebhookConfiguration";
    let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
    Api::all_with(federation.hub().client(), &ApiResource::from_gvk(&kind))
}

async fn is_scripted(
    federation: &Federation,
    directory: &Path,
    registrations: &Api<DynamicObject>,
) -> anyhow::Result<()> {
    serve(federation, Some(directory)).await?;
    let file = directory.join("deployments.json");
    std::fs::write(&file, customization(7, &Value::Null).to_string())?;
    create(registrations, registration(federation, directory).await?).await?;
    until_kept(registrations, &["AggregateStatus", "InterpretStatus"]).await?;

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

    // New scripts are used for the next events, and are registered.
    let health = "function InterpretHealth(o) return true end";
    let more = json!({"healthInterpretation": {"luaScript": health}});
    std::fs::write(&file, customization(4, &more).to_string())?;
    let operations = ["AggregateStatus", "InterpretStatus", "InterpretHealth"];
    until_kept(registrations, &operations).await?;
    wait::eventually("the new scripts are used", WITHIN, || async {
        let label =
            json!({"metadata": {"labels": {"example.com/round": ports::reserve()?.to_string()}}});
        patch(&deployments, NAME, label).await?;
        let found = replicas(&deployments.get(NAME).await?);
        ensure!(found == Some(8), "{found:?}");
        Ok(())
    })
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
