//! Protects the annotations about referenced data of a WorkloadDeployment (docs/concepts/referenced-data.md). They decide
//! which ConfigMaps and Secrets are copied to the hub, and which of them a cell gets.

use std::collections::BTreeMap;

use api::annotations::OF_REFERENCED_DATA;
use api::decode::from_str;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::denial::{AdmittedKind, Denial};
use super::nullable::or_default;
use super::review::AdmissionRequest;
use crate::bounded::bounded;

const KIND: AdmittedKind = AdmittedKind::WorkloadDeployment;
/// The group of administrators that no authorizer can restrict.
const ADMINISTRATORS: &str = "system:masters";

/// The annotations of an object.
#[derive(Default, Deserialize)]
struct DeploymentEnvelope {
    #[serde(default, deserialize_with = "or_default")]
    metadata: EnvelopeMetadata,
}

#[derive(Default, Deserialize)]
struct EnvelopeMetadata {
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

/// Checks who adds, changes or removes the annotations about referenced data. `resolvers` are the names of the users that
/// may do it.
///
/// # Errors
///
/// A [`Denial`] with the annotations that the requester may not change.
pub(crate) fn validate_deployment(
    request: &AdmissionRequest<'_>,
    resolvers: &[String],
) -> Result<(), Denial> {
    request.expect_kind(KIND)?;
    let user = &request.user_info;
    let is_administrator = user.groups.iter().any(|group| group == ADMINISTRATORS);
    // A deletion writes no annotations.
    let is_write = !["DELETE", "CONNECT"].contains(&request.operation.as_ref());
    if !is_write || is_administrator || resolvers.contains(&user.username) {
        return Ok(());
    }
    let new = annotations(request, request.object)?;
    let former = annotations(request, request.old_object)?;
    let changed: Vec<_> = OF_REFERENCED_DATA
        .into_iter()
        .filter(|key| new.get(*key) != former.get(*key))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let problem = format!(
        "metadata.annotations: {} may not change {}: add the user to referencedData.resolverUsernames in the config file \
         of the webhook server if it runs the controller referenced-data",
        bounded(&user.username),
        changed.join(", "),
    );
    Err(Denial::forbidden(KIND, &request.name, &problem))
}

/// Decodes the annotations of an object. An object that is absent has none.
fn annotations(
    request: &AdmissionRequest<'_>,
    object: Option<&RawValue>,
) -> Result<BTreeMap<String, String>, Denial> {
    let Some(object) = object else {
        return Ok(BTreeMap::new());
    };
    let decoded = from_str::<DeploymentEnvelope>(object.get());
    let envelope = decoded.map_err(|error| {
        let problem = format!("the object cannot be decoded: {error}");
        Denial::bad_request(KIND, &request.name, &problem)
    })?;
    Ok(envelope.metadata.annotations)
}
