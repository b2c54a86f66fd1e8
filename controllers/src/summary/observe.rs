//! Observes what a query is about, from the caches. Proves which copies belong to the project.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::workload_summary::{SummaryRow, SummaryRows};
use api::{
    HubNamespace, Instance, InstanceSpec, WorkloadDeployment, WorkloadDeploymentSpec, annotations,
    labels,
};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::plan::{HubCopy, KnownCells, Observed, ObservedDeployment, ObservedInstance};
use super::query::{Query, SelectedWorkloads};
use crate::hub::HubCaches;
use crate::hub::identity::recorded_hub;
use crate::hub::upstream::Upstream;
use crate::objects::{describe_undecodable, label, recorded_hub_namespace};
use crate::projects::ProjectCaches;
use crate::runtime::keys::ProjectKey;
use crate::workload::deployments_value;

/// Returns what is known of a WorkloadDeployment that cannot be decoded. It has a row too.
fn not_decodable(invalid: &InvalidObject) -> (Arc<WorkloadDeployment>, HubCopy) {
    let problem = format!(
        "the WorkloadDeployment cannot be decoded: {}",
        invalid.error
    );
    let deployment = WorkloadDeployment {
        metadata: invalid.metadata.clone(),
        spec: WorkloadDeploymentSpec::default(),
        status: None,
    };
    (Arc::new(deployment), HubCopy::NotKnown(problem))
}

/// Returns what is known of an Instance that cannot be decoded, and the problem. It has a row too.
fn instance_not_decodable(invalid: &InvalidObject) -> (Arc<Instance>, Option<String>) {
    let instance = Instance {
        metadata: invalid.metadata.clone(),
        spec: InstanceSpec::default(),
        status: None,
    };
    (
        Arc::new(instance),
        Some(describe_undecodable::<Instance>(invalid)),
    )
}

/// The caches that a summary is computed from.
pub(super) struct Observer<'a> {
    pub(super) hub: &'a HubCaches,
    pub(super) project: &'a ProjectCaches,
    /// The key of the summary.
    pub(super) key: &'a ProjectKey,
}

impl Observer<'_> {
    pub(super) fn observe<'a>(
        &self,
        query: &Query,
        former: &'a [SummaryRow],
        cells: KnownCells<'a>,
        now: Timestamp,
    ) -> Observed<'a> {
        let namespace = &self.key.namespace;
        let workloads = match &query.workloads {
            SelectedWorkloads::Named(name) => {
                let workload = self.project.workloads.metadata_of(namespace, name);
                workload.into_iter().collect()
            }
            SelectedWorkloads::Labelled(_) => self.project.workloads.metadata(namespace),
        };
        let selected = workloads.iter().filter(|it| query.workloads.contains(it));
        let hub_namespace = self.hub_namespace();
        let is_of_cells = query.rows == SummaryRows::Cells;
        let mut deployments = Vec::new();
        for workload in selected {
            let name = workload.name.clone().unwrap_or_default();
            let index = &self.project.deployments_of;
            let (of_workload, undecodable) = index.partitioned(&deployments_value(workload));
            let of_workload = of_workload.into_iter().map(|deployment| {
                let copy = match (is_of_cells, &hub_namespace) {
                    (false, _) => HubCopy::Absent,
                    (true, Ok(hub_namespace)) => self.copy(hub_namespace, &deployment),
                    (true, Err(problem)) => HubCopy::NotKnown(problem.clone()),
                };
                (deployment, copy)
            });
            let undecodable = undecodable.iter().map(|it| not_decodable(it));
            let all = of_workload.chain(undecodable);
            deployments.extend(all.map(|(deployment, copy)| ObservedDeployment {
                workload: name.clone(),
                deployment,
                copy,
            }));
        }
        let instances = match is_of_cells {
            true => Vec::new(),
            false => self.instances(&deployments),
        };
        Observed {
            deployments,
            instances,
            cells,
            former,
            now,
        }
    }

    /// Returns the hub namespace of the summary's namespace. It is derived from the UID of the project's Namespace, which
    /// a customer cannot set.
    ///
    /// # Errors
    ///
    /// A sentence for the customer if the Namespace is not known.
    fn hub_namespace(&self) -> Result<HubNamespace, String> {
        let namespace = self.project.namespaces.metadata_of("", &self.key.namespace);
        let uid = namespace.and_then(|it| it.uid).unwrap_or_default();
        let hub_namespace = HubNamespace::of_project_namespace(&uid);
        hub_namespace.map_err(|_| "the Namespace is not known yet".to_owned())
    }

    /// Returns the copy of a WorkloadDeployment. What is not proved to be of this project is not shown (I-16).
    fn copy(&self, hub_namespace: &HubNamespace, deployment: &WorkloadDeployment) -> HubCopy {
        let not_known = || {
            let problem = "the hub does not prove which cells belong to the WorkloadDeployment";
            HubCopy::NotKnown(problem.to_owned())
        };
        let hub = self.hub;
        let metadata = &deployment.metadata;
        let (record, recorded) = (recorded_hub(metadata), recorded_hub_namespace(metadata));
        // The federator uses the recorded hub namespace, so the other one proves nothing.
        if recorded.is_some_and(|recorded| recorded != hub_namespace.as_str()) {
            return not_known();
        }
        let Ok(namespace) = hub.namespaces.get("", hub_namespace.as_str()) else {
            return not_known();
        };
        // The answers of another hub prove nothing, not even that there is no copy. A WorkloadDeployment without records
        // has not been on a hub yet.
        let is_new = record.is_none() && recorded.is_none();
        let contradiction = hub.identity().map(|identity| {
            let of_namespace = namespace.as_deref();
            identity.contradiction(record, of_namespace)
        });
        match (&namespace, contradiction) {
            (None, _) if is_new => return HubCopy::Absent,
            (None, Ok(None)) => return HubCopy::Absent,
            (Some(_), Ok(None)) => {}
            _ => return not_known(),
        }
        let upstream = Upstream {
            project: self.key.project.clone(),
            namespace: self.key.namespace.clone(),
        };
        let copy = match hub
            .deployments
            .get(hub_namespace.as_str(), &deployment.name_any())
        {
            Ok(Some(copy)) if upstream.is_proved_by(namespace.as_deref()) => copy,
            Ok(None) => return HubCopy::Absent,
            Ok(Some(_)) | Err(_) => return not_known(),
        };
        // The copy can still be that of a former WorkloadDeployment of the same name.
        let uid = copy.annotations().get(annotations::UPSTREAM_UID);
        if uid.is_some_and(|uid| Some(uid) != deployment.metadata.uid.as_ref()) {
            return HubCopy::Absent;
        }
        if !hub.cells.has_bindings() {
            let problem = "the hub does not list which cells are selected";
            return HubCopy::NotKnown(problem.to_owned());
        }
        let binding = hub.cells.binding_of(&copy);
        HubCopy::Present(copy, binding)
    }

    /// Returns the Instances of these WorkloadDeployments, also those that cannot be decoded.
    fn instances(&self, deployments: &[ObservedDeployment]) -> Vec<ObservedInstance> {
        let uids = deployments.iter().enumerate();
        let uids = uids.filter_map(|(at, it)| Some((it.deployment.metadata.uid.as_deref()?, at)));
        let positions: BTreeMap<_, _> = uids.collect();
        let (instances, namespace) = (&self.project.instances, &self.key.namespace);
        let readable = instances.readable(namespace).into_iter();
        let undecodable = instances.undecodable(namespace).into_iter();
        let all = readable
            .map(|instance| (instance, None))
            .chain(undecodable.map(|it| instance_not_decodable(&it)));
        let of = all.filter_map(|(instance, problem)| {
            let uid = label(instance.as_ref(), labels::WORKLOAD_DEPLOYMENT_UID)?;
            let of = *positions.get(uid)?;
            Some(ObservedInstance {
                of,
                instance,
                problem,
            })
        });
        of.collect()
    }
}
