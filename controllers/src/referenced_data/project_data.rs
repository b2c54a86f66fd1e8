//! The ConfigMaps and Secrets of a project, and the WorkloadDeployments that use them.

use std::borrow::Cow;
use std::sync::Arc;

use api::references::{Source, references};
use api::{ProjectName, WorkloadDeployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};
use multicluster::cache::{Index, NamespacedName, Reflector};
use multicluster::{Cache, Metrics};
use serde::{Deserialize, Deserializer};
use tokio_util::sync::CancellationToken;

use super::version::expected;
use crate::runtime::wiring::Watches;

/// An object of which only the name, the UID and the version are kept. An annotation can repeat the content of a Secret.
#[derive(Clone, Debug)]
pub(crate) struct Bare<K>(PartialObjectMeta<K>);

impl<'de, K: Resource> Deserialize<'de> for Bare<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = PartialObjectMeta::deserialize(deserializer)?;
        let ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            deletion_timestamp,
            ..
        } = object.metadata;
        object.metadata = ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            deletion_timestamp,
            ..ObjectMeta::default()
        };
        Ok(Self(object))
    }
}

impl<K: Resource> Resource for Bare<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        true
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
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

/// The caches of ConfigMaps and Secrets of a project. They are empty until [`Self::watch`] is called.
pub(crate) struct ProjectData {
    pub(crate) config_maps: Cache<Bare<ConfigMap>>,
    pub(crate) secrets: Cache<Bare<Secret>>,
    /// The WorkloadDeployments, indexed by the sources that their template uses or that they list.
    deployments_on: Index<WorkloadDeployment>,
    is_needed: CancellationToken,
}

impl ProjectData {
    /// Has ConfigMaps and Secrets watched from now on. Most projects use none, and a watch has a price.
    pub(crate) fn watch(&self) {
        self.is_needed.cancel();
    }

    /// Waits until [`Self::watch`] has been called.
    pub(crate) fn is_watched(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.is_needed.clone().cancelled_owned()
    }

    /// Returns the names of the WorkloadDeployments that use or list the source.
    pub(crate) fn names_of_users(&self, namespace: &str, source: &Source) -> Vec<NamespacedName> {
        self.deployments_on.keys(&index_value(namespace, source))
    }

    /// Returns the WorkloadDeployments that use or list the source, and those of them that cannot be decoded.
    pub(crate) fn users(
        &self,
        namespace: &str,
        source: &Source,
    ) -> (Vec<Arc<WorkloadDeployment>>, Vec<Arc<InvalidObject>>) {
        self.deployments_on
            .partitioned(&index_value(namespace, source))
    }
}

/// The reflectors of [`ProjectData`].
pub(crate) struct DataReflectors {
    pub(crate) config_maps: Reflector<Bare<ConfigMap>>,
    pub(crate) secrets: Reflector<Bare<Secret>>,
    is_needed: CancellationToken,
}

impl DataReflectors {
    /// Makes the reflectors of a project. `projects` is the common name of all projects in metrics.
    pub(crate) fn new(project: &ProjectName, projects: &'static str, metrics: &Metrics) -> Self {
        let plane = format!("project/{project}");
        Self {
            config_maps: Reflector::of_many(&plane, projects, metrics),
            secrets: Reflector::of_many(&plane, projects, metrics),
            is_needed: CancellationToken::new(),
        }
    }

    /// Returns the caches that the reflectors fill.
    pub(crate) fn caches(&self, deployments_on: Index<WorkloadDeployment>) -> ProjectData {
        ProjectData {
            config_maps: self.config_maps.cache(),
            secrets: self.secrets.cache(),
            deployments_on,
            is_needed: self.is_needed.clone(),
        }
    }

    /// Watches once a WorkloadDeployment needs it, until the future is dropped.
    pub(crate) async fn run(self, mut watches: Watches) {
        self.is_needed.cancelled().await;
        watches.watch(self.config_maps);
        watches.watch(self.secrets);
        watches.run(|| ()).await;
    }
}

/// Returns the value of a source in the index of WorkloadDeployments.
pub(crate) fn index_value(namespace: &str, source: &Source) -> String {
    format!("{namespace}/{source}")
}

/// Returns the index values of a WorkloadDeployment.
pub(crate) fn sources_of(deployment: &WorkloadDeployment) -> Vec<String> {
    let mut sources = expected(&deployment.metadata).unwrap_or_default();
    sources.extend(references(&deployment.spec.template.spec).into_keys());
    sources.sort();
    sources.dedup();
    let namespace = deployment.namespace().unwrap_or_default();
    sources
        .iter()
        .map(|it| index_value(&namespace, it))
        .collect()
}

/// Returns the index values of a WorkloadDeployment that cannot be decoded.
pub(crate) fn sources_of_metadata(metadata: &ObjectMeta) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let sources = expected(metadata).unwrap_or_default();
    sources
        .iter()
        .map(|it| index_value(namespace, it))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    #[test]
    fn the_content_of_a_secret_in_an_annotation_is_not_kept() {
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        let secret: Bare<Secret> = object(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": "default", "name": "token", "uid": "u", "resourceVersion": "7",
                "labels": {"a": "b"}, "annotations": {applied: "dG9rZW4="},
            },
        }));
        let expected =
            json!({"namespace": "default", "name": "token", "uid": "u", "resourceVersion": "7"});
        assert_eq!(json!(secret.meta()), expected);
    }
}
