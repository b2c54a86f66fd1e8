//! Decides which response proves that an object is absent. Controllers delete objects after such a proof, so no other
//! 404 counts (I-8, I-12).

use kube::Resource;
use kube::core::Status;

/// The reason in the `Status` of a 404.
pub const NOT_FOUND: &str = "NotFound";

/// Returns whether this answer to a request for one object proves that this object is absent.
///
/// An API server that has looked for an object names the object and its resource. A 404 that names neither is not
/// authoritative: it comes from an API server that does not serve the resource, from Milo's front proxy without the project,
/// or from a proxy before an API server.
pub fn is_definitive_not_found<K: Resource<DynamicType = ()>>(name: &str, status: &Status) -> bool {
    let is_asked_for = status.details.as_ref().is_some_and(|details| {
        details.name == name && (details.kind.is_empty() || details.kind == K::plural(&()))
    });
    status.reason == NOT_FOUND && is_asked_for
}
