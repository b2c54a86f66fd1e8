//! Decides whether a response proves that an object is absent. Controllers delete objects after such a proof, so no
//! other 404 counts as a proof (I-8, I-12).

use kube::Resource;
use kube::core::Status;

/// The reason in the `Status` of a 404 response.
pub const NOT_FOUND: &str = "NotFound";
/// The HTTP code of such a response.
const CODE: u16 = 404;

/// Returns whether `status` proves that the requested object is absent. `status` is the answer to a request for one
/// object.
///
/// If an API server has looked for the object, its 404 contains the name of the object, and the name and the group of
/// the resource. A 404 without them is no proof. Such a 404 can come from an API server that does not serve the
/// resource, from Milo's front proxy if it does not have the project, or from another proxy.
pub fn is_definitive_not_found<K: Resource<DynamicType = ()>>(name: &str, status: &Status) -> bool {
    is_definitive_not_found_of(&K::group(&()), &K::plural(&()), name, status)
}

/// Does the same as [`is_definitive_not_found`] for a kind that is known only at run time. `plural` is the name of the
/// resource.
pub fn is_definitive_not_found_of(group: &str, plural: &str, name: &str, status: &Status) -> bool {
    let is_asked_for = status.details.as_ref().is_some_and(|details| {
        details.name == name && details.kind == plural && details.group == group
    });
    status.code == CODE && status.reason == NOT_FOUND && is_asked_for
}
