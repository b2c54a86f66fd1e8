//! Whether a hub namespace goes: when the project's namespace that it stands for is proved gone, and nothing is left in it.

use api::HubNamespace;

use crate::hub::upstream_namespace::{Proof, UpstreamNamespace};

/// What the controller sees of one hub namespace.
#[derive(Clone, Debug)]
pub(super) struct Observed<'a> {
    pub(super) namespace: &'a HubNamespace,
    pub(super) upstream: UpstreamNamespace,
    /// Whether a WorkloadDeployment of the project still names it.
    pub(super) recorded: bool,
    pub(super) left: Left,
    pub(super) terminating: bool,
}

/// What is left in the hub namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing that is watched; the rest has not been asked for.
    Unknown,
    /// Something that counts, or that may not be looked for.
    Something(String),
    /// The hub has nothing of what counts.
    Nothing,
}

/// What must be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Keep(KeepReason),
    /// Ask the project and the hub themselves, and plan again.
    Prove,
    Delete(Proof),
}

/// Why a hub namespace stays.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepReason {
    /// It is going already.
    Terminating,
    /// Its name is none that is made here, so that nothing says which namespace it stands for.
    NotOurs,
    /// The project needs it.
    InUse,
    NotEmpty(String),
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    if observed.terminating {
        return Plan::Keep(KeepReason::Terminating);
    }
    if !observed.namespace.is_of_project_namespace() {
        return Plan::Keep(KeepReason::NotOurs);
    }
    if observed.recorded {
        return Plan::Keep(KeepReason::InUse);
    }
    match (&observed.upstream, &observed.left) {
        (UpstreamNamespace::There, _) => Plan::Keep(KeepReason::InUse),
        (UpstreamNamespace::Absent(_), Left::Something(what)) => {
            Plan::Keep(KeepReason::NotEmpty(what.clone()))
        }
        (UpstreamNamespace::Absent(proof), Left::Nothing) => Plan::Delete(proof.clone()),
        (UpstreamNamespace::Unknown, _) | (_, Left::Unknown) => Plan::Prove,
    }
}

#[cfg(test)]
mod tests;
