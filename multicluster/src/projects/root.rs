//! Proofs of API servers: which API server answers, and whether the Milo root, which holds the Projects, has a Project no
//! more.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::milo::Project;
use api::{DEFAULT_NAMESPACE, ProjectName};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::absence;
use crate::cache::request_problem;

/// Time limit of an answer: 5 s, because reconciliations wait for the answer. A reconciliation can ask again later.
const ANSWER: Duration = Duration::from_secs(5);
/// Wait before the next request after the root did not answer. During this wait, requests fail immediately with the
/// last error.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// The reason why an API server gave no proof of its identity, or the Milo root none about a project. Users see the
/// message.
#[derive(Clone, Debug, Error)]
pub(super) enum ProofError {
    /// The request failed.
    #[error("{}", request_problem(.0))]
    Request(Arc<kube::Error>),
    /// The API server has no identity, because its Namespace `default` has no UID.
    #[error("its namespace default has no UID")]
    NoUid,
    /// The API server did not answer in time.
    #[error("it does not answer")]
    NoAnswer,
}

impl From<kube::Error> for ProofError {
    fn from(error: kube::Error) -> Self {
        Self::Request(Arc::new(error))
    }
}

/// Asks an API server for the UID of its Namespace `default`, which identifies the API server.
pub(super) async fn identify(client: Client) -> Result<String, ProofError> {
    let answer = timeout(ANSWER, read_uid(&Api::all(client))).await;
    answer.unwrap_or(Err(ProofError::NoAnswer))
}

async fn read_uid(namespaces: &Api<Namespace>) -> Result<String, ProofError> {
    let default = namespaces.get_metadata(DEFAULT_NAMESPACE).await?;
    let uid = default.metadata.uid.filter(|uid| !uid.is_empty());
    uid.ok_or(ProofError::NoUid)
}

/// The Milo root.
pub(super) struct Root {
    projects: Api<Project>,
    namespaces: Api<Namespace>,
    state: Mutex<RootState>,
}

#[derive(Default)]
struct RootState {
    /// UID of the root's Namespace `default`, which identifies the root, as it was read at the start. An answer of
    /// another root at the same address does not change it.
    uid: Option<String>,
    /// The time at which the root last failed to answer, and the error; `None` if there was no failure since its last
    /// answer.
    unanswered: Option<(Instant, ProofError)>,
}

impl Root {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            projects: Api::all(client.clone()),
            namespaces: Api::all(client.clone()),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, RootState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the UID of the root's Namespace `default`, which identifies the root. Returns `None` until the UID has
    /// been read.
    pub(super) fn uid(&self) -> Option<String> {
        self.state().uid.clone()
    }

    /// Asks the root for its UID until it answers. Two answers must be equal: if two roots at one address answer in turn,
    /// one of them is that of the other root.
    pub(super) async fn identify(&self) {
        loop {
            let answers = self.ask(async { Ok([self.read_uid().await?, self.read_uid().await?]) });
            if let Ok([uid, again]) = answers.await
                && uid == again
            {
                self.state().uid = Some(uid);
                return;
            }
            sleep(RETRY_AFTER).await;
        }
    }

    /// Asks the root for the project, and returns whether the project is absent. Returns `false` if the UID of the root
    /// is not `uid`, because another root cannot prove the absence.
    ///
    /// The project is requested twice: if two roots at one address answer in turn, one answer is that of the root
    /// `uid`. The UID is read before and after that: if the address moves from one root to another, one UID is
    /// different.
    ///
    /// # Errors
    ///
    /// [`ProofError`] if the root does not answer, or recently failed to answer.
    pub(super) async fn confirm_absent(
        &self,
        name: &ProjectName,
        uid: &str,
    ) -> Result<bool, ProofError> {
        self.ask(async {
            // The UID is read again each time, because the address can lead to another root.
            Ok(self.read_uid().await? == uid
                && self.has_no(name).await?
                && self.has_no(name).await?
                && self.read_uid().await? == uid)
        })
        .await
    }

    async fn read_uid(&self) -> Result<String, ProofError> {
        read_uid(&self.namespaces).await
    }

    async fn has_no(&self, name: &ProjectName) -> Result<bool, ProofError> {
        match self.projects.get_metadata(name.as_str()).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status))
                if absence::is_definitive_not_found::<Project>(name.as_str(), &status) =>
            {
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request, unless the root recently failed to answer.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, ProofError>>,
    ) -> Result<T, ProofError> {
        let unanswered = self.state().unanswered.clone();
        if let Some((since, problem)) = &unanswered
            && since.elapsed() < RETRY_AFTER
        {
            return Err(problem.clone());
        }
        let answer = timeout(ANSWER, question).await;
        let answer = answer.unwrap_or_else(|_| Err(ProofError::NoAnswer));
        if let (Err(problem), None) = (&answer, &unanswered) {
            warn!(
                %problem,
                "the root does not tell whether projects are gone: their objects on the hub stay"
            );
        }
        let problem = answer.as_ref().err();
        self.state().unanswered = problem.map(|problem| (Instant::now(), problem.clone()));
        answer
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use apiserver::{ApiServer, objects};

    use super::*;

    fn root(uid: &str) -> ApiServer {
        let root = ApiServer::new();
        root.put(objects::namespace(DEFAULT_NAMESPACE, uid));
        root
    }

    #[tokio::test]
    async fn another_root_at_the_same_address_does_not_prove_that_a_project_is_absent() {
        let name = ProjectName::new("a").unwrap();
        let (own, another) = (root("own"), root("another"));
        let is_absent = async |roots: &[ApiServer]| {
            let root = Root::new(&ApiServer::client_in_turn(roots));
            root.confirm_absent(&name, "own").await.unwrap()
        };
        assert!(is_absent(slice::from_ref(&own)).await);
        own.put(objects::project("a", "1", "True"));
        let turns = [
            // The roots answer in turn.
            [true, false, true, false],
            [false, true, false, true],
            // The address moves to the other root, or back.
            [true, true, true, true],
            [true, true, true, false],
            [true, true, false, false],
            [true, false, false, false],
            [false, false, false, true],
        ];
        for turns in turns {
            let roots = turns.map(|is_own| match is_own {
                true => own.clone(),
                false => another.clone(),
            });
            assert!(!is_absent(&roots).await, "{turns:?}");
        }
    }

    /// The UID is written to hub namespaces: an answer of the root with this UID is a proof for them.
    #[tokio::test(start_paused = true)]
    async fn another_root_at_the_same_address_does_not_become_the_root() {
        let (own, another) = (root("own"), root("another"));
        let roots = [&another, &own, &own, &own, &another].map(Clone::clone);
        let root = Root::new(&ApiServer::client_in_turn(&roots));
        root.identify().await;
        assert_eq!(root.uid().as_deref(), Some("own"));
        let name = ProjectName::new("a").unwrap();
        assert!(!root.confirm_absent(&name, "own").await.unwrap());
        assert_eq!(root.uid().as_deref(), Some("own"));
    }
}
