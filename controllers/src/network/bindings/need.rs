//! What comes before the networks of an Instance are ready.

use kube::Resource;
use kube::core::error_boundary::InvalidObject;

use crate::network::plan::{ObjectStep, Verdict};

/// What comes before the networks of an Instance are ready.
pub(super) enum Need {
    Step(ObjectStep),
    Verdict(Verdict),
}

/// Returns that the network operator, or the end of another object, is awaited.
pub(super) fn waiting<T>(message: String) -> Result<T, Need> {
    Err(Need::Verdict(Verdict::Waiting(message)))
}

/// Returns that an object with a name that the Instance needs cannot be decoded.
pub(super) fn unreadable<K: Resource<DynamicType = ()>, T>(
    invalid: &InvalidObject,
) -> Result<T, Need> {
    Err(Need::Verdict(Verdict::unreadable::<K>(invalid)))
}
