//! Checks of results: Karmada decodes them into these types.

use std::collections::BTreeMap;

use api::decode::Strict;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::node_claim::NodeClaim;
use super::quantity::LuaQuantity;

/// Karmada's `ReplicaRequirements`, and `ComponentReplicaRequirements`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only the types are checked")]
struct Requirements {
    node_claim: Option<NodeClaim>,
    resource_request: Option<BTreeMap<String, LuaQuantity>>,
    namespace: Option<String>,
    priority_class_name: Option<String>,
}

/// Karmada's `Component`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only the types are checked")]
struct Component {
    name: Option<String>,
    replicas: Option<i32>,
    replica_requirements: Option<Requirements>,
}

/// Karmada's `DependentObjectReference`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the type of the namespace is checked")]
struct Dependency {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    namespace: Option<String>,
    #[serde(default)]
    name: String,
    label_selector: Option<Map<String, Json>>,
}

/// Checks the requirements of one replica.
pub(super) fn check_requirements(json: &Json) -> Result<(), String> {
    let requirements: Requirements = decode(json)?;
    quantities(&requirements)
}

/// Checks a component.
pub(super) fn check_component(json: &Json) -> Result<(), String> {
    let component: Component = decode(json)?;
    let requirements = component.replica_requirements.as_ref();
    requirements.map_or(Ok(()), quantities)
}

/// Checks a dependency.
pub(super) fn check_dependency(json: &Json) -> Result<(), String> {
    let dependency: Dependency = decode(json)?;
    let has_name = !dependency.name.is_empty() || dependency.label_selector.is_some();
    for (field, is_there) in [
        ("apiVersion", !dependency.api_version.is_empty()),
        ("kind", !dependency.kind.is_empty()),
        ("name and labelSelector", has_name),
    ] {
        if !is_there {
            return Err(format!("{field}: missing"));
        }
    }
    Ok(())
}

fn decode<T: DeserializeOwned>(json: &Json) -> Result<T, String> {
    let decoded = serde_path_to_error::deserialize(json);
    let decoded = decoded.map(|Strict(value)| value);
    decoded.map_err(|error| error.to_string())
}

fn quantities(requirements: &Requirements) -> Result<(), String> {
    for (resource, quantity) in requirements.resource_request.iter().flatten() {
        if let Err(error) = quantity.amount() {
            return Err(format!("resourceRequest[{resource}]: {error}"));
        }
    }
    Ok(())
}
