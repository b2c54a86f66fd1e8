//! Reads our webhook registrations from `deploy/`, and replaces their address by an address on loopback.

use std::fs;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::checkout;

/// Reads a registration from a file of `deploy/`. All its webhooks get an address with this port.
pub(crate) fn at_port(file: &str, port: u16, ca_bundle: &str) -> anyhow::Result<Value> {
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
            webhook["clientConfig"] = json!({"url": url, "caBundle": ca_bundle});
        }
        Ok(registration)
    };
    read().with_context(|| file.display().to_string())
}
