//! Decides when an Instance may end.

use std::time::Duration;

use api::finalizers;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{ClaimProof, Ledger, Plan, QuotaStep, Remedy};
use crate::objects::{has_finalizer, is_terminating};

/// How long a terminating Instance waits for a quota system that does not answer. The claim is deleted later.
const HOLD_MAX: SignedDuration = SignedDuration::from_mins(2);
/// The longest wait of a terminating Instance before the quota system is asked again.
const ASKED_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Plans for a terminating Instance. Its metadata are sufficient.
pub(in crate::quota) fn end(instance: &impl ResourceExt, ledger: &Ledger, now: Timestamp) -> Plan {
    if !has_finalizer(instance, finalizers::QUOTA_CLAIM) {
        return Plan::default();
    }
    match ledger {
        Ledger::Known(None) => return Plan::step(QuotaStep::Release(ClaimProof::NoClaim)),
        // The API server has accepted the deletion.
        Ledger::Known(Some(claim)) if is_terminating(claim.as_ref()) => {
            return Plan::step(QuotaStep::Release(ClaimProof::NoClaim));
        }
        Ledger::Known(Some(_)) => return Plan::step(QuotaStep::DeleteClaim),
        Ledger::Failed(problem) if problem.remedy == Remedy::ProjectGone => {
            return Plan::step(QuotaStep::Release(ClaimProof::NoClaim));
        }
        Ledger::Disabled | Ledger::Unidentified(_) | Ledger::Failed(_) => {}
    }
    let deleted = instance.meta().deletion_timestamp.as_ref();
    let passed = deleted.map_or(SignedDuration::ZERO, |it| now.duration_since(it.0));
    let left = HOLD_MAX.saturating_sub(passed).min(ASKED_AGAIN);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Plan::after(left),
        _ => Plan::step(QuotaStep::Release(ClaimProof::None)),
    }
}
