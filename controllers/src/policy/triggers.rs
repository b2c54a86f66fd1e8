//! The triggers of the policy controller. They are changes that decide which cities of a hub namespace need a
//! PropagationPolicy. A change of a status alone is never a trigger.

use api::HubNamespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::plan::{claimed_for, of_copy, of_upstream};
use crate::objects::recorded_hub_namespace;
use crate::runtime::keys::HubKey;
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups, hub_key};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, HubKey>] = &[
    Trigger {
        source: ProjectSource::Deployments,
        reason: "the spec, the deletion or the recorded hub namespace of the WorkloadDeployment changed",
        keys: |change, project| {
            if change.former.map(of_upstream) == change.current.map(of_upstream) {
                return Vec::new();
            }
            change.versions().flat_map(|it| keys(project, it)).collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "hub namespaces of a project that is not served are skipped",
        keys: |_, project| project.hub().hub_keys_of_project(project.project()),
    },
    Trigger {
        source: ProjectSource::Unserved,
        reason: "the project may have been deleted",
        keys: |_, project| project.hub().hub_keys_of_project(project.project()),
    },
    Trigger {
        source: ProjectSource::Removed,
        reason: "a deleted project needs no policy",
        keys: |_, project| project.hub().hub_keys_of_project(project.project()),
    },
];

pub(crate) const ON_HUB: &[Trigger<HubSource, dyn HubLookups, HubKey>] = &[
    Trigger {
        source: HubSource::Namespaces,
        reason: "the hub namespace or its identity changed",
        keys: |change, _| change.versions().filter_map(hub_key).collect(),
    },
    Trigger {
        source: HubSource::Deployments,
        reason: "the city of the copy, or the policy that Karmada claimed it for, changed",
        keys: |change, hub| {
            if change.former.map(of_copy) == change.current.map(of_copy) {
                return Vec::new();
            }
            let namespaces = change.versions().filter_map(|it| it.namespace.as_deref());
            namespaces.filter_map(|it| hub.hub_key(it)).collect()
        },
    },
    Trigger {
        source: HubSource::Policies,
        reason: "the PropagationPolicy changed",
        keys: |change, hub| {
            let namespaces = change.versions().filter_map(|it| it.namespace.as_deref());
            namespaces.filter_map(|it| hub.hub_key(it)).collect()
        },
    },
    Trigger {
        source: HubSource::Bindings,
        reason: "the policy that Karmada claimed the binding for changed",
        keys: |change, hub| {
            if change.former.and_then(claimed_for) == change.current.and_then(claimed_for) {
                return Vec::new();
            }
            let namespace = change.versions().find_map(|it| it.namespace.as_deref());
            namespace
                .and_then(|it| hub.hub_key(it))
                .into_iter()
                .collect()
        },
    },
];

/// Returns the keys of the hub namespaces whose policies depend on a WorkloadDeployment of a project. Without a record,
/// the WorkloadDeployment keeps the policies of each hub namespace of its namespace.
fn keys(project: &(dyn ProjectLookups + 'static), deployment: &ObjectMeta) -> Vec<HubKey> {
    let Some(recorded) = recorded_hub_namespace(deployment) else {
        let namespace = deployment.namespace.as_deref().unwrap_or_default();
        let namespaces = project.hub().namespaces_of(&project.upstream(namespace));
        let keys = namespaces.iter().map(|namespace| hub_key(namespace.meta()));
        return keys.flatten().collect();
    };
    let key = |namespace| HubKey {
        project: Some(project.project().clone()),
        namespace,
    };
    HubNamespace::new(recorded)
        .ok()
        .map(key)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use api::{annotations, labels};
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{
        FakeHub, FakeProject, hub_keys as keys, hub_namespace, metadata, named,
    };

    #[test]
    fn fields_that_matter_to_policies_wake_the_hub_namespaces_of_a_project() {
        let deployment = |version: &str, field: &str, value: Value| {
            let mut body = json!({
                "namespace": "default", "name": "web", "uid": "u", "resourceVersion": version, "generation": 1,
                "annotations": {annotations::FEDERATION_NAMESPACE: "ns-1"},
            });
            body[field] = value;
            metadata(body)
        };
        let web = deployment("1", "generation", json!(1));
        let status = deployment("2", "generation", json!(1));
        let spec = deployment("2", "generation", json!(2));
        let anew = deployment("2", "uid", json!("v"));
        let terminating = deployment("2", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        let moved = deployment(
            "2",
            "annotations",
            json!({annotations::FEDERATION_NAMESPACE: "ns-2"}),
        );
        let (unrecorded, nowhere) = (named("default", "new"), named("unknown", "new"));
        let elsewhere = metadata(json!({
            "namespace": "default", "name": "new",
            "annotations": {annotations::FEDERATION_NAMESPACE: "ns-2"},
        }));
        let case = |name, source, former, current, expected: &[&str]| {
            let expected: Vec<_> = expected.iter().map(|it| (*it, Some("acme"))).collect();
            let keys = keys(&expected);
            TriggerCase {
                name,
                source,
                former,
                current,
                keys,
            }
        };
        let all = ["ns-1", "ns-2"];
        #[rustfmt::skip]
        let cases = [
            case("new", ProjectSource::Deployments, None, Some(&web), &["ns-1"]),
            case("spec", ProjectSource::Deployments, Some(&web), Some(&spec), &["ns-1"]),
            case("made anew", ProjectSource::Deployments, Some(&web), Some(&anew), &["ns-1"]),
            case("terminating", ProjectSource::Deployments, Some(&web), Some(&terminating), &["ns-1"]),
            case("moved", ProjectSource::Deployments, Some(&web), Some(&moved), &all),
            case("deleted", ProjectSource::Deployments, Some(&web), None, &["ns-1"]),
            case("status", ProjectSource::Deployments, Some(&web), Some(&status), &[]),
            case("not recorded", ProjectSource::Deployments, None, Some(&unrecorded), &["ns-1"]),
            case("not recorded, deleted", ProjectSource::Deployments, Some(&unrecorded), None, &["ns-1"]),
            case("recorded elsewhere", ProjectSource::Deployments, Some(&unrecorded), Some(&elsewhere), &all),
            case("no hub namespace", ProjectSource::Deployments, Some(&nowhere), None, &[]),
            case("served", ProjectSource::Served, None, None, &all),
            case("unserved", ProjectSource::Unserved, None, None, &all),
            case("removed", ProjectSource::Removed, None, None, &all),
            case("needs", ProjectSource::NeedsChanged, None, None, &[]),
            case("Namespace", ProjectSource::Namespaces, None, Some(&web), &[]),
            case("Instance", ProjectSource::Instances, None, Some(&web), &[]),
        ];
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }

    #[test]
    fn fields_that_matter_to_policies_wake_their_hub_namespace() {
        let ns_1 = hub_namespace("ns-1", Some(("acme", "default")));
        let relabelled = hub_namespace("ns-1", Some(("umbrella", "default")));
        let plain = hub_namespace("plain", None);
        let invalid = hub_namespace("", None);
        let object = |version: &str, city: &str, policy: &str| {
            metadata(json!({
                "namespace": "ns-1", "name": "web", "resourceVersion": version,
                "labels": {labels::CITY_CODE: city}, "annotations": {annotations::POLICY_NAME: policy},
            }))
        };
        let (web, status) = (object("1", "DFW", "p"), object("2", "DFW", "p"));
        let (city, claimed) = (object("2", "LHR", "p"), object("2", "DFW", "q"));
        let (unclaimed, unknown) = (named("ns-1", "web"), object("1", "DFW", "p"));
        let unknown = ObjectMeta {
            namespace: Some("ns-9".to_owned()),
            ..unknown
        };
        let case = |name, source, former, current, expected: &[(&str, Option<&str>)]| {
            let keys = keys(expected);
            TriggerCase {
                name,
                source,
                former,
                current,
                keys,
            }
        };
        let own = [("ns-1", Some("acme"))];
        let both = [("ns-1", Some("acme")), ("ns-1", Some("umbrella"))];
        #[rustfmt::skip]
        let cases = [
            case("namespace", HubSource::Namespaces, None, Some(&ns_1), &own),
            case("namespace gone", HubSource::Namespaces, Some(&ns_1), None, &own),
            case("relabelled", HubSource::Namespaces, Some(&ns_1), Some(&relabelled), &both),
            case("no identity", HubSource::Namespaces, None, Some(&plain), &[("plain", None)]),
            case("not a hub namespace", HubSource::Namespaces, None, Some(&invalid), &[]),
            case("copy", HubSource::Deployments, None, Some(&web), &own),
            case("copy deleted", HubSource::Deployments, Some(&web), None, &own),
            case("city", HubSource::Deployments, Some(&web), Some(&city), &own),
            case("claimed", HubSource::Deployments, Some(&web), Some(&claimed), &own),
            case("copy status", HubSource::Deployments, Some(&web), Some(&status), &[]),
            case("unknown namespace", HubSource::Deployments, None, Some(&unknown), &[]),
            case("policy", HubSource::Policies, Some(&web), Some(&web), &own),
            case("policy deleted", HubSource::Policies, Some(&web), None, &own),
            case("policy elsewhere", HubSource::Policies, None, Some(&unknown), &[]),
            case("binding claimed", HubSource::Bindings, Some(&unclaimed), Some(&web), &own),
            case("binding deleted", HubSource::Bindings, Some(&web), None, &own),
            case("binding status", HubSource::Bindings, Some(&web), Some(&status), &[]),
            case("unclaimed binding", HubSource::Bindings, None, Some(&unclaimed), &[]),
            case("Instance", HubSource::Instances, None, Some(&web), &[]),
            case("cell", HubSource::CellReachability, None, Some(&web), &[]),
        ];
        assert_cases::<_, dyn HubLookups, _>(ON_HUB, &cases, &FakeHub::new());
    }
}
