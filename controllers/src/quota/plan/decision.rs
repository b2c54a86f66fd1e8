//! The decision of the quota system about a claim.

use api::condition;
use api::quota::{AllocationStatus, GRANTED, PENDING_EVALUATION, ResourceClaim, VALIDATION_FAILED};
use api::reasons::quota_granted as reason;

use crate::quota::bounded::bounded;

/// A decision about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimDecision {
    Granted,
    /// There is no decision yet. The CRD's default is False, so the reason shows it.
    Pending,
    /// The claim is denied, for this reason of `QuotaGranted`.
    Denied(&'static str),
}

/// Returns the decision about a claim.
pub(super) fn decision(claim: &ResourceClaim) -> ClaimDecision {
    let conditions = claim.status.as_ref().map(|status| &status.conditions[..]);
    let granted = condition::find(conditions.unwrap_or_default(), GRANTED);
    match granted {
        Some(granted) if granted.is_true() => ClaimDecision::Granted,
        Some(denied) if denied.is_false() && denied.reason != PENDING_EVALUATION => {
            ClaimDecision::Denied(match denied.reason.as_str() {
                VALIDATION_FAILED => reason::VALIDATION_FAILED,
                _ => reason::QUOTA_EXCEEDED,
            })
        }
        _ => ClaimDecision::Pending,
    }
}

/// Returns the message of the decision, and the messages about the amounts that are denied.
pub(super) fn message(claim: &ResourceClaim) -> String {
    let Some(status) = &claim.status else {
        return String::new();
    };
    let granted = condition::find(&status.conditions, GRANTED);
    let mut parts: Vec<_> = granted
        .map(|granted| granted.message.clone())
        .into_iter()
        .collect();
    let denied = status.allocations.iter();
    let denied = denied.filter(|it| it.status == AllocationStatus::Denied);
    parts.extend(denied.map(|it| format!("{}: {}", it.resource_type, it.message)));
    bounded(&parts.join(" "))
}

/// Returns whether a part of the claim is granted. The quota system counts this part until the claim is deleted, also
/// if the claim is denied.
pub(super) fn holds_something(claim: &ResourceClaim) -> bool {
    let allocations = claim.status.iter().flat_map(|status| &status.allocations);
    let mut allocations = allocations.map(|allocation| allocation.status);
    allocations.any(|status| status == AllocationStatus::Granted)
}
