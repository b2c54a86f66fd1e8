//! One object of a cache.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use thiserror::Error;

/// Namespace and name of an object. The namespace of a cluster-scoped object is empty.
pub type NamespacedName = (String, String);

/// The object exists but cannot be decoded. No decision may treat the object as absent.
#[derive(Clone, Debug, Error)]
#[error("{kind} {namespace}/{name} cannot be decoded: {problem}")]
pub struct Undecodable {
    kind: String,
    namespace: String,
    name: String,
    problem: String,
}

/// One version of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl ObjectVersion {
    pub(super) fn of(object: &ObjectMeta) -> Self {
        Self {
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        }
    }
}

/// An object. If the object cannot be decoded, the entry contains only its metadata. Cheap to clone.
#[derive(Debug)]
pub(super) enum CacheEntry<K> {
    Decoded(Arc<K>),
    Undecodable(Arc<InvalidObject>),
}

impl<K> Clone for CacheEntry<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Decoded(object) => Self::Decoded(Arc::clone(object)),
            Self::Undecodable(invalid) => Self::Undecodable(Arc::clone(invalid)),
        }
    }
}

impl<K> CacheEntry<K> {
    /// Returns the object, if it can be decoded.
    pub(super) fn readable(&self) -> Option<Arc<K>> {
        match self {
            Self::Decoded(object) => Some(Arc::clone(object)),
            Self::Undecodable(_) => None,
        }
    }

    /// Returns the metadata and the problem, if the object cannot be decoded.
    pub(super) fn invalid(&self) -> Option<Arc<InvalidObject>> {
        match self {
            Self::Decoded(_) => None,
            Self::Undecodable(invalid) => Some(Arc::clone(invalid)),
        }
    }

    pub(super) fn is_undecodable(&self) -> bool {
        matches!(self, Self::Undecodable(_))
    }
}

impl<K: Resource> CacheEntry<K> {
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta(),
            Self::Undecodable(invalid) => &invalid.metadata,
        }
    }

    pub(super) fn key(&self) -> NamespacedName {
        key(self.metadata())
    }

    /// Returns whether this is the same version of the same object as `other`.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let (this, other) = (self.metadata(), other.metadata());
        this.uid == other.uid && this.resource_version == other.resource_version
    }

    /// Returns whether this is a later version than `other`. Resource versions can be compared as numbers (Kubernetes
    /// 1.35, KEP-5504).
    pub(super) fn is_newer(&self, other: &Self) -> bool {
        let [this, other] = [self, other].map(|it| it.metadata().resource_version.as_deref());
        is_older(other.unwrap_or_default(), this.unwrap_or_default())
    }
}

impl<K: Resource<DynamicType = ()>> CacheEntry<K> {
    /// Returns the object.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] if it cannot be decoded.
    pub(super) fn decoded(&self) -> Result<Arc<K>, Undecodable> {
        match self {
            Self::Decoded(object) => Ok(Arc::clone(object)),
            Self::Undecodable(invalid) => Err(Undecodable {
                kind: K::kind(&()).into_owned(),
                namespace: invalid.metadata.namespace.clone().unwrap_or_default(),
                name: invalid.metadata.name.clone().unwrap_or_default(),
                problem: invalid.error.clone(),
            }),
        }
    }
}

/// Returns namespace and name of an object.
pub(super) fn key(object: &ObjectMeta) -> NamespacedName {
    let ObjectMeta {
        namespace, name, ..
    } = object;
    (
        namespace.clone().unwrap_or_default(),
        name.clone().unwrap_or_default(),
    )
}

/// Returns whether the first version is older than the second. Versions that are no numbers cannot be compared.
pub(super) fn is_older(first: &str, second: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    number(first).is_some_and(|first| number(second).is_some_and(|second| first < second))
}
