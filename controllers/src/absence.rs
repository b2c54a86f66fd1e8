//! What an error says of an object that was asked for: only [`is_told`] proves that it is absent (I-8, I-12).

use kube::Resource;
use planes::absence::{NOT_FOUND, is_told};

use crate::ReconcileError;

/// `Ok` if this answer to a request for one object says that just this object is absent.
///
/// # Errors
///
/// [`ReconcileError::NotServed`] for every other 404, [`ReconcileError::Api`] for what is none.
pub(crate) fn proved<K: Resource<DynamicType = ()>>(
    name: &str,
    action: impl Into<String>,
    error: kube::Error,
) -> Result<(), ReconcileError> {
    match error {
        kube::Error::Api(status) if is_told::<K>(name, &status) => Ok(()),
        kube::Error::Api(status) if status.code == 404 || status.reason == NOT_FOUND => {
            Err(ReconcileError::not_served(action, kube::Error::Api(status)))
        }
        error => Err(ReconcileError::api(action, error)),
    }
}

#[cfg(test)]
mod tests;
