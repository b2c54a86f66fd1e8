//! The ordered rollout: one step at a time, in the order of the ordinals.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Instance, WorkloadDeployment};
use kube::ResourceExt;

use super::observed::{
    Instances, awaits_data, instance_name, is_drifted, is_of_another_template, ordinal,
};
use crate::instance::blocker::denied_quota;
use crate::instance::plan::is_ready;
use crate::names::wanted_ordinal;
use crate::objects::is_terminating;

/// A step of the ordered rollout.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::deployment) enum RolloutStep {
    /// Create the Instance of this ordinal.
    Create(i32),
    /// Wait until this Instance is ready, or gone.
    Wait(String),
    /// Delete this Instance because its template or its data changed. The next reconciliation creates a new Instance
    /// from the new template.
    Replace(Arc<Instance>),
    /// Delete this Instance because it is surplus.
    Delete(Arc<Instance>),
}

/// The object that has the name of an ordinal.
enum Slot<'a> {
    /// An Instance of the WorkloadDeployment.
    Own(&'a Arc<Instance>),
    /// An Instance of an earlier WorkloadDeployment of the same name. Garbage collection deletes it.
    Former,
    /// An Instance that cannot be decoded. It stays as it is, and the rollout continues with the others.
    Undecodable,
}

/// Returns the steps of the ordered rollout. The rollout first creates missing Instances and waits for unready ones, by
/// ascending ordinal. Then it replaces Instances of another template or of older data, by descending ordinal. Finally it
/// deletes surplus Instances. An unready Instance of another template is replaced immediately: it may become ready, but
/// never with the right template. An Instance stays while the quota or the data for its replacement are missing. If it
/// is unready, no ready one is replaced, but surplus ones are deleted: they may hold the quota. For the same reason,
/// surplus Instances are deleted before the rollout waits for an Instance without quota.
///
/// While the WorkloadDeployment is suspended, nothing is created or replaced. Surplus Instances are deleted, unless an
/// autoscaler decides their number: it sees no load while nothing runs, and Instances that come back must find their
/// disks.
///
/// Of the missing Instances, only the first gets a step. So the number of steps depends on the number of existing
/// Instances, not on the desired number.
pub(super) fn steps(deployment: &WorkloadDeployment, instances: &Instances) -> Vec<RolloutStep> {
    if !deployment.is_rolled_out() {
        return Vec::new();
    }
    let wanted = deployment.spec.desired_replicas();
    let is_drifted = |instance: &Instance| is_drifted(deployment, instances, instance);
    let is_held = |instance: &Instance| {
        let uid = instance.metadata.uid.as_deref();
        uid.is_some_and(|uid| instances.held.contains_key(uid))
            || stays_for_data(deployment, instances, instance)
    };
    let (slots, surplus) = slots(deployment, instances);
    let delete = deletions(surplus);
    if deployment.is_suspended() {
        return match instances.autoscaling {
            Some(_) => Vec::new(),
            None => delete,
        };
    }
    // The ordinals are sorted, so the first ordinal that differs from its position is missing.
    let positions = (0..).zip(slots.keys());
    let missing = positions
        .take_while(|(position, ordinal)| position == *ordinal)
        .fold(0, |_, (position, _)| position + 1);
    let (mut forward, mut replace, mut held) = (BTreeMap::new(), Vec::new(), Vec::new());
    if missing < wanted {
        forward.insert(missing, RolloutStep::Create(missing));
    }
    let mut first_denied = None;
    for (ordinal, slot) in slots {
        let wait = || RolloutStep::Wait(instance_name(deployment, ordinal));
        let step = match slot {
            Slot::Undecodable => continue,
            Slot::Former => wait(),
            Slot::Own(instance) if is_terminating(instance.as_ref()) => wait(),
            Slot::Own(instance) => match (is_ready(instance), is_drifted(instance)) {
                (true, false) => continue,
                (true, true) if is_held(instance) => continue,
                (false, true) if is_held(instance) => {
                    held.push(wait());
                    continue;
                }
                (true, true) => {
                    replace.push(RolloutStep::Replace(Arc::clone(instance)));
                    continue;
                }
                (false, false) => {
                    if denied_quota(instance).is_some() {
                        first_denied.get_or_insert(ordinal);
                    }
                    wait()
                }
                (false, true) => RolloutStep::Replace(Arc::clone(instance)),
            },
        };
        forward.insert(ordinal, step);
    }
    let denied = first_denied.map(|first| forward.split_off(&first));
    let denied = denied.unwrap_or_default();
    if !held.is_empty() || !denied.is_empty() {
        // One Instance is not ready already.
        replace.clear();
    }
    forward
        .into_values()
        .chain(replace.into_iter().rev())
        .chain(delete)
        .chain(denied.into_values())
        .chain(held)
        .collect()
}

/// Returns whether the Instance would be replaced for newer data if the cell had them all. An Instance of another
/// template is replaced at once.
pub(super) fn stays_for_data(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    instance: &Instance,
) -> bool {
    awaits_data(instances, instance)
        && !is_of_another_template(deployment, &instances.template_hash, instance)
}

/// Returns the deletions of surplus Instances, by descending ordinal.
fn deletions(mut surplus: Surplus<'_>) -> Vec<RolloutStep> {
    surplus.sort_by(|(one, a), (other, b)| {
        other.cmp(one).then_with(|| a.name_any().cmp(&b.name_any()))
    });
    let steps = surplus
        .into_iter()
        .map(|(_, instance)| match is_terminating(instance.as_ref()) {
            true => RolloutStep::Wait(instance.name_any()),
            false => RolloutStep::Delete(Arc::clone(instance)),
        });
    steps.collect()
}

/// Surplus Instances and their ordinals.
type Surplus<'a> = Vec<(i32, &'a Arc<Instance>)>;

/// Returns the objects that have the names of wanted ordinals, and the surplus Instances with their ordinals.
fn slots<'a>(
    deployment: &WorkloadDeployment,
    instances: &'a Instances,
) -> (BTreeMap<i32, Slot<'a>>, Surplus<'a>) {
    let (mut slots, mut surplus) = (BTreeMap::new(), Surplus::new());
    let named = |name: &String| wanted_ordinal(deployment, name);
    for instance in &instances.own {
        match instance.metadata.name.as_ref().and_then(named) {
            Some(ordinal) => {
                slots.insert(ordinal, Slot::Own(instance));
            }
            // Surplus Instances without an ordinal are deleted first.
            None => {
                let ordinal = ordinal(deployment, instance).unwrap_or(i32::MAX);
                surplus.push((ordinal, instance));
            }
        }
    }
    let foreign = instances.foreign.iter().map(|it| &it.name);
    for ordinal in foreign.filter_map(named) {
        slots.entry(ordinal).or_insert(Slot::Former);
    }
    for ordinal in instances.undecodable_names.iter().filter_map(named) {
        slots.insert(ordinal, Slot::Undecodable);
    }
    (slots, surplus)
}
