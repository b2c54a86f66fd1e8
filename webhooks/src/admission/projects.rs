//! What admission asks of the projects.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;
use thiserror::Error;

use super::review::UserInfo;

/// The projects that this process serves.
pub trait Projects: Send + Sync + 'static {
    /// The project of every request, where there is one only (`discovery.mode: single`).
    fn only(&self) -> Option<&ProjectName>;

    /// The codes of the cities that the project may use, as its LocationBindings say. Does not wait.
    ///
    /// # Errors
    ///
    /// [`ProjectError`] when that is not known.
    fn cities(&self, project: &ProjectName) -> Result<Arc<BTreeSet<String>>, ProjectError>;

    /// Asks the project's API server whether the user may use the network (compute.md 3.3). It may take for ever.
    fn review(
        &self,
        project: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<Decision, ProjectError>>;
}

/// May this user `use` this network?
#[derive(Clone, Debug)]
pub struct AccessReview {
    /// Who asks, with all claims.
    pub user: Arc<UserInfo>,
    /// Namespace of the Workload, and so of the network.
    pub namespace: String,
    /// Name of the network.
    pub network: String,
}

/// What the authorizer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user has the right.
    pub allowed: bool,
    /// Why, if the authorizer says so.
    pub reason: String,
}

/// Why something is not known of a project now, in words for the user. Asking again may help.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ProjectError(pub String);
