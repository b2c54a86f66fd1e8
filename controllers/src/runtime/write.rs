//! Writes to API servers: server-side apply by one field manager per controller, deletes with preconditions.

use std::fmt::Debug;

use either::Either;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use multicluster::{Cache, Metrics};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::objects::{StringMap, controller_uid, describe};
use crate::runtime::absence;
use crate::runtime::{ReconcileContext, ReconcileError};

/// Writes as one controller.
#[derive(Clone)]
pub(crate) struct Writer {
    controller: &'static str,
    field_manager: String,
    metrics: Metrics,
}

type Result<T> = std::result::Result<T, ReconcileError>;

/// The bounds of every kind that is written.
pub(crate) trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}
impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned> Object for K {}

/// The objects of one kind in one namespace of one plane, and the cache that shall know of writes at once, if there is
/// one.
pub(crate) struct Collection<'c, K> {
    api: Api<K>,
    cache: Option<&'c Cache<K>>,
}

impl<'c, K: Object<Scope = NamespaceResourceScope>> Collection<'c, K> {
    /// The objects of a namespace.
    pub(crate) fn new(client: &Client, namespace: &str, cache: Option<&'c Cache<K>>) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            cache,
        }
    }
}

impl<'c, K: Object<Scope = ClusterResourceScope>> Collection<'c, K> {
    /// The objects of a plane.
    pub(crate) fn of_plane(client: &Client, cache: Option<&'c Cache<K>>) -> Self {
        Self {
            api: Api::all(client.clone()),
            cache,
        }
    }
}

impl<K: Object> Collection<'_, K> {
    /// Asks the API server itself for an object. `None` only where it says that just this object is absent.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<K>> {
        match self.api.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) => {
                let action = format!("get {} {name}", K::kind(&()));
                absence::require_not_found::<K>(name, action, error).map(|()| None)
            }
        }
    }

    /// Asks the API server itself whether there is an object with this label.
    pub(crate) async fn has_any(&self, label: &str, value: &str) -> Result<bool> {
        let params = ListParams::default()
            .labels(&format!("{label}={value}"))
            .limit(1);
        let listed = self.api.list_metadata(&params).await;
        let listed = listed
            .map_err(|error| ReconcileError::api(format!("list {}", K::plural(&())), error))?;
        Ok(!listed.items.is_empty())
    }

    /// Asks the API server itself whether an object with this label has this controller.
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
    /// Asks the API server itself for one object, of which there is any but the one of this name. Says which it is.
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
        // What is empty must be the whole list of an API server.
        let is_whole = listed.metadata.continue_.is_none_or(|more| more.is_empty());
        let version = listed.metadata.resource_version.unwrap_or_default();
        let is_list = is_whole && !version.is_empty();
        Ok((!is_list).then(|| format!("perhaps {plural}: the answer is not their whole list")))
    }
}

impl Writer {
    pub(crate) fn new(controller: &'static str, metrics: &Metrics) -> Self {
        let field_manager = format!("compute-federation-{controller}");
        Self {
            controller,
            field_manager,
            metrics: metrics.clone(),
        }
    }

    /// Makes an object as `body` says, which holds exactly the fields that this controller owns, and gives it as it is then.
    ///
    /// An object that does not exist is created, and never taken over if someone was faster. An existing one is applied
    /// to: a field that another writer has taken is taken back, fields that are not in `body` stay as they are. Parts that
    /// belong to this controller alone, such as a mirrored spec, are replaced where someone added to them, or removed where
    /// they are not in `body`: `own` are their JSON pointers, `as_wanted` compares.
    pub(crate) async fn ensure<K: Object + Serialize>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        existing: Option<&K>,
        body: &Value,
        own: &[&str],
        as_wanted: impl Fn(&K) -> bool,
    ) -> Result<K> {
        let Some(existing) = existing else {
            let object = decode(body.clone())?;
            let params = PostParams {
                field_manager: Some(self.field_manager.clone()),
                ..PostParams::default()
            };
            let created = to.api.create(&params, &object).await;
            let created = self.wrote(context, to, "create", &object.name_any(), created)?;
            return stays(created, as_wanted);
        };
        let applied = self.apply(context, to, existing, body).await?;
        if as_wanted(&applied) {
            return Ok(applied);
        }
        let version = applied.resource_version();
        let mut patch =
            vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
        let kept = json!(applied);
        patch.extend(own.iter().filter_map(|part| {
            // What is not in `body` is to be absent.
            match (body.pointer(part), kept.pointer(part)) {
                (Some(value), _) => Some(json!({"op": "replace", "path": part, "value": value})),
                (None, Some(_)) => Some(json!({"op": "remove", "path": part})),
                (None, None) => None,
            }
        }));
        let patch = Patch::<Value>::Json(decode(Value::Array(patch))?);
        let replaced = to
            .api
            .patch(&applied.name_any(), &self.patch_params(), &patch)
            .await;
        let replaced = self.wrote(context, to, "patch", &applied.name_any(), replaced)?;
        stays(replaced, as_wanted)
    }

    /// Applies to exactly this object, not to another one that has taken its name.
    async fn apply<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        existing: &K,
        body: &Value,
    ) -> Result<K> {
        let mut body = body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("uid".into(), json!(existing.uid()));
        }
        let name = existing.name_any();
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let applied = to.api.patch(&name, &params, &Patch::Apply(&body)).await;
        self.wrote(context, to, "apply", &name, applied)
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.field_manager.clone()),
            ..PatchParams::default()
        }
    }

    /// Applies a whole status, for kinds whose status has this one writer on this plane. Fails if another object has taken
    /// the name.
    pub(crate) async fn apply_status<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        status: Value,
    ) -> Result<()> {
        let name = &object.name_any();
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name, "uid": object.uid()},
            "status": status,
        });
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let applied = to
            .api
            .patch_status(name, &params, &Patch::Apply(&body))
            .await;
        self.wrote(context, to, "apply status", name, applied)
            .map(drop)
    }

    /// Writes fields of a status that has several writers, and gives the object as it is then. Fails if it has changed since
    /// it was read.
    pub(crate) async fn patch_status<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        status: Value,
    ) -> Result<K> {
        let name = object.name_any();
        let body =
            json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
        let patched = to
            .api
            .patch_status(&name, &self.patch_params(), &Patch::Merge(&body))
            .await;
        self.wrote(context, to, "patch status", &name, patched)
    }

    /// Adds a finalizer, and annotations in the same write, and returns the object as it is then. Fails if it has changed
    /// since it was read.
    pub(crate) async fn add_finalizer<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        finalizer: &str,
        annotations: &StringMap,
    ) -> Result<K> {
        let mut finalizers = object.finalizers().to_vec();
        if !finalizers.iter().any(|existing| existing == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        let metadata = json!({"finalizers": finalizers, "annotations": annotations});
        self.patch_metadata(context, to, object, metadata).await
    }

    /// Removes a finalizer whose work is done. Fails if the object has changed since it was read.
    pub(crate) async fn remove_finalizer<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        finalizer: &str,
    ) -> Result<()> {
        let finalizers: Vec<_> = object
            .finalizers()
            .iter()
            .filter(|existing| *existing != finalizer)
            .collect();
        self.patch_metadata(context, to, object, json!({"finalizers": finalizers}))
            .await
            .map(drop)
    }

    /// Merges fields into the metadata, and gives the object as it is then. Fails if it has changed since it was read.
    pub(crate) async fn patch_metadata<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        mut metadata: Value,
    ) -> Result<K> {
        let name = object.name_any();
        if let Some(fields) = metadata.as_object_mut() {
            fields.insert("resourceVersion".into(), json!(object.resource_version()));
        }
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let patched = to.api.patch(&name, &self.patch_params(), &patch).await;
        self.wrote(context, to, "patch", &name, patched)
    }

    /// Deletes exactly this object, not another one that has taken its name. One that is gone is deleted.
    pub(crate) async fn delete<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
    ) -> Result<()> {
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: None,
        };
        self.delete_if(context, to, object, preconditions).await
    }

    /// Deletes exactly this object as it is here. Fails if it has changed since it was read.
    pub(crate) async fn delete_unchanged<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
    ) -> Result<()> {
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: object.resource_version(),
        };
        self.delete_if(context, to, object, preconditions).await
    }

    async fn delete_if<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        preconditions: Preconditions,
    ) -> Result<()> {
        let name = object.name_any();
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        match to.api.delete(&name, &params).await {
            // It has finalizers, and goes when they have.
            Ok(Either::Left(terminating)) => self
                .wrote(context, to, "delete", &name, Ok(terminating))
                .map(drop),
            Ok(Either::Right(_)) => {
                self.count(context, "delete", &K::kind(&()), &name);
                Ok(())
            }
            Err(error) => {
                let action = format!("delete {} {name}", K::kind(&()));
                absence::require_not_found::<K>(&name, action, error)
            }
        }
    }

    fn count(&self, context: &ReconcileContext, verb: &'static str, kind: &str, name: &str) {
        self.metrics
            .wrote(self.controller, verb, kind, context.note_write());
        tracing::info!(verb, kind, name, "written");
    }

    fn wrote<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        verb: &'static str,
        name: &str,
        result: kube::Result<K>,
    ) -> Result<K> {
        let kind = K::kind(&());
        let written =
            result.map_err(|error| ReconcileError::api(format!("{verb} {kind} {name}"), error))?;
        self.count(context, verb, &kind, name);
        if let Some(cache) = to.cache {
            cache.observe_write(written.clone());
        }
        Ok(written)
    }
}

/// The merge patch that makes `former` what is wanted. It names what goes: what it does not name would stay.
pub(crate) fn merge_patch<T: Serialize>(former: Option<&T>, wanted: &T) -> Value {
    let mut patch = json!(wanted);
    if let (Some(patch), Value::Object(former)) = (patch.as_object_mut(), json!(former)) {
        for (field, _) in former {
            patch.entry(field).or_insert(Value::Null);
        }
    }
    patch
}

/// What was written, read as what it is. The bodies are made here, so this fails only for an identity that is no text.
fn decode<T: DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body)
        .map_err(|error| ReconcileError::api("encode a write", kube::Error::SerdeError(error)))
}

/// What was written, if the API server keeps it as it is wanted.
pub(crate) fn stays<K: Object>(written: K, as_wanted: impl Fn(&K) -> bool) -> Result<K> {
    if as_wanted(&written) {
        Ok(written)
    } else {
        Err(ReconcileError::DoesNotStay {
            object: describe(&written),
        })
    }
}
