//! Decides whether the hub in use can prove that the Instance of a projection is gone. Only the cell knows its
//! Instances. A hub that is new, or that was restored from an older snapshot, does not have their copies until the cell
//! has written to it.

use std::sync::Arc;

use api::workload_deployment::CELLS_REPORTING;
use api::{Instance, WorkloadDeployment, WorkloadDeploymentStatus, condition, labels};
use kube::Resource;

use crate::hub::cells::CellState;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::objects::{is_terminating, label};

/// The objects that show whether the cell of a projection writes to the hub in use.
pub(in crate::projector) struct Evidence<'a> {
    pub(in crate::projector) hub: &'a HubIdentity,
    pub(in crate::projector) projection: &'a Instance,
    /// The state of the cell that the projection names.
    pub(in crate::projector) cell: CellState,
    /// Whether that state is known. If it is not, the cell counts as reachable.
    pub(in crate::projector) is_cell_known: bool,
    /// Whether the copy is scheduled to the Cluster that leads to the cell, or is still there. True if that is unknown.
    pub(in crate::projector) is_bound: bool,
    /// The WorkloadDeployment of the project.
    pub(in crate::projector) deployment: Option<&'a WorkloadDeployment>,
    /// The copy of the WorkloadDeployment on the hub.
    pub(in crate::projector) copy: Option<&'a WorkloadDeployment>,
    /// The Instances of the WorkloadDeployment on the hub.
    pub(in crate::projector) instances: &'a [Arc<Instance>],
}

impl Evidence<'_> {
    /// Returns what is missing before the absence of the Instance on the hub can be a proof, if something is missing.
    /// Without a live WorkloadDeployment, the projection must end anyway.
    pub(in crate::projector) fn missing(&self) -> Option<String> {
        let deployment = self.deployment.filter(|it| !is_terminating(*it))?;
        let record = recorded_hub(deployment.meta());
        if record.is_some_and(|record| Some(record) != self.hub.uid()) {
            return Some("the record of the hub in use in the WorkloadDeployment".to_owned());
        }
        // The report of another cell of the city says nothing about this cell. A cell without a Cluster never answers
        // again, and its projections must end.
        if self.cell.is_cut_off() {
            let cell = label(self.projection, labels::SOURCE_CLUSTER).unwrap_or_default();
            return Some(format!("cell {cell}, which cannot be reached"));
        }
        let status = self.copy.and_then(|copy| copy.status.as_ref());
        if self.hub.replaces_another() {
            return self.missing_after_a_move(status);
        }
        if let Some(status) = status.filter(|_| !self.is_cell_known) {
            return self.missing_of_unknown_cell(status);
        }
        // No cell of the new city may exist, and the copy of the former city is gone. The city of a WorkloadDeployment
        // that cannot be decoded is unknown.
        let city = label(self.projection, labels::INSTANCE_CITY_CODE);
        let current = deployment.spec.city_code.as_str();
        let is_of_former_city = !current.is_empty() && city.is_some_and(|city| city != current);
        (status.is_none() && !is_of_former_city)
            .then(|| "a cell to report the WorkloadDeployment to the hub".to_owned())
    }

    /// Without the report of its lower hub, a cell can be cut off. Then the hub remembers how many Instances it had. A cell
    /// that the status does not name does not have the WorkloadDeployment, unless cells are missing in the status.
    fn missing_of_unknown_cell(&self, status: &WorkloadDeploymentStatus) -> Option<String> {
        let cell = label(self.projection, labels::SOURCE_CLUSTER).unwrap_or_default();
        let is_complete = condition::find(&status.conditions, CELLS_REPORTING).is_none();
        // A status stays as it is when the last Cluster is gone.
        match !self.is_bound || is_complete && replicas_of(status, cell).is_none() {
            true => None,
            false => self.missing_after_a_move(Some(status)),
        }
    }

    /// Karmada reports the WorkloadDeployment of a cell to the new hub. Another process writes the Instances of the
    /// cell, and may still use the former hub. So the hub must have as many Instances of the cell as the cell reports.
    fn missing_after_a_move(&self, status: Option<&WorkloadDeploymentStatus>) -> Option<String> {
        let Some(cell) = label(self.projection, labels::SOURCE_CLUSTER) else {
            return Some("the end of the move, because the projection names no cell".to_owned());
        };
        let Some(reported) = status.and_then(|status| replicas_of(status, cell)) else {
            return Some(format!(
                "cell {cell} to report the WorkloadDeployment to the hub"
            ));
        };
        let is_of_cell = |it: &Instance| label(it, labels::SOURCE_CLUSTER) == Some(cell);
        let instances = self.instances.iter();
        let written = instances.filter(|it| !is_terminating(it.as_ref()) && is_of_cell(it));
        (i32::try_from(written.count()).is_ok_and(|written| written < reported))
            .then(|| format!("cell {cell} to write all its Instances to the hub"))
    }
}

/// Returns how many Instances exist in a cell, as the cell has reported.
fn replicas_of(status: &WorkloadDeploymentStatus, cell: &str) -> Option<i32> {
    if status.reporting_cell.as_deref() == Some(cell) {
        return Some(status.replicas);
    }
    let of_cell = status.cells.iter().find(|report| report.name == cell);
    of_cell.map(|report| report.replicas)
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{deployment, instance, object, of_hub, terminating};

    fn hub(replaces: Option<&str>) -> HubIdentity {
        HubIdentity::of(Some(&object(json!({
            "uid": "hub", "annotations": replaces.map(|uids| json!({annotations::REPLACES_HUBS: uids})),
        }))))
    }

    /// Returns a WorkloadDeployment in DFW.
    fn recorded(hub: Option<&str>) -> WorkloadDeployment {
        let mut deployment = json!(deployment("default", "web", "DFW", 2));
        deployment["metadata"]["annotations"] = json!({});
        object(of_hub(deployment, hub))
    }

    fn copy(status: &Value) -> WorkloadDeployment {
        let mut copy = json!(deployment("ns-1", "web", "DFW", 2));
        let mut counts = json!({
            "currentReplicas": 0, "desiredReplicas": 2, "readyReplicas": 0, "replicas": 0,
        });
        let counts = counts.as_object_mut().unwrap();
        counts.extend(status.as_object().unwrap().clone());
        copy["status"] = json!(counts);
        object(copy)
    }

    fn of_cell(name: &str, labels: &Value) -> Instance {
        let mut instance = json!(instance("default", name));
        instance["metadata"]["labels"] = labels.clone();
        object(instance)
    }

    fn is_enough(
        hub: &HubIdentity,
        projection: &Instance,
        deployment: Option<&WorkloadDeployment>,
        copy: Option<&WorkloadDeployment>,
        instances: &[Arc<Instance>],
    ) -> bool {
        let evidence = Evidence {
            hub,
            projection,
            cell: CellState::Reachable,
            is_cell_known: true,
            is_bound: true,
            deployment,
            copy,
            instances,
        };
        evidence.missing().is_none()
    }

    /// I-12: a cell below a lower hub that does not say whether it is cut off.
    #[test]
    fn a_cell_that_nobody_knows_proves_itself_by_its_instances() {
        let of_cell = |name: &str| of_cell(name, &json!({labels::SOURCE_CLUSTER: "dfw.a1"}));
        let hub = hub(None);
        let deployment = recorded(Some("hub"));
        let entry = |cell: &str, replicas: i32| {
            json!({
                "name": cell, "currentReplicas": replicas, "desiredReplicas": replicas,
                "readyReplicas": replicas, "replicas": replicas,
            })
        };
        let silent = json!([{
            "type": CELLS_REPORTING, "status": "False", "reason": "CellNotApplied", "message": "m",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        }]);
        let none = json!([]);
        let proves = |is_bound, cells: Value, conditions: &Value, instances: &[&str]| {
            let copy = copy(&json!({"cells": cells, "conditions": conditions}));
            let instances: Vec<_> = instances
                .iter()
                .map(|name| Arc::new(of_cell(name)))
                .collect();
            let projection = of_cell("web-1");
            let evidence = Evidence {
                hub: &hub,
                projection: &projection,
                cell: CellState::Reachable,
                is_cell_known: false,
                is_bound,
                deployment: Some(&deployment),
                copy: Some(&copy),
                instances: &instances,
            };
            evidence.missing().is_none()
        };
        let is_proof = |cells, conditions: &Value, instances: &[&str]| {
            proves(true, cells, conditions, instances)
        };
        let of_both = |replicas| json!([entry("dfw.a1", replicas), entry("dfw.a2", 2)]);
        assert!(
            !is_proof(of_both(2), &none, &["web-0"]),
            "its copy was deleted by hand"
        );
        assert!(
            is_proof(of_both(1), &none, &["web-0"]),
            "it has fewer Instances"
        );
        let of_other = || json!([entry("dfw.a2", 2)]);
        assert!(
            is_proof(of_other(), &none, &[]),
            "it does not have the WorkloadDeployment"
        );
        assert!(
            !is_proof(of_other(), &silent, &[]),
            "it may have the WorkloadDeployment"
        );
        assert!(
            proves(false, of_both(2), &none, &["web-0"]),
            "the lower hub does not have the WorkloadDeployment any more"
        );
    }

    #[test]
    fn a_hub_proves_an_absence_after_a_cell_has_reported_to_it() {
        let (hub, reported) = (hub(None), copy(&json!({})));
        let unreported = recorded(None);
        let own = recorded(Some("hub"));
        let (other, going) = (recorded(Some("other")), terminating(own.clone()));
        let projection = of_cell("web-0", &json!({labels::INSTANCE_CITY_CODE: "DFW"}));
        let enough = |deployment, copy| is_enough(&hub, &projection, deployment, copy, &[]);
        for deployment in [&own, &unreported] {
            assert!(enough(Some(deployment), Some(&reported)));
            assert!(!enough(Some(deployment), Some(&unreported)));
            assert!(!enough(Some(deployment), None));
        }
        assert!(!enough(Some(&other), Some(&reported)));
        assert!(enough(Some(&going), None));
        assert!(enough(None, None));
        let of_former_city = of_cell("web-0", &json!({labels::INSTANCE_CITY_CODE: "ORD"}));
        assert!(is_enough(&hub, &of_former_city, Some(&own), None, &[]));
    }

    #[test]
    fn after_a_move_a_hub_proves_an_absence_when_it_has_the_instances_of_the_cell() {
        let (hub, own) = (hub(Some("former")), recorded(Some("hub")));
        let labels = |cell: &str| json!({labels::SOURCE_CLUSTER: cell});
        let on_hub = |name, cell| Arc::new(of_cell(name, &labels(cell)));
        let instances = [
            on_hub("web-0", "dfw1"),
            on_hub("web-x", "dfw2"),
            Arc::new(terminating(of_cell("web-1", &labels("dfw1")))),
        ];
        let cells = json!([
            {"name": "dfw1", "currentReplicas": 0, "desiredReplicas": 1, "readyReplicas": 0, "replicas": 1},
            {"name": "dfw2", "currentReplicas": 0, "desiredReplicas": 2, "readyReplicas": 0, "replicas": 2},
        ]);
        for (cell, status, expected) in [
            (
                "dfw1",
                json!({"reportingCell": "dfw1", "replicas": 0}),
                true,
            ),
            (
                "dfw1",
                json!({"reportingCell": "dfw1", "replicas": 1}),
                true,
            ),
            (
                "dfw1",
                json!({"reportingCell": "dfw1", "replicas": 2}),
                false,
            ),
            (
                "dfw1",
                json!({"reportingCell": "dfw2", "replicas": 0}),
                false,
            ),
            ("dfw1", json!({"replicas": 0}), false),
            ("dfw1", json!({"cells": cells, "replicas": 3}), true),
            ("dfw2", json!({"cells": cells, "replicas": 3}), false),
            ("dfw3", json!({"cells": cells, "replicas": 3}), false),
            ("", json!({"reportingCell": "dfw1", "replicas": 0}), false),
        ] {
            let projection = of_cell("web-2", &labels(cell));
            let copy = copy(&status);
            let enough = is_enough(&hub, &projection, Some(&own), Some(&copy), &instances);
            assert_eq!(enough, expected, "{cell} {status}");
        }
        let projection = of_cell("web-2", &labels("dfw1"));
        assert!(!is_enough(&hub, &projection, Some(&own), None, &instances));
    }
}
