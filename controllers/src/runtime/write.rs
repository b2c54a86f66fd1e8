//! Writes to API servers: creates, server-side applies, patches and deletes. Each controller has its own field manager.
//! Deletes have preconditions.

mod collection;
mod ensure;
mod json_patch;
mod refusals;
mod unkept;

use either::Either;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::object::HasStatus;
use multicluster::Metrics;
use multicluster::queue::ReconcileContext;
use serde::Serialize;
use serde_json::{Value, json};
use tracing::warn;

use crate::objects::{StringMap, describe};
use crate::runtime::absence;
use crate::runtime::error::ReconcileError;
pub(crate) use collection::{Collection, Object};
use json_patch::{at_version, json_patch};
use refusals::ShownRefusals;
use unkept::UnkeptWrites;
pub(crate) use unkept::{Stored, stays};

/// Writes as one controller.
#[derive(Clone)]
pub(crate) struct Writer {
    controller: &'static str,
    field_manager: String,
    metrics: Metrics,
    unkept: UnkeptWrites,
    refusals: ShownRefusals,
}

type Result<T> = std::result::Result<T, ReconcileError>;

impl Writer {
    pub(crate) fn new(controller: &'static str, metrics: &Metrics) -> Self {
        let field_manager = format!("compute-federation-{controller}");
        Self {
            controller,
            field_manager,
            metrics: metrics.clone(),
            unkept: UnkeptWrites::default(),
            refusals: ShownRefusals::default(),
        }
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.field_manager.clone()),
            ..PatchParams::default()
        }
    }

    /// Applies a whole status, and returns the object as the API server stored it. Returns `None` if the write is known
    /// to change nothing. Use it only for kinds whose status no other controller writes on this plane.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if a later object has the same name.
    pub(crate) async fn apply_status<K>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        status: Value,
    ) -> Result<Option<K>>
    where
        K: Object + HasStatus,
        K::Status: Serialize,
    {
        let name = &object.name_any();
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name, "uid": object.uid()},
            "status": status,
        });
        if self.unkept.is_idle_status(object, &body, context.now()) {
            return Ok(None);
        }
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let applied = to
            .api
            .patch_status(name, &params, &Patch::Apply(&body))
            .await;
        let written = match self.wrote(context, to, "apply status", name, applied) {
            Ok(applied) if !has_more_fields(&json!(applied.status()), &body) => applied,
            // An apply does not remove the fields that a replacement or another program has set.
            Ok(_) => self.replace_status(context, to, object, &body).await?,
            Err(error) if error.has_undeclared_field() => {
                log_undeclared(&error);
                self.replace_status(context, to, object, &body).await?
            }
            Err(error) => return Err(error),
        };
        self.note_idle_status(context, object, &written, &body);
        Ok(Some(written))
    }

    /// Replaces a whole status. The API server removes the fields that the CRD does not have.
    async fn replace_status<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        body: &Value,
    ) -> Result<K> {
        let name = &object.name_any();
        let status = body.get("status");
        // No other program writes the status, so the version does not matter. It may have changed since the object was
        // read, by a write of the spec.
        let patch = json_patch(json!([
            {"op": "test", "path": "/metadata/uid", "value": object.uid()},
            {"op": "add", "path": "/status", "value": status},
        ]))?;
        let patched = to
            .api
            .patch_status(name, &self.patch_params(), &patch)
            .await;
        self.wrote(context, to, "patch status", name, patched)
    }

    /// Returns the text to show about a refused write for this object: the current text, or the text of the last
    /// minute. `part` tells several refusals of one object apart.
    pub(crate) fn shown_refusal(
        &self,
        context: &ReconcileContext,
        object: &impl ResourceExt,
        part: &str,
        text: String,
    ) -> String {
        self.refusals.shown(object, part, text, context.now())
    }

    /// Merges fields into a status that has several writers, and returns the object as the API server stored it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
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
        if self.unkept.is_idle_status(object, &body, context.now()) {
            return Ok(object.clone());
        }
        let patched = to
            .api
            .patch_status(&name, &self.patch_params(), &Patch::Merge(&body))
            .await;
        let patched = self.wrote(context, to, "patch status", &name, patched)?;
        self.note_idle_status(context, object, &patched, &body);
        Ok(patched)
    }

    /// Notes whether the write of a status has changed the object. If the CRD prunes a part of the status, the same
    /// write would change nothing again.
    fn note_idle_status<K: Object>(
        &self,
        context: &ReconcileContext,
        object: &K,
        written: &K,
        body: &Value,
    ) {
        let now = context.now();
        if self.unkept.record_status(object, written, body, now) {
            let object = describe(object);
            warn!(object, "the API server does not store a part of the status");
        }
    }

    /// Adds a finalizer and annotations in one write, and returns the object as the API server stored it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
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

    /// Removes a finalizer.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
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

    /// Merges fields into the metadata, and returns the object as the API server stored it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
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

    /// Removes the item of this name from a list, and returns the object as the API server stored it. The arguments are
    /// the JSON pointer of the list, the position of the item, and its name. Other writers may change the status
    /// meanwhile, but not the `unchanged` fields: JSON pointers and the values that the object has there. Null stands for
    /// a field that its parent does not have.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the spec, one of these fields or the position of the item has changed since the
    /// object was read.
    pub(crate) async fn remove_item<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        (list, position, item): (&str, usize, &str),
        unchanged: &[(String, Value)],
    ) -> Result<K> {
        let name = object.name_any();
        let generation = object.meta().generation;
        let mut steps = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": object.uid()}),
            json!({"op": "test", "path": "/metadata/generation", "value": generation}),
            json!({"op": "test", "path": format!("{list}/{position}/name"), "value": item}),
        ];
        let unchanged = unchanged.iter();
        steps.extend(
            unchanged.map(|(path, value)| json!({"op": "test", "path": path, "value": value})),
        );
        steps.push(json!({"op": "remove", "path": format!("{list}/{position}")}));
        let patch = json_patch(Value::Array(steps))?;
        let patched = to.api.patch(&name, &self.patch_params(), &patch).await;
        self.wrote(context, to, "patch", &name, patched)
    }

    /// Sets one field to this value, or removes it, and returns the object as the API server stored it. `field` is a
    /// JSON pointer.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
    pub(crate) async fn set_field<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        field: &str,
        value: Option<Value>,
    ) -> Result<K> {
        self.set_fields(context, to, object, &[(field, value)])
            .await
    }

    /// Sets several fields as [`Self::set_field`] does, in one write.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
    pub(crate) async fn set_fields<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        fields: &[(&str, Option<Value>)],
    ) -> Result<K> {
        let name = object.name_any();
        let changes = fields.iter().map(|(field, value)| match value {
            Some(value) => json!({"op": "add", "path": field, "value": value}),
            None => json!({"op": "remove", "path": field}),
        });
        let steps = std::iter::once(at_version(object)).chain(changes);
        let body = json_patch(Value::Array(steps.collect()))?;
        let patched = to.api.patch(&name, &self.patch_params(), &body).await;
        self.wrote(context, to, "patch", &name, patched)
    }

    /// Adds a field that the object does not have, at this JSON pointer, and returns the object as the API server
    /// stored it. Other writers may change the status meanwhile.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the spec has changed since the object was read.
    pub(crate) async fn add_field<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        (field, value): (&str, Value),
    ) -> Result<K> {
        let name = object.name_any();
        let patch = json_patch(json!([
            {"op": "test", "path": "/metadata/uid", "value": object.uid()},
            {"op": "test", "path": "/metadata/generation", "value": object.meta().generation},
            {"op": "add", "path": field, "value": value},
        ]))?;
        let patched = to.api.patch(&name, &self.patch_params(), &patch).await;
        self.wrote(context, to, "patch", &name, patched)
    }

    /// Deletes exactly this object. A later object of the same name stays. Succeeds if the object is absent.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`] and [`ReconcileError::NotServed`].
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

    /// Deletes exactly this version of this object.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read; [`ReconcileError::NotServed`].
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
            // The object has finalizers. The API server deletes the object when they are removed.
            Ok(Either::Left(terminating)) => self
                .wrote(context, to, "delete", &name, Ok(terminating))
                .map(drop),
            Ok(Either::Right(_)) => {
                self.count(context, "delete", &K::kind(&()), &name);
                Ok(())
            }
            Err(error) => {
                context.note_failed_write();
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
        let written = result.map_err(|error| {
            context.note_failed_write();
            ReconcileError::api(format!("{verb} {kind} {name}"), error)
        })?;
        self.count(context, verb, &kind, name);
        if let Some(cache) = to.cache {
            cache.observe_write(written.clone());
        }
        Ok(written)
    }
}

/// Returns whether a status has a field that the status of this body does not have.
fn has_more_fields(status: &Value, body: &Value) -> bool {
    let fields = status.as_object().into_iter().flatten();
    let wanted = body.get("status").and_then(Value::as_object);
    fields
        .map(|(field, _)| field)
        .any(|field| wanted.is_none_or(|wanted| !wanted.contains_key(field)))
}

/// Logs a refused apply. The message of the API server names the field.
fn log_undeclared(error: &ReconcileError) {
    warn!(%error, "a CRD is older than the object: the fields that the CRD has are written by a patch");
}

/// Returns the merge patch that turns `former` into `wanted`. A merge patch does not change fields that it does not
/// contain, so the patch sets fields that `wanted` does not contain to null.
pub(crate) fn merge_patch<T: Serialize>(former: Option<&T>, wanted: &T) -> Value {
    let mut patch = json!(wanted);
    if let (Some(patch), Value::Object(former)) = (patch.as_object_mut(), json!(former)) {
        for (field, _) in former {
            patch.entry(field).or_insert(Value::Null);
        }
    }
    patch
}

#[cfg(test)]
mod tests;
