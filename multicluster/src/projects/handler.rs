//! The work that is done on each engaged project.

use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;

use super::engaged_project::EngagedProject;
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// The dependencies of the registry of projects.
pub struct RegistryContext<'a> {
    /// Owns the task of each project.
    pub tasks: &'a Tasks,
    /// Counts projects.
    pub metrics: &'a Metrics,
}

/// Begins to discover projects. If there is a handler, it runs for each engaged project.
pub(super) type Begin = Box<dyn FnOnce(Option<Arc<dyn ProjectHandler>>) + Send>;

/// Runs for each project while the project is engaged, on every replica, leader or not.
pub trait ProjectHandler: Send + Sync + 'static {
    /// Runs until the project is disengaged. The future is then dropped. This method is called when the project's API
    /// server has listed the LocationBindings or does not serve this kind, at the latest one minute after the project
    /// was engaged.
    fn run(&self, project: Arc<EngagedProject>) -> BoxFuture<'static, ()>;

    /// Called after the object of a project was removed from the registry's cache. The removal does not prove that the
    /// object was deleted. Use [`ProjectRegistry::is_gone`] for a proof.
    ///
    /// [`ProjectRegistry::is_gone`]: super::ProjectRegistry::is_gone
    fn on_removed(&self, name: &ProjectName);
}
