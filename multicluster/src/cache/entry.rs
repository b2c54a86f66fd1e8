//! One object of a cache: itself, or what is known of it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;

/// Namespace and name; the namespace of a cluster-scoped object is empty.
pub type ObjectKey = (String, String);

/// An object, or what is known of one that cannot be decoded. Cheap to clone.
#[derive(Debug)]
pub(super) enum Entry<K> {
    Decoded(Arc<K>),
    Undecodable(Arc<InvalidObject>),
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Decoded(object) => Self::Decoded(Arc::clone(object)),
            Self::Undecodable(invalid) => Self::Undecodable(Arc::clone(invalid)),
        }
    }
}

impl<K> Entry<K> {
    /// The object, if it can be decoded.
    pub(super) fn readable(&self) -> Option<Arc<K>> {
        match self {
            Self::Decoded(object) => Some(Arc::clone(object)),
            Self::Undecodable(_) => None,
        }
    }

    pub(super) fn is_undecodable(&self) -> bool {
        matches!(self, Self::Undecodable(_))
    }
}

impl<K: Resource> Entry<K> {
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta(),
            Self::Undecodable(invalid) => &invalid.metadata,
        }
    }

    pub(super) fn key(&self) -> ObjectKey {
        let ObjectMeta {
            namespace, name, ..
        } = self.metadata();
        (
            namespace.clone().unwrap_or_default(),
            name.clone().unwrap_or_default(),
        )
    }

    /// Whether this is the same version of the same object as `other`.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let (this, other) = (self.metadata(), other.metadata());
        this.uid == other.uid && this.resource_version == other.resource_version
    }

    /// Whether this is a later version than `other`. Resource versions are comparable numbers (Kubernetes 1.35, KEP-5504).
    pub(super) fn is_newer(&self, other: &Self) -> bool {
        let version = |entry: &Self| {
            let version = entry.metadata().resource_version.as_ref()?;
            version.parse::<u128>().ok()
        };
        version(self).is_some_and(|this| version(other).is_some_and(|other| this > other))
    }
}
