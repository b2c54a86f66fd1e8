//! Computes the status of a Workload from the statuses of its WorkloadDeployments (docs/concepts/status.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::condition::{self, Condition, ConditionStatus, MESSAGE_MAX};
pub(super) use api::reasons::workload as reason;
use api::reasons::workload_deployment::HUB_REFUSED;
use api::workload::{AVAILABLE, KINDS_LISTED, WorkloadPlacementStatus};
use api::{Workload, WorkloadDeployment, WorkloadStatus, workload_deployment};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::needs::{Gap, NETWORK_NOT_FOUND, Needs, Obstacle, describe};
use super::observed::Observed;
use super::shortage::shortage;
use crate::objects::{StringMap, describe_undecodable};

/// The input from which the status of a Workload is rendered.
pub(in crate::workload) struct StatusReport<'a> {
    pub(super) observed: Observed<'a>,
    pub(super) needs: Needs<'a>,
    pub(super) gaps: Vec<Gap<'a>>,
    /// Whether the WorkloadDeployments match the current generation of the Workload and have observed it.
    pub(super) in_step: bool,
}

impl StatusReport<'_> {
    /// Returns the status if it differs from the current one. `refusals` contains, by placement, the messages of the
    /// API server about refused writes.
    pub(in crate::workload) fn changed_status(
        &self,
        refusals: &StringMap,
    ) -> Option<WorkloadStatus> {
        let status = status(
            &self.observed,
            &self.needs,
            &self.gaps,
            self.in_step,
            refusals,
        );
        (own_status(self.observed.workload).as_ref() != Some(&status)).then_some(status)
    }
}

/// Returns the status of a Workload without its gateway. Another controller writes the gateway.
pub(in crate::workload) fn own_status(workload: &Workload) -> Option<WorkloadStatus> {
    workload.status.clone().map(|status| WorkloadStatus {
        gateway: None,
        ..status
    })
}

/// Returns the status of a Workload whose WorkloadDeployments are unknown, if it differs from the current one. Only the
/// condition about the kinds that cannot be listed changes.
pub(in crate::workload) fn unlisted_status(
    workload: &Workload,
    unlisted: Option<&str>,
    now: Timestamp,
) -> Option<WorkloadStatus> {
    let former = own_status(workload).unwrap_or_default();
    let mut status = former.clone();
    set_listed(&mut status.conditions, unlisted, now);
    (former != status).then_some(status)
}

/// Sets the condition about the kinds that cannot be listed. Without such a kind, there is no condition.
fn set_listed(conditions: &mut Vec<Condition>, unlisted: Option<&str>, now: Timestamp) {
    match unlisted {
        Some(problem) => {
            let message: String = problem.chars().take(MESSAGE_MAX).collect();
            let (status, reason) = (ConditionStatus::False, reason::KIND_NOT_LISTED);
            let listed = Condition::new(KINDS_LISTED, status, reason, message, now);
            condition::set(conditions, listed);
        }
        None => condition::remove(conditions, KINDS_LISTED),
    }
}

/// Returns the status of the Workload, with sums over all WorkloadDeployments. It has one entry per placement. First
/// come the placements of the spec, in their order. Then come the placements that are being deleted. `in_step` is
/// explained at [`StatusReport`]. The status has no gateway, because another controller writes it.
fn status(
    observed: &Observed<'_>,
    needs: &Needs<'_>,
    gaps: &[Gap<'_>],
    in_step: bool,
    refusals: &StringMap,
) -> WorkloadStatus {
    let Observed {
        workload,
        own,
        undecodable,
        now,
        ..
    } = *observed;
    let former = workload.status.clone().unwrap_or_default();
    let mut gaps_of: BTreeMap<&str, Vec<&Gap<'_>>> = BTreeMap::new();
    for gap in gaps {
        gaps_of.entry(gap.placement).or_default().push(gap);
    }
    let prerequisite = needs.prerequisite();
    let placements = by_placement(workload, own, needs);
    let shortages = placements.iter();
    let shortages: Vec<_> = shortages
        .filter_map(|(name, deployments)| Some((*name, shortage(deployments, None)?)))
        .collect();
    let formers = former.placements.iter();
    let formers: BTreeMap<_, _> = formers.map(|it| (it.name.as_str(), it)).collect();

    let generation = |former: &[Condition]| match in_step {
        true => workload.metadata.generation,
        false => condition::find(former, AVAILABLE).and_then(|former| former.observed_generation),
    };
    let placements: Vec<_> = placements
        .into_iter()
        .map(|(name, deployments)| {
            let former = formers.get(name);
            let mut conditions = former
                .map(|former| former.conditions.clone())
                .unwrap_or_default();
            let gaps = gaps_of.get(name).map(Vec::as_slice).unwrap_or_default();
            let gaps = describe(gaps, prerequisite.as_deref());
            let problems = [refusals.get(name).cloned(), gaps];
            let available =
                placement_available(&deployments, problems, now).observed(generation(&conditions));
            condition::set(&mut conditions, available);
            placement_status(name, &deployments, conditions)
        })
        .collect();

    let mut conditions = former.conditions;
    set_listed(&mut conditions, observed.unlisted, now);
    if let Some(excess) = needs.excess() {
        let (status, reason) = (ConditionStatus::False, reason::WORKLOAD_TOO_LARGE);
        let available = available(status, reason, [Some(excess.to_owned())], now)
            .observed(workload.metadata.generation);
        condition::set(&mut conditions, available);
    } else if !needs.was_missing() {
        // While the Networks are unknown, the former condition about Networks is kept.
        let generation = generation(&conditions);
        let available = match needs.missing_networks() {
            Some(missing) => {
                let (status, reason) = (ConditionStatus::False, NETWORK_NOT_FOUND);
                available(status, reason, [Some(missing)], now)
                    .observed(workload.metadata.generation)
            }
            None => {
                let unplaced = unplaced(undecodable, gaps);
                workload_available(&placements, &shortages, unplaced, now).observed(generation)
            }
        };
        condition::set(&mut conditions, available);
    }
    let sum = |counter: fn(&WorkloadPlacementStatus) -> i32| {
        placements.iter().fold(0_i32, |sum, placement| {
            sum.saturating_add(counter(placement))
        })
    };
    WorkloadStatus {
        conditions,
        current_replicas: sum(|placement| placement.current_replicas),
        deployments: i32::try_from(own.len() + undecodable.len()).unwrap_or(i32::MAX),
        desired_replicas: sum(|placement| placement.desired_replicas),
        gateway: None,
        ready_replicas: sum(|placement| placement.ready_replicas),
        replicas: sum(|placement| placement.replicas),
        placements,
    }
}

/// A placement's name, and its WorkloadDeployments.
type Placed<'a> = (&'a str, Vec<&'a WorkloadDeployment>);

/// Returns the placements in the order of the status.
fn by_placement<'a>(
    workload: &'a Workload,
    own: &'a [Arc<WorkloadDeployment>],
    needs: &Needs<'_>,
) -> Vec<Placed<'a>> {
    let mut by_placement: BTreeMap<&str, Vec<&WorkloadDeployment>> = BTreeMap::new();
    for deployment in own {
        by_placement
            .entry(&deployment.spec.placement_name)
            .or_default()
            .push(deployment);
    }
    let mut placements = Vec::new();
    // The status of a Workload with too many placements might be too large for the API server.
    let in_spec = match needs.excess() {
        Some(_) => &[],
        None => workload.spec.placements.as_slice(),
    };
    let mut known = BTreeSet::new();
    for placement in in_spec {
        let name = placement.name.as_str();
        if known.insert(name) {
            placements.push((name, by_placement.remove(name).unwrap_or_default()));
        }
    }
    placements.extend(by_placement);
    placements
}

/// Returns a sentence about the first WorkloadDeployment that cannot be decoded and that no placement names.
fn unplaced(undecodable: &[Arc<InvalidObject>], gaps: &[Gap<'_>]) -> Option<String> {
    let of_gaps = gaps.iter().filter_map(|gap| match &gap.obstacle {
        Obstacle::Undecodable(sentence) => Some(sentence.as_str()),
        Obstacle::NotOffered | Obstacle::Waits => None,
    });
    let of_gaps: BTreeSet<_> = of_gaps.collect();
    let mut sentences = undecodable
        .iter()
        .map(|invalid| describe_undecodable::<WorkloadDeployment>(invalid));
    sentences.find(|sentence| !of_gaps.contains(sentence.as_str()))
}

fn placement_status(
    name: &str,
    deployments: &[&WorkloadDeployment],
    conditions: Vec<Condition>,
) -> WorkloadPlacementStatus {
    let sum = |counter: fn(&api::WorkloadDeploymentStatus) -> i32| {
        let counters = deployments
            .iter()
            .filter_map(|deployment| deployment.status.as_ref())
            .map(counter);
        counters.fold(0_i32, i32::saturating_add)
    };
    WorkloadPlacementStatus {
        conditions,
        current_replicas: sum(|status| status.current_replicas),
        desired_replicas: sum(|status| status.desired_replicas),
        name: name.to_owned(),
        ready_replicas: sum(|status| status.ready_replicas),
        replicas: sum(|status| status.replicas),
    }
}

/// Returns the condition of a placement. It is True if a WorkloadDeployment is available. Otherwise it is Unknown if
/// one is Unknown, with the reason of that one. Otherwise it is False. `problems` contains a refusal, and the cities
/// without a WorkloadDeployment. A WorkloadDeployment without quota for all its Instances is named in any case.
fn placement_available(
    deployments: &[&WorkloadDeployment],
    problems: [Option<String>; 2],
    now: Timestamp,
) -> Condition {
    let first = |status| {
        let mut matching = deployments.iter().filter_map(|deployment| {
            let available = condition_of(deployment)?;
            (available.status == status).then_some((deployment, available))
        });
        matching.next()
    };
    let [refusal, gaps] = problems;
    let refusal = refusal.or_else(|| deployments.iter().find_map(|it| refused_by_hub(it)));
    if let Some((deployment, _)) = first(ConditionStatus::True) {
        let message = Some(format!("{} is available", deployment.name_any()));
        let (status, reason) = (ConditionStatus::True, reason::DEPLOYMENT_FOUND);
        let lacking = shortage(deployments, None);
        return available(status, reason, [message, refusal, lacking, gaps], now);
    }
    if let Some((deployment, cause)) = first(ConditionStatus::Unknown) {
        let message = Some(unavailability(deployment));
        let (status, reason) = (ConditionStatus::Unknown, &cause.reason);
        let lacking = shortage(deployments, Some(&deployment.name_any()));
        return available(status, reason, [message, refusal, lacking, gaps], now);
    }
    let told = deployments.first().filter(|_| refusal.is_none());
    let lacking = shortage(deployments, told.map(|it| it.name_any()).as_deref());
    let cause = match deployments.first() {
        Some(deployment) => refusal.or_else(|| Some(unavailability(deployment))),
        None if refusal.is_none() && gaps.is_none() => Some("no deployment exists".to_owned()),
        None => refusal,
    };
    let (status, reason) = (ConditionStatus::False, reason::NO_DEPLOYMENTS);
    available(status, reason, [cause, lacking, gaps], now)
}

/// Returns why the hub refuses the current spec of an available WorkloadDeployment, if it does. If the deployment is
/// not available, the message of its own condition says why.
fn refused_by_hub(deployment: &WorkloadDeployment) -> Option<String> {
    let status = deployment.status.as_ref()?;
    let reporting = condition::find(&status.conditions, workload_deployment::CELLS_REPORTING)?;
    let is_told = condition_of(deployment).is_some_and(|it| it.reason == HUB_REFUSED);
    (reporting.reason == HUB_REFUSED && !is_told)
        .then(|| format!("{}: {}", deployment.name_any(), reporting.message))
}

fn condition_of(deployment: &WorkloadDeployment) -> Option<&Condition> {
    let status = deployment.status.as_ref()?;
    condition::find(&status.conditions, workload_deployment::AVAILABLE)
}

/// Returns why a WorkloadDeployment is not available. The text comes from its own condition.
fn unavailability(deployment: &WorkloadDeployment) -> String {
    let name = deployment.name_any();
    match condition_of(deployment) {
        Some(Condition {
            reason, message, ..
        }) if message.is_empty() => format!("{name}: {reason}"),
        Some(Condition {
            reason, message, ..
        }) => format!("{name}: {reason}: {message}"),
        None => format!("{name}: no status yet"),
    }
}

/// Returns the condition of the Workload. It is True if a placement is available. Otherwise it is Unknown if one is
/// Unknown, with the reason of that one. Otherwise it is False, with the message of the first placement. `shortages`
/// contains the names of placements without quota for all their Instances, and a sentence about each: the first one is
/// shown. `unplaced` is a problem that belongs to no placement.
fn workload_available(
    placements: &[WorkloadPlacementStatus],
    shortages: &[(&str, String)],
    unplaced: Option<String>,
    now: Timestamp,
) -> Condition {
    let mut reported = placements.iter().filter_map(|placement| {
        let available = condition::find(&placement.conditions, AVAILABLE)?;
        Some((placement.name.as_str(), available))
    });
    let first = |status| {
        let mut reported = reported.clone();
        reported.find(|(_, available)| available.status == status)
    };
    // The message of a placement contains its shortage.
    let lacking = |told: Option<&str>| {
        let mut shortages = shortages.iter();
        let first = shortages.find(|(placement, _)| told != Some(*placement))?;
        Some(format!("placement {}: {}", first.0, first.1))
    };
    if let Some((placement, _)) = first(ConditionStatus::True) {
        let message = Some(format!("placement {placement} is available"));
        return available(
            ConditionStatus::True,
            reason::PLACEMENT_FOUND,
            [message, lacking(None), unplaced],
            now,
        );
    }
    let unknown = first(ConditionStatus::Unknown);
    let (status, reason) = match unknown {
        Some((_, cause)) => (ConditionStatus::Unknown, cause.reason.as_str()),
        None => (ConditionStatus::False, reason::NO_PLACEMENTS),
    };
    let cause = unknown.or_else(|| reported.next());
    let message =
        cause.map(|(placement, cause)| format!("placement {placement}: {}", cause.message));
    let lacking = lacking(cause.map(|(placement, _)| placement));
    available(status, reason, [message, lacking, unplaced], now)
}

/// Returns the condition with these messages joined. The message is cut to the maximum length of a condition's message.
fn available(
    status: ConditionStatus,
    reason: &str,
    messages: impl IntoIterator<Item = Option<String>>,
    now: Timestamp,
) -> Condition {
    let messages: Vec<_> = messages.into_iter().flatten().collect();
    let message: String = messages.join("; ").chars().take(MESSAGE_MAX).collect();
    Condition::new(AVAILABLE, status, reason, message, now)
}
