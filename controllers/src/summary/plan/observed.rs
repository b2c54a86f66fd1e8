//! The observations that a query is evaluated on.

use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::lower_hub::SilentLowerHub;
use api::workload_summary::SummaryRow;
use api::{Instance, WorkloadDeployment};
use jiff::Timestamp;

use crate::hub::cells::CellState;

/// The observations of the controller.
pub(in crate::summary) struct Observed<'a> {
    /// The WorkloadDeployments of the selected Workloads.
    pub(in crate::summary) deployments: Vec<ObservedDeployment>,
    /// The Instances of these WorkloadDeployments. Empty unless the query is about Instances.
    pub(in crate::summary) instances: Vec<ObservedInstance>,
    pub(in crate::summary) cells: KnownCells<'a>,
    /// The rows of the last evaluation.
    pub(in crate::summary) former: &'a [SummaryRow],
    pub(in crate::summary) now: Timestamp,
}

/// What is known of cells.
#[derive(Clone, Copy)]
pub(in crate::summary) struct KnownCells<'a> {
    /// Returns the state of a cell.
    pub(in crate::summary) state: &'a dyn Fn(&str) -> CellState,
    /// Returns whether a Cluster of the hub is a lower hub, as its label says. A report alone does not prove it: each
    /// cell could claim that any number of cells are below it.
    pub(in crate::summary) is_lower_hub: &'a dyn Fn(&str) -> bool,
    /// Returns the lower hubs with silent processes, from a Cluster on.
    pub(in crate::summary) silent: &'a dyn Fn(&str) -> Vec<SilentLowerHub>,
}

/// A WorkloadDeployment of the project, and its copy.
pub(in crate::summary) struct ObservedDeployment {
    /// Name of its Workload.
    pub(in crate::summary) workload: String,
    pub(in crate::summary) deployment: Arc<WorkloadDeployment>,
    pub(in crate::summary) copy: HubCopy,
}

/// An Instance of the project.
pub(in crate::summary) struct ObservedInstance {
    /// The position of its WorkloadDeployment.
    pub(in crate::summary) of: usize,
    /// The Instance. If it cannot be decoded, only its metadata.
    pub(in crate::summary) instance: Arc<Instance>,
    /// Why it cannot be decoded.
    pub(in crate::summary) problem: Option<String>,
}

/// The copy of a WorkloadDeployment on the hub.
pub(in crate::summary) enum HubCopy {
    /// The hub does not prove what belongs to the WorkloadDeployment. The text is the reason.
    NotKnown(String),
    /// The hub has no copy.
    Absent,
    /// The copy, and its binding if there is one.
    Present(Arc<WorkloadDeployment>, Option<Arc<ResourceBinding>>),
}
