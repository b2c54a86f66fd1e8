//! The registrations of the interpreter with Karmada.

use std::fs;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use controllers::ca_bundle::{Registration, WEBHOOK_OF_CUSTOMIZATIONS};
use interpreters::lua::LuaInterpreter;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Map, Value, json};

use crate::args::RegistrationArgs;
use crate::customizations;

/// The deployed ResourceInterpreterWebhookConfiguration of the native interpreter.
const NATIVE: &str =
    include_str!("../../deploy/components/federation/resource-interpreter-webhook.yaml");
/// Returns the deployed registration, with this URL and this `caBundle`.
pub(super) fn native(url: &str, bundle: &str) -> anyhow::Result<String> {
    let client = json!({"url": url, "caBundle": bundle});
    Ok(serde_saphyr::to_string(&configured(&client)?)?)
}

/// Returns the registration for the kinds of these customizations, with this URL and this `caBundle`.
pub(super) fn of_customizations(
    interpreter: &LuaInterpreter,
    url: &str,
    bundle: &str,
) -> anyhow::Result<String> {
    let client = json!({"url": url, "caBundle": bundle});
    Ok(serde_saphyr::to_string(&registered(interpreter, &client)?)?)
}

/// Returns the registration for the customizations of a directory.
///
/// # Errors
///
/// If a file cannot be read or is not valid.
pub(super) fn of_directory(args: &RegistrationArgs) -> anyhow::Result<String> {
    let interpreter =
        customizations::of_directory(&args.customizations).context("--customizations")?;
    let mut client = match &args.url {
        Some(url) => {
            host_of(url)?;
            json!({"url": url})
        }
        None => deployed_client()?,
    };
    if let (Some(file), Some(client)) = (&args.ca, client.as_object_mut()) {
        let what = || format!("--ca: {}", file.display());
        let ca = fs::read(file).with_context(what)?;
        if CertificateDer::from_pem_slice(&ca).is_err() {
            bail!("{} has no certificate in PEM", what());
        }
        client.insert("caBundle".to_owned(), STANDARD.encode(ca).into());
    }
    Ok(serde_saphyr::to_string(&registered(
        &interpreter,
        &client,
    )?)?)
}

/// Returns the host of the URL at which Karmada reaches the interpreter.
///
/// # Errors
///
/// If Karmada would refuse the URL.
pub(super) fn host_of(url: &str) -> anyhow::Result<String> {
    let parsed: http::Uri = url.parse().with_context(|| format!("--url {url:?}"))?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("https"), Some(host)) => Ok(host.trim_matches(['[', ']']).to_owned()),
        _ => bail!("--url is {url:?}, must be https://HOST[:PORT]/interpret"),
    }
}

/// Returns `clientConfig` of the deployed registration.
fn deployed_client() -> anyhow::Result<Value> {
    let deployed: Value = serde_saphyr::from_str(NATIVE)?;
    let client = deployed.pointer("/webhooks/0/clientConfig").cloned();
    client.context("the deployed registration has no clientConfig")
}

/// Returns the deployed registration with this `clientConfig`.
fn configured(client: &Value) -> anyhow::Result<Value> {
    let mut registration: Value = serde_saphyr::from_str(NATIVE)?;
    let webhooks = registration
        .get_mut("webhooks")
        .and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        if let Some(webhook) = webhook.as_object_mut() {
            webhook.insert("clientConfig".into(), client.clone());
        }
    }
    Ok(registration)
}

/// Returns the deployed registration, with the kinds and the operations of the scripts instead.
fn registered(interpreter: &LuaInterpreter, client: &Value) -> anyhow::Result<Value> {
    if interpreter.kinds().is_empty() {
        bail!("the directory has no customization with a script: there is nothing to register");
    }
    let mut registration = configured(client)?;
    let webhook = registration
        .pointer_mut("/webhooks/0")
        .and_then(Value::as_object_mut);
    let webhook = webhook.context("the deployed registration has no webhook")?;
    webhook.insert("rules".to_owned(), customizations::rules(interpreter));
    webhook.insert("name".to_owned(), WEBHOOK_OF_CUSTOMIZATIONS.into());
    let fields = registration.as_object_mut();
    let metadata: Map<_, _> = [(
        "name".to_owned(),
        Registration::CUSTOMIZATIONS.name().into(),
    )]
    .into_iter()
    .collect();
    fields.and_then(|fields| fields.insert("metadata".to_owned(), metadata.into()));
    Ok(registration)
}

#[cfg(test)]
mod tests {
    use interpreters::lua::Limits;

    use super::*;

    #[test]
    fn the_printed_registration_is_the_deployed_one_with_a_url() {
        let bundle = STANDARD.encode("PEM");
        let text = native("https://127.0.0.1:9443/interpret", &bundle).unwrap();
        let registration: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(registration["metadata"]["name"], "compute-federation");
        let [webhook] = registration["webhooks"].as_array().unwrap().as_slice() else {
            panic!("one webhook");
        };
        let config = json!({"url": "https://127.0.0.1:9443/interpret", "caBundle": bundle});
        assert_eq!(webhook["clientConfig"], config);
        assert_eq!(
            webhook["rules"][0]["operations"].as_array().unwrap().len(),
            7
        );
    }

    #[test]
    fn the_kinds_of_customizations_are_registered_for_their_scripts() {
        let customization = serde_json::from_value(json!({
            "kind": "ResourceInterpreterCustomization", "metadata": {"name": "pods"},
            "spec": {
                "target": {"apiVersion": "v1", "kind": "Pod"},
                "customizations": {
                    "healthInterpretation": {"luaScript": "function InterpretHealth() return true end"},
                    "retention": {"luaScript": "function Retain(d) return d end"},
                },
            },
        }));
        let interpreter =
            LuaInterpreter::new(&[customization.unwrap()], Limits::default()).unwrap();
        let registration = registered(&interpreter, &deployed_client().unwrap()).unwrap();
        assert_eq!(
            registration["kind"],
            "ResourceInterpreterWebhookConfiguration"
        );
        assert_eq!(
            registration["metadata"]["name"],
            Registration::CUSTOMIZATIONS.name()
        );
        let webhook = &registration["webhooks"][0];
        assert_eq!(
            webhook["clientConfig"]["service"]["name"],
            "compute-webhook"
        );
        let rules = json!([{
            "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"],
            "operations": ["Retain", "InterpretHealth"],
        }]);
        assert_eq!(webhook["rules"], rules);
    }
}
