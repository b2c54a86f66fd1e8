//! Looks up facts about projects for admission, in the project registry and in the projects' API servers.

mod access_review;
mod caller_limits;
mod resolver;

use std::sync::Arc;

use api::ProjectName;
use caller_limits::CallerLimits;
use futures::FutureExt;
use futures::future::BoxFuture;
use multicluster::ProjectRegistry;
use multicluster::projects::EngagedProject;
use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;
use webhooks::admission::{
    AccessDecision, AccessReview, KnownCities, ProjectLookup, ProjectLookupError,
};

pub(crate) use resolver::resolver_usernames;

/// Looks up projects in the registry.
pub(crate) struct RegistryLookup {
    pub(crate) projects: ProjectRegistry,
    /// The project of every request; `None` if this process serves several projects.
    pub(crate) only: Option<ProjectName>,
    /// The runtime of the connections to API servers. Access reviews run on it, because the connections must not depend
    /// on the runtime of the webhook server.
    pub(crate) runtime: Handle,
    /// The access reviews in flight of each requester.
    pub(crate) callers: Arc<CallerLimits>,
}

impl RegistryLookup {
    fn project(&self, name: &ProjectName) -> Result<Arc<EngagedProject>, ProjectLookupError> {
        // Milo has authenticated the name. If the registry does not contain the project, it has not been discovered
        // yet.
        let project = self.projects.get(name);
        project.map_err(|error| ProjectLookupError(error.to_string()))
    }
}

impl ProjectLookup for RegistryLookup {
    fn only(&self) -> Option<&ProjectName> {
        self.only.as_ref()
    }

    fn check_served(&self, project: &ProjectName) -> Result<(), ProjectLookupError> {
        self.project(project).map(drop)
    }

    fn cities(&self, project: &ProjectName) -> Result<KnownCities, ProjectLookupError> {
        let cities = self.project(project)?.cities_now();
        let (codes, outdated) = cities.map_err(|error| ProjectLookupError(error.to_string()))?;
        Ok(KnownCities {
            codes,
            outdated: outdated.map(|problem| problem.to_string()),
        })
    }

    fn review(
        &self,
        project: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<AccessDecision, ProjectLookupError>> {
        let (callers, name) = (Arc::clone(&self.callers), project.clone());
        let project = self.project(project);
        let review = async move {
            let project = project?;
            let _caller = callers.permit(&name, &review.requester.username).await;
            let _permit = project.request_permit().await;
            Ok(access_review::send(project.client(), &review).await?)
        };
        let review = AbortOnDropHandle::new(self.runtime.spawn(review));
        let ended = |error: JoinError| Err(ProjectLookupError(error.to_string()));
        review
            .map(move |reviewed| reviewed.unwrap_or_else(ended))
            .boxed()
    }
}
