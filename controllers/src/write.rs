//! Writes to API servers: server-side apply by one field manager per controller, deletes with preconditions.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use planes::Metrics;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ReconcileError;
use crate::objects::{Keys, describe};

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

impl Writer {
    pub(crate) fn new(controller: &'static str, metrics: &Metrics) -> Self {
        let field_manager = format!("compute-federation-{controller}");
        Self {
            controller,
            field_manager,
            metrics: metrics.clone(),
        }
    }

    /// Makes an object as `body` says, which holds exactly the fields that this controller owns.
    ///
    /// An object that does not exist is created, and never taken over if someone was faster. An existing one is applied
    /// to: a field that another writer has taken is taken back, fields that are not in `body` stay as they are. Parts that
    /// belong to this controller alone, such as a mirrored spec, are replaced where someone added to them: `own` are
    /// their JSON pointers, `as_wanted` compares.
    pub(crate) async fn ensure<K: Object + Serialize>(
        &self,
        api: &Api<K>,
        existing: Option<&K>,
        body: &Value,
        own: &[&str],
        as_wanted: impl Fn(&K) -> bool,
    ) -> Result<()> {
        let Some(existing) = existing else {
            let object = decode(body.clone())?;
            let params = PostParams {
                field_manager: Some(self.field_manager.clone()),
                ..PostParams::default()
            };
            let created = api.create(&params, &object).await;
            let created = self.wrote::<K, _>("create", &object.name_any(), created)?;
            return stays(&created, as_wanted);
        };
        let applied = self.apply(api, existing, body).await?;
        if as_wanted(&applied) {
            return Ok(());
        }
        let version = applied.resource_version();
        let mut patch =
            vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
        patch.extend(own.iter().map(|part| {
            let value = body.pointer(part).unwrap_or(&Value::Null);
            json!({"op": "replace", "path": part, "value": value})
        }));
        let patch = Patch::<Value>::Json(decode(Value::Array(patch))?);
        let replaced = api
            .patch(&applied.name_any(), &self.patch_params(), &patch)
            .await;
        stays(
            &self.wrote::<K, _>("patch", &applied.name_any(), replaced)?,
            as_wanted,
        )
    }

    /// Applies to exactly this object, not to another one that has taken its name.
    async fn apply<K: Object>(&self, api: &Api<K>, existing: &K, body: &Value) -> Result<K> {
        let mut body = body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("uid".into(), json!(existing.uid()));
        }
        let name = existing.name_any();
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let applied = api.patch(&name, &params, &Patch::Apply(&body)).await;
        self.wrote::<K, _>("apply", &name, applied)
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.field_manager.clone()),
            ..PatchParams::default()
        }
    }

    /// Applies a whole status, for kinds whose status has this one writer on this plane.
    pub(crate) async fn apply_status<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        status: Value,
    ) -> Result<()> {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name},
            "status": status,
        });
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let applied = api.patch_status(name, &params, &Patch::Apply(&body)).await;
        self.wrote::<K, _>("apply status", name, applied).map(drop)
    }

    /// Writes fields of a status that has several writers: fails if the object has changed since it was read.
    pub(crate) async fn patch_status<K: Object>(
        &self,
        api: &Api<K>,
        object: &K,
        status: Value,
    ) -> Result<()> {
        let name = object.name_any();
        let body =
            json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
        let patched = api
            .patch_status(&name, &self.patch_params(), &Patch::Merge(&body))
            .await;
        self.wrote::<K, _>("patch status", &name, patched).map(drop)
    }

    /// Adds a finalizer, and annotations in the same write. Fails if the object has changed since it was read.
    pub(crate) async fn add_finalizer<K: Object>(
        &self,
        api: &Api<K>,
        object: &K,
        finalizer: &str,
        annotations: &Keys,
    ) -> Result<()> {
        let mut finalizers = object.finalizers().to_vec();
        if !finalizers.iter().any(|existing| existing == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        let metadata = json!({"finalizers": finalizers, "annotations": annotations});
        self.patch_metadata(api, object, metadata).await.map(drop)
    }

    /// Removes a finalizer whose work is done. Fails if the object has changed since it was read.
    pub(crate) async fn remove_finalizer<K: Object>(
        &self,
        api: &Api<K>,
        object: &K,
        finalizer: &str,
    ) -> Result<()> {
        let finalizers: Vec<_> = object
            .finalizers()
            .iter()
            .filter(|existing| *existing != finalizer)
            .collect();
        self.patch_metadata(api, object, json!({"finalizers": finalizers}))
            .await
            .map(drop)
    }

    async fn patch_metadata<K: Object>(
        &self,
        api: &Api<K>,
        object: &K,
        mut metadata: Value,
    ) -> Result<K> {
        let name = object.name_any();
        if let Some(fields) = metadata.as_object_mut() {
            fields.insert("resourceVersion".into(), json!(object.resource_version()));
        }
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let patched = api.patch(&name, &self.patch_params(), &patch).await;
        self.wrote::<K, _>("patch", &name, patched)
    }

    /// Deletes exactly this object, not another one that has taken its name. One that is gone is deleted.
    pub(crate) async fn delete<K: Object>(&self, api: &Api<K>, object: &K) -> Result<()> {
        let name = object.name_any();
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: None,
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        match api.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            result => self.wrote::<K, _>("delete", &name, result).map(drop),
        }
    }

    fn wrote<K: Object, T>(
        &self,
        verb: &'static str,
        name: &str,
        result: kube::Result<T>,
    ) -> Result<T> {
        let kind = K::kind(&());
        match result {
            Ok(written) => {
                self.metrics.wrote(self.controller, verb, &kind);
                tracing::info!(verb, %kind, name, "written");
                Ok(written)
            }
            Err(error) => Err(ReconcileError::api(format!("{verb} {kind} {name}"), error)),
        }
    }
}

/// What was written, read as what it is. The bodies are made here, so this fails only for an identity that is no text.
fn decode<T: DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body)
        .map_err(|error| ReconcileError::api("encode a write", kube::Error::SerdeError(error)))
}

fn stays<K: Object>(written: &K, as_wanted: impl Fn(&K) -> bool) -> Result<()> {
    if as_wanted(written) {
        Ok(())
    } else {
        Err(ReconcileError::DoesNotStay {
            object: describe(written),
        })
    }
}

/// Whether an API server says that the object of a request does not exist.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if Status::is_not_found(status))
}
