//! Refusals of the hub: of a copy, of its namespace and of its policy.

use std::time::Duration;

use multicluster::Outcome;

use crate::runtime::ReconcileError;

/// How often to check whether the hub refuses a policy that does not exist. A refusal must be shown within 2 s.
pub(super) const AWAITED_POLICY: Duration = Duration::from_secs(1);
/// How often to check whether the refusal of a policy has ended or has another message.
pub(super) const REFUSED_POLICY: Duration = Duration::from_mins(1);

/// Returns the message of the hub's API server if it refused the write.
pub(super) fn refusal_of(written: &Result<(), ReconcileError>) -> Option<String> {
    written
        .as_ref()
        .err()
        .and_then(ReconcileError::lasting_refusal)
}

/// Returns when to reconcile next. The event of a policy triggers a reconciliation, but a refused policy has no event.
pub(super) fn policy_check(outcome: Outcome, is_refused: bool, is_awaited: bool) -> Outcome {
    let check = match (is_refused, is_awaited) {
        (true, _) => REFUSED_POLICY,
        (false, true) => AWAITED_POLICY,
        (false, false) => return outcome,
    };
    sooner(outcome, check)
}

/// Returns the outcome with a reconciliation after this time at the latest.
pub(super) fn sooner(outcome: Outcome, check: Duration) -> Outcome {
    match outcome {
        Outcome::Again(wait) => Outcome::Again(wait.min(check)),
        Outcome::Settled | Outcome::Gone => Outcome::Again(check),
    }
}
