//! Decides how the projection of an Instance must look.

pub(super) mod evidence;
mod freshness;
pub(super) mod verdict;

use std::sync::Arc;

use api::{HubNamespace, Instance, InstanceStatus, WorkloadDeployment, annotations, labels};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use crate::generation::instance_status;
use crate::hub::cells::CellState;
use crate::hub::upstream::Upstream;
use crate::objects::{StringMap, covers, is_terminating, recorded_hub_namespace};
use freshness::{cut_off, fresh};

/// Labels that are copied from an Instance on the hub to its projection.
const COPIED_LABELS: [&str; 7] = [
    labels::WORKLOAD_UID,
    labels::WORKLOAD_NAME,
    labels::PLACEMENT_NAME,
    labels::INSTANCE_CITY_CODE,
    labels::WORKLOAD_DEPLOYMENT_NAME,
    labels::INSTANCE_INDEX,
    labels::SOURCE_CLUSTER,
];

/// The observations of the controller.
pub(super) struct Observed<'a> {
    /// The project's namespace that the labels of the hub namespace identify. The labels of the Instance are not
    /// trusted (I-15).
    pub(super) upstream: &'a Upstream,
    pub(super) hub_namespace: &'a HubNamespace,
    /// The Instance on the hub.
    pub(super) instance: Option<&'a Arc<Instance>>,
    /// The project's WorkloadDeployment that the Instance on the hub names.
    pub(super) deployment: Option<&'a Arc<WorkloadDeployment>>,
    /// The Instance of the same name in the project.
    pub(super) projection: Option<&'a Arc<Instance>>,
    /// The state of the cell of the Instance, or of the projection if the hub has no Instance.
    pub(super) cell: CellState,
    pub(super) now: Timestamp,
}

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) apply: Option<Desired>,
    pub(super) status: Option<InstanceStatus>,
    /// Whether to delete the projection, if the hub proves that the Instance is gone. Then its status is not written.
    pub(super) delete: bool,
}

/// The labels and annotations of the desired projection. The spec is copied from the Instance on the hub.
#[derive(Debug, PartialEq)]
pub(super) struct Desired {
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        instance,
        deployment,
        projection,
        ..
    } = *observed;
    let Some(instance) = instance else {
        let ours =
            projection.filter(|it| is_projection(it, observed) && !is_terminating(it.as_ref()));
        return Plan {
            status: ours.and_then(|it| cut_off(it, &observed.cell, observed.now)),
            delete: ours.is_some(),
            ..Plan::default()
        };
    };
    let (Some(deployment), false) = (deployment, is_terminating(instance.as_ref())) else {
        return Plan::default();
    };
    if projection.is_some_and(|projection| is_terminating(projection.as_ref())) {
        return Plan::default();
    }
    let desired = desired(observed, instance);
    let owner = deployment.owner_ref(&());
    let is_owned = |projection: &Instance| {
        let mut owners = projection.owner_references().iter();
        owners.any(|it| Some(it) == owner.as_ref())
    };
    // A projection always has an owner. So no projection is created or changed while the WorkloadDeployment is
    // terminating. But this can take minutes, and users still read the statuses.
    if is_terminating(deployment.as_ref()) {
        let existing = projection.filter(|projection| is_owned(projection));
        let status = |projection: &Arc<Instance>| {
            let in_step = projection.spec == instance.spec;
            status(observed, projection, in_step)
        };
        return Plan {
            status: existing.and_then(status),
            ..Plan::default()
        };
    }
    let in_step = projection.is_some_and(|projection| {
        projection.spec == instance.spec
            && covers(projection.labels(), &desired.labels)
            && covers(projection.annotations(), &desired.annotations)
            && is_owned(projection)
    });
    if !in_step {
        return Plan {
            apply: Some(desired),
            ..Plan::default()
        };
    }
    Plan {
        status: projection.and_then(|projection| status(observed, projection, true)),
        ..Plan::default()
    }
}

/// Returns the status to write to the projection, if it differs from the current status. `in_step` is true if the
/// projection has the spec of the Instance on the hub.
pub(super) fn status(
    observed: &Observed<'_>,
    projection: &Instance,
    in_step: bool,
) -> Option<InstanceStatus> {
    let instance = observed.instance?;
    let status = instance.status.as_ref()?;
    let status = fresh(instance, status, projection, &observed.cell, observed.now);
    instance_status(instance, &status, projection, in_step)
}

/// Returns whether an Instance of the project is a projection from this hub namespace. Projections of the Go manager do
/// not record the hub namespace. Their labels of the project and of its namespace must match.
fn is_projection(projection: &Instance, observed: &Observed<'_>) -> bool {
    match recorded_hub_namespace(projection.meta()) {
        Some(from) => {
            from == observed.hub_namespace.as_str()
                && projection
                    .labels()
                    .contains_key(labels::UPSTREAM_CLUSTER_NAME)
        }
        None => Upstream::of(projection.meta()).is_ok_and(|whose| whose == *observed.upstream),
    }
}

fn desired(observed: &Observed<'_>, instance: &Instance) -> Desired {
    let mut wanted: StringMap = COPIED_LABELS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), instance.labels().get(*key)?.clone())))
        .collect();
    wanted.extend(observed.upstream.labels());
    if let Some(uid) = observed.deployment.and_then(|deployment| deployment.uid()) {
        wanted.insert(labels::WORKLOAD_DEPLOYMENT_UID.to_owned(), uid);
    }
    Desired {
        labels: wanted,
        annotations: StringMap::from([(
            annotations::FEDERATION_NAMESPACE.to_owned(),
            observed.hub_namespace.as_str().to_owned(),
        )]),
    }
}

#[cfg(test)]
mod tests;
