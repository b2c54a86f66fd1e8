//! Limits the access reviews that one requester has in flight. Otherwise one requester could use up all requests that
//! admission may send to a project.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::ProjectName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of access reviews in flight per requester and project. One request sends as many at a time, so a
/// requester with one request waits for nothing.
const REVIEWS_MAX: usize = 32;
/// Number of requesters above which those without a review are forgotten.
const REQUESTERS_MAX: usize = 1024;

/// The requesters with access reviews in flight.
#[derive(Debug, Default)]
pub(crate) struct CallerLimits {
    /// By the hash of project and user. The name of a user can have thousands of bytes. If two requesters have the same
    /// hash, they share a limit.
    limits: Mutex<HashMap<u64, Weak<Semaphore>>>,
    hasher: RandomState,
}

impl CallerLimits {
    /// Waits until the requester may have another access review in flight. Returns `None` only if the semaphore is
    /// closed, which never happens.
    pub(crate) async fn permit(
        &self,
        project: &ProjectName,
        user: &str,
    ) -> Option<OwnedSemaphorePermit> {
        let limit = self.limit(project, user);
        limit.acquire_owned().await.ok()
    }

    fn limit(&self, project: &ProjectName, user: &str) -> Arc<Semaphore> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.len() >= REQUESTERS_MAX {
            limits.retain(|_, limit| limit.strong_count() > 0);
        }
        let known = limits
            .entry(self.hasher.hash_one((project.as_str(), user)))
            .or_default();
        match known.upgrade() {
            Some(limit) => limit,
            None => {
                let limit = Arc::new(Semaphore::new(REVIEWS_MAX));
                *known = Arc::downgrade(&limit);
                limit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_requester_waits_and_another_one_does_not() {
        let limits = CallerLimits::default();
        let project = ProjectName::new("p1").unwrap();
        let mut held = Vec::new();
        for _ in 0..REVIEWS_MAX {
            held.push(limits.permit(&project, "ada").now_or_never().unwrap());
        }
        let mut waiting = Box::pin(limits.permit(&project, "ada"));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(limits.permit(&project, "bob").now_or_never().is_some());
        held.pop();
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn requesters_without_a_review_are_forgotten() {
        let limits = CallerLimits::default();
        let project = ProjectName::new("p1").unwrap();
        let held = limits.limit(&project, "held");
        for user in 0..4 * REQUESTERS_MAX {
            limits.limit(&project, &user.to_string());
        }
        assert!(limits.limits.lock().unwrap().len() <= REQUESTERS_MAX);
        assert!(Arc::ptr_eq(&held, &limits.limit(&project, "held")));
    }
}
