//! Reads and writes of the network operator's objects, as JSON.

use anyhow::{Context, bail};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use multicluster::clock;
use serde_json::{Value, json};

use super::API_VERSION;

/// The name of the network operator in field managers.
const MANAGER: &str = "network-services-operator";

pub(super) struct Store {
    client: Client,
}

/// A condition of an object: type, status, reason and message.
pub(super) type Stated<'c> = (&'c str, &'c str, &'c str, &'c str);

impl Store {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
        }
    }

    fn resource(kind: &str) -> ApiResource {
        let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }

    /// Returns the API of a kind in all namespaces.
    pub(super) fn all(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Self::resource(kind))
    }

    fn of(&self, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("an object without a kind")?;
        let resource = Self::resource(&types.kind);
        Ok(match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// Returns all objects of a kind.
    pub(super) async fn list(&self, kind: &str) -> anyhow::Result<Vec<DynamicObject>> {
        let listed = self.all(kind).list(&ListParams::default()).await;
        let mut objects = listed.with_context(|| format!("list {kind}"))?.items;
        for object in &mut objects {
            object.types = Some(kube::core::TypeMeta {
                api_version: API_VERSION.to_owned(),
                kind: kind.to_owned(),
            });
        }
        Ok(objects)
    }

    /// Creates an object, unless it exists.
    pub(super) async fn create(&self, object: Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let params = kube::api::PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..kube::api::PostParams::default()
        };
        match self.of(&object)?.create(&params, &object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("create {}", object.name_any())),
        }
    }

    /// Sets the finalizers of an object.
    pub(super) async fn set_finalizers(
        &self,
        object: &DynamicObject,
        finalizers: &[String],
    ) -> anyhow::Result<()> {
        let metadata =
            json!({"resourceVersion": object.resource_version(), "finalizers": finalizers});
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let patched = self
            .of(object)?
            .patch(&object.name_any(), &params(), &patch)
            .await;
        gone_is_done(patched)
    }

    /// Changes the spec of an object.
    pub(super) async fn set_spec(
        &self,
        object: &DynamicObject,
        spec: &Value,
    ) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let patched = self
            .of(object)?
            .patch(&object.name_any(), &params(), &patch)
            .await;
        gone_is_done(patched)
    }

    /// Merges fields and conditions into the status of an object. Nothing is written if nothing changes. Returns
    /// whether something was written.
    pub(super) async fn set_status(
        &self,
        object: &DynamicObject,
        fields: Value,
        conditions: &[Stated<'_>],
    ) -> anyhow::Result<bool> {
        let former = object
            .data
            .get("status")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let mut status = former.clone();
        let Some(merged) = status.as_object_mut() else {
            bail!("{} has no status", object.name_any());
        };
        merged.extend(fields.as_object().cloned().unwrap_or_default());
        let mut list = former["conditions"].as_array().cloned().unwrap_or_default();
        for (type_, status, reason, message) in conditions {
            let existing = list.iter().position(|it| it["type"] == *type_);
            let former = existing.map(|at| list.remove(at)).unwrap_or_default();
            let time = match former["status"] == *status {
                true => former["lastTransitionTime"].clone(),
                false => json!(format!("{:.0}", clock::now())),
            };
            list.insert(
                existing.unwrap_or(list.len()),
                json!({
                    "type": type_, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": time, "observedGeneration": object.metadata.generation,
                }),
            );
        }
        merged.insert("conditions".to_owned(), json!(list));
        if status == former {
            return Ok(false);
        }
        let body = json!({
            "metadata": {"resourceVersion": object.resource_version()}, "status": status,
        });
        let patched = self
            .of(object)?
            .patch_status(&object.name_any(), &params(), &Patch::Merge(&body))
            .await;
        gone_is_done(patched).map(|()| true)
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, object: &DynamicObject) -> anyhow::Result<()> {
        let (api, name) = (self.of(object)?, object.name_any());
        gone_is_done(api.delete(&name, &DeleteParams::default()).await)
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// An object that ended meanwhile needs nothing.
fn gone_is_done<T>(result: kube::Result<T>) -> anyhow::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the namespace and the name of an object.
pub(super) fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns a text of an object. It is empty if the object does not have it.
pub(super) fn text<'o>(object: &'o DynamicObject, pointer: &str) -> &'o str {
    let value = object.data.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// Returns the status of a condition.
pub(super) fn stated<'o>(object: &'o DynamicObject, type_: &str) -> &'o str {
    let conditions = object.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == type_);
    let status = condition.and_then(|condition| condition["status"].as_str());
    status.unwrap_or_default()
}

/// Returns the object of this namespace and name.
pub(super) fn find<'o>(
    objects: &'o [DynamicObject],
    namespace: &str,
    name: &str,
) -> Option<&'o DynamicObject> {
    let mut objects = objects.iter();
    objects.find(|object| key(object) == (namespace.to_owned(), name.to_owned()))
}

/// Returns a reference to a controller owner.
pub(super) fn owner(object: &DynamicObject) -> Value {
    let kind = object.types.as_ref().map(|types| types.kind.clone());
    json!({
        "apiVersion": API_VERSION, "kind": kind, "name": object.name_any(), "uid": object.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}
