//! The triggers of the controller of the gate `ReferencedData`.

use api::{WorkloadDeployment, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::controller_name;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, dyn CellLookups, ObjectKey>] = &[
    Trigger {
        source: CellSource::Instances,
        reason: "the Instance changed",
        keys: |change, _| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::Deployments,
        reason: "the data of the Instance's WorkloadDeployment or its template changed",
        keys: |change, cell| {
            if change.former.map(state) == change.current.map(state) {
                return Vec::new();
            }
            let instances = change.current.map(|it| {
                let namespace = it.namespace.as_deref().unwrap_or_default();
                let mut instances = cell.instances_in(namespace);
                instances.retain(|instance| {
                    controller_name::<WorkloadDeployment>(instance) == it.name.as_deref()
                });
                instances
            });
            let instances = instances.unwrap_or_default();
            instances.iter().map(ObjectKey::of).collect()
        },
    },
];

/// Returns what the gate depends on.
fn state(deployment: &ObjectMeta) -> (Option<i64>, [Option<&String>; 3]) {
    let annotations = deployment.annotations.as_ref();
    let data = annotations::OF_REFERENCED_DATA.map(|key| annotations.and_then(|it| it.get(key)));
    (deployment.generation, data)
}

#[cfg(test)]
mod tests {
    use api::ProjectName;
    use multicluster::cache::NamespacedName;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{metadata, named};

    /// A cell with an Instance of `web` and one of `api`.
    struct FakeCell;

    impl CellLookups for FakeCell {
        fn namespaces_of(&self, _: &str) -> Vec<String> {
            Vec::new()
        }

        fn project_of(&self, _: &str) -> Option<ProjectName> {
            None
        }

        fn instances_in(&self, _: &str) -> Vec<ObjectMeta> {
            let instances = ["web", "api"].map(|owner| {
                let controller = json!({
                    "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": owner,
                    "uid": "u", "controller": true,
                });
                let name = format!("{owner}-0");
                metadata(
                    json!({"namespace": "ns-1", "name": name, "ownerReferences": [controller]}),
                )
            });
            instances.to_vec()
        }

        fn instances(&self) -> Vec<NamespacedName> {
            Vec::new()
        }

        fn instances_on(&self, _: &ObjectMeta) -> Vec<NamespacedName> {
            Vec::new()
        }
    }

    #[test]
    fn a_change_of_the_data_or_the_template_adds_the_instances() {
        let deployment = |generation: i64, list: &str| {
            metadata(json!({
                "namespace": "ns-1", "name": "web", "generation": generation,
                "annotations": {annotations::EXPECTED_REFERENCED_DATA: list},
            }))
        };
        let (former, listed) = (deployment(1, "[]"), deployment(1, r#"["Secret/token"]"#));
        let (changed, instance) = (deployment(2, "[]"), named("ns-1", "web-0"));
        let case = |name, source, former, current, has_key: bool| TriggerCase {
            name,
            source,
            former,
            current,
            keys: has_key
                .then(|| ObjectKey::of(&instance))
                .into_iter()
                .collect(),
        };
        let (instances, deployments) = (CellSource::Instances, CellSource::Deployments);
        let cases = [
            case("Instance", instances, None, Some(&instance), true),
            case("list", deployments, Some(&former), Some(&listed), true),
            case("template", deployments, Some(&former), Some(&changed), true),
            case("status", deployments, Some(&former), Some(&former), false),
            case("gone", deployments, Some(&former), None, false),
        ];
        assert_cases(ON_CELL, &cases, &FakeCell as &dyn CellLookups);
    }
}
