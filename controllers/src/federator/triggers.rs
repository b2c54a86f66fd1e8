//! The triggers of the federator. They are changes of a project's WorkloadDeployment, of its copy on the hub, and of
//! the objects that the copy waits for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::cache::Change;

use crate::cell_rules::POLICY;
use crate::hub::cells::is_of_deployment;
use crate::hub::identity::HubIdentity;
use crate::hub::upstream::Upstream;
use crate::runtime::keys::ProjectKey;
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, ProjectKey>] = &[
    Trigger {
        source: ProjectSource::Deployments,
        reason: "the WorkloadDeployment changed",
        keys: |change, project| {
            let keys = change.versions();
            keys.map(|it| ProjectKey::of(project.project(), it))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Namespaces,
        reason: "the hub namespace is derived from the Namespace, which may appear after its WorkloadDeployments",
        keys: |change, project| {
            let names = change.versions().filter_map(|it| it.name.as_deref());
            let deployments = names.flat_map(|namespace| project.deployments_in(namespace));
            deployments
                .map(|it| ProjectKey::of(project.project(), &it))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| {
            let deployments = project.deployments().into_iter();
            deployments
                .map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "the hub may have copies that the project has no WorkloadDeployment for",
        keys: |_, project| {
            let hub = project.hub();
            let namespaces = hub.namespaces_of_project(project.project()).into_iter();
            namespaces
                .flat_map(|namespace| copies_in(hub, namespace.meta()))
                .collect()
        },
    },
];

pub(crate) const ON_HUB: &[Trigger<HubSource, dyn HubLookups, ProjectKey>] = &[
    Trigger {
        source: HubSource::Namespaces,
        reason: "copies are made in the hub namespace; a former identity counts too",
        keys: |change, hub| {
            let upstreams = change.versions().filter_map(|it| Upstream::of(it).ok());
            upstreams
                .flat_map(|upstream| deployments_in(hub, &upstream))
                .collect()
        },
    },
    Trigger {
        source: HubSource::Namespaces,
        reason: "the hub namespace may have copies that the project has no WorkloadDeployment for",
        keys: |change, hub| {
            let versions = change.versions().filter(|it| it.name.is_some());
            versions
                .flat_map(|namespace| copies_in(hub, namespace))
                .collect()
        },
    },
    Trigger {
        source: HubSource::Namespaces,
        reason: "the Namespace default identifies the hub and the hubs that it replaces",
        keys: |change, hub| match HubIdentity::is_changed_by(change) {
            true => hub.all_deployments(),
            false => Vec::new(),
        },
    },
    Trigger {
        source: HubSource::Deployments,
        reason: "the copy changed, or its status did",
        keys: |change, hub| {
            let keys = change.versions().filter_map(|copy| {
                let upstream = hub.upstream_of(copy.namespace.as_deref()?)?;
                Some(key(&upstream, copy.name.as_deref()?))
            });
            keys.collect()
        },
    },
    Trigger {
        source: HubSource::Policies,
        reason: "a new copy waits for the PropagationPolicy of its city",
        keys: |change, hub| {
            let namespaces = change.versions().filter_map(|it| it.namespace.as_deref());
            let upstreams = namespaces.filter_map(|namespace| hub.upstream_of(namespace));
            upstreams
                .flat_map(|upstream| deployments_in(hub, &upstream))
                .collect()
        },
    },
    Trigger {
        source: HubSource::Bindings,
        reason: "the binding contains the cells that the copy goes to, and their reports",
        keys: bound,
    },
    Trigger {
        source: HubSource::OverridePolicies,
        reason: "a cell may lose the write of its new rules; nothing else reports that",
        keys: |change, hub| {
            let is_ours = |it: &ObjectMeta| it.name.as_deref() == Some(POLICY);
            match change.versions().any(is_ours) {
                true => hub.all_deployments(),
                false => Vec::new(),
            }
        },
    },
    Trigger {
        source: HubSource::CellReachability,
        reason: "the status names unreachable cells",
        keys: bound_to_cluster,
    },
    Trigger {
        source: HubSource::LowerHubs,
        reason: "the status names unreachable cells below lower hubs",
        keys: bound_to_cluster,
    },
];

/// Returns the keys of the WorkloadDeployments that are scheduled to a Cluster.
fn bound_to_cluster(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<ProjectKey> {
    let cluster = change.current.or(change.former);
    let cluster = cluster.and_then(|cluster| cluster.name.as_deref());
    let bindings = cluster.map(|cluster| hub.bindings_of_cell(cluster));
    let keys = bindings.into_iter().flatten().filter_map(|it| {
        let namespace = it.meta().namespace.as_deref()?;
        let upstream = hub.upstream_of(namespace)?;
        is_of_deployment(&it).then(|| key(&upstream, &it.spec.resource.name))
    });
    keys.collect()
}

/// Returns the key of the WorkloadDeployment that a binding schedules. A deleted binding gives no key: its deletion
/// does not prove that the copy or its cells changed.
fn bound(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<ProjectKey> {
    let keys = change.versions().filter_map(|metadata| {
        let namespace = metadata.namespace.as_deref()?;
        let binding = hub.binding(namespace, metadata.name.as_deref()?)?;
        if !is_of_deployment(&binding) {
            return None;
        }
        Some(key(
            &hub.upstream_of(namespace)?,
            &binding.spec.resource.name,
        ))
    });
    keys.collect()
}

fn deployments_in(hub: &dyn HubLookups, upstream: &Upstream) -> Vec<ProjectKey> {
    let deployments = hub.deployments_in(upstream).into_iter();
    deployments
        .map(|it| ProjectKey::of(&upstream.project, &it))
        .collect()
}

/// Returns the keys of the copies in a hub namespace. The labels of the hub namespace name
/// the project and the namespace of the keys.
fn copies_in(hub: &dyn HubLookups, namespace: &ObjectMeta) -> Vec<ProjectKey> {
    let (Ok(upstream), Some(name)) = (Upstream::of(namespace), namespace.name.as_deref()) else {
        return Vec::new();
    };
    let copies = hub.copies_in(name).into_iter();
    copies
        .filter_map(|copy| Some(key(&upstream, copy.name.as_deref()?)))
        .collect()
}

fn key(upstream: &Upstream, name: &str) -> ProjectKey {
    ProjectKey::new(&upstream.project, &upstream.namespace, name)
}

#[cfg(test)]
mod tests {
    use api::{ProjectName, annotations};

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{FakeHub, FakeProject, acme, hub_namespace, named};

    fn keys(names: &[(&str, &str)]) -> Vec<ProjectKey> {
        let keys = names.iter();
        keys.map(|(namespace, name)| ProjectKey::new(&acme(), namespace, name))
            .collect()
    }

    #[test]
    fn changes_of_a_project_wake_its_deployments() {
        let (web, default) = (named("default", "web"), hub_namespace("default", None));
        let case = |name, source, former, current, expected: &[(&str, &str)]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys(expected),
        };
        let own = [("default", "web")];
        let of_namespace = [("default", "web"), ("default", "new")];
        let all = [
            ("default", "web"),
            ("default", "new"),
            ("other", "far"),
            ("default", "api"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("new", ProjectSource::Deployments, None, Some(&web), &own),
            case("any change", ProjectSource::Deployments, Some(&web), Some(&web), &own),
            case("deleted", ProjectSource::Deployments, Some(&web), None, &own),
            case("namespace", ProjectSource::Namespaces, None, Some(&default), &of_namespace),
            case("namespace gone", ProjectSource::Namespaces, Some(&default), None, &of_namespace),
            case("served", ProjectSource::Served, None, None, &all),
            case("an Instance", ProjectSource::Instances, None, Some(&web), &[]),
            case("a Workload", ProjectSource::Workloads, None, Some(&web), &[]),
            case("needs", ProjectSource::NeedsChanged, None, None, &[]),
            case("unserved", ProjectSource::Unserved, None, None, &[]),
        ];
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }

    /// I-6: the hub is watched too.
    #[test]
    fn changes_on_the_hub_wake_the_deployments_of_the_namespace_that_it_belongs_to() {
        let ns_1 = hub_namespace("ns-1", Some(("acme", "default")));
        let ns_1_of_other = hub_namespace("ns-1", Some(("acme", "other")));
        let (plain, cell) = (hub_namespace("plain", None), hub_namespace("dfw1", None));
        let (default, mut another) = (
            hub_namespace("default", None),
            hub_namespace("default", None),
        );
        another.uid = Some("another".to_owned());
        let mut replacing = default.clone();
        let replaces = (annotations::REPLACES_HUBS.to_owned(), "another".to_owned());
        replacing.annotations = Some([replaces].into());
        let all = [("default", "web"), ("default", "new"), ("other", "far")];
        let (copy, stray, unknown) = (
            named("ns-1", "web"),
            named("plain", "web"),
            named("ns-9", "web"),
        );
        let (configuration, unbound) = (named("ns-1", "settings"), named("ns-1", "gone"));
        let rules = hub_namespace(POLICY, None);
        let (other_cell, policy) = (hub_namespace("dfw2", None), named("ns-1", "city-dfw"));
        let case = |name, source, former, current, expected: &[(&str, &str)]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys(expected),
        };
        let own = [("default", "web")];
        let in_ns_1 = [("default", "web"), ("default", "new"), ("default", "api")];
        let of_project = [("default", "web"), ("default", "new")];
        let both = [
            ("default", "web"),
            ("default", "new"),
            ("default", "api"),
            ("other", "far"),
            ("other", "web"),
            ("other", "api"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("namespace", HubSource::Namespaces, None, Some(&ns_1), &in_ns_1),
            case("namespace gone", HubSource::Namespaces, Some(&ns_1), None, &in_ns_1),
            case("relabelled", HubSource::Namespaces, Some(&ns_1), Some(&ns_1_of_other), &both),
            case("no identity", HubSource::Namespaces, None, Some(&plain), &[]),
            case("hub", HubSource::Namespaces, None, Some(&default), &all),
            case("same hub", HubSource::Namespaces, Some(&default), Some(&default), &[]),
            case("another hub", HubSource::Namespaces, Some(&default), Some(&another), &all),
            case("hub replaces", HubSource::Namespaces, Some(&default), Some(&replacing), &all),
            case("copy", HubSource::Deployments, None, Some(&copy), &own),
            case("copy status", HubSource::Deployments, Some(&copy), Some(&copy), &own),
            case("copy deleted", HubSource::Deployments, Some(&copy), None, &own),
            case("copy without project", HubSource::Deployments, None, Some(&stray), &[]),
            case("copy in an unknown namespace", HubSource::Deployments, None, Some(&unknown), &[]),
            case("policy", HubSource::Policies, None, Some(&policy), &of_project),
            case("policy deleted", HubSource::Policies, Some(&policy), None, &of_project),
            case("policy elsewhere", HubSource::Policies, None, Some(&stray), &[]),
            case("binding", HubSource::Bindings, Some(&copy), Some(&copy), &own),
            case("binding of another kind", HubSource::Bindings, None, Some(&configuration), &[]),
            case("binding deleted", HubSource::Bindings, Some(&unbound), None, &[]),
            case("cell", HubSource::CellReachability, Some(&cell), Some(&cell), &own),
            case("cell gone", HubSource::CellReachability, Some(&cell), None, &own),
            case("cell of nothing", HubSource::CellReachability, None, Some(&other_cell), &[]),
            case("cell below", HubSource::LowerHubs, Some(&cell), Some(&cell), &own),
            case("LowerHub gone", HubSource::LowerHubs, Some(&cell), None, &own),
            case("LowerHub of nothing", HubSource::LowerHubs, None, Some(&other_cell), &[]),
            case("Instances of a cell below", HubSource::CellsBelow, Some(&cell), None, &[]),
            case("rules", HubSource::OverridePolicies, Some(&rules), Some(&rules), &all),
            case("no rules", HubSource::OverridePolicies, Some(&rules), None, &all),
            case("other override", HubSource::OverridePolicies, None, Some(&policy), &[]),
            case("Instance", HubSource::Instances, None, Some(&copy), &[]),
        ];
        assert_cases::<_, dyn HubLookups, _>(ON_HUB, &cases, &FakeHub::new());
    }

    #[test]
    fn a_project_that_is_not_served_wakes_only_its_copies() {
        let ns_3 = hub_namespace("ns-3", Some(("umbrella", "default")));
        let change = Change {
            former: None,
            current: Some(&ns_3),
        };
        let rows = ON_HUB
            .iter()
            .filter(|row| row.source == HubSource::Namespaces);
        let keys: Vec<_> = rows
            .flat_map(|row| (row.keys)(change, &FakeHub::new()))
            .collect();
        let umbrella = ProjectName::new("umbrella").unwrap();
        assert_eq!(keys, [ProjectKey::new(&umbrella, "default", "foreign")]);
    }
}
