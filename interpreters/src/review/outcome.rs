//! Results of operations.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::patch::Patch;

/// The result of one operation.
#[derive(Debug)]
pub(crate) enum OperationOutcome {
    Replicas {
        replicas: i32,
        requirements: Option<Requirements>,
    },
    Components(Vec<Component>),
    Patch(Patch),
    Dependencies(Vec<Dependency>),
    Status(Box<RawValue>),
    Health(bool),
}

/// The resources that one replica needs (Karmada's `ReplicaRequirements`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Requirements {
    pub(crate) resource_request: BTreeMap<String, String>,
}

/// A group of equal replicas.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replica_requirements: Option<Requirements>,
}

/// An object that must be in every cell with the interpreted object (Karmada's `DependentObjectReference`). The
/// ordering of this type is the order of the dependencies in an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dependency {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
}
