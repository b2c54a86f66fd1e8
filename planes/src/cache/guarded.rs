//! Objects of which one that cannot be decoded spoils no list.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DeserializeGuard;
use serde::{Deserialize, Deserializer};

/// A [`DeserializeGuard`] that is asked for as what is in it is: of `PartialObjectMeta`, only metadata are fetched.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K>(pub(super) DeserializeGuard<K>);

impl<'de, K: Resource + Deserialize<'de>> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DeserializeGuard::deserialize(deserializer).map(Self)
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic_type)
    }

    fn group(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic_type)
    }

    fn version(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic_type)
    }

    fn plural(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic_type)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
