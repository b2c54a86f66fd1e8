//! Decides whether a hub namespace is deleted. The project's Namespace must be proved to be gone, and the hub namespace
//! must be empty.

use api::HubNamespace;

use crate::hub::upstream_namespace::{Proof, UpstreamNamespace};

/// The observations of one hub namespace.
#[derive(Clone, Debug)]
pub(super) struct Observed<'a> {
    pub(super) namespace: &'a HubNamespace,
    pub(super) upstream: UpstreamNamespace,
    /// Whether a WorkloadDeployment of the project has recorded the hub namespace.
    pub(super) recorded: bool,
    pub(super) left: Left,
    pub(super) terminating: bool,
}

/// The remaining contents of the hub namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The caches contain no object of the namespace. Kinds that are not watched were not listed.
    Unknown,
    /// The name of a relevant object, or the reason why a kind cannot be listed.
    Something(String),
    /// The hub confirmed that no relevant object is left.
    Nothing,
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Keep(KeepReason),
    /// Nothing is decided. The answers of the API servers of the project or of the hub are still missing.
    Prove,
    Delete(Proof),
}

/// Why a hub namespace stays.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepReason {
    /// The namespace is terminating already.
    Terminating,
    /// The name of the namespace does not contain the UID of a Namespace. So it cannot be proved that the Namespace is
    /// gone.
    NotOurs,
    /// The project needs the namespace.
    InUse,
    NotEmpty(String),
}

/// Returns whether the API servers of the project and of the hub must be asked before [`plan`] can decide.
pub(super) fn needs_proof(observed: &Observed<'_>) -> bool {
    let is_open = match (&observed.upstream, &observed.left) {
        (UpstreamNamespace::Unknown, _) => true,
        (UpstreamNamespace::Absent(_), left) => *left == Left::Unknown,
        (UpstreamNamespace::There, _) => false,
    };
    is_open && must_stay(observed).is_none()
}

/// Returns the reason to keep the namespace, if no answer of the API servers can change it.
fn must_stay(observed: &Observed<'_>) -> Option<KeepReason> {
    if observed.terminating {
        Some(KeepReason::Terminating)
    } else if !observed.namespace.is_of_project_namespace() {
        Some(KeepReason::NotOurs)
    } else if observed.recorded || observed.upstream == UpstreamNamespace::There {
        Some(KeepReason::InUse)
    } else {
        None
    }
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    if let Some(reason) = must_stay(observed) {
        return Plan::Keep(reason);
    }
    let UpstreamNamespace::Absent(proof) = &observed.upstream else {
        return Plan::Prove;
    };
    match &observed.left {
        Left::Unknown => Plan::Prove,
        Left::Something(what) => Plan::Keep(KeepReason::NotEmpty(what.clone())),
        Left::Nothing => Plan::Delete(proof.clone()),
    }
}

#[cfg(test)]
mod tests;
