//! The facts about a project that admission needs. The binary implements [`ProjectLookup`].

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;
use thiserror::Error;

use super::user_info::UserInfo;

/// Looks up the projects that this process serves.
pub trait ProjectLookup: Send + Sync + 'static {
    /// Returns the project of every request, if this process serves only one (`discovery.mode: single`).
    fn only(&self) -> Option<&ProjectName>;

    /// Returns the codes of the cities that the project may use, from its LocationBindings. Does not wait.
    ///
    /// # Errors
    ///
    /// [`ProjectLookupError`] if the cities are not known now.
    fn cities(&self, project: &ProjectName) -> Result<Arc<BTreeSet<String>>, ProjectLookupError>;

    /// Asks the project's API server whether the requester may use the network (docs/reference/admission.md).
    ///
    /// The future has no timeout of its own.
    fn review(
        &self,
        project: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<AccessDecision, ProjectLookupError>>;
}

/// Asks whether the requester has the verb `use` on a network.
#[derive(Clone, Debug)]
pub struct AccessReview {
    /// The requester, with all claims.
    pub user: Arc<UserInfo>,
    /// Namespace of the Workload, and so of the network.
    pub namespace: String,
    /// Name of the network.
    pub network: String,
}

/// The decision of the project's authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the requester has the right.
    pub allowed: bool,
    /// The reason that the authorizer gives; may be empty.
    pub reason: String,
}

/// Why a fact about a project is currently unknown. The message is shown to the requester. A retry may succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ProjectLookupError(pub String);
