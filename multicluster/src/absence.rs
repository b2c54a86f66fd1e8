//! What proves that an object is absent. Objects are deleted on it, so no other 404 counts (I-8, I-12).

use kube::Resource;
use kube::core::Status;

/// What an API server gives as the reason of a 404.
pub const NOT_FOUND: &str = "NotFound";

/// Whether this answer to a request for one object says that just this object is absent. An API server names the object
/// that it has looked for, and its resource. Who knows neither has not looked: an API server that does not serve the
/// resource, Milo's front without the project, or what stands before an API server.
pub fn is_definitive_not_found<K: Resource<DynamicType = ()>>(name: &str, status: &Status) -> bool {
    let is_asked_for = status.details.as_ref().is_some_and(|details| {
        details.name == name && (details.kind.is_empty() || details.kind == K::plural(&()))
    });
    status.reason == NOT_FOUND && is_asked_for
}
