//! The triggers of the workload controller. They are changes of a Workload, of its WorkloadDeployments, and of the
//! inputs of its placement.

use api::Workload;
use multicluster::cache::NamespacedName;

use crate::objects::controller_name;
use crate::runtime::keys::ProjectKey;
use crate::runtime::triggers::lookups::ProjectLookups;
use crate::runtime::triggers::{ProjectSource, Trigger};

pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, ProjectKey>] = &[
    Trigger {
        source: ProjectSource::Workloads,
        reason: "the Workload changed",
        keys: |change, project| {
            let keys = change.versions();
            keys.map(|it| ProjectKey::of(project.project(), it))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::Deployments,
        reason: "the WorkloadDeployment is controlled by the Workload, and its status is summed up there",
        keys: |change, project| {
            let keys = change.versions().filter_map(|deployment| {
                let name = controller_name::<Workload>(deployment)?.to_owned();
                let key = ProjectKey::of(project.project(), deployment);
                Some(ProjectKey { name, ..key })
            });
            keys.collect()
        },
    },
    Trigger {
        source: ProjectSource::Networks,
        reason: "a Network that the Workload uses appeared or was deleted; other changes of a Network do not matter",
        keys: |change, project| {
            if change.former.is_some() == change.current.is_some() {
                return Vec::new();
            }
            let workloads = change.versions().map(|it| project.workloads_on(it));
            keys(project, workloads.flatten())
        },
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| keys(project, project.workloads()),
    },
    Trigger {
        source: ProjectSource::NeedsChanged,
        reason: "other cities are offered, cities or Networks became known or unknown, or the API server answers again",
        keys: |_, project| keys(project, project.workloads()),
    },
];

fn keys(
    project: &dyn ProjectLookups,
    names: impl IntoIterator<Item = NamespacedName>,
) -> Vec<ProjectKey> {
    let names = names.into_iter();
    names
        .map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{FakeProject, acme, metadata, named};

    #[test]
    fn changes_of_a_project_wake_its_workloads() {
        let (shop, blue, red) = (
            named("default", "shop"),
            named("default", "blue"),
            named("default", "red"),
        );
        let controlled_by = |kind: &str, name: &str| {
            let controller = json!({
                "apiVersion": api::API_VERSION, "kind": kind, "name": name, "uid": "u", "controller": true,
            });
            metadata(json!({
                "namespace": "default", "name": "shop-dfw", "ownerReferences": [controller],
            }))
        };
        let of_shop = controlled_by("Workload", "shop");
        let of_former = controlled_by("Workload", "former");
        let of_other_kind = controlled_by("Fleet", "shop");
        let case = |name, source, former, current, expected: &[(&str, &str)]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: expected
                .iter()
                .map(|(namespace, name)| ProjectKey::new(&acme(), namespace, name))
                .collect(),
        };
        let own = [("default", "shop")];
        let both = [("default", "shop"), ("default", "former")];
        let all = [("default", "shop"), ("other", "shop")];
        #[rustfmt::skip]
        let cases = [
            case("new", ProjectSource::Workloads, None, Some(&shop), &own),
            case("changed", ProjectSource::Workloads, Some(&shop), Some(&shop), &own),
            case("deleted", ProjectSource::Workloads, Some(&shop), None, &own),
            case("deployment", ProjectSource::Deployments, None, Some(&of_shop), &own),
            case("its status", ProjectSource::Deployments, Some(&of_shop), Some(&of_shop), &own),
            case("its deletion", ProjectSource::Deployments, Some(&of_shop), None, &own),
            case("its owner", ProjectSource::Deployments, Some(&of_former), Some(&of_shop), &both),
            case("not owned", ProjectSource::Deployments, None, Some(&shop), &[]),
            case("of another kind", ProjectSource::Deployments, None, Some(&of_other_kind), &[]),
            case("Network", ProjectSource::Networks, None, Some(&blue), &own),
            case("Network deleted", ProjectSource::Networks, Some(&blue), None, &own),
            case("Network changed", ProjectSource::Networks, Some(&blue), Some(&blue), &[]),
            case("unused Network", ProjectSource::Networks, None, Some(&red), &[]),
            case("served", ProjectSource::Served, None, None, &all),
            case("needs", ProjectSource::NeedsChanged, None, None, &all),
            case("unserved", ProjectSource::Unserved, None, None, &[]),
            case("Namespace", ProjectSource::Namespaces, None, Some(&shop), &[]),
            case("Instance", ProjectSource::Instances, None, Some(&of_shop), &[]),
        ];
        assert_cases::<_, dyn ProjectLookups, _>(ON_PROJECT, &cases, &FakeProject::new());
    }
}
