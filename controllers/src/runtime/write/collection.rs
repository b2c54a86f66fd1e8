//! Collections of objects, and the direct reads of controllers from API servers.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::api::{GetParams, ListParams, ObjectList};
use kube::core::{
    ClusterResourceScope, NamespaceResourceScope, PartialObjectMeta, PartialObjectMetaExt, Request,
};
use kube::{Api, Client, Resource, ResourceExt};
use multicluster::Cache;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::objects::{controller_uid_of, describe};
use crate::runtime::absence;
use crate::runtime::error::ReconcileError;

type Result<T> = std::result::Result<T, ReconcileError>;

/// The bounds of every kind that controllers write.
pub(crate) trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}
impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned> Object for K {}

/// The objects of one kind in one namespace of one plane. If the kind has a cache, the results of writes are stored
/// there.
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

    /// Returns the objects of all namespaces.
    pub(crate) fn of_all_namespaces(client: &Client) -> Self {
        Self {
            api: Api::all(client.clone()),
            cache: None,
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
    /// Reads an object from the API server. Returns `None` only if the answer proves that the object is absent.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotServed`] for any other 404, [`ReconcileError::Api`] for other failures.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<K>> {
        let request = self.request().get(name, &GetParams::default());
        found::<K, _>(name, self.send(request).await)
    }

    /// Reads the metadata of an object. Returns `None` if it is proved to be absent.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) async fn read_metadata(&self, name: &str) -> Result<Option<PartialObjectMeta<K>>> {
        let request = self.request().get_metadata(name, &GetParams::default());
        found::<K, _>(name, self.send(request).await)
    }

    /// Lists the metadata of all objects.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], and [`ReconcileError::NotYet`] if the answer is not a complete list.
    pub(crate) async fn all_metadata(&self) -> Result<Vec<ObjectMeta>> {
        self.complete(&ListParams::default()).await
    }

    /// Lists all objects.
    ///
    /// # Errors
    ///
    /// As [`Self::all_metadata`]. An object that cannot be decoded is [`ReconcileError::Api`].
    pub(crate) async fn all(&self) -> Result<Vec<K>> {
        let request = self.request().list(&ListParams::default());
        let listed: kube::Result<ObjectList<Bare<K>>> = self.request_bare(request).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        let metadata = MetadataList {
            metadata: listed.metadata,
            items: Vec::new(),
        };
        known::<K>(false, &metadata)?;
        Ok(listed.items.into_iter().map(|it| it.0).collect())
    }

    async fn complete(&self, params: &ListParams) -> Result<Vec<ObjectMeta>> {
        let listed = self.list(params).await?;
        known::<K>(false, &listed)?;
        Ok(listed.items)
    }

    /// Lists the metadata of the objects with this label.
    ///
    /// # Errors
    ///
    /// As [`Self::all_metadata`].
    pub(crate) async fn labelled_metadata(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<PartialObjectMeta<K>>> {
        let params = ListParams::default().labels(&format!("{label}={value}"));
        let objects = self.complete(&params).await?.into_iter();
        Ok(objects
            .map(PartialObjectMetaExt::into_response_partial)
            .collect())
    }

    /// Asks the API server for the metadata of an object. Returns `None` if a complete list proves that the object is
    /// absent. The request is a list of one name, because controllers may list kinds that they may not get.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the object is not found but the answer is not a complete list.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<ObjectMeta>> {
        let listed = self.list(&named(name)).await?;
        let mut objects = listed.items.iter();
        let found = objects.find(|object| object.name.as_deref() == Some(name));
        known::<K>(found.is_some(), &listed)?;
        Ok(found.cloned())
    }

    /// Reads a cached object from the API server. A cached object can lack a default of a newer CRD: such a default
    /// changes no generation, and the watch does not report it. The request is a list of one name, as in
    /// [`Collection::find`].
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the answer does not contain the same object, [`ReconcileError::Api`] for failures.
    pub(crate) async fn current(&self, cached: &K) -> Result<K> {
        let listed = self.api.list(&named(&cached.name_any())).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        let mut objects = listed.items.into_iter();
        objects
            .find(|object| object.meta().uid == cached.meta().uid)
            .ok_or_else(|| behind(cached))
    }

    /// Confirms with the API server that a cached object is not behind: the answer is the same object with the same
    /// spec, the same [mirrored annotations](annotations::MIRRORED) and the same state of its deletion. Ask before a
    /// change that must not follow from an old spec, because it removes or replaces Instances.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the answer differs, and the errors of [`Collection::find`].
    pub(crate) async fn confirm(&self, cached: &K) -> Result<()> {
        let current = self.find(&cached.name_any()).await?;
        let state = |metadata: &ObjectMeta| {
            let is_terminating = metadata.deletion_timestamp.is_some();
            let annotations = metadata.annotations.as_ref();
            // The generation does not cover annotations.
            let data =
                annotations::MIRRORED.map(|key| annotations.and_then(|it| it.get(key)).cloned());
            let uid = metadata.uid.clone();
            (uid, metadata.generation, data, is_terminating)
        };
        match current.as_ref().map(state) == Some(state(cached.meta())) {
            true => Ok(()),
            false => Err(behind(cached)),
        }
    }

    /// Asks the API server whether an object with this label exists.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if no such object is found but the answer is not a complete list.
    pub(crate) async fn has_any(&self, label: &str, value: &str) -> Result<bool> {
        let params = ListParams::default()
            .labels(&format!("{label}={value}"))
            .limit(1);
        let listed = self.list(&params).await?;
        let found = !listed.items.is_empty();
        known::<K>(found, &listed)
    }

    /// Asks the API server whether the controller has a child. A child has the controller in its label and as its
    /// controller owner.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if no such object is found but the answer is not a complete list.
    pub(crate) async fn has_child(&self, label: &str, controller: &str) -> Result<bool> {
        let params = ListParams::default().labels(&format!("{label}={controller}"));
        let listed = self.list(&params).await?;
        let mut children = listed.items.iter();
        let found = children.any(|child| controller_uid_of(child) == Some(controller));
        known::<K>(found, &listed)
    }

    async fn list(&self, params: &ListParams) -> Result<MetadataList> {
        let request = self.request().list_metadata(params);
        let listed: kube::Result<ObjectList<Bare<PartialObjectMeta<K>>>> =
            self.request_bare(request).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        Ok(MetadataList {
            metadata: listed.metadata,
            items: listed.items.into_iter().map(|it| it.0.metadata).collect(),
        })
    }

    /// Lists objects that a field selector selects, at most this number of them.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`].
    pub(crate) async fn select(&self, fields: &str, most: u32) -> Result<Vec<K>> {
        let params = ListParams::default().fields(fields).limit(most);
        let listed = self.api.list(&params).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        Ok(listed.items)
    }

    fn request(&self) -> Request {
        Request::new(self.api.resource_url())
    }

    /// Sends a request for one object.
    async fn send<T: DeserializeOwned>(&self, request: Built) -> kube::Result<T> {
        let answer: Bare<T> = self.request_bare(request).await?;
        Ok(answer.0)
    }

    async fn request_bare<T: DeserializeOwned>(&self, request: Built) -> kube::Result<T> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.api.clone().into_client().request(request).await
    }
}

/// Returns the object in the answer to a `get` of kind `K`. Returns `None` if the answer proves that it is absent.
fn found<K: Object, T>(name: &str, answer: kube::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) => {
            let action = format!("get {} {name}", K::kind(&()));
            absence::require_not_found::<K>(name, action, error).map(|()| None)
        }
    }
}

/// Selects the object with this name.
fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Returns the error of a cached object that the API server does not have in this form.
fn behind<K: Object>(cached: &K) -> ReconcileError {
    ReconcileError::NotYet {
        object: describe(cached),
        missing: "the watch to report its last change".to_owned(),
    }
}

/// Returns `found` if the answer is conclusive. An answer that is not a complete list does not prove that an object is
/// absent (I-12).
fn known<K: Object>(found: bool, listed: &MetadataList) -> Result<bool> {
    match found || is_complete(listed) {
        true => Ok(found),
        false => Err(ReconcileError::NotYet {
            object: K::plural(&()).into_owned(),
            missing: "a complete list from the API server".to_owned(),
        }),
    }
}

/// The metadata of the objects of a kind.
struct MetadataList {
    metadata: ListMeta,
    items: Vec<ObjectMeta>,
}

/// A request, if its parameters are valid.
type Built = std::result::Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// An object without its `managedFields`. API servers store there what a client sends, for example times that Rust
/// cannot represent. No controller needs them here.
#[derive(Clone)]
struct Bare<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Bare<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        type Fields = BTreeMap<String, Box<RawValue>>;
        let mut object = Fields::deserialize(deserializer)?;
        if let Some(metadata) = object.get_mut("metadata") {
            let mut fields: Fields =
                serde_json::from_str(metadata.get()).map_err(D::Error::custom)?;
            fields.remove("managedFields");
            *metadata = to_raw_value(&fields).map_err(D::Error::custom)?;
        }
        let text = serde_json::to_string(&object).map_err(D::Error::custom)?;
        serde_json::from_str(&text)
            .map(Self)
            .map_err(D::Error::custom)
    }
}

/// Returns whether an answer is a complete list. A complete list has a resource version and no further pages.
fn is_complete(listed: &MetadataList) -> bool {
    let metadata = &listed.metadata;
    let has_version = |version: &String| !version.is_empty();
    metadata.resource_version.as_ref().is_some_and(has_version)
        && metadata.continue_.as_ref().is_none_or(String::is_empty)
}

impl<K: Object> Collection<'_, K> {
    /// Asks the API server for one object with a name other than `name` that is not a companion. Returns the kind and the
    /// name of the object. If the answer is not a complete list, returns the reason why there may be such an object.
    pub(crate) async fn first_but(&self, name: Option<&str>) -> Result<Option<String>> {
        let no_companion = format!("!{}", labels::REFERENCED_DATA);
        let mut params = ListParams::default().labels(&no_companion).limit(1);
        if let Some(name) = name {
            params = params.fields(&format!("metadata.name!={name}"));
        }
        let (kind, plural) = (K::kind(&()), K::plural(&()));
        let listed = self.list(&params).await?;
        if let Some(object) = listed.items.first() {
            let name = object.name.as_deref().unwrap_or_default();
            return Ok(Some(format!("{kind} {name}")));
        }
        Ok((!is_complete(&listed))
            .then(|| format!("perhaps {plural}: the answer is not a complete list")))
    }
}
