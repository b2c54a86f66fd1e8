//! The scene of the demo: the API servers of a federation or of an installation with Pods.

use std::path::PathBuf;

use kube::Client;

use super::gates::DemoGates;
use crate::observe::ObservedPlane;

/// The API servers, and where to find the rest.
pub(super) struct DemoScene {
    /// The API servers in the order of the columns: project, hub, cells.
    pub(super) planes: Vec<ObservedPlane>,
    /// A client that changes the Workload in the project.
    pub(super) customer: Client,
    /// What the gates of Instances wait for. `None` if they have no gates.
    pub(super) gates: Option<DemoGates>,
    /// The namespace of the demo on the hub and in the cells.
    pub(super) hub_namespace: String,
    /// Returns the log of the process with this name in a federation.
    pub(super) log: Box<dyn Fn(&str) -> PathBuf + Send + Sync>,
    /// The command that edits the Workload.
    pub(super) edit: String,
}

impl DemoScene {
    /// Returns the log of the process with this name in a federation.
    pub(super) fn log(&self, process: &str) -> PathBuf {
        (self.log)(process)
    }
}
