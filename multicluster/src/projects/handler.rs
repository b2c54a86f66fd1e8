//! Who works on projects.

use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;

use super::engaged_project::EngagedProject;
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// What projects are engaged with.
pub struct RegistryContext<'a> {
    /// Own the task of each project.
    pub tasks: &'a Tasks,
    /// Where projects are counted.
    pub metrics: &'a Metrics,
}

/// Works on each project while it is engaged, on every replica, leader or not.
pub trait ProjectHandler: Send + Sync + 'static {
    /// What goes on for a project, for ever. It is dropped, with all that it holds, when the project is not engaged any more.
    /// It is called once the project's API server has answered, or a minute after the project was engaged.
    fn run(&self, project: Arc<EngagedProject>) -> BoxFuture<'static, ()>;

    /// There is no object of this project any more. That is not proved: [`ProjectRegistry::is_gone`] does.
    ///
    /// [`ProjectRegistry::is_gone`]: super::ProjectRegistry::is_gone
    fn on_removed(&self, name: &ProjectName);
}
