//! The observations about one Workload.

use std::sync::Arc;

use api::{Workload, WorkloadDeployment};
use jiff::Timestamp;
use kube::core::error_boundary::InvalidObject;

/// A function that returns whether an object of this name exists.
pub(crate) type Lookup<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// A lookup, or the reason why it cannot be used. Users read the reason.
pub(crate) type Listed<'a> = Result<Lookup<'a>, &'a str>;

/// The observations of the controller.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) workload: &'a Workload,
    /// The WorkloadDeployments of the Workload that can be decoded, by name.
    pub(crate) own: &'a [Arc<WorkloadDeployment>],
    /// The WorkloadDeployments of the Workload that cannot be decoded. They exist; only their metadata are known.
    pub(crate) undecodable: &'a [Arc<InvalidObject>],
    /// Returns whether a WorkloadDeployment in the Workload's namespace has this name. Any object may be its controller
    /// owner.
    pub(crate) is_taken: Lookup<'a>,
    /// Returns whether the project has a usable LocationBinding for a city.
    pub(crate) cities: Listed<'a>,
    /// Returns whether a Network of this name exists in the Workload's namespace.
    pub(crate) networks: Listed<'a>,
    /// The kinds of the project that cannot be listed, and why. Users read it.
    pub(crate) unlisted: Option<&'a str>,
    pub(crate) now: Timestamp,
}
