//! Errors of reconciliations. The queue retries each of them with backoff. Each variant has its own remedy.

mod outage;

use std::time::Duration;

use api::ProjectName;
use api::identity::IdentityError;
use kube::core::Status;
use multicluster::cache::Undecodable;
use multicluster::queue::{Failure, Outage};
use thiserror::Error;

/// The HTTP codes of permanent refusals of a write: `BadRequest`, `Forbidden`, `Invalid`. The API server would refuse
/// the same write again.
const REFUSALS: [u16; 3] = [400, 403, 422];
/// Longest message of an API server that is copied into a condition, in characters. A condition can have 32,768
/// (`metav1.Condition`), but a reader needs only the beginning.
const REFUSAL_MAX: usize = 1024;

/// A part of the message of an API server that cannot call an admission webhook
/// (`k8s.io/apiserver/pkg/admission/plugin/webhook`). The code is 500.
const WEBHOOK_DOWN: &str = "failed calling webhook";

/// The end of the message of an API server about a server-side apply with a field that its CRD does not have
/// (`sigs.k8s.io/structured-merge-diff`). The code is 500. Other writes lose such a field without an error.
const UNDECLARED: &str = "field not declared in schema";

/// The reason why a reconciliation failed.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// An API server refused a request or could not be reached.
    #[error("{action}: {}", brief(source))]
    Api {
        /// The verb and the object of the request.
        action: String,
        /// The response, or the reason why there was none.
        source: Box<kube::Error>,
    },
    /// The answer is a 404, but it does not prove that the object is absent. No finalizer may be removed because of
    /// this answer.
    #[error(
        "{action}: the 404 does not prove that the object is absent; is this the right API server, with the CRDs? {}",
        brief(source)
    )]
    NotServed {
        /// The verb and the object of the request.
        action: String,
        /// The response, or the reason why there was none.
        source: Box<kube::Error>,
    },
    /// An API server accepted a write but stored something else. The CRD, an admission webhook or another writer
    /// changes the object.
    #[error(
        "{object} is not stored as it was written; compare the versions of the CRDs on both planes"
    )]
    DoesNotStay {
        /// Kind, namespace and name of the object.
        object: String,
    },
    /// An object that the decision depends on exists but cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// An identity is missing or invalid. Controllers never guess an identity.
    #[error("{object}: {source}")]
    Identity {
        /// The object that should carry the identity.
        object: String,
        /// The error in the identity.
        source: IdentityError,
    },
    /// Objects contradict each other. The controller does nothing until an administrator has resolved the
    /// contradiction.
    #[error("{object}: {problem}")]
    Contradiction {
        /// The object that is held.
        object: String,
        /// The contradiction.
        problem: String,
    },
    /// This process does not serve the project, or does not serve it yet.
    #[error("project {0} is not served here")]
    NotEngaged(ProjectName),
    /// A kind of the project that the decision depends on has not been listed yet.
    #[error("{kind} of project {project} have not been listed")]
    NotListed {
        /// The project.
        project: ProjectName,
        /// The kind.
        kind: String,
    },
    /// It is currently unknown whether the project exists.
    #[error(transparent)]
    NotKnown(multicluster::projects::NotEngaged),
    /// Another controller, or Karmada, has not provided a prerequisite yet.
    #[error("{object}: waiting for {missing}")]
    NotYet {
        /// The object that waits.
        object: String,
        /// The missing prerequisite.
        missing: String,
    },
    /// Several steps failed. A later step showed an outage that the first failed step did not show, or its answer had a
    /// longer Retry-After.
    #[error("{first}{}", then(outage.as_deref()))]
    Several {
        /// The error of the first step that failed.
        first: Box<Self>,
        /// The first error that shows an outage, if `first` shows none.
        outage: Option<Box<Self>>,
        /// The longest Retry-After of all steps.
        retry_after: Option<Duration>,
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

    /// Returns the message of the API server if it would refuse the same write again, or would again store something
    /// else. The message is for a condition.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if REFUSALS.contains(&status.code) => {
                    Some(self.to_string().chars().take(REFUSAL_MAX).collect())
                }
                _ => None,
            },
            Self::DoesNotStay { .. } => Some(self.to_string()),
            Self::Several { first, .. } => first.refusal(),
            _ => None,
        }
    }

    /// Returns the message of the API server if it would refuse the same write again, or if it cannot call an
    /// admission webhook. The message is for a condition.
    pub(crate) fn lasting_refusal(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } if is_webhook_down(source) => {
                let text = without_cause(&self.to_string());
                Some(text.chars().take(REFUSAL_MAX).collect())
            }
            Self::Several { first, outage, .. } => first
                .lasting_refusal()
                .or_else(|| outage.as_ref()?.lasting_refusal()),
            _ => self.refusal(),
        }
    }

    /// Returns whether a server-side apply has a field that the CRD does not have.
    pub(crate) fn has_undeclared_field(&self) -> bool {
        match self {
            Self::Api { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if is_undeclared(status))
            }
            _ => false,
        }
    }

    /// Returns whether the answer of an API server cannot be decoded.
    pub(crate) fn is_undecodable(&self) -> bool {
        let Self::Api { source, .. } = self else {
            return false;
        };
        matches!(source.as_ref(), kube::Error::SerdeError(_))
    }

    /// Returns whether an API server forbids the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        match self {
            Self::Api { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if status.is_forbidden())
            }
            _ => false,
        }
    }

    pub(crate) fn identity(object: impl Into<String>) -> impl FnOnce(IdentityError) -> Self {
        let object = object.into();
        move |source| Self::Identity { object, source }
    }
}

/// The first error of several steps. All steps are executed, even if some of them fail.
#[derive(Debug, Default)]
pub(crate) struct FirstError {
    first: Option<ReconcileError>,
    /// The first error that shows an outage, if `first` shows none.
    outage: Option<ReconcileError>,
    /// The longest Retry-After of all errors.
    retry_after: Option<Duration>,
}

impl FirstError {
    /// Returns the result of a successful step. Keeps the error of a failed step if it is the first error.
    pub(crate) fn note<T>(&mut self, step: Result<T, ReconcileError>) -> Option<T> {
        match step {
            Ok(result) => Some(result),
            Err(error) => {
                self.retry_after = self.retry_after.max(error.retry_after());
                match &self.first {
                    None => self.first = Some(error),
                    Some(first) if first.outage().is_none() && error.outage().is_some() => {
                        self.outage.get_or_insert(error);
                    }
                    Some(_) => {}
                }
                None
            }
        }
    }

    /// Returns whether further requests must wait: the API server cannot be reached, or it has asked to wait.
    pub(crate) fn must_wait(&self) -> bool {
        let errors = [&self.first, &self.outage].into_iter().flatten();
        let mut outages = errors.filter_map(ReconcileError::outage);
        self.retry_after.is_some() || outages.any(|outage| outage == Outage::Unreachable)
    }

    /// Returns the first message for which [`ReconcileError::lasting_refusal`] returns one. The message is for a
    /// condition of the object that caused the request.
    pub(crate) fn lasting_refusal(&self) -> Option<String> {
        let mut errors = [&self.first, &self.outage].into_iter().flatten();
        errors.find_map(ReconcileError::lasting_refusal)
    }

    /// Returns the first error, if there is one. The error has the outage and the longest Retry-After of all errors.
    pub(crate) fn result(self) -> Result<(), ReconcileError> {
        let Some(first) = self.first else {
            return Ok(());
        };
        if self.outage.is_none() && first.retry_after() == self.retry_after {
            return Err(first);
        }
        Err(ReconcileError::Several {
            first: Box::new(first),
            outage: self.outage.map(Box::new),
            retry_after: self.retry_after,
        })
    }
}

/// Returns the text of a later error, as a continuation of the text of the first error.
fn then(later: Option<&ReconcileError>) -> String {
    later.map_or_else(String::new, |later| format!("; {later}"))
}

fn is_undeclared(status: &Status) -> bool {
    status.code == 500 && status.message.contains(UNDECLARED)
}

/// Returns whether an API server refused a write because it cannot call an admission webhook.
fn is_webhook_down(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 500 && status.message.contains(WEBHOOK_DOWN),
        _ => false,
    }
}

/// Cuts the message about a webhook after the name of the webhook. The cause behind the name can differ each time: it
/// contains times and port numbers. A condition with the cause would be written at each retry.
fn without_cause(text: &str) -> String {
    let Some((before, after)) = text.split_once(WEBHOOK_DOWN) else {
        return text.to_owned();
    };
    let name = after.split('"').nth(1).unwrap_or_default();
    format!("{before}{WEBHOOK_DOWN} {name:?}; the log has the cause")
}

/// Returns the message of an API server, without the rest of its `Status`.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("{} ({} {})", status.message, status.code, status.reason)
        }
        other => other.to_string(),
    }
}
