//! The scene of the demo: the API servers of a federation or of an installation with Pods.

use std::path::PathBuf;

use kube::Client;

use super::hops::{creation, phases};
use super::screen::Screen;
use super::{Args, NAMESPACE, WORKLOAD, apply, once};
use crate::observe::{ObservedPlane, Observer};
use crate::output::print;

/// The API servers, and where to find the rest.
pub(super) struct DemoScene {
    /// The API servers in the order of the columns: project, hub, cells.
    pub(super) planes: Vec<ObservedPlane>,
    /// A client that changes the Workload in the project.
    pub(super) customer: Client,
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

    /// Shows the Workload until it is deleted, or without `--once` until an error.
    pub(super) async fn play(&self, args: &Args) -> anyhow::Result<()> {
        let mut observer = Observer::start(&self.planes, NAMESPACE, &self.hub_namespace);
        let mut screen = Screen::new(&self.planes);
        let edit = &self.edit;
        if args.once {
            once::run(phases(), self, &mut observer, &mut screen).await?;
            once::show_emptiness(self, &self.hub_namespace).await?;
            if args.keep {
                let again = vec![creation("create again, to be looked at")];
                once::run(again, self, &mut observer, &mut screen).await?;
                print(format!(
                    "\nWorkload {WORKLOAD} in namespace {NAMESPACE} of the project keeps running; change it:\n{edit}"
                ))?;
            }
            return Ok(());
        }
        print(format!(
            "Workload {WORKLOAD} in namespace {NAMESPACE} of the project; Ctrl-C ends the demo. Change it and see:\n{edit}"
        ))?;
        if let Some(spec) = creation("create").spec {
            apply(&self.customer, &spec).await?;
        }
        loop {
            screen.draw(&observer.state, &[])?;
            observer.changed().await?;
        }
    }
}
