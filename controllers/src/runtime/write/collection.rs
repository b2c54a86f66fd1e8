//! Collections of objects, and what controllers read from API servers directly.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use multicluster::Cache;
use serde::de::DeserializeOwned;

use crate::objects::controller_uid;
use crate::runtime::absence;
use crate::runtime::error::ReconcileError;

type Result<T> = std::result::Result<T, ReconcileError>;

/// The bounds of every kind that controllers write.
pub(crate) trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}
impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned> Object for K {}

/// The objects of one kind in one namespace of one plane, and the cache that stores the results of writes, if there is one.
pub(crate) struct Collection<'c, K> {
    pub(super) api: Api<K>,
    pub(super) cache: Option<&'c Cache<K>>,
}

impl<'c, K: Object<Scope = NamespaceResourceScope>> Collection<'c, K> {
    /// Returns the objects of a namespace.
    pub(crate) fn new(client: &Client, namespace: &str, cache: Option<&'c Cache<K>>) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            cache,
        }
    }
}

impl<'c, K: Object<Scope = ClusterResourceScope>> Collection<'c, K> {
    /// Returns the cluster-scoped objects of a plane.
    pub(crate) fn of_plane(client: &Client, cache: Option<&'c Cache<K>>) -> Self {
        Self {
            api: Api::all(client.clone()),
            cache,
        }
    }
}

impl<K: Object> Collection<'_, K> {
    /// Reads an object from the API server. Returns `None` only if the answer proves that this object is absent.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotServed`] for any other 404, [`ReconcileError::Api`] for other failures.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<K>> {
        match self.api.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) => {
                let action = format!("get {} {name}", K::kind(&()));
                absence::require_not_found::<K>(name, action, error).map(|()| None)
            }
        }
    }

    /// Asks the API server whether an object with this label exists.
    pub(crate) async fn has_any(&self, label: &str, value: &str) -> Result<bool> {
        let params = ListParams::default()
            .labels(&format!("{label}={value}"))
            .limit(1);
        let listed = self.api.list_metadata(&params).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        Ok(!listed.items.is_empty())
    }

    /// Asks the API server whether an object whose label names this controller has it as its controller owner.
    pub(crate) async fn has_child(&self, label: &str, controller: &str) -> Result<bool> {
        let params = ListParams::default().labels(&format!("{label}={controller}"));
        let listed = self.api.list_metadata(&params).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        Ok(listed
            .items
            .iter()
            .any(|child| controller_uid(child) == Some(controller)))
    }
}

impl<K: Object> Collection<'_, K> {
    /// Asks the API server for one object with a name other than `name`. Returns kind and name of the object; or, if the
    /// answer is not a complete list, the reason why there may be one.
    pub(crate) async fn first_but(&self, name: Option<&str>) -> Result<Option<String>> {
        let mut params = ListParams::default().limit(1);
        if let Some(name) = name {
            params = params.fields(&format!("metadata.name!={name}"));
        }
        let (kind, plural) = (K::kind(&()), K::plural(&()));
        let listed = self.api.list_metadata(&params).await;
        let listed =
            listed.map_err(|error| ReconcileError::api(format!("list {plural}"), error))?;
        if let Some(object) = listed.items.first() {
            return Ok(Some(format!("{kind} {}", object.name_any())));
        }
        // An empty answer counts only if it is a complete list of an API server.
        let is_whole = listed.metadata.continue_.is_none_or(|more| more.is_empty());
        let version = listed.metadata.resource_version.unwrap_or_default();
        let is_list = is_whole && !version.is_empty();
        Ok((!is_list).then(|| format!("perhaps {plural}: the answer is not a complete list")))
    }
}
