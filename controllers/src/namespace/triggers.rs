//! The triggers of the namespace controller. They are events after which a hub namespace may have no project Namespace,
//! or may be empty.

use api::HubNamespace;
use multicluster::cache::Change;

use crate::objects::recorded_hub_namespace;
use crate::runtime::keys::HubKey;
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups, hub_key};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, HubKey>] = &[
    Trigger {
        source: ProjectSource::Namespaces,
        reason: "the Namespace that the hub namespace represents was deleted or replaced",
        keys: |change, project| {
            let namespace = ended(change);
            let key = |namespace| HubKey {
                project: Some(project.project().clone()),
                namespace,
            };
            namespace.map(key).into_iter().collect()
        },
    },
    Trigger {
        source: ProjectSource::Deployments,
        reason: "a recorded hub namespace is kept; the WorkloadDeployment that recorded it was deleted",
        keys: |change, project| {
            let deleted = change.former.filter(|_| change.current.is_none());
            let recorded = deleted.and_then(recorded_hub_namespace);
            let namespace = recorded.and_then(|it| HubNamespace::new(it).ok());
            let key = |namespace| HubKey {
                project: Some(project.project().clone()),
                namespace,
            };
            namespace.map(key).into_iter().collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "only a project that is served can prove that its Namespace is gone",
        keys: |_, project| project.hub().hub_keys_of_project(project.project()),
    },
    Trigger {
        source: ProjectSource::Unserved,
        reason: "the project may have been deleted",
        keys: |_, project| project.hub().hub_keys_of_project(project.project()),
    },
    Trigger {
        source: ProjectSource::Removed,
        reason: "a deleted project has no Namespace",
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
        reason: "the last WorkloadDeployment may be gone",
        keys: emptied,
    },
    Trigger {
        source: HubSource::Policies,
        reason: "the last PropagationPolicy may be gone",
        keys: emptied,
    },
    Trigger {
        source: HubSource::Bindings,
        reason: "the last ResourceBinding may be gone",
        keys: emptied,
    },
    Trigger {
        source: HubSource::Instances,
        reason: "the last Instance may be gone",
        keys: emptied,
    },
];

/// Returns the hub namespace of a Namespace that was deleted, or that was replaced by another Namespace of the same
/// name.
fn ended(change: Change<'_>) -> Option<HubNamespace> {
    let former = change.former?.uid.as_deref()?;
    let current = change.current.and_then(|current| current.uid.as_deref());
    let derived = HubNamespace::of_project_namespace(former);
    derived.ok().filter(|_| current != Some(former))
}

/// Returns the hub namespace of a deleted object. The object may have been the last one in the hub namespace.
fn emptied(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<HubKey> {
    let deleted = change.former.filter(|_| change.current.is_none());
    let namespace = deleted.and_then(|object| object.namespace.as_deref());
    let key = namespace.and_then(|namespace| hub.hub_key(namespace));
    key.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{
        FakeHub, FakeProject, hub_keys as keys, hub_namespace, metadata, named,
    };

    #[test]
    fn deletions_in_a_project_wake_its_hub_namespaces() {
        let with_uid = |uid: &str| metadata(json!({"name": "default", "uid": uid}));
        let (one, other) = (with_uid("1"), with_uid("2"));
        let record = json!({annotations::FEDERATION_NAMESPACE: "ns-1"});
        let web = metadata(json!({"namespace": "default", "name": "web", "annotations": record}));
        let unrecorded = named("default", "web");
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
            case("deleted", ProjectSource::Namespaces, Some(&one), None, &["ns-1"]),
            case("replaced", ProjectSource::Namespaces, Some(&one), Some(&other), &["ns-1"]),
            case("changed", ProjectSource::Namespaces, Some(&one), Some(&one), &[]),
            case("new", ProjectSource::Namespaces, None, Some(&one), &[]),
            case("deployment deleted", ProjectSource::Deployments, Some(&web), None, &["ns-1"]),
            case("deployment new", ProjectSource::Deployments, None, Some(&web), &[]),
            case("deployment changed", ProjectSource::Deployments, Some(&web), Some(&web), &[]),
            case("not recorded", ProjectSource::Deployments, Some(&unrecorded), None, &[]),
            case("served", ProjectSource::Served, None, None, &all),
            case("unserved", ProjectSource::Unserved, None, None, &all),
            case("removed", ProjectSource::Removed, None, None, &all),
            case("needs", ProjectSource::NeedsChanged, None, None, &[]),
            case("Instance", ProjectSource::Instances, Some(&web), None, &[]),
        ];
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }

    #[test]
    fn deletions_on_the_hub_wake_their_namespace() {
        let ns_1 = hub_namespace("ns-1", Some(("acme", "default")));
        let relabelled = hub_namespace("ns-1", Some(("umbrella", "default")));
        let plain = hub_namespace("plain", None);
        let (web, unknown) = (named("ns-1", "web"), named("ns-9", "web"));
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
        let mut cases = vec![
            case("namespace", HubSource::Namespaces, None, Some(&ns_1), &own),
            case("namespace gone", HubSource::Namespaces, Some(&ns_1), None, &own),
            case("relabelled", HubSource::Namespaces, Some(&ns_1), Some(&relabelled), &both),
            case("no identity", HubSource::Namespaces, None, Some(&plain), &[("plain", None)]),
            case("cell", HubSource::CellReachability, Some(&web), None, &[]),
        ];
        for source in [
            HubSource::Deployments,
            HubSource::Policies,
            HubSource::Bindings,
            HubSource::Instances,
        ] {
            cases.extend([
                case("deleted", source, Some(&web), None, &own),
                case("new", source, None, Some(&web), &[]),
                case("changed", source, Some(&web), Some(&web), &[]),
                case(
                    "deleted in an unknown namespace",
                    source,
                    Some(&unknown),
                    None,
                    &[],
                ),
            ]);
        }
        assert_cases::<_, dyn HubLookups, _>(ON_HUB, &cases, &FakeHub::new());
    }
}
