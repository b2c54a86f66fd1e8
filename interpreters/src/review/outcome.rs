//! Results of operations.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::patch::Patch;

/// The result of one operation.
#[derive(Debug)]
pub(crate) enum OperationOutcome<'a> {
    Replicas {
        replicas: i32,
        requirements: Option<Requirements>,
    },
    Components(Vec<Component>),
    Patch(Patch),
    Dependencies(Dependencies<'a>),
    /// The JSON text of a status.
    Status(Cow<'a, str>),
    Health(bool),
    /// The replicas and the requirements that a Lua script returns.
    ScriptReplicas {
        replicas: i32,
        requirements: Option<Value>,
    },
    ScriptComponents(Vec<Value>),
    ScriptDependencies(Vec<Value>),
}

/// A field of an answer: of the native interpreter, or the JSON that a Lua script returns.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum FieldOf<N, S> {
    Native(N),
    Script(S),
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

/// The objects that must be in every cell with the interpreted object. The ConfigMaps come first. The names of each
/// kind are sorted and unique. The objects are not built in advance, because each repeats the namespace.
#[derive(Debug)]
pub(crate) struct Dependencies<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) config_maps: Vec<Cow<'a, str>>,
    pub(crate) secrets: Vec<Cow<'a, str>>,
}

/// One object that must be in every cell with the interpreted object (Karmada's `DependentObjectReference`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dependency<'d> {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: &'d str,
    pub(crate) name: &'d str,
}

impl Dependencies<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Dependency<'_>> {
        let config_maps = self.config_maps.iter().map(|name| ("ConfigMap", name));
        let secrets = self.secrets.iter().map(|name| ("Secret", name));
        config_maps.chain(secrets).map(|(kind, name)| Dependency {
            api_version: "v1",
            kind,
            namespace: &self.namespace,
            name,
        })
    }

    /// Returns the size of the dependencies as JSON, in bytes, rounded up.
    pub(crate) fn max_size(&self) -> usize {
        /// Size of one dependency without the namespace and the name, in bytes, with a comma.
        const NAMES: usize =
            r#"{"apiVersion":"v1","kind":"ConfigMap","namespace":"","name":""},"#.len();
        let of_each = NAMES + escaped_size(&self.namespace);
        let names = self.config_maps.iter().chain(&self.secrets);
        2 + names
            .map(|name| of_each + escaped_size(name))
            .sum::<usize>()
    }
}

impl Serialize for Dependencies<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Returns the size of a text in a JSON string, in bytes, rounded up.
fn escaped_size(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        0..=0x1f => 5,
        b'"' | b'\\' => 1,
        _ => 0,
    });
    text.len() + escapes.sum::<usize>()
}
