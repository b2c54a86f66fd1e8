//! The work that is done on each engaged project.

use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;

use super::engaged_project::EngagedProject;
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// What the registry of projects needs from the process.
pub struct RegistryContext<'a> {
    /// Owns the task of each project.
    pub tasks: &'a Tasks,
    /// Counts projects.
    pub metrics: &'a Metrics,
}

/// Works on each project while it is engaged, on every replica, whether it leads or not.
pub trait ProjectHandler: Send + Sync + 'static {
    /// Runs until the project is disengaged: then the future is dropped. It is called once the project's API server has answered,
    /// or a minute after the project was engaged.
    fn run(&self, project: Arc<EngagedProject>) -> BoxFuture<'static, ()>;

    /// Called when the object of a project was removed from the registry's cache. This is not proof of deletion; use
    /// [`ProjectRegistry::is_gone`].
    ///
    /// [`ProjectRegistry::is_gone`]: super::ProjectRegistry::is_gone
    fn on_removed(&self, name: &ProjectName);
}
