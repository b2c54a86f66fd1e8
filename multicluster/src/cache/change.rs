//! A change of one object, as a watch reports it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A change of one object. At least one version is present if the watch of a cache reported the change. Both are `None` if
/// the change is not about an object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Metadata of the version that handlers saw last; `None` if the object is new. If the object was deleted while it was
    /// watched, this is its last version.
    pub former: Option<&'a ObjectMeta>,
    /// Metadata of the current version; `None` if the object is deleted.
    pub current: Option<&'a ObjectMeta>,
}

impl<'a> Change<'a> {
    /// Returns the versions that are present, the former one first.
    pub fn versions(self) -> impl Iterator<Item = &'a ObjectMeta> {
        self.former.into_iter().chain(self.current)
    }
}
