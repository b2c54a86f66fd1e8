//! What the controller sees of one Workload.

use std::sync::Arc;

use api::{Workload, WorkloadDeployment};
use jiff::Timestamp;

/// Whether something of this name is there.
pub(crate) type Lookup<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// Whether something of this name is there, or, for the eyes of a user, why that is not known.
pub(crate) type Listed<'a> = Result<Lookup<'a>, &'a str>;

/// What the controller sees.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) workload: &'a Workload,
    /// The Workload's deployments, by name.
    pub(crate) own: &'a [Arc<WorkloadDeployment>],
    /// Whether a deployment in the Workload's namespace has this name, whosoever's it is.
    pub(crate) is_taken: Lookup<'a>,
    /// Whether the project holds a usable LocationBinding of a city.
    pub(crate) cities: Listed<'a>,
    /// Whether there is a Network of a name in the Workload's namespace.
    pub(crate) networks: Listed<'a>,
    pub(crate) now: Timestamp,
}
