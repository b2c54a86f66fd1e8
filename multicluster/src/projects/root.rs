//! The API server that says which projects there are, where it can also say which there are no more.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::milo::Project;
use api::{DEFAULT_NAMESPACE, ProjectName};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::absence;

/// Time for an answer: no one may be kept for long by a question that can be asked again.
const ANSWER: Duration = Duration::from_secs(5);
/// For how long nothing is asked after there was none.
const PEACE: Duration = Duration::from_mins(1);

/// The Milo root.
pub(super) struct Root {
    projects: Api<Project>,
    namespaces: Api<Namespace>,
    state: Mutex<RootState>,
}

#[derive(Default)]
struct RootState {
    /// What it is known by.
    uid: Option<String>,
    /// Since when it has not answered, and how.
    unanswered: Option<(Instant, String)>,
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

    /// What it is known by: the UID of its Namespace `default`. Nothing before it has been asked.
    pub(super) fn uid(&self) -> Option<String> {
        self.state().uid.clone()
    }

    /// Asks for what it is known by until it says so.
    pub(super) async fn identify(&self) {
        while self.ask(self.read_uid()).await.is_err() {
            sleep(PEACE).await;
        }
    }

    /// Whether the root that is known by this UID has no project of this name. Another one cannot tell.
    pub(super) async fn confirm_absent(
        &self,
        name: &ProjectName,
        uid: &str,
    ) -> Result<bool, String> {
        self.ask(async {
            // That of this moment: kubeconfigs can change.
            Ok(self.read_uid().await? == uid && self.has_no(name).await?)
        })
        .await
    }

    async fn read_uid(&self) -> Result<String, String> {
        let default = self.namespaces.get_metadata(DEFAULT_NAMESPACE).await;
        let uid = default.map_err(|error| error.to_string())?.metadata.uid;
        let uid = uid.filter(|uid| !uid.is_empty());
        let uid = uid.ok_or("its namespace default has no UID")?;
        self.state().uid = Some(uid.clone());
        Ok(uid)
    }

    async fn has_no(&self, name: &ProjectName) -> Result<bool, String> {
        match self.projects.get_metadata(name.as_str()).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status))
                if absence::is_definitive_not_found::<Project>(name.as_str(), &status) =>
            {
                Ok(true)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Asks, unless there was no answer a moment ago.
    async fn ask<T>(&self, question: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let unanswered = self.state().unanswered.clone();
        if let Some((since, problem)) = &unanswered
            && since.elapsed() < PEACE
        {
            return Err(problem.clone());
        }
        let answer = timeout(ANSWER, question).await;
        let answer = answer.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        if let (Err(problem), None) = (&answer, &unanswered) {
            warn!(
                problem,
                "the root does not say whether projects are gone: what those have on the hub stays"
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
