//! A change of one object, as reported by a watch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A change of one object. If the watch of a cache reported the change, at least one version is present. If the change
/// does not concern an object, both are `None`.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Metadata of the version that handlers saw last; `None` if the object is new. If the watch reported the deletion
    /// of the object, this is the metadata of its last version.
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
