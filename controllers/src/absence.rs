//! What proves that an object is absent. Finalizers are removed and objects deleted on it, so no other 404 counts (I-8,
//! I-12).

use kube::core::Status;

use crate::ReconcileError;
use crate::write::Object;

const NOT_FOUND: (u16, &str) = (404, "NotFound");

/// `Ok` if this answer to a request for one object says that just this object is absent.
///
/// # Errors
///
/// [`ReconcileError::NotServed`] for every other 404, [`ReconcileError::Api`] for what is none.
pub(crate) fn proved<K: Object>(
    name: &str,
    action: impl Into<String>,
    error: kube::Error,
) -> Result<(), ReconcileError> {
    match error {
        kube::Error::Api(status) if says_absent::<K>(name, &status) => Ok(()),
        kube::Error::Api(status) if status.code == NOT_FOUND.0 || status.reason == NOT_FOUND.1 => {
            Err(ReconcileError::not_served(action, kube::Error::Api(status)))
        }
        error => Err(ReconcileError::api(action, error)),
    }
}

/// An API server names the object that it has looked for, and its resource. Who knows neither has not looked: an API
/// server that does not serve the resource, Milo's front without the project, or what stands before an API server.
fn says_absent<K: Object>(name: &str, status: &Status) -> bool {
    let is_asked_for = status.details.as_ref().is_some_and(|details| {
        details.name == name && (details.kind.is_empty() || details.kind == K::plural(&()))
    });
    status.reason == NOT_FOUND.1 && is_asked_for
}

#[cfg(test)]
mod tests;
