//! The facts about a project that admission needs. The binary implements [`ProjectLookup`].

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ProjectName;
use futures::future::BoxFuture;
use thiserror::Error;

use super::access_review::AccessReview;

/// Looks up facts about the projects that this process serves.
pub trait ProjectLookup: Send + Sync + 'static {
    /// Returns the project of all requests if this process serves only one project (`discovery.mode: single`).
    fn only(&self) -> Option<&ProjectName>;

    /// Checks that this process serves the project. Does not wait.
    ///
    /// # Errors
    ///
    /// [`ProjectLookupError`] if the project is unknown or not ready.
    fn check_served(&self, project: &ProjectName) -> Result<(), ProjectLookupError>;

    /// Returns the cities that the project may use. The source is the LocationBindings of the project. Does not wait.
    ///
    /// # Errors
    ///
    /// [`ProjectLookupError`] if the cities are currently unknown.
    fn cities(&self, project: &ProjectName) -> Result<KnownCities, ProjectLookupError>;

    /// Sends an access review to the project's API server (docs/reference/admission.md). The decision is whether the
    /// requester has the right to the object.
    ///
    /// The returned future has no timeout. The caller must set one. The future may hold [`REVIEW_COPIES`] times the
    /// size of [`AccessReview::body`].
    ///
    /// [`REVIEW_COPIES`]: super::REVIEW_COPIES
    fn review(
        &self,
        project: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<AccessDecision, ProjectLookupError>>;
}

/// The cities that a project may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCities {
    /// The codes of the cities.
    pub codes: Arc<BTreeSet<String>>,
    /// The reason why the codes may be out of date, if they may be. The codes were right a moment ago.
    pub outdated: Option<String>,
}

/// The decision of the authorizer of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDecision {
    /// True if the requester has the right.
    pub allowed: bool,
    /// The reason in the answer of the authorizer. May be empty.
    pub reason: String,
}

/// The reason why a fact about a project is currently unknown. The requester gets this message. A retry may succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ProjectLookupError(pub String);
