//! Why a reconciliation did not finish. Each is tried again with backoff; the variants say what would help.

mod outage;

use std::time::Duration;

use api::ProjectName;
use api::identity::IdentityError;
use multicluster::cache::Undecodable;
use multicluster::queue::Failure;
use thiserror::Error;

/// HTTP codes of an object that is wrong, or that may not be: `BadRequest`, `Forbidden`, `Invalid`.
const REFUSALS: [u16; 3] = [400, 403, 422];
/// Most of what an API server said that is repeated in a condition, in characters.
const REFUSAL_MAX: usize = 1024;

/// Why a reconciliation did not finish.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// An API server refused a request or could not be reached.
    #[error("{action}: {}", brief(source))]
    Api {
        /// What was tried, with the object.
        action: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// The answer is 404 and does not say that the object is absent: nothing is known of it, and nothing is released.
    #[error(
        "{action}: is this the right API server, with the CRDs? It does not say that the object is absent: {}",
        brief(source)
    )]
    NotServed {
        /// What was tried, with the object.
        action: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// An API server took a write and keeps something else: its CRD, an admission webhook or another writer changes it.
    #[error(
        "{object} does not stay as it is written; compare the versions of the CRDs on both planes"
    )]
    DoesNotStay {
        /// Kind, namespace and name of the object.
        object: String,
    },
    /// An object that matters here exists and cannot be read.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// An identity is missing or not valid. It is never guessed.
    #[error("{object}: {source}")]
    Identity {
        /// The object that should carry the identity.
        object: String,
        /// What is wrong with it.
        source: IdentityError,
    },
    /// What the objects say contradicts itself; nothing is done until someone has resolved it.
    #[error("{object}: {problem}")]
    Contradiction {
        /// The object that is held.
        object: String,
        /// What contradicts what.
        problem: String,
    },
    /// A project is not served here, or not yet.
    #[error("project {0} is not served here")]
    NotEngaged(ProjectName),
    /// It cannot be told at present whether there is a project.
    #[error(transparent)]
    NotKnown(multicluster::projects::NotEngaged),
    /// Something that others provide is not there yet.
    #[error("{object}: waiting for {missing}")]
    NotYet {
        /// The object that waits.
        object: String,
        /// What it waits for.
        missing: String,
    },
    /// Several steps failed, and a later one was answered with a longer Retry-After than the first.
    #[error("{first}")]
    Deferred {
        /// The error of the first step that failed. It stands for all of them.
        first: Box<Self>,
        /// The longest Retry-After of all steps.
        retry_after: Duration,
    },
}

impl ReconcileError {
    pub(crate) fn api(action: impl Into<String>, source: kube::Error) -> Self {
        Self::Api {
            action: action.into(),
            source: Box::new(source),
        }
    }

    pub(crate) fn not_served(action: impl Into<String>, source: kube::Error) -> Self {
        Self::NotServed {
            action: action.into(),
            source: Box::new(source),
        }
    }

    /// What an API server said to a write that it will refuse again.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if REFUSALS.contains(&status.code) => {
                    Some(self.to_string().chars().take(REFUSAL_MAX).collect())
                }
                _ => None,
            },
            Self::Deferred { first, .. } => first.refusal(),
            _ => None,
        }
    }

    pub(crate) fn identity(object: impl Into<String>) -> impl FnOnce(IdentityError) -> Self {
        let object = object.into();
        move |source| Self::Identity { object, source }
    }
}

/// The first error of several steps, all of which are taken even if some of them fail.
#[derive(Debug, Default)]
pub(crate) struct FirstError {
    first: Option<ReconcileError>,
    /// The longest Retry-After of all errors.
    retry_after: Option<Duration>,
}

impl FirstError {
    /// Returns the result of a step that succeeded. Keeps the error of one that failed if it is the first.
    pub(crate) fn note<T>(&mut self, step: Result<T, ReconcileError>) -> Option<T> {
        match step {
            Ok(result) => Some(result),
            Err(error) => {
                self.retry_after = self.retry_after.max(error.retry_after());
                self.first.get_or_insert(error);
                None
            }
        }
    }

    /// Returns the message of the first error if the API server would refuse the same request again. The object that asks for
    /// it shows the message in a condition.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.first.as_ref().and_then(ReconcileError::refusal)
    }

    /// Returns the first error, if there was one, with the longest Retry-After of all errors.
    pub(crate) fn result(self) -> Result<(), ReconcileError> {
        let Some(first) = self.first else {
            return Ok(());
        };
        match self.retry_after {
            Some(retry_after) if first.retry_after() < Some(retry_after) => {
                Err(ReconcileError::Deferred {
                    first: Box::new(first),
                    retry_after,
                })
            }
            _ => Err(first),
        }
    }
}

/// What an API server said, without the rest of its `Status`.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("{} ({} {})", status.message, status.code, status.reason)
        }
        other => other.to_string(),
    }
}
