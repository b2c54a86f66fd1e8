//! What an API server says of the kinds that it serves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};

/// The answer to a path of discovery.
pub(super) fn answer(path: &str) -> Option<Value> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    match *parts.as_slice() {
        ["version"] => Some(json!({"gitVersion": "v1.35.0", "major": "1", "minor": "35"})),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["api", version] => Some(resources("", version)),
        ["apis"] => {
            let names = KINDS.iter().map(|kind| kind.group);
            let names: BTreeSet<_> = names.filter(|name| !name.is_empty()).collect();
            let groups: Vec<_> = names.into_iter().filter_map(group).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => group(name),
        ["apis", group, version] => Some(resources(group, version)),
        _ => None,
    }
}

fn group(name: &str) -> Option<Value> {
    let kind = KINDS.iter().find(|kind| kind.group == name)?;
    let version = json!({"groupVersion": kind.api_version(), "version": kind.version});
    Some(json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "preferredVersion": version,
        "versions": [version],
    }))
}

fn resources(group: &str, version: &str) -> Value {
    let kinds = KINDS.iter();
    let kinds = kinds.filter(|kind| (kind.group, kind.version) == (group, version));
    let resources: Vec<_> = kinds.map(resource).collect();
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn resource(kind: &Kind) -> Value {
    json!({
        "kind": kind.name,
        "name": kind.plural,
        "namespaced": kind.is_namespaced,
        "singularName": kind.name.to_lowercase(),
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    })
}
