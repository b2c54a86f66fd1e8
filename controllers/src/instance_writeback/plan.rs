//! Decides whether an Instance may have a copy on the hub, and what the copy must contain.

pub(super) mod leftovers;
mod report;

use std::time::Duration;

use api::condition;
use api::instance::COPIED_TO_HUB;
pub(super) use api::reasons::copied_to_hub as reason;
use api::{CellName, Instance, InstanceStatus, WorkloadDeployment, finalizers, labels};
use jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};

use super::copy_name::{is_of_another, needs_record};
use crate::generation::instance_status;
use crate::instance::plan::readiness;
use crate::objects::{
    Namespace, StringMap, controller_uid, covers, deployment_name, has_finalizer, is_terminating,
    label,
};
use report::CopyRefusal;
pub(super) use report::{CopyReport, CopyTransition};

/// Shortest interval between two reads of the hub while the hub does not allow the copy.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Longest interval between two such reads of the hub.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) cell: &'a CellName,
    pub(super) instance: &'a Instance,
    pub(super) hub: &'a HubObjects,
    pub(super) now: Timestamp,
}

/// The metadata of a WorkloadDeployment. Its other fields do not matter here, so a hub with a CRD of another version
/// does not stop the copies.
pub(super) type PartialDeployment = PartialObjectMeta<WorkloadDeployment>;

/// The objects that were just read from the hub.
#[derive(Debug, Default)]
pub(super) struct HubObjects {
    /// The Namespace on the hub that has the same name as the Instance's namespace.
    pub(super) namespace: Option<Namespace>,
    /// The WorkloadDeployment that the labels of the Instance refer to.
    pub(super) deployment: Option<PartialDeployment>,
    /// The name of the copy. It can differ from the name of the Instance.
    pub(super) copy_name: String,
    /// The copy, if it exists.
    pub(super) copy: Option<Instance>,
    /// Whether the copy is recorded as outdated. Then its status is that of another Instance.
    pub(super) is_outdated: bool,
}

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    /// Record the name of the copy on the Instance, in the same write as the finalizer.
    pub(super) record_name: bool,
    /// When to read the hub again, if the hub does not allow a copy now. No watch reports a change on the hub.
    pub(super) look_again: Option<Duration>,
    /// The labels of the copy, if the copy must be written.
    pub(super) apply_copy: Option<StringMap>,
    pub(super) copy_status: Option<InstanceStatus>,
    /// The report if the hub does not allow the copy now. If this is `None`, the writes to the hub decide the report.
    pub(super) refusal: Option<CopyReport>,
}

impl Plan {
    /// Returns whether the plan changes the metadata of the Instance.
    pub(super) fn writes_metadata(&self) -> bool {
        self.add_finalizer || self.record_name
    }
}

/// Returns the actions for an Instance that is not terminating.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        cell,
        instance,
        hub,
        now,
    } = *observed;
    let has_finalizer = has_finalizer(instance, finalizers::INSTANCE_CONTROLLER);
    let ownership = match ownership(cell, instance, hub) {
        Ok(ownership) => ownership,
        Err(refusal) => {
            let report = CopyReport::not_copied(instance, refusal, now);
            let status = instance.status.as_ref();
            let former = status.map_or(&[][..], |status| &status.conditions);
            let conditions = report.conditions.as_deref().unwrap_or(former);
            let since = condition::find(conditions, COPIED_TO_HUB);
            let since = since.map(|since| since.last_transition_time.0);
            return Plan {
                add_finalizer: !has_finalizer,
                look_again: Some(pause(since, now)),
                refusal: Some(report),
                ..Plan::default()
            };
        }
    };
    if let Some(copy) = hub.copy.as_ref().filter(|copy| is_terminating(*copy)) {
        // A new copy can only be made when this one is gone.
        let since = copy.metadata.deletion_timestamp.as_ref().map(|it| it.0);
        return Plan {
            add_finalizer: !has_finalizer,
            look_again: Some(pause(since, now)),
            refusal: Some(CopyReport::default()),
            ..Plan::default()
        };
    }
    let status = mirrored_status(instance);
    let (apply_copy, copy_status) = copy_changes(instance, hub, ownership, &status);
    Plan {
        add_finalizer: !has_finalizer,
        record_name: needs_record(cell, instance, &hub.copy_name),
        apply_copy,
        // The status is not copied until `Ready` is current. The write of that condition triggers the next
        // reconciliation.
        copy_status: copy_status.filter(|_| readiness(instance, now).is_none()),
        ..Plan::default()
    }
}

/// Returns the status to write to a copy that was applied after the plan was made. `observed` must contain the copy
/// that the hub returned. Returns `None` if the hub did not store what was applied.
pub(super) fn status_of_applied_copy(observed: &Observed<'_>) -> Option<InstanceStatus> {
    let Observed {
        cell,
        instance,
        hub,
        now,
    } = *observed;
    let ownership = ownership(cell, instance, hub).ok()?;
    let (_, status) = copy_changes(instance, hub, ownership, &mirrored_status(instance));
    status.filter(|_| readiness(instance, now).is_none())
}

/// Returns the status to write to an existing copy after the hub did not store the whole spec.
pub(super) fn status_of_unkept_copy(observed: &Observed<'_>) -> Option<InstanceStatus> {
    let Observed {
        instance, hub, now, ..
    } = *observed;
    let copy = hub.copy.as_ref()?;
    let status = changed_status(instance, hub, &mirrored_status(instance), copy, false);
    status.filter(|_| readiness(instance, now).is_none())
}

/// Returns the status of the copy if it differs. An outdated copy has the status of another Instance, and nothing of it
/// is kept.
fn changed_status(
    instance: &Instance,
    hub: &HubObjects,
    status: &InstanceStatus,
    copy: &Instance,
    in_step: bool,
) -> Option<InstanceStatus> {
    if !hub.is_outdated {
        return instance_status(instance, status, copy, in_step);
    }
    let without = Instance {
        status: None,
        ..copy.clone()
    };
    let status = instance_status(instance, status, &without, in_step);
    status.filter(|status| copy.status.as_ref() != Some(status))
}

/// Returns the status of an Instance without the condition `CopiedToHub`.
fn mirrored_status(instance: &Instance) -> InstanceStatus {
    let mut status = instance.status.clone().unwrap_or_default();
    condition::remove(&mut status.conditions, COPIED_TO_HUB);
    status
}

/// Returns half of the time since the hub first did not allow the copy, within limits. So an obstacle that lasts longer
/// causes fewer reads of the hub.
fn pause(since: Option<Timestamp>, now: Timestamp) -> Duration {
    let lasts = since.map_or(0, |since| now.as_second().saturating_sub(since.as_second()));
    Duration::from_secs(lasts.unsigned_abs() / 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// The owner and the labels of the copy. The owner is the WorkloadDeployment on the hub; without it, no copy is made.
/// The labels contain the name of the cell.
struct Ownership<'a> {
    owner: &'a PartialDeployment,
    labels: StringMap,
}

fn ownership<'a>(
    cell: &CellName,
    instance: &Instance,
    hub: &'a HubObjects,
) -> Result<Ownership<'a>, CopyRefusal> {
    let refuse = |reason, message| Err(CopyRefusal { reason, message });
    let missing: Vec<_> = labels::INSTANCE_LINKING
        .into_iter()
        .filter(|key| label(instance, key).is_none())
        .collect();
    if !missing.is_empty() {
        let message = format!("the Instance lacks the labels {}", missing.join(", "));
        return refuse(reason::LINKING_LABELS_MISSING, message);
    }
    let name = instance.namespace().unwrap_or_default();
    let Some(namespace) = &hub.namespace else {
        return refuse(
            reason::HUB_NAMESPACE_MISSING,
            format!("the hub has no Namespace {name}"),
        );
    };
    let identity = [labels::UPSTREAM_CLUSTER_NAME, labels::UPSTREAM_NAMESPACE];
    if let Some(missing) = identity
        .into_iter()
        .find(|key| label(namespace, key).is_none())
    {
        let message = format!("the hub's Namespace {name} lacks the label {missing}");
        return refuse(reason::HUB_NAMESPACE_UNIDENTIFIED, message);
    }
    let deployment = deployment_name(instance.meta()).unwrap_or_default();
    let Some(owner) = hub
        .deployment
        .as_ref()
        .filter(|owner| !is_terminating(*owner))
    else {
        let message = format!("the hub has no WorkloadDeployment {name}/{deployment}");
        return refuse(reason::HUB_DEPLOYMENT_MISSING, message);
    };
    if let Some(copy) = &hub.copy {
        if is_of_another(cell, copy) {
            let other = label(copy, labels::SOURCE_CLUSTER).unwrap_or_default();
            let name = &hub.copy_name;
            let message = format!("cell {other} wrote the hub's Instance {name}");
            return refuse(reason::HELD_BY_ANOTHER_CELL, message);
        }
        if controller_uid(copy).is_some_and(|uid| Some(uid) != owner.metadata.uid.as_deref()) {
            let message = "the hub's Instance of this name has another controller".to_owned();
            return refuse(reason::HELD_BY_ANOTHER_OWNER, message);
        }
    }
    let mut wanted: StringMap = labels::INSTANCE_LINKING
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), label(instance, key)?.to_owned())))
        .collect();
    wanted.extend(
        identity
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), label(namespace, key)?.to_owned()))),
    );
    wanted.insert(
        labels::WORKLOAD_DEPLOYMENT_UID.to_owned(),
        owner.uid().unwrap_or_default(),
    );
    wanted.insert(labels::SOURCE_CLUSTER.to_owned(), cell.as_str().to_owned());
    Ok(Ownership {
        owner,
        labels: wanted,
    })
}

/// Returns the necessary writes. If the copy must be applied, returns the labels. Otherwise returns the status if it
/// differs.
fn copy_changes(
    instance: &Instance,
    hub: &HubObjects,
    ownership: Ownership<'_>,
    status: &InstanceStatus,
) -> (Option<StringMap>, Option<InstanceStatus>) {
    let Some(copy) = &hub.copy else {
        return (Some(ownership.labels), None);
    };
    if is_terminating(copy) {
        return (None, None);
    }
    let owned = controller_uid(copy).is_some()
        && controller_uid(copy) == ownership.owner.metadata.uid.as_deref();
    if copy.spec != instance.spec || !covers(copy.labels(), &ownership.labels) || !owned {
        return (Some(ownership.labels), None);
    }
    (None, changed_status(instance, hub, status, copy, true))
}

#[cfg(test)]
mod tests;
