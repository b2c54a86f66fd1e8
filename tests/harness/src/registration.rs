//! Reads our webhook registrations from `deploy/`, and replaces their address by an address on loopback.

use std::fs;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::checkout;
use crate::plane::Plane;
use crate::webhook_certificate::INTERPRETER;

/// Name of the interpreter's registration.
const NAME: &str = "compute-federation";

/// Reads a registration from a file of `deploy/`. All its webhooks get an address with this port.
pub(crate) fn at_port(file: &str, port: u16, ca_bundle: Option<&str>) -> anyhow::Result<Value> {
    let file = checkout::root().join("deploy").join(file);
    let read = || -> anyhow::Result<Value> {
        let mut registration: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)?;
        let webhooks = registration
            .get_mut("webhooks")
            .and_then(Value::as_array_mut)
            .context("no webhooks")?;
        ensure!(!webhooks.is_empty(), "no webhooks");
        for webhook in webhooks {
            let path = webhook.pointer("/clientConfig/service/path");
            let path = path.and_then(Value::as_str).context("no path")?;
            let url = format!("https://127.0.0.1:{port}{path}");
            webhook["clientConfig"] = match ca_bundle {
                Some(ca_bundle) => json!({"url": url, "caBundle": ca_bundle}),
                None => json!({"url": url}),
            };
        }
        Ok(registration)
    };
    read().with_context(|| file.display().to_string())
}

/// Lets the interpreter's registration on the hub lead to the Service of an interpreter that runs apart, at this port.
pub(crate) async fn lead_to_service(hub: &Plane, port: u16) -> anyhow::Result<()> {
    let (name, namespace) = INTERPRETER;
    let registrations = registrations(hub);
    let mut registration = registrations.get(NAME).await?;
    let config = registration.data.pointer_mut("/webhooks/0/clientConfig");
    let config = config.and_then(Value::as_object_mut);
    let config = config.context("no clientConfig")?;
    config.remove("url");
    let service = json!({"name": name, "namespace": namespace, "port": port, "path": "/interpret"});
    config.insert("service".to_owned(), service);
    registrations
        .replace(NAME, &PostParams::default(), &registration)
        .await?;
    Ok(())
}

/// Returns the `caBundle` of the interpreter's registration on the hub, in PEM.
pub(crate) async fn ca_bundle(hub: &Plane) -> anyhow::Result<Vec<u8>> {
    let registration = registrations(hub).get(NAME).await?;
    let bundle = registration
        .data
        .pointer("/webhooks/0/clientConfig/caBundle");
    let bundle = bundle.and_then(Value::as_str).context("no caBundle")?;
    Ok(STANDARD.decode(bundle)?)
}

fn registrations(hub: &Plane) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
    );
    Api::all_with(hub.client(), &ApiResource::from_gvk(&kind))
}
