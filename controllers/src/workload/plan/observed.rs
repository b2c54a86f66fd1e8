//! The observations about one Workload.

use std::sync::Arc;

use api::{Workload, WorkloadDeployment};
use jiff::Timestamp;

/// Returns whether an object of this name exists.
pub(crate) type Lookup<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// A lookup, or the reason why it cannot be used. Users read the reason.
pub(crate) type Listed<'a> = Result<Lookup<'a>, &'a str>;

/// The observations of the controller.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) workload: &'a Workload,
    /// The WorkloadDeployments of the Workload, by name.
    pub(crate) own: &'a [Arc<WorkloadDeployment>],
    /// Whether a WorkloadDeployment in the Workload's namespace has this name, with any controller owner.
    pub(crate) is_taken: Lookup<'a>,
    /// Whether the project has a usable LocationBinding of a city.
    pub(crate) cities: Listed<'a>,
    /// Whether a Network of this name exists in the Workload's namespace.
    pub(crate) networks: Listed<'a>,
    pub(crate) now: Timestamp,
}
