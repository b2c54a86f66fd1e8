//! The wanted and the actual state of a companion in one hub namespace.

use std::collections::BTreeSet;

use api::HubNamespace;

use crate::referenced_data::version::SourceVersion;
use crate::runtime::keys::SourceKey;

/// A companion, and what it should say.
pub(super) struct Wanted<'a> {
    pub(super) key: &'a SourceKey,
    pub(super) hub_namespace: &'a HubNamespace,
    /// The WorkloadDeployments that list the source, sorted.
    pub(super) referenced_by: BTreeSet<String>,
    /// The versions of the source for which the Instances of WorkloadDeployments are replaced.
    pub(super) meant: &'a [SourceVersion],
}

/// The state of a companion in one hub namespace.
pub(super) enum State {
    Absent,
    /// Another object has its name. Only a person can remove it. The text says so.
    Foreign(String),
    /// Its content is that of the source since this version.
    Content(Option<SourceVersion>),
}
