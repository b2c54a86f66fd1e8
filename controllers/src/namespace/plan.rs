//! Whether a hub namespace goes: when the project's namespace that it stands for is proved gone, and nothing is left in it.

use api::HubNamespace;
use kube::ResourceExt;

use crate::objects::Namespace;

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

/// What is known of the project's namespace with the UID that the name of the hub namespace has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamNamespace {
    There,
    /// It is not in the cache, which proves nothing.
    Unknown,
    Absent(Proof),
}

/// Why the project's namespace is gone. A UID is never given twice, so that it stays gone, but for that of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The project's API server says that there is none of its name.
    NotFound,
    /// The one of its name has this UID.
    OtherUid(String),
    /// There is no such project. One can be made anew over what a former one has stored.
    NoProject,
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
    Keep(Reason),
    /// Ask the project and the hub themselves, and plan again.
    Prove,
    Delete(Proof),
}

/// Why a hub namespace stays.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reason {
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
        return Plan::Keep(Reason::Terminating);
    }
    if !observed.namespace.is_of_project_namespace() {
        return Plan::Keep(Reason::NotOurs);
    }
    if observed.recorded {
        return Plan::Keep(Reason::InUse);
    }
    match (&observed.upstream, &observed.left) {
        (UpstreamNamespace::There, _) => Plan::Keep(Reason::InUse),
        (UpstreamNamespace::Absent(_), Left::Something(what)) => {
            Plan::Keep(Reason::NotEmpty(what.clone()))
        }
        (UpstreamNamespace::Absent(proof), Left::Nothing) => Plan::Delete(proof.clone()),
        (UpstreamNamespace::Unknown, _) | (_, Left::Unknown) => Plan::Prove,
    }
}

/// What a cache says of the project's namespace of the name that the hub namespace has as a label.
pub(crate) fn seen(hub: &HubNamespace, namespace: Option<&Namespace>) -> UpstreamNamespace {
    match namespace.is_some_and(|namespace| is_of(hub, namespace)) {
        true => UpstreamNamespace::There,
        false => UpstreamNamespace::Unknown,
    }
}

/// What the answer of the project's API server proves: nothing was found, or this.
pub(crate) fn answered(hub: &HubNamespace, namespace: Option<&Namespace>) -> UpstreamNamespace {
    match namespace.map(|namespace| (is_of(hub, namespace), namespace.uid())) {
        None => UpstreamNamespace::Absent(Proof::NotFound),
        Some((true, _)) => UpstreamNamespace::There,
        Some((false, Some(uid))) if !uid.is_empty() => {
            UpstreamNamespace::Absent(Proof::OtherUid(uid))
        }
        Some((false, _)) => UpstreamNamespace::Unknown,
    }
}

fn is_of(hub: &HubNamespace, namespace: &Namespace) -> bool {
    let uid = namespace.uid().unwrap_or_default();
    HubNamespace::of_project_namespace(&uid).is_ok_and(|derived| derived == *hub)
}

#[cfg(test)]
mod tests;
