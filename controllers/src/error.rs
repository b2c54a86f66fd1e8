//! Why a reconciliation did not finish. Each is tried again with backoff; the variants say what would help.

use api::identity::IdentityError;
use planes::cache::Undecodable;
use thiserror::Error;

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
    /// Something that others provide is not there yet.
    #[error("{object}: waiting for {missing}")]
    NotYet {
        /// The object that waits.
        object: String,
        /// What it waits for.
        missing: String,
    },
}

impl ReconcileError {
    pub(crate) fn api(action: impl Into<String>, source: kube::Error) -> Self {
        Self::Api {
            action: action.into(),
            source: Box::new(source),
        }
    }

    pub(crate) fn identity(object: impl Into<String>) -> impl FnOnce(IdentityError) -> Self {
        let object = object.into();
        move |source| Self::Identity { object, source }
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
