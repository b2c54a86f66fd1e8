//! Creates or applies objects, and checks how the API server has stored them.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use multicluster::queue::ReconcileContext;
use serde::Serialize;
use serde_json::{Value, json};

use super::json_patch::{at_version, decode, json_patch};
use super::unkept::{KnownResult, Stored, does_not_stay};
use super::{Collection, Object, Result, Writer, log_undeclared};
use crate::runtime::error::ReconcileError;

impl Writer {
    /// Creates or applies an object, and returns it as the API server stored it. `body` contains exactly the fields
    /// that this controller owns.
    ///
    /// If `existing` is `None`, creates the object. This fails if another writer has created the object in the
    /// meantime. Otherwise applies `body`. The apply takes back fields of `body` that another writer took, and does not
    /// change other fields. If `body` has a resource version, the apply fails if the object has another one.
    ///
    /// `compare` returns how the API server has stored the object. `own` contains the JSON pointers of the parts that
    /// only this controller may write, such as a mirrored spec. Unless the object is [`Stored::AsWritten`] after the
    /// apply, these parts are replaced as a whole. A part that `body` does not contain is removed.
    ///
    /// If the CRD does not have a field of `body`, the API server refuses the apply. The other fields are then written
    /// with a patch.
    ///
    /// If the API server adds fields even then, the object is [`Stored::WithAdditions`], and the same write is not
    /// repeated. If the API server does not store a part of the write, the same write is repeated only once an hour.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`] if a write failed, [`ReconcileError::DoesNotStay`] if the object is
    /// [`Stored::Otherwise`] after all writes, or if this is known without a write.
    pub(crate) async fn ensure<K: Object + Serialize, S: Into<Stored>>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        existing: Option<&K>,
        body: &Value,
        own: &[&str],
        compare: impl Fn(&K) -> S,
    ) -> Result<K> {
        let Some(existing) = existing else {
            let object = decode(body.clone())?;
            let params = PostParams {
                field_manager: Some(self.field_manager.clone()),
                ..PostParams::default()
            };
            let created = to.api.create(&params, &object).await;
            let created = self.wrote(context, to, "create", &object.name_any(), created)?;
            let stored = compare(&created).into();
            return self.kept(context, created, stored, body);
        };
        let known = self.unkept.result(existing, body, context.now());
        match known {
            KnownResult::Recent => return Err(does_not_stay(existing)),
            KnownResult::WithAdditions => return Ok(existing.clone()),
            KnownResult::Old | KnownResult::Unknown => {}
        }
        let applied = match self.apply(context, to, existing, body).await {
            Ok(applied) => {
                let is_unchanged = applied.meta().generation == existing.meta().generation;
                let after_apply = compare(&applied).into();
                if after_apply == Stored::AsWritten || known == KnownResult::Old && is_unchanged {
                    return self.kept(context, applied, after_apply, body);
                }
                Some(applied)
            }
            Err(error) if error.has_undeclared_field() => {
                log_undeclared(&error);
                None
            }
            Err(error) => return Err(error),
        };
        let object = applied.as_ref().unwrap_or(existing);
        let kept = json!(object);
        let mut patch = vec![at_version(object)];
        if applied.is_none() {
            patch.extend(unapplied(&kept, body));
        }
        patch.extend(own.iter().filter_map(|part| {
            // A part that `body` does not have is removed.
            match (body.pointer(part), kept.pointer(part)) {
                (Some(value), _) => Some(json!({"op": "replace", "path": part, "value": value})),
                (None, Some(_)) => Some(json!({"op": "remove", "path": part})),
                (None, None) => None,
            }
        }));
        let patch = json_patch(Value::Array(patch))?;
        let name = existing.name_any();
        let replaced = to.api.patch(&name, &self.patch_params(), &patch).await;
        let replaced = self.wrote(context, to, "patch", &name, replaced)?;
        let stored = compare(&replaced).into();
        self.kept(context, replaced, stored, body)
    }

    /// Returns whether the spec of the object is this spec with additions of the API server, for example defaults of a
    /// newer CRD. Only an earlier [`Self::ensure`] can find this: a field that the spec does not have any more looks
    /// the same.
    pub(crate) fn has_additions_to<K: Object + Serialize>(
        &self,
        context: &ReconcileContext,
        object: &K,
        spec: &impl Serialize,
    ) -> bool {
        self.unkept.has_additions_to(object, spec, context.now())
    }

    /// Returns the written object, unless the API server did not store a part of the write. Remembers how the API
    /// server stored it.
    fn kept<K: Object>(
        &self,
        context: &ReconcileContext,
        object: K,
        stored: Stored,
        body: &Value,
    ) -> Result<K> {
        match stored {
            Stored::AsWritten => self.unkept.forget(&object),
            _ => self.unkept.record(&object, stored, body, context.now()),
        }
        if stored == Stored::Otherwise {
            return Err(does_not_stay(&object));
        }
        Ok(object)
    }

    /// Returns the object as it would be stored with this spec. The API server stores nothing.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the object has changed since it was read.
    pub(crate) async fn try_spec<K: Object>(
        &self,
        to: &Collection<'_, K>,
        object: &K,
        spec: &impl Serialize,
    ) -> Result<K> {
        let params = PatchParams {
            dry_run: true,
            ..self.patch_params()
        };
        let spec = json!({"op": "replace", "path": "/spec", "value": spec});
        let patch = json_patch(json!([at_version(object), spec]))?;
        let name = object.name_any();
        let tried = to.api.patch(&name, &params, &patch).await;
        tried.map_err(|error| {
            ReconcileError::api(format!("dry run of {} {name}", K::kind(&())), error)
        })
    }

    /// Applies to exactly this object. Fails if a later object has the same name.
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
        let params = PatchParams {
            force: true,
            ..self.patch_params()
        };
        let name = existing.name_any();
        let applied = to.api.patch(&name, &params, &Patch::Apply(&body)).await;
        self.wrote(context, to, "apply", &name, applied)
    }
}

/// Returns the operations that merge a body into an object as an apply would do it, except that no field is removed.
fn unapplied(object: &Value, body: &Value) -> Vec<Value> {
    let parts = [
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/ownerReferences",
        "/spec",
    ];
    let operation = |path: &'static str| {
        let (former, wanted) = (object.pointer(path), body.pointer(path)?);
        let value = match (former, wanted) {
            (Some(Value::Array(former)), Value::Array(wanted)) => merged_owners(former, wanted),
            _ => merged(former, wanted),
        };
        Some(json!({"op": "add", "path": path, "value": value}))
    };
    parts.into_iter().filter_map(operation).collect()
}

/// Merges owner references by their UIDs. An object has at most one controller.
fn merged_owners(former: &[Value], wanted: &[Value]) -> Value {
    let is_controller = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
    let has_controller = wanted.iter().any(is_controller);
    let is_other = |owner: &&Value| wanted.iter().all(|it| it.get("uid") != owner.get("uid"));
    let kept = former.iter().filter(is_other);
    let kept = kept.filter(|owner| !(has_controller && is_controller(owner)));
    Value::Array(kept.chain(wanted).cloned().collect())
}

/// Merges maps. Replaces lists and simple values.
fn merged(former: Option<&Value>, wanted: &Value) -> Value {
    match (former, wanted) {
        (Some(Value::Object(former)), Value::Object(wanted)) => {
            let mut all = former.clone();
            for (field, value) in wanted {
                all.insert(field.clone(), merged(former.get(field), value));
            }
            Value::Object(all)
        }
        _ => wanted.clone(),
    }
}
