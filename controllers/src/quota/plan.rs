//! Decides what the quota of an Instance needs next (docs/concepts/flow.md#quota).
//!
//! A plan has one step. After the step, the plan is made again from what the API servers have stored. A gate is
//! therefore never opened for a condition that was not stored.

mod decision;
pub(super) mod ending;
pub(super) mod intervals;
mod observed;

use std::time::Duration;

use api::condition::{Condition, ConditionStatus};
use api::instance::QUOTA_GRANTED;
use api::quota::{ResourceClaim, ResourceRequest};
use api::reasons::quota_granted as reason;
use api::{Instance, finalizers};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::amounts;
use super::claim::is_of;
use crate::gate::{self, GateStep};
use crate::objects::{has_finalizer, is_terminating};
use decision::{ClaimDecision, decision};
use intervals::{POLL, REFUSED, RETRY, WATCHED, interval};
pub(super) use observed::{Ledger, LedgerProblem, Observed, Remedy, Try};

/// How long a claim is undecided before the Instance shows it. A quick grant then costs no write. Creation times have
/// whole seconds, so this is at least one second.
const SHOWN: SignedDuration = SignedDuration::from_secs(2);
/// How long a claim is undecided before the Instance says that there may be no quota at all.
const NO_BUDGET: SignedDuration = SignedDuration::from_mins(1);
/// The longest wait of a denied claim when the project is seen to have the amounts left. The quota system may deny the
/// claim nevertheless.
const ROOM: Duration = Duration::from_secs(2);
/// Divisor of the interval after which a claim is made anew that was denied although the project was seen to have the
/// amounts left.
const ROOM_PART: u32 = 8;
/// The longest wait before a claim is written again that another writer has changed.
const DISPUTED: Duration = Duration::from_secs(15);
/// How long something that is about to change is waited for.
const SOON: Duration = Duration::from_secs(1);

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QuotaStep {
    /// Add the finalizer to the Instance. No claim exists without it.
    AddFinalizer,
    CreateClaim,
    /// Write to the claim that it is for this Instance of this cell.
    AdoptClaim,
    DeleteClaim,
    /// Write these conditions of the Instance.
    WriteConditions(Vec<Condition>),
    /// Remove the gate.
    OpenGate,
    /// Remove the finalizer from the Instance.
    Release(ClaimProof),
}

/// The proof that an Instance may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimProof {
    /// There is no claim.
    NoClaim,
    /// The project does not exist. It can be restored, with the claim.
    ProjectGone,
    /// The claim may still exist. It is deleted later.
    None,
}

/// The next step, and when to look again if there is none and nothing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Option<QuotaStep>,
    pub(super) look_again: Option<Duration>,
}

impl Plan {
    fn step(step: QuotaStep) -> Self {
        Self {
            step: Some(step),
            look_again: None,
        }
    }

    fn after(wait: Duration) -> Self {
        Self {
            step: None,
            look_again: Some(wait),
        }
    }

    fn or_after(step: Option<QuotaStep>, wait: Duration) -> Self {
        Self {
            step,
            look_again: Some(wait),
        }
    }
}

/// Returns whether the gate is still closed.
pub(super) fn is_gated(instance: &Instance) -> bool {
    gate::QUOTA.is_closed(instance)
}

/// Returns whether quota matters for an Instance. It does not for an Instance that was made without it.
pub(super) fn is_managed(instance: &Instance) -> bool {
    is_gated(instance) || has_finalizer(instance, finalizers::QUOTA_CLAIM)
}

/// Returns whether an Instance holds no quota because it is suspended, and its gate is closed. With an open gate, it
/// keeps its claim.
pub(super) fn is_put_off(instance: &Instance) -> bool {
    instance.is_suspended() && is_gated(instance)
}

/// Returns whether an Instance has its quota and its gate is open. Then only its claim can change something.
pub(super) fn is_settled(instance: &Instance) -> bool {
    !is_gated(instance) && stored(instance).is_some_and(Condition::is_true)
}

/// Returns whether the quota system has granted this claim.
pub(super) fn is_granted(claim: &ResourceClaim) -> bool {
    !is_terminating(claim) && decision(claim) == ClaimDecision::Granted
}

/// Returns whether the quota system has not decided about this claim.
pub(super) fn is_pending(claim: &ResourceClaim) -> bool {
    decision(claim) == ClaimDecision::Pending
}

/// Returns whether the quota system has denied this claim.
pub(super) fn is_denied_claim(claim: &ResourceClaim) -> bool {
    matches!(decision(claim), ClaimDecision::Denied(_))
}

/// Returns whether a claim is denied, and holds quota nevertheless.
pub(super) fn holds_denied_part(ledger: &Ledger) -> bool {
    matches!(ledger, Ledger::Known(Some(claim))
        if is_denied_claim(claim) && decision::holds_something(claim) && !is_terminating(claim.as_ref()))
}

/// Returns whether a claim is for this Instance, and for these amounts.
pub(super) fn fits(
    claim: &ResourceClaim,
    instance: &Instance,
    requests: &[ResourceRequest],
) -> bool {
    amounts::are_equal(&claim.spec.requests, requests) && is_of(claim.meta(), instance.meta())
}

/// Returns whether there is a claim that does not say that it is for this Instance.
pub(super) fn is_of_another(ledger: &Ledger, instance: &ObjectMeta) -> bool {
    matches!(ledger, Ledger::Known(Some(claim)) if !is_of(claim.meta(), instance))
}

/// Plans for an Instance that is not terminating.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let instance = observed.instance;
    if !is_managed(instance) {
        return Plan::default();
    }
    if is_put_off(instance) {
        return put_off(observed);
    }
    match observed.ledger {
        Ledger::Disabled if is_gated(instance) => granted(
            observed,
            reason::QUOTA_DISABLED,
            "the cell does not enforce quota",
        ),
        Ledger::Disabled => Plan::default(),
        // A machine that runs keeps its quota while nothing can be learned about it. Its claim may be missing.
        Ledger::Unidentified(_) if is_settled(instance) => Plan::default(),
        Ledger::Failed(problem) if is_settled(instance) => {
            Plan::after(until_repeat(problem, age(instance.meta(), observed.now)))
        }
        // The watch of Namespaces can be behind that of Instances.
        Ledger::Unidentified(_) if age(instance.meta(), observed.now) < SHOWN => Plan::after(SOON),
        Ledger::Unidentified(problem) => Plan {
            step: of_problem(observed, reason::PROJECT_ID_UNRESOLVABLE, problem),
            // The event of the Namespace triggers the next reconciliation.
            look_again: None,
        },
        Ledger::Failed(problem) => failed(observed, problem),
        Ledger::Known(_) if !has_finalizer(instance, finalizers::QUOTA_CLAIM) => {
            Plan::step(QuotaStep::AddFinalizer)
        }
        Ledger::Known(None) => match until_retry(observed) {
            Some(wait) => Plan::after(wait),
            None => Plan::step(QuotaStep::CreateClaim),
        },
        Ledger::Known(Some(claim)) => of_claim(observed, claim),
    }
}

/// Plans for an Instance that needs no quota now. A claim can be left from before the suspension.
fn put_off(observed: &Observed<'_>) -> Plan {
    match observed.ledger {
        Ledger::Known(Some(claim)) if is_terminating(claim.as_ref()) => {
            Plan::after(until_gone(observed, claim))
        }
        Ledger::Known(Some(_)) => Plan::step(QuotaStep::DeleteClaim),
        Ledger::Failed(problem) => {
            let age = age(observed.instance.meta(), observed.now);
            Plan::after(until_repeat(problem, age))
        }
        Ledger::Known(None) | Ledger::Disabled | Ledger::Unidentified(_) => Plan::default(),
    }
}

/// Plans for an Instance with a claim.
fn of_claim(observed: &Observed<'_>, claim: &ResourceClaim) -> Plan {
    if is_terminating(claim) {
        return ending_claim(observed, claim);
    }
    // A machine that runs keeps a claim of another size, or of a former Instance. Without the claim, it could lose its
    // quota.
    let is_gated = is_gated(observed.instance);
    if is_gated && !amounts::are_equal(&claim.spec.requests, observed.requests) {
        return Plan::step(QuotaStep::DeleteClaim);
    }
    // The next Instance of a name takes over the claim of the former one. A denied claim is of no use.
    let is_adopted = is_gated && !is_of(claim.meta(), observed.instance.meta());
    if is_adopted && is_denied_claim(claim) {
        return Plan::step(QuotaStep::DeleteClaim);
    }
    if is_adopted || observed.is_renamed {
        return Plan::step(QuotaStep::AdoptClaim);
    }
    let message = decision::message(claim);
    match decision(claim) {
        ClaimDecision::Granted => granted(observed, reason::QUOTA_AVAILABLE, &message),
        ClaimDecision::Pending => pending(observed, claim),
        ClaimDecision::Denied(reason) => {
            let denied = of_problem(observed, reason, &message);
            if denied.is_some() {
                return Plan {
                    step: denied,
                    look_again: None,
                };
            }
            // A part that is granted would be missing elsewhere.
            if decision::holds_something(claim) {
                return Plan::step(QuotaStep::DeleteClaim);
            }
            match until_retry(observed) {
                Some(wait) => Plan::after(wait),
                None => Plan::step(QuotaStep::DeleteClaim),
            }
        }
    }
}

/// Plans for an Instance whose claim is being deleted. It can have finalizers of other programs.
fn ending_claim(observed: &Observed<'_>, claim: &ResourceClaim) -> Plan {
    let instance = observed.instance;
    let is_kept = is_denied(instance) || is_settled(instance);
    let step = match ending_for(observed, claim) < SHOWN || is_kept {
        true => None,
        false => {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let message =
                format!("ResourceClaim {name} is being deleted; a new one is made when it is gone");
            let reason = reason::PENDING_EVALUATION;
            write(observed, ConditionStatus::Unknown, reason, &message)
        }
    };
    Plan::or_after(step, until_gone(observed, claim))
}

/// Returns the time until a claim is read again that is being deleted.
fn until_gone(observed: &Observed<'_>, claim: &ResourceClaim) -> Duration {
    let passed = ending_for(observed, claim);
    match observed.is_watched && passed >= SHOWN {
        true => interval(WATCHED, passed),
        false => interval(POLL, passed),
    }
}

/// Returns for how long a claim is being deleted.
fn ending_for(observed: &Observed<'_>, claim: &ResourceClaim) -> SignedDuration {
    let deleted = claim.metadata.deletion_timestamp.as_ref();
    deleted.map_or(SignedDuration::ZERO, |it| observed.now.duration_since(it.0))
}

/// Plans for an Instance that has its quota.
fn granted(observed: &Observed<'_>, reason: &str, message: &str) -> Plan {
    Plan {
        step: write(observed, ConditionStatus::True, reason, message),
        look_again: None,
    }
}

/// Plans for an Instance whose claim is not decided. The condition of a denied Instance stays: a denied claim was made
/// anew. That of an Instance that runs with its quota stays too: a missing claim was made again.
fn pending(observed: &Observed<'_>, claim: &ResourceClaim) -> Plan {
    let age = age(claim.meta(), observed.now);
    let instance = observed.instance;
    let is_kept = is_denied(instance) || is_settled(instance);
    let step = match age < SHOWN || is_kept {
        true => None,
        false => {
            let (reason, message) = match age < NO_BUDGET {
                true => (reason::PENDING_EVALUATION, waiting(observed, "")),
                false => (reason::NO_BUDGET, waiting(observed, NO_BUDGET_ADVICE)),
            };
            write(observed, ConditionStatus::Unknown, reason, &message)
        }
    };
    let wait = match observed.is_watched {
        // Time alone makes the first condition due.
        true if age < SHOWN => SOON,
        true => interval(WATCHED, age),
        false => interval(POLL, age),
    };
    Plan::or_after(step, wait)
}

const NO_BUDGET_ADVICE: &str = "; the project may have no quota of them";

/// Returns the sentence about a claim that is not decided.
fn waiting(observed: &Observed<'_>, more: &str) -> String {
    let types = observed.requests.iter();
    let types: Vec<_> = types
        .map(|request| request.resource_type.as_str())
        .collect();
    format!(
        "the quota system has not decided about {}{more}",
        types.join(", ")
    )
}

/// Plans for an Instance whose claim cannot be read or written. An Instance keeps the last decision of the quota system
/// while the quota system does not answer.
fn failed(observed: &Observed<'_>, problem: &LedgerProblem) -> Plan {
    let instance = observed.instance;
    // A granted claim behind a closed gate can be gone by now.
    let is_open = !is_gated(instance);
    let is_decided = stored(instance).is_some_and(|it| it.is_true() && is_open || is_denial(it));
    let age = age(instance.meta(), observed.now);
    let is_silent = match problem.remedy {
        Remedy::Wait(_) => is_decided || age < SHOWN,
        Remedy::Repeat => is_decided || age < NO_BUDGET,
        Remedy::Correct | Remedy::Resume | Remedy::ProjectGone => false,
    };
    let step = match is_silent {
        true => None,
        false => of_problem(observed, problem.reason, &problem.message),
    };
    Plan::or_after(step, until_repeat(problem, age))
}

/// Returns the time until the project is asked again for an Instance of this age.
fn until_repeat(problem: &LedgerProblem, age: SignedDuration) -> Duration {
    match problem.remedy {
        Remedy::Wait(wait) => wait,
        Remedy::Repeat => interval(POLL, age).min(DISPUTED),
        Remedy::Correct | Remedy::Resume | Remedy::ProjectGone => interval(REFUSED, age),
    }
}

/// Returns the step that shows a problem.
fn of_problem(observed: &Observed<'_>, reason: &str, message: &str) -> Option<QuotaStep> {
    write(observed, ConditionStatus::False, reason, message)
}

/// Returns the step towards this condition, and to an open gate if the condition is True.
fn write(
    observed: &Observed<'_>,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) -> Option<QuotaStep> {
    let condition = Condition::new(QUOTA_GRANTED, status, reason, message, observed.now);
    let step = gate::QUOTA.step(observed.instance, condition)?;
    Some(match step {
        GateStep::Write(conditions) => QuotaStep::WriteConditions(conditions),
        GateStep::Open => QuotaStep::OpenGate,
    })
}

/// Returns the time until a denied claim is made anew. Returns `None` if it is time, and if the claim was not denied.
fn until_retry(observed: &Observed<'_>) -> Option<Duration> {
    let last = observed.last_try?;
    let since = match stored(observed.instance).filter(|stored| is_denial(stored)) {
        Some(denied) => denied.last_transition_time.0,
        None if last.is_denied => last.at,
        None => return None,
    };
    let interval = interval(RETRY, observed.now.duration_since(since));
    let next = match (observed.has_room, last.had_room) {
        (true, true) => interval / ROOM_PART,
        (true, false) => ROOM.min(interval / ROOM_PART),
        (false, _) => interval,
    };
    let next = SignedDuration::try_from(next).unwrap_or(SignedDuration::MAX);
    let passed = observed.now.duration_since(last.at);
    // The clock of the project can be ahead of that of the cell.
    let left = next.saturating_sub(passed.max(SignedDuration::ZERO));
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// Returns whether the last decision about the Instance is that there is no quota for it.
pub(super) fn is_denied(instance: &Instance) -> bool {
    stored(instance).is_some_and(is_denial)
}

/// Returns whether an Instance with an open gate has no quota any more. Its condition was True when the gate was opened,
/// and only a denial ends this. Later the condition can have another reason, for example that the project refuses a new
/// claim.
pub(super) fn has_lost_quota(instance: &Instance) -> bool {
    stored(instance).is_some_and(|stored| !stored.is_true())
}

/// Returns whether the quota system has denied a claim.
fn is_denial(condition: &Condition) -> bool {
    let reasons = [reason::QUOTA_EXCEEDED, reason::VALIDATION_FAILED];
    condition.is_false() && reasons.contains(&condition.reason.as_str())
}

/// Returns the stored condition.
fn stored(instance: &Instance) -> Option<&Condition> {
    gate::QUOTA.stored(instance)
}

/// Returns since when an Instance waits for quota. Returns `None` if it does not wait.
pub(super) fn waiting_since(instance: &Instance) -> Option<Timestamp> {
    let created = || instance.metadata.creation_timestamp.as_ref().map(|it| it.0);
    match stored(instance) {
        _ if is_put_off(instance) => None,
        Some(granted) if granted.is_true() && !is_gated(instance) => None,
        _ if is_gated(instance) => created(),
        Some(waiting) => Some(waiting.last_transition_time.0),
        None => None,
    }
}

fn age(metadata: &ObjectMeta, now: Timestamp) -> SignedDuration {
    let created = metadata.creation_timestamp.as_ref();
    created.map_or(SignedDuration::MAX, |created| now.duration_since(created.0))
}

#[cfg(test)]
mod tests;
