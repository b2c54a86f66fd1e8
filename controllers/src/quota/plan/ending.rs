//! Decides when an Instance may end.

use std::time::Duration;

use api::finalizers;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{ClaimProof, Ledger, Plan, QuotaStep, Remedy};
use crate::objects::{has_finalizer, is_terminating};

/// How long a terminating Instance without a machine waits for the proof that its claim is gone. The claim is deleted
/// later.
const HOLD_MAX: SignedDuration = SignedDuration::from_mins(2);
/// The longest wait of a terminating Instance before the quota system is asked again.
const ASKED_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Returns whether the claim of a terminating Instance may end. Unknown finalizers come first: while a machine may run,
/// nobody else may get its quota. That of the hub's copy says nothing about the machine, and the hub can be down.
pub(in crate::quota) fn is_due(instance: &impl ResourceExt) -> bool {
    let own = [finalizers::QUOTA_CLAIM, finalizers::INSTANCE_CONTROLLER];
    let mut finalizers = instance.finalizers().iter();
    finalizers.all(|it| own.contains(&it.as_str()))
}

/// Plans for a terminating Instance. Its metadata are sufficient. `due_since` is the time since when its claim
/// may end.
pub(in crate::quota) fn end(
    instance: &impl ResourceExt,
    ledger: &Ledger,
    due_since: Option<Timestamp>,
    now: Timestamp,
) -> Plan {
    if !has_finalizer(instance, finalizers::QUOTA_CLAIM) || !is_due(instance) {
        // The removal of another finalizer triggers the next reconciliation.
        return Plan::default();
    }
    match ledger {
        Ledger::Known(None) => return Plan::step(QuotaStep::Release(ClaimProof::NoClaim)),
        // The quota system may count it until its finalizers are gone.
        Ledger::Known(Some(claim)) if is_terminating(claim.as_ref()) => {}
        Ledger::Known(Some(_)) => return Plan::step(QuotaStep::DeleteClaim),
        Ledger::Failed(problem) if problem.remedy == Remedy::ProjectGone => {
            return Plan::step(QuotaStep::Release(ClaimProof::ProjectGone));
        }
        // Nobody asks for the proof.
        Ledger::Disabled => return Plan::step(QuotaStep::Release(ClaimProof::None)),
        Ledger::Unidentified(_) | Ledger::Failed(_) => {}
    }
    let passed = due_since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
    let left = HOLD_MAX.saturating_sub(passed).min(ASKED_AGAIN);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Plan::after(left),
        _ => Plan::step(QuotaStep::Release(ClaimProof::None)),
    }
}
