//! The facts about an Instance and its claim that a plan follows from.

use std::time::Duration;

use api::Instance;
use api::quota::{ResourceClaim, ResourceRequest};
use jiff::Timestamp;

use super::intervals::LATE;

/// The claim of an Instance, as far as it is known.
#[derive(Clone, Debug)]
pub(in crate::quota) enum Ledger {
    /// The cell does not enforce quota.
    Disabled,
    /// The Namespace in the cell does not identify the project.
    Unidentified(String),
    /// The API server of the project has not given an answer that can be used.
    Failed(LedgerProblem),
    /// The API server of the project has answered. `None` means that there is no claim.
    Known(Option<Box<ResourceClaim>>),
}

/// Why the API server of a project gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::quota) struct LedgerProblem {
    /// Reason of `QuotaGranted`.
    pub(in crate::quota) reason: &'static str,
    /// Message of `QuotaGranted`.
    pub(in crate::quota) message: String,
    pub(in crate::quota) remedy: Remedy,
}

/// The way in which a [`LedgerProblem`] can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::quota) enum Remedy {
    /// The API server does not answer. Ask again after this time.
    Wait(Duration),
    /// Another writer was faster. Ask again at once.
    Repeat,
    /// The API server would give the same answer again until someone corrects the cause.
    Correct,
    /// The project is suspended. It refuses creates and updates, but no deletes, until someone resumes it.
    Resume,
    /// The project does not exist any more, so it has no claims.
    ProjectGone,
}

/// A snapshot of an Instance and its claim.
pub(in crate::quota) struct Observed<'a> {
    pub(in crate::quota) instance: &'a Instance,
    pub(in crate::quota) ledger: &'a Ledger,
    pub(in crate::quota) requests: &'a [ResourceRequest],
    /// Whether the project is seen to have the requested amounts left.
    pub(in crate::quota) has_room: bool,
    /// Whether the claim was made when the cell had another name.
    pub(in crate::quota) is_renamed: bool,
    /// Whether the watch reports the decision about the claim.
    pub(in crate::quota) is_watched: bool,
    /// When a claim was last made for the Instance, if this is known.
    pub(in crate::quota) last_try: Option<Try>,
    pub(in crate::quota) now: Timestamp,
}

/// An attempt to make a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::quota) struct Try {
    pub(in crate::quota) at: Timestamp,
    /// Whether the project was seen to have the amounts left.
    pub(in crate::quota) had_room: bool,
    /// When the last create without an answer was sent. Another one can have been answered since.
    pub(in crate::quota) unanswered: Option<Timestamp>,
    /// Whether the quota system has denied the claim. The condition of the Instance says so too, if it could be written.
    pub(in crate::quota) is_denied: bool,
}

impl Try {
    /// Returns whether the API server can still make a claim, because a create had no answer.
    pub(in crate::quota) fn may_come_late(&self, now: Timestamp) -> bool {
        self.unanswered.is_some_and(|sent| {
            let passed = Duration::try_from(now.duration_since(sent)).ok();
            passed.is_none_or(|passed| passed < LATE)
        })
    }
}
