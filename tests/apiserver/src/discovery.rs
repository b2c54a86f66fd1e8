//! Discovery of the groups and kinds that an API server serves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kinds::{Kind, KindId};
use crate::server::ApiServer;

/// Returns the response to a discovery path.
pub(crate) fn answer(server: &ApiServer, path: &str) -> Option<Value> {
    let kinds = KindId::all().filter(|kind| server.serves(*kind));
    let kinds: Vec<_> = kinds.map(KindId::kind).collect();
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    match *parts.as_slice() {
        ["version"] => Some(json!({"gitVersion": "v1.35.0", "major": "1", "minor": "35"})),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["api", version] => resources(&kinds, "", version),
        ["apis"] => {
            let names = kinds.iter().map(|kind| kind.group);
            let names: BTreeSet<_> = names.filter(|name| !name.is_empty()).collect();
            let groups = names.into_iter().filter_map(|name| group(&kinds, name));
            let groups: Vec<_> = groups.collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => group(&kinds, name),
        ["apis", group, version] => resources(&kinds, group, version),
        _ => None,
    }
}

fn group(kinds: &[&Kind], name: &str) -> Option<Value> {
    let kind = kinds.iter().find(|kind| kind.group == name)?;
    let version = json!({"groupVersion": kind.api_version(), "version": kind.version});
    Some(json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "preferredVersion": version,
        "versions": [version],
    }))
}

fn resources(kinds: &[&Kind], group: &str, version: &str) -> Option<Value> {
    let kinds = kinds.iter();
    let kinds = kinds.filter(|kind| (kind.group, kind.version) == (group, version));
    let resources: Vec<_> = kinds.map(|kind| resource(kind)).collect();
    if resources.is_empty() {
        return None;
    }
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
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
