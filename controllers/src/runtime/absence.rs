//! Decides what an answer to a request for one object proves. Only [`is_definitive_not_found`] proves that the object
//! is absent (I-8, I-12).

use kube::Resource;
use multicluster::absence::{NOT_FOUND, is_definitive_not_found};

use crate::runtime::error::ReconcileError;

/// Returns `Ok` if this answer to a request for one object proves that the object is absent.
///
/// # Errors
///
/// [`ReconcileError::NotServed`] for every other 404, [`ReconcileError::Api`] for every other error.
pub(crate) fn require_not_found<K: Resource<DynamicType = ()>>(
    name: &str,
    action: impl Into<String>,
    error: kube::Error,
) -> Result<(), ReconcileError> {
    match error {
        kube::Error::Api(status) if is_definitive_not_found::<K>(name, &status) => Ok(()),
        kube::Error::Api(status) if status.code == 404 || status.reason == NOT_FOUND => {
            Err(ReconcileError::not_served(action, kube::Error::Api(status)))
        }
        error => Err(ReconcileError::api(action, error)),
    }
}

#[cfg(test)]
mod tests;
