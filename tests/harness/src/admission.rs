//! Registers the admission webhooks of compute-federation with an API server.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::objects::apply;
use crate::{registration, wait};

/// Time limit until an API server calls a new webhook.
const EFFECTIVE: Duration = Duration::from_mins(1);
/// Label of the ConfigMaps for the probe webhook. No other webhook selects them.
const PROBE: &str = "harness.compute.datumapis.com/probe";

/// Name of the webhook of WorkloadDeployments.
const DEPLOYMENTS: &str = "vworkloaddeployment.kb.io";

const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";

/// Registers the webhook server at this port. Waits until the API server calls it.
pub(crate) async fn register(client: &Client, port: u16, ca_bundle: &str) -> anyhow::Result<()> {
    for (kind, file) in [
        (MUTATING, "base/webhook/mutating-webhook.yaml"),
        (VALIDATING, "base/webhook/validating-webhook.yaml"),
    ] {
        apply(client, &registration::at_port(file, port, Some(ca_bundle))?).await?;
        until_effective(client, kind, ca_bundle).await?;
    }
    Ok(())
}

/// Registers only the webhook of WorkloadDeployments. Waits until the API server calls it.
pub(crate) async fn register_deployments(
    client: &Client,
    port: u16,
    ca_bundle: &str,
) -> anyhow::Result<()> {
    let file = "base/webhook/validating-webhook.yaml";
    let mut registration = registration::at_port(file, port, Some(ca_bundle))?;
    let webhooks = registration.get_mut("webhooks");
    let webhooks = webhooks.and_then(Value::as_array_mut);
    let webhooks = webhooks.context("no webhooks")?;
    webhooks.retain(|webhook| webhook.get("name").is_some_and(|name| name == DEPLOYMENTS));
    ensure!(!webhooks.is_empty(), "no webhook {DEPLOYMENTS}");
    apply(client, &registration).await?;
    until_effective(client, VALIDATING, ca_bundle).await
}

fn configuration(kind: &str, name: &str, webhook: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    })
}

/// Waits until the API server uses the registrations of this kind. An API server receives registrations from a watch,
/// in order. The probe registration is created last and points at a closed port. When the API server uses it, the API
/// server also uses all earlier registrations.
async fn until_effective(client: &Client, kind: &str, ca_bundle: &str) -> anyhow::Result<()> {
    let (name, webhook) = ("harness-probe", "probe.harness.compute.datumapis.com");
    let probe = json!({
        "name": webhook,
        "admissionReviewVersions": ["v1"],
        // No server listens on port 1.
        "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": ca_bundle},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "objectSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]},
        "rules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }],
    });
    apply(client, &configuration(kind, name, &probe)).await?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object =
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {PROBE: ""}}}))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually(
        "the API server uses the registration",
        EFFECTIVE,
        || async {
            let created = api.create(&dry_run, &object).await;
            let answer = created.map_or_else(|error| error.to_string(), |_| "created".to_owned());
            ensure!(answer.contains(webhook), "{answer}");
            Ok(())
        },
    )
    .await?;
    let params = DeleteParams::default();
    if kind == MUTATING {
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        api.delete(name, &params).await?;
    } else {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        api.delete(name, &params).await?;
    }
    Ok(())
}
