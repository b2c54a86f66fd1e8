//! The triggers of the deployment controller.

use api::WorkloadDeployment;

use crate::objects::controller_name;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), ObjectKey>] = &[
    Trigger {
        source: CellSource::Deployments,
        reason: "the WorkloadDeployment changed",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::Autoscalers,
        reason: "the HorizontalPodAutoscaler has the name of the WorkloadDeployment",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::Instances,
        reason: "the Instance is controlled by the WorkloadDeployment",
        keys: |change, ()| {
            let keys = change.versions().filter_map(|instance| {
                let name = controller_name::<WorkloadDeployment>(instance)?.to_owned();
                let key = ObjectKey::of(instance);
                Some(ObjectKey { name, ..key })
            });
            keys.collect()
        },
    },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{metadata, named};

    #[test]
    fn changes_of_a_cell_wake_its_deployments() {
        let controlled_by = |kind: &str, name: &str| {
            let controller = json!({
                "apiVersion": api::API_VERSION, "kind": kind, "name": name, "uid": "u", "controller": true,
            });
            metadata(json!({
                "namespace": "ns-1", "name": "web-0", "ownerReferences": [controller],
            }))
        };
        let web = named("ns-1", "web");
        let of_web = controlled_by("WorkloadDeployment", "web");
        let of_former = controlled_by("WorkloadDeployment", "former");
        let of_other_kind = controlled_by("Workload", "web");
        let case = |name, source, former, current, expected: &[&str]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: expected
                .iter()
                .map(|name| ObjectKey::of(&named("ns-1", name)))
                .collect(),
        };
        let (deployments, instances) = (CellSource::Deployments, CellSource::Instances);
        #[rustfmt::skip]
        let cases = [
            case("new", deployments, None, Some(&web), &["web"]),
            case("changed", deployments, Some(&web), Some(&web), &["web"]),
            case("deleted", deployments, Some(&web), None, &["web"]),
            case("Instance", instances, None, Some(&of_web), &["web"]),
            case("its status", instances, Some(&of_web), Some(&of_web), &["web"]),
            case("its deletion", instances, Some(&of_web), None, &["web"]),
            case("its owner", instances, Some(&of_former), Some(&of_web), &["web", "former"]),
            case("not owned", instances, None, Some(&web), &[]),
            case("of another kind", instances, None, Some(&of_other_kind), &[]),
            case("autoscaler", CellSource::Autoscalers, None, Some(&web), &["web"]),
            case("absent", CellSource::AbsentInstances, None, Some(&of_web), &[]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
