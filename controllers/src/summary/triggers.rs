//! The triggers of summaries. They are changes of a summary, and of the objects that it shows.
//!
//! Each change wakes all summaries of its namespace that are evaluated. The pace of a summary bounds how often it is
//! evaluated (`pace.rs`).

use std::collections::BTreeSet;

use kube::Resource;
use multicluster::cache::Change;

use crate::hub::identity::HubIdentity;
use crate::hub::upstream::Upstream;
use crate::runtime::keys::ProjectKey;
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, ProjectKey>] = &[
    Trigger {
        source: ProjectSource::Summaries,
        reason: "the summary changed",
        keys: |change, project| {
            let keys = change.versions();
            keys.map(|it| ProjectKey::of(project.project(), it))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Summaries,
        reason: "only the oldest summaries of a namespace are evaluated",
        keys: |change, project| match change.current {
            Some(_) => Vec::new(),
            None => in_namespaces(change, project),
        },
    },
    Trigger {
        source: ProjectSource::Workloads,
        reason: "a summary selects Workloads by their labels, and a Workload can be gone",
        keys: in_namespaces,
    },
    Trigger {
        source: ProjectSource::Deployments,
        reason: "each row belongs to a WorkloadDeployment",
        keys: in_namespaces,
    },
    Trigger {
        source: ProjectSource::Instances,
        reason: "rows can be Instances",
        keys: in_namespaces,
    },
    Trigger {
        source: ProjectSource::Namespaces,
        reason: "the hub namespace is derived from the Namespace",
        keys: |change, project| {
            let names = change.versions().filter_map(|it| it.name.as_deref());
            names.flat_map(|name| of_namespace(name, project)).collect()
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| {
            let summaries = project.summaries().into_iter();
            summaries
                .map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name))
                .collect()
        },
    },
];

pub(crate) const ON_HUB: &[Trigger<HubSource, dyn HubLookups, ProjectKey>] = &[
    Trigger {
        source: HubSource::Namespaces,
        reason: "the labels of the hub namespace prove whose copies it has",
        keys: |change, hub| {
            let upstreams = change.versions().filter_map(|it| Upstream::of(it).ok());
            upstreams.flat_map(|it| hub.summaries_in(&it)).collect()
        },
    },
    Trigger {
        source: HubSource::Namespaces,
        reason: "the Namespace default identifies the hub and the hubs that it replaces",
        keys: |change, hub| match HubIdentity::is_changed_by(change) {
            true => hub.all_summaries(),
            false => Vec::new(),
        },
    },
    Trigger {
        source: HubSource::Deployments,
        reason: "the copy appeared or is gone, or remembers another report",
        keys: in_hub_namespaces,
    },
    Trigger {
        source: HubSource::Bindings,
        reason: "the binding contains the cells of a copy, and their reports",
        keys: in_hub_namespaces,
    },
    Trigger {
        source: HubSource::CellsListed,
        reason: "until then, no row shows which cells are selected and reachable",
        keys: |_, hub| hub.all_summaries(),
    },
    Trigger {
        source: HubSource::CellReachability,
        reason: "rows show which cells are unreachable",
        keys: bound_to_cluster,
    },
    Trigger {
        source: HubSource::LowerHubs,
        reason: "rows show which cells below lower hubs are unreachable",
        keys: bound_to_cluster,
    },
];

/// Returns the summaries in the namespaces of the WorkloadDeployments that are scheduled to a Cluster.
fn bound_to_cluster(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<ProjectKey> {
    let cluster = change.current.or(change.former);
    let cluster = cluster.and_then(|cluster| cluster.name.as_deref());
    let bindings = cluster.map_or_else(Vec::new, |cluster| hub.bindings_of_cell(cluster));
    // A Cluster can have many bindings of one namespace.
    let namespaces = bindings
        .iter()
        .filter_map(|it| it.meta().namespace.as_deref());
    let namespaces: BTreeSet<_> = namespaces.collect();
    let upstreams = namespaces.into_iter().filter_map(|it| hub.upstream_of(it));
    let upstreams: BTreeSet<_> = upstreams.collect();
    let keys = upstreams.iter().flat_map(|it| hub.summaries_in(it));
    keys.collect()
}

/// Returns the summaries in the namespace of an object of the project.
fn in_namespaces(change: Change<'_>, project: &(dyn ProjectLookups + 'static)) -> Vec<ProjectKey> {
    let object = change.current.or(change.former);
    let namespace = object.and_then(|it| it.namespace.as_deref());
    namespace.map_or_else(Vec::new, |namespace| of_namespace(namespace, project))
}

fn of_namespace(namespace: &str, project: &dyn ProjectLookups) -> Vec<ProjectKey> {
    let summaries = project.summaries_in(namespace).into_iter();
    let keys =
        summaries.map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name));
    keys.collect()
}

/// Returns the summaries in the project's namespace that the hub namespace of an object belongs to.
fn in_hub_namespaces(change: Change<'_>, hub: &(dyn HubLookups + 'static)) -> Vec<ProjectKey> {
    let object = change.current.or(change.former);
    let namespace = object.and_then(|it| it.namespace.as_deref());
    let upstream = namespace.and_then(|namespace| hub.upstream_of(namespace));
    upstream.map_or_else(Vec::new, |upstream| hub.summaries_in(&upstream))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::annotations;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{
        FakeHub, FakeProject, acme, binding, hub_namespace, named,
    };

    fn keys(names: &[(&str, &str)]) -> Vec<ProjectKey> {
        let keys = names.iter();
        keys.map(|(namespace, name)| ProjectKey::new(&acme(), namespace, name))
            .collect()
    }

    #[test]
    fn changes_of_a_project_wake_the_summaries_of_the_namespace() {
        let (one, new) = (named("default", "by-cell"), named("default", "new"));
        let (web, far) = (named("default", "web"), named("other", "far"));
        let (default, third) = (hub_namespace("default", None), named("third", "web"));
        let case = |name, source, former, current, expected: &[(&str, &str)]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys(expected),
        };
        let in_default = [("default", "by-cell"), ("default", "by-city")];
        let after_new = [
            ("default", "by-cell"),
            ("default", "by-city"),
            ("default", "new"),
        ];
        let all = [
            ("default", "by-cell"),
            ("default", "by-city"),
            ("other", "all"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("summary", ProjectSource::Summaries, Some(&one), Some(&one), &[("default", "by-cell")]),
            case("new summary", ProjectSource::Summaries, None, Some(&new), &[("default", "new")]),
            case("deleted summary", ProjectSource::Summaries, Some(&new), None, &after_new),
            case("Workload", ProjectSource::Workloads, Some(&web), Some(&web), &in_default),
            case("deleted Workload", ProjectSource::Workloads, Some(&web), None, &in_default),
            case("Workload elsewhere", ProjectSource::Workloads, None, Some(&far), &[("other", "all")]),
            case("Workload without summary", ProjectSource::Workloads, None, Some(&third), &[]),
            case("WorkloadDeployment", ProjectSource::Deployments, None, Some(&web), &in_default),
            case("Instance", ProjectSource::Instances, Some(&web), None, &in_default),
            case("Namespace", ProjectSource::Namespaces, None, Some(&default), &in_default),
            case("served", ProjectSource::Served, None, None, &all),
            case("Network", ProjectSource::Networks, None, Some(&web), &[]),
            case("needs", ProjectSource::NeedsChanged, None, None, &[]),
            case("unserved", ProjectSource::Unserved, None, None, &[]),
        ];
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }

    #[test]
    fn a_cell_with_many_copies_wakes_each_summary_once() {
        let mut hub = FakeHub::new();
        let bindings = ["api", "shop"].map(|name| {
            let binding = binding("ns-1", name, "WorkloadDeployment", "dfw1");
            Arc::new(binding)
        });
        hub.bindings.extend(bindings);
        let cell = hub_namespace("dfw1", None);
        let change = Change {
            former: None,
            current: Some(&cell),
        };
        let rows = ON_HUB.iter();
        let rows = rows.filter(|row| row.source == HubSource::CellReachability);
        let woken: Vec<_> = rows.flat_map(|row| (row.keys)(change, &hub)).collect();
        assert_eq!(
            woken,
            keys(&[("default", "by-cell"), ("default", "by-city")])
        );
    }

    #[test]
    fn changes_on_the_hub_wake_the_summaries_of_the_namespace_that_it_belongs_to() {
        let (ns_1, plain) = (
            hub_namespace("ns-1", Some(("acme", "default"))),
            hub_namespace("plain", None),
        );
        let ns_2 = hub_namespace("ns-1", Some(("acme", "other")));
        let default = hub_namespace("default", None);
        let mut replacing = default.clone();
        let replaces = (annotations::REPLACES_HUBS.to_owned(), "another".to_owned());
        replacing.annotations = Some([replaces].into());
        let (copy, stray, foreign) = (
            named("ns-1", "web"),
            named("plain", "web"),
            named("ns-3", "foreign"),
        );
        let (cell, other_cell) = (hub_namespace("dfw1", None), hub_namespace("dfw2", None));
        let case = |name, source, former, current, expected: &[(&str, &str)]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys(expected),
        };
        let own = [("default", "by-cell"), ("default", "by-city")];
        let all = [
            ("default", "by-cell"),
            ("default", "by-city"),
            ("other", "all"),
        ];
        #[rustfmt::skip]
        let cases = [
            case("namespace", HubSource::Namespaces, None, Some(&ns_1), &own),
            case("namespace gone", HubSource::Namespaces, Some(&ns_1), None, &own),
            case("relabelled", HubSource::Namespaces, Some(&ns_1), Some(&ns_2), &all),
            case("no identity", HubSource::Namespaces, None, Some(&plain), &[]),
            case("hub", HubSource::Namespaces, None, Some(&default), &all),
            case("same hub", HubSource::Namespaces, Some(&default), Some(&default), &[]),
            case("hub replaces", HubSource::Namespaces, Some(&default), Some(&replacing), &all),
            case("copy", HubSource::Deployments, Some(&copy), Some(&copy), &own),
            case("copy gone", HubSource::Deployments, Some(&copy), None, &own),
            case("copy without project", HubSource::Deployments, None, Some(&stray), &[]),
            case("copy of another project", HubSource::Deployments, None, Some(&foreign), &[]),
            case("binding", HubSource::Bindings, Some(&copy), Some(&copy), &own),
            case("binding gone", HubSource::Bindings, Some(&copy), None, &own),
            case("cell", HubSource::CellReachability, Some(&cell), Some(&cell), &own),
            case("cell gone", HubSource::CellReachability, Some(&cell), None, &own),
            case("cell of nothing", HubSource::CellReachability, None, Some(&other_cell), &[]),
            case("cell below", HubSource::LowerHubs, Some(&cell), Some(&cell), &own),
            case("LowerHub of nothing", HubSource::LowerHubs, Some(&other_cell), None, &[]),
            case("cells listed", HubSource::CellsListed, None, None, &all),
            case("Instance", HubSource::Instances, None, Some(&copy), &[]),
            case("policy", HubSource::Policies, None, Some(&copy), &[]),
        ];
        assert_cases::<_, dyn HubLookups, _>(ON_HUB, &cases, &FakeHub::new());
    }
}
