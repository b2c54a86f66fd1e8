//! The status of a WorkloadDeployment in its cell.

use std::sync::Arc;

use api::allowed::REPLICAS_MAX;
use api::annotations::CELL_RULES;
use api::condition::{self, Condition, ConditionStatus};
use api::instance::PROGRAMMED;
use api::reasons::{quota_granted, workload_deployment as reason};
use api::workload::ORDERED_READY;
use api::workload_deployment::{AUTOSCALING_READY, AVAILABLE, REPLICAS_READY, RULES_APPLIED};
use api::{Instance, WorkloadDeployment, WorkloadDeploymentStatus};
use jiff::Timestamp;
use kube::ResourceExt;

use super::observed::{ForeignInstance, Instances, is_drifted, ordinal};
use super::pruned::pruned;
use super::rollout::stays_for_data;
use crate::instance::blocker::{Blocker, SUSPENSION, blocker, denied_quota, undecided_quota};
use crate::instance::plan::is_ready;
use crate::names::{self, wanted_ordinal};
use crate::objects::is_terminating;
use crate::quota::Held;

/// Returns the status. `refusal` is the error of the API server that refused a step.
pub(super) fn status(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    refusal: Option<&str>,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let own: &[Arc<Instance>] = &instances.own;
    let hash = instances.template_hash.as_str();
    let count = |counts: &dyn Fn(&Instance) -> bool| {
        i32::try_from(own.iter().filter(|instance| counts(instance)).count()).unwrap_or(i32::MAX)
    };
    // After a refresh, the provider still reports the former hash until it has observed the Instance again. The
    // Instance runs the template, because a refresh changes only the hash. For another template, the Instance is
    // created again, and its status is empty until the provider reports.
    let is_current = |observed: &str, instance: &Instance| {
        observed == hash || !observed.is_empty() && !is_drifted(deployment, instances, instance)
    };
    // A terminating Instance keeps its conditions until it is gone.
    let is_staying = |instance: &Instance| !is_terminating(instance);
    let runs_template = |instance: &Instance| {
        let status = instance.status.as_ref().filter(|_| is_staying(instance));
        status.is_some_and(|status| {
            let observed = status.controller.as_ref();
            condition::is_true(&status.conditions, PROGRAMMED)
                && observed.is_some_and(|it| is_current(&it.observed_template_hash, instance))
        })
    };
    let has_template =
        |instance: &Instance| is_staying(instance) && !is_drifted(deployment, instances, instance);
    let former = deployment.status.clone().unwrap_or_default();
    // An Instance that cannot be decoded exists, but nothing else is known about it.
    let undecodable = i32::try_from(instances.undecodable.len()).unwrap_or(i32::MAX);
    let replicas = count(&|_| true).saturating_add(undecodable);
    let is_suspended = deployment.is_suspended();
    let ready = count(&|instance| !is_suspended && is_staying(instance) && is_ready(instance));
    let mut conditions = former.conditions;
    let problem = match refusal {
        Some(refusal) => Some(refusal.to_owned()),
        None => problem(deployment, instances),
    };
    // A terminating Instance needs no quota for the future.
    let without = |quota: fn(&Instance) -> Option<&Condition>| -> Vec<WithoutQuota<'_>> {
        own.iter()
            .filter(|instance| is_staying(instance))
            .filter_map(|instance| Some((instance.name_any(), quota(instance)?)))
            .collect()
    };
    let (denied, undecided) = (without(denied_quota), without(undecided_quota));
    let blocked = own
        .iter()
        .filter(|instance| is_staying(instance))
        .filter_map(|instance| Some((instance.name_any(), blocker(instance)?)));
    // Of equal causes, that of the first Instance counts.
    let blocked = blocked.reduce(|first, other| match other.1.rank > first.1.rank {
        true => other,
        false => first,
    });
    let available = available(deployment, ready, blocked, problem.as_deref(), now);
    if instances.autoscaling.is_none() {
        condition::remove(&mut conditions, AUTOSCALING_READY);
    }
    let rules_applied = rules_applied(deployment, now);
    if rules_applied.is_none() {
        condition::remove(&mut conditions, RULES_APPLIED);
    }
    let written = [
        available,
        replicas_ready(&denied, &undecided, first_held(deployment, instances), now),
    ]
    .into_iter();
    let optional = instances.autoscaling.clone().into_iter();
    for condition in written.chain(optional).chain(rules_applied) {
        condition::set(
            &mut conditions,
            condition.observed(deployment.metadata.generation),
        );
    }
    WorkloadDeploymentStatus {
        cells: Vec::new(),
        conditions,
        current_replicas: count(&runs_template),
        desired_replicas: deployment.spec.desired_replicas(),
        location: former.location,
        observed_generation: deployment.metadata.generation,
        ready_replicas: ready,
        replicas,
        reporting_cell: None,
        selector: deployment.instance_selector(),
        suspended: are_suspended(deployment, own).then_some(true),
        updated_replicas: Some(count(&has_template)),
    }
}

/// Returns whether all Instances that stay are marked as suspended. Without Instances, only the WorkloadDeployment knows.
fn are_suspended(deployment: &WorkloadDeployment, own: &[Arc<Instance>]) -> bool {
    let mut staying = own
        .iter()
        .filter(|it| !is_terminating(it.as_ref()))
        .peekable();
    match staying.peek() {
        None => deployment.is_suspended(),
        Some(_) => staying.all(|it| it.is_suspended()),
    }
}

/// Returns a sentence about the first Instance that is not as it should be, or that holds the rollout.
fn problem(deployment: &WorkloadDeployment, instances: &Instances) -> Option<String> {
    let mut own = instances.own.iter();
    let undecodable = instances.undecodable.first().cloned();
    undecodable
        .or_else(|| own.find_map(|it| pruned(deployment, &instances.template_hash, it)))
        .or_else(|| foreign_problem(deployment, instances))
        .or_else(|| data_problem(deployment, instances))
}

/// Returns a sentence about the first Instance of another owner that has the name of a wanted one.
fn foreign_problem(deployment: &WorkloadDeployment, instances: &Instances) -> Option<String> {
    let mut foreign = instances.foreign.iter();
    let ForeignInstance {
        name,
        has_owner,
        is_terminating,
    } = foreign.find(|it| wanted_ordinal(deployment, &it.name).is_some())?;
    let owner = match has_owner {
        true => "of another owner",
        false => "without an owner",
    };
    let remedy = match is_terminating {
        true => "which is being deleted",
        false => "which must be deleted first",
    };
    Some(format!(
        "the name {name} is in use by an Instance {owner}, {remedy}"
    ))
}

/// Returns a sentence about the first Instance that stays although its data have changed.
fn data_problem(deployment: &WorkloadDeployment, instances: &Instances) -> Option<String> {
    if deployment.is_suspended() {
        return None;
    }
    let mut own = instances.own.iter();
    let stays = |it: &&Arc<Instance>| {
        let name = it.metadata.name.as_deref().unwrap_or_default();
        wanted_ordinal(deployment, name).is_some()
            && !is_terminating(it.as_ref())
            && stays_for_data(deployment, instances, it)
    };
    let name = own.find(stays)?.name_any();
    Some(format!(
        "Instance {name} stays until the cell has the newer data of its template"
    ))
}

/// An Instance without quota: its name, and its condition `QuotaGranted`.
type WithoutQuota<'i> = (String, &'i Condition);

/// Returns a sentence about Instances without quota. It has the message of this one.
fn describe_quota(instances: &[WithoutQuota<'_>], shown: &WithoutQuota<'_>) -> String {
    let (name, granted) = shown;
    let (count, message) = (instances.len(), &granted.message);
    format!("{count} instances have no quota; Instance {name} has no quota: {message}")
}

/// Returns the reason of `ReplicasReady` while the quota of this Instance is not granted.
fn quota_reason(granted: &Condition) -> &'static str {
    match granted.reason.as_str() {
        quota_granted::BACKEND_UNAVAILABLE => quota_granted::BACKEND_UNAVAILABLE,
        quota_granted::MISCONFIGURED
        | quota_granted::NAMESPACE_NOT_FOUND
        | quota_granted::PROJECT_ID_UNRESOLVABLE
        | quota_granted::PROJECT_NOT_FOUND => quota_granted::MISCONFIGURED,
        _ => reason::QUOTA_EXCEEDED,
    }
}

/// Returns the reason and the message about Instances whose quota is not granted. A decision of the quota system says
/// more than the lack of an answer. Of equal reasons, that of the first Instance counts.
fn quota_problem(denied: &[WithoutQuota<'_>]) -> Option<(&'static str, String)> {
    let says_more = |(_, granted): &&WithoutQuota<'_>| match quota_reason(granted) {
        reason::QUOTA_EXCEEDED => 2,
        quota_granted::BACKEND_UNAVAILABLE => 1,
        _ => 0,
    };
    let shown = denied.iter().rev().max_by_key(says_more)?;
    Some((quota_reason(shown.1), describe_quota(denied, shown)))
}

fn available(
    deployment: &WorkloadDeployment,
    ready: i32,
    blocked: Option<(String, Blocker<'_>)>,
    problem: Option<&str>,
    now: Timestamp,
) -> Condition {
    let policy = &deployment.spec.scale_settings.instance_management_policy;
    let desired = deployment.spec.desired_replicas();
    let (status, reason, message) = if deployment.is_suspended() {
        let message = SUSPENSION.to_owned();
        (ConditionStatus::False, reason::SUSPENDED, message)
    } else if policy != ORDERED_READY {
        let message =
            format!("instanceManagementPolicy {policy:?} is not supported, {ORDERED_READY} is");
        (ConditionStatus::False, reason::UNSUPPORTED_POLICY, message)
    } else if desired > REPLICAS_MAX {
        let message = format!("{desired} instances are desired; the maximum is {REPLICAS_MAX}");
        (ConditionStatus::False, reason::TOO_MANY_REPLICAS, message)
    } else if desired == 0 {
        (
            ConditionStatus::True,
            reason::NO_INSTANCES_DESIRED,
            "no instances are desired".to_owned(),
        )
    } else if ready > 0 {
        (
            ConditionStatus::True,
            reason::STABLE_INSTANCE_FOUND,
            "an instance is ready".to_owned(),
        )
    } else {
        let message = format!("no instance of {desired} is ready");
        match blocked {
            Some((name, cause)) => {
                let Blocker {
                    reason,
                    message: why,
                    lacks,
                    ..
                } = cause;
                (
                    ConditionStatus::False,
                    reason,
                    format!("{message}; Instance {name} {lacks}: {why}"),
                )
            }
            None => (
                ConditionStatus::False,
                reason::PROVISIONING_INSTANCES,
                message,
            ),
        }
    };
    let message = match problem {
        Some(problem) => format!("{message}; {problem}"),
        None => message,
    };
    Condition::new(AVAILABLE, status, reason, message, now)
}

/// Returns the condition of the rules of the cell. Returns `None` if there are none.
fn rules_applied(deployment: &WorkloadDeployment, now: Timestamp) -> Option<Condition> {
    let (status, reason, message) = match deployment.cell_rules()? {
        Ok(_) => {
            let rules = deployment.annotations().get(CELL_RULES)?;
            let message = format!(
                "the Instances are made with rules {}",
                names::hash(&[rules])
            );
            (ConditionStatus::True, reason::RULES_IN_TEMPLATE, message)
        }
        Err(problem) => {
            let message = format!("the rules cannot be read: annotation {CELL_RULES}: {problem}");
            (ConditionStatus::False, reason::INVALID_RULES, message)
        }
    };
    Some(Condition::new(RULES_APPLIED, status, reason, message, now))
}

/// Returns why the Instance stays that is replaced first.
fn first_held<'i>(deployment: &WorkloadDeployment, instances: &'i Instances) -> Option<&'i Held> {
    let held = instances.own.iter().filter_map(|instance| {
        let uid = instance.metadata.uid.as_deref()?;
        Some((ordinal(deployment, instance)?, instances.held.get(uid)?))
    });
    let first = held.max_by_key(|(ordinal, _)| *ordinal);
    first.map(|(_, held)| held)
}

fn replicas_ready(
    denied: &[WithoutQuota<'_>],
    undecided: &[WithoutQuota<'_>],
    held: Option<&Held>,
    now: Timestamp,
) -> Condition {
    let denied = quota_problem(denied);
    let undecided = || {
        let shown = undecided.first()?;
        Some((quota_granted::NO_BUDGET, describe_quota(undecided, shown)))
    };
    let held = || held.map(|held| (held.reason, held.message.clone()));
    let (status, reason, message) = match denied.or_else(undecided).or_else(held) {
        Some((reason, message)) => (ConditionStatus::False, reason, message),
        None => (
            ConditionStatus::True,
            reason::REPLICAS_AVAILABLE,
            "no instance waits for quota".to_owned(),
        ),
    };
    Condition::new(REPLICAS_READY, status, reason, message, now)
}
