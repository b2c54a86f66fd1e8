//! The triggers of the projector. They are changes of an Instance on the hub, of its projection, of its Namespace and
//! of its WorkloadDeployment.

use api::HubNamespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::cache::Change;

use crate::hub::upstream::Upstream;
use crate::objects::recorded_hub_namespace;
use crate::runtime::keys::{InstanceKey, ProjectKey};
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, InstanceKey>] = &[
    Trigger {
        source: ProjectSource::Instances,
        reason: "the projection changed",
        keys: |change, project| {
            let keys = change.versions();
            keys.map(|it| ProjectKey::of(project.project(), it).into())
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Deployments,
        reason: "projections are owned by the WorkloadDeployment: it appeared, ends, or recorded its hub namespace",
        keys: owned,
    },
    Trigger {
        source: ProjectSource::Namespaces,
        reason: "the Instances on the hub may appear before the Namespace that they are projected to",
        keys: |change, project| {
            let namespaces = replaced(change);
            let namespaces = namespaces.flat_map(|namespace| {
                let upstream = project.upstream(namespace);
                project.hub().namespaces_of(&upstream)
            });
            namespaces
                .flat_map(|namespace| instances_in(project.hub(), namespace.meta()))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Namespaces,
        reason: "projections belong to the Namespace of this UID",
        keys: |change, project| {
            let instances = replaced(change).flat_map(|namespace| project.instances_in(namespace));
            instances
                .map(|it| ProjectKey::of(project.project(), &it).into())
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| {
            let instances = project.instances().into_iter();
            let key = |(namespace, name): (String, String)| {
                ProjectKey::new(project.project(), &namespace, &name).into()
            };
            instances.map(key).collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "Instances on the hub of a project that is not served are skipped",
        keys: |_, project| {
            let hub = project.hub();
            let namespaces = hub.namespaces_of_project(project.project()).into_iter();
            namespaces
                .flat_map(|namespace| instances_in(hub, namespace.meta()))
                .collect()
        },
    },
];

pub(crate) const ON_HUB: &[Trigger<HubSource, dyn HubLookups, InstanceKey>] = &[
    Trigger {
        source: HubSource::Instances,
        reason: "the Instance on the hub changed",
        keys: |change, hub| {
            let instances = change.versions();
            instances
                .map(|instance| key_on_hub(hub, instance))
                .collect()
        },
    },
    Trigger {
        source: HubSource::Namespaces,
        reason: "the identity of the hub namespace changed; projections of the former identity must end",
        keys: |change, hub| {
            let identity = |namespace: &ObjectMeta| Upstream::of(namespace).ok();
            let (former, current) = (change.former.map(identity), change.current.map(identity));
            // A new Namespace counts even without an identity, because the events of its Instances may have arrived
            // before its own event.
            if former == current {
                return Vec::new();
            }
            let namespaces = change.versions();
            namespaces
                .flat_map(|namespace| instances_in(hub, namespace))
                .collect()
        },
    },
    Trigger {
        source: HubSource::CellReachability,
        reason: "projections show that their cell cannot be reached",
        keys: in_cell,
    },
    Trigger {
        source: HubSource::CellsBelow,
        reason: "projections show that their cell below a lower hub cannot be reached",
        keys: in_cell,
    },
];

/// Returns the Instances on the hub that are in a cell, or in a cell below it.
fn in_cell(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<InstanceKey> {
    let cell = change.current.or(change.former);
    let cell = cell.and_then(|cell| cell.name.as_deref());
    let instances = cell.map(|cell| hub.instances_in_cell(cell));
    let instances = instances.unwrap_or_default().into_iter();
    instances
        .map(|(namespace, name)| key_in(hub.upstream_of(&namespace).as_ref(), &namespace, &name))
        .collect()
}

/// Returns the Instances on the hub that belong to a WorkloadDeployment, if its UID, deletion or recorded hub namespace
/// changed. A change of its status does not count.
fn owned(change: Change<'_>, project: &(dyn ProjectLookups + 'static)) -> Vec<InstanceKey> {
    if change.former.map(as_owner) == change.current.map(as_owner) {
        return Vec::new();
    }
    let hub = project.hub();
    let instances = change.versions().filter_map(|deployment| {
        let namespace = HubNamespace::new(recorded_hub_namespace(deployment)?).ok()?;
        Some(hub.instances_of(namespace.as_str(), deployment.name.as_deref()?))
    });
    instances
        .flatten()
        .map(|(namespace, name)| key_in(hub.upstream_of(&namespace).as_ref(), &namespace, &name))
        .collect()
}

/// The fields of a WorkloadDeployment that decide whether it can own projections.
fn as_owner(deployment: &ObjectMeta) -> (Option<&str>, bool, Option<&str>) {
    let terminating = deployment.deletion_timestamp.is_some();
    let hub_namespace = recorded_hub_namespace(deployment);
    (deployment.uid.as_deref(), terminating, hub_namespace)
}

/// Returns the names of a Namespace that appeared, was deleted, or was replaced by another Namespace of the same name.
fn replaced(change: Change<'_>) -> impl Iterator<Item = &str> {
    let uid = |namespace: &ObjectMeta| namespace.uid.clone();
    let is_replaced = change.former.and_then(uid) != change.current.and_then(uid);
    let versions = change.versions().filter(move |_| is_replaced);
    versions.filter_map(|namespace| namespace.name.as_deref())
}

/// Returns the keys of the Instances in a hub namespace. The keys use the identity in the labels of the hub namespace.
fn instances_in(hub: &dyn HubLookups, namespace: &ObjectMeta) -> Vec<InstanceKey> {
    let upstream = Upstream::of(namespace).ok();
    let name = namespace.name.as_deref().unwrap_or_default();
    let instances = hub.instances_in(name).into_iter();
    instances
        .filter_map(|instance| Some(key_in(upstream.as_ref(), name, instance.name.as_deref()?)))
        .collect()
}

/// Returns the key of an Instance on the hub. If the cache does not have the Namespace of the Instance, the key has no
/// project. A later event of the Namespace triggers the reconciliation with the right key.
fn key_on_hub(hub: &dyn HubLookups, instance: &ObjectMeta) -> InstanceKey {
    let namespace = instance.namespace.as_deref().unwrap_or_default();
    let name = instance.name.as_deref().unwrap_or_default();
    key_in(hub.upstream_of(namespace).as_ref(), namespace, name)
}

fn key_in(upstream: Option<&Upstream>, hub_namespace: &str, name: &str) -> InstanceKey {
    match upstream {
        Some(upstream) => InstanceKey::of(upstream, name),
        None => InstanceKey::on_hub(hub_namespace, name),
    }
}

#[cfg(test)]
mod tests {
    use api::{ProjectName, annotations};
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{FakeHub, FakeProject, hub_namespace, metadata, named};

    /// Keys from project (empty: the hub), namespace and name.
    fn keys(expected: &[(&str, &str, &str)]) -> Vec<InstanceKey> {
        let keys = expected
            .iter()
            .map(|(project, namespace, name)| InstanceKey {
                project: ProjectName::new(*project).ok(),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            });
        keys.collect()
    }

    #[test]
    fn changes_of_a_project_wake_instances() {
        let deployment = |version: &str, field: &str, value: Value| {
            let mut body = json!({
                "namespace": "default", "name": "web", "uid": "u", "resourceVersion": version, "generation": 1,
                "annotations": {annotations::FEDERATION_NAMESPACE: "ns-1"},
            });
            body[field] = value;
            metadata(body)
        };
        let web = deployment("1", "generation", json!(1));
        let (status, spec) = (
            deployment("2", "generation", json!(1)),
            deployment("2", "generation", json!(2)),
        );
        let anew = deployment("2", "uid", json!("v"));
        let terminating = deployment("2", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        let unrecorded = named("default", "web");
        let projection = named("default", "web-0");
        let default = metadata(json!({"name": "default", "uid": "1"}));
        let labelled = metadata(json!({"name": "default", "uid": "1", "labels": {"a": "b"}}));
        let replaced = metadata(json!({"name": "default", "uid": "2"}));
        let case = |name, source, former, current, expected: &[(&str, &str, &str)]| {
            let keys = keys(expected);
            TriggerCase {
                name,
                source,
                former,
                current,
                keys,
            }
        };
        let own = [("acme", "default", "web-0")];
        let in_default = [("acme", "default", "web-0"), ("acme", "default", "api-0")];
        let all = [
            ("acme", "default", "web-0"),
            ("acme", "default", "api-0"),
            ("acme", "other", "far-0"),
            ("acme", "other", "old-0"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("projection", ProjectSource::Instances, None, Some(&projection), &own),
            case("projection deleted", ProjectSource::Instances, Some(&projection), None, &own),
            case("owner", ProjectSource::Deployments, None, Some(&web), &own),
            case("owner made anew", ProjectSource::Deployments, Some(&web), Some(&anew), &own),
            case("owner ends", ProjectSource::Deployments, Some(&web), Some(&terminating), &own),
            case("owner recorded", ProjectSource::Deployments, Some(&unrecorded), Some(&web), &own),
            case("owner deleted", ProjectSource::Deployments, Some(&web), None, &own),
            case("owner status", ProjectSource::Deployments, Some(&web), Some(&status), &[]),
            case("owner spec", ProjectSource::Deployments, Some(&web), Some(&spec), &[]),
            case("not recorded", ProjectSource::Deployments, None, Some(&unrecorded), &[]),
            case("Namespace", ProjectSource::Namespaces, None, Some(&default), &in_default),
            case("Namespace gone", ProjectSource::Namespaces, Some(&default), None, &in_default),
            case("replaced", ProjectSource::Namespaces, Some(&default), Some(&replaced), &in_default),
            case("labelled", ProjectSource::Namespaces, Some(&default), Some(&labelled), &[]),
            case("served", ProjectSource::Served, None, None, &all),
            case("unserved", ProjectSource::Unserved, None, None, &[]),
            case("removed", ProjectSource::Removed, None, None, &[]),
            case("Workload", ProjectSource::Workloads, None, Some(&web), &[]),
        ];
        // Only the project has `other/old-0`. So each row of Namespaces needs its own case.
        let other = metadata(json!({"name": "other", "uid": "1"}));
        let in_other = [("acme", "other", "far-0"), ("acme", "other", "old-0")];
        let other = case(
            "other",
            ProjectSource::Namespaces,
            None,
            Some(&other),
            &in_other,
        );
        let cases: Vec<_> = cases.into_iter().chain([other]).collect();
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }

    #[test]
    fn changes_on_the_hub_wake_instances_under_the_identity_of_their_namespace() {
        let ns_1 = hub_namespace("ns-1", Some(("acme", "default")));
        let relabelled = hub_namespace("ns-1", Some(("umbrella", "other")));
        let unlabelled = hub_namespace("ns-1", None);
        let annotated = ObjectMeta {
            resource_version: Some("2".to_owned()),
            ..ns_1.clone()
        };
        let (instance, stray) = (named("ns-1", "web-0"), named("plain", "stray"));
        let (unknown, copy) = (named("ns-9", "web-0"), named("ns-1", "web"));
        let (cell, unknown_cell) = (
            metadata(json!({"name": "dfw1"})),
            metadata(json!({"name": "x"})),
        );
        let case = |name, source, former, current, expected: &[(&str, &str, &str)]| {
            let keys = keys(expected);
            TriggerCase {
                name,
                source,
                former,
                current,
                keys,
            }
        };
        let own = [("acme", "default", "web-0")];
        let in_ns_1 = [("acme", "default", "web-0"), ("acme", "default", "api-0")];
        let both = [
            ("acme", "default", "web-0"),
            ("acme", "default", "api-0"),
            ("umbrella", "other", "web-0"),
            ("umbrella", "other", "api-0"),
        ];
        let without = [
            ("acme", "default", "web-0"),
            ("acme", "default", "api-0"),
            ("", "ns-1", "web-0"),
            ("", "ns-1", "api-0"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("Instance", HubSource::Instances, None, Some(&instance), &own),
            case("status", HubSource::Instances, Some(&instance), Some(&instance), &own),
            case("deleted", HubSource::Instances, Some(&instance), None, &own),
            case("stray", HubSource::Instances, None, Some(&stray), &[("", "plain", "stray")]),
            case("unknown", HubSource::Instances, None, Some(&unknown), &[("", "ns-9", "web-0")]),
            case("namespace", HubSource::Namespaces, None, Some(&ns_1), &in_ns_1),
            case("namespace gone", HubSource::Namespaces, Some(&ns_1), None, &in_ns_1),
            case("relabelled", HubSource::Namespaces, Some(&ns_1), Some(&relabelled), &both),
            case("unlabelled", HubSource::Namespaces, Some(&ns_1), Some(&unlabelled), &without),
            case("same identity", HubSource::Namespaces, Some(&ns_1), Some(&annotated), &[]),
            case("new, without identity", HubSource::Namespaces, None, Some(&unlabelled), &without[2..]),
            case("never had one", HubSource::Namespaces, Some(&unlabelled), Some(&unlabelled), &[]),
            case("copy", HubSource::Deployments, None, Some(&copy), &[]),
            case("policy", HubSource::Policies, None, Some(&copy), &[]),
            case("cell", HubSource::CellReachability, Some(&cell), Some(&cell), &in_ns_1),
            case("cell gone", HubSource::CellReachability, Some(&cell), None, &in_ns_1),
            case("cell of nothing", HubSource::CellReachability, None, Some(&unknown_cell), &[]),
            case("cell below", HubSource::CellsBelow, Some(&cell), None, &in_ns_1),
            case("cell below of nothing", HubSource::CellsBelow, Some(&unknown_cell), None, &[]),
            case("status of cells below", HubSource::LowerHubs, Some(&cell), Some(&cell), &[]),
        ];
        assert_cases::<_, dyn HubLookups, _>(ON_HUB, &cases, &FakeHub::new());
    }
}
