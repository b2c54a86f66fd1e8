//! Applies objects in JSON or YAML, and requests tokens.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use futures::future::try_join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::wait;

/// Time limit for an API server to establish a CRD.
const ESTABLISHED: Duration = Duration::from_mins(1);

/// Applies one object in JSON. The plural resource name is derived from the kind.
///
/// # Errors
///
/// When the object has no kind or no name, or the API server refuses the object.
pub async fn apply(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    let (api, name) = api_of(client, object);
    let applied = api.patch(name, &params(), &Patch::Apply(object)).await;
    applied.with_context(|| format!("apply {}", described(object)))
}

/// Creates a ServiceAccount if it does not exist, and returns a token of it.
///
/// # Errors
///
/// When the API server refuses the ServiceAccount or the token.
pub async fn token(client: &Client, namespace: &str, name: &str) -> anyhow::Result<String> {
    let metadata = json!({"name": name, "namespace": namespace});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    apply(client, &account).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await?;
    let token = answer.status.and_then(|status| status.token);
    token.context("the answer has no token")
}

/// Applies the objects of a YAML text with several documents, in their order.
///
/// # Errors
///
/// When a document is not an object, or the API server refuses the object.
pub async fn apply_all(client: &Client, manifests: &str) -> anyhow::Result<()> {
    for document in manifests.split("\n---\n") {
        let object: Value =
            serde_saphyr::from_str(document).with_context(|| document.to_owned())?;
        apply(client, &object).await?;
    }
    Ok(())
}

/// Applies the status of one object in JSON. The object must have no spec.
pub(crate) async fn apply_status(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    let (api, name) = api_of(client, object);
    let applied = api
        .patch_status(name, &params(), &Patch::Apply(object))
        .await;
    applied.with_context(|| format!("apply the status of {}", described(object)))
}

fn described(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or_default();
    format!("{kind} {}", text("/metadata/name").unwrap_or_default())
}

fn params() -> PatchParams {
    PatchParams::apply("harness").force()
}

/// Returns the API of an object, and the object's name.
fn api_of<'o>(client: &Client, object: &'o Value) -> (Api<DynamicObject>, &'o str) {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    (api, text("/metadata/name"))
}

/// Applies CRDs from YAML files. Each file contains one CRD. Waits until the CRDs are established.
pub(crate) async fn apply_crds(client: &Client, files: &[impl AsRef<Path>]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    try_join_all(files.iter().map(|file| async {
        let file = file.as_ref();
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let definition: Value =
            serde_saphyr::from_str(&text).with_context(|| file.display().to_string())?;
        let applied = apply(client, &definition).await?;
        let name = applied.metadata.name.unwrap_or_default();
        wait::until(&api, &name, "established", ESTABLISHED, is_established)
            .await
            .map(drop)
    }))
    .await
    .map(drop)
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
    })
}
