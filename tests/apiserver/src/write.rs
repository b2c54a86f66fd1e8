//! Creates, changes and deletes objects by the rules of API servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde_json::{Value, json};

use crate::apply::Owners;
use crate::kinds::{Kind, KindId};
use crate::refusal::Refusal;
use crate::request::ObjectPart;
use crate::server::ApiServer;
use crate::state::{Key, Stored, is_terminating};
use crate::text;

/// The way in which an object is changed.
#[derive(Debug)]
pub enum ObjectChange {
    /// By a new version of the whole object.
    Put(Value),
    /// By a merge patch.
    Merge(Value),
    /// By a JSON patch.
    Json(json_patch::Patch),
    /// By a server-side apply.
    Apply {
        /// The fields that are applied.
        body: Value,
        /// The field manager.
        manager: String,
        /// Whether the apply takes over fields of other managers (`force`).
        force: bool,
    },
}

/// Metadata fields that clients cannot change.
pub(crate) const KEPT: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

/// The message of a conflict: the resource version of the write is not the current one.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The status code of the response, and the object.
pub(crate) type Written = Result<(StatusCode, Arc<Stored>), Refusal>;

impl ApiServer {
    /// Creates an object for a client. Ignores the status of the object if its kind has a status subresource.
    ///
    /// # Errors
    ///
    /// When the name is missing or exists already, or the namespace does not exist.
    pub fn create(&self, kind: KindId, namespace: &str, object: Value) -> Written {
        let name = match text(&object, "/metadata/name") {
            "" => match text(&object, "/metadata/generateName") {
                "" => return Err(Refusal::invalid("name or generateName is required")),
                prefix => format!("{prefix}{:05x}", unique()),
            },
            name => name.to_owned(),
        };
        let key = (namespace.to_owned(), name);
        self.create_as(kind, &key, object, Owners::of_created)
    }

    fn create_as(
        &self,
        kind: KindId,
        key: &Key,
        object: Value,
        owners: impl FnOnce(bytes::Bytes) -> Owners,
    ) -> Written {
        let of = kind.kind();
        let mut object = self.amended(kind, tidy(object));
        if let (true, Some(fields)) = (of.has_status, object.as_object_mut()) {
            fields.remove("status");
        }
        for field in KEPT {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove(field);
            }
        }
        let mut state = self.state();
        if state.get(kind, key).is_some() {
            return Err(Refusal::already_exists(of, &key.1));
        }
        let namespaces = KindId::named("Namespace");
        let in_nothing = (String::new(), key.0.clone());
        if of.is_namespaced && state.get(namespaces, &in_nothing).is_none() {
            return Err(Refusal::not_found(namespaces.kind(), &key.0));
        }
        let stored = state.insert(kind, key, object, owners);
        Ok((StatusCode::CREATED, stored))
    }

    /// Changes an object, or a part of it, for a client.
    ///
    /// # Errors
    ///
    /// When the object does not exist, its UID or resource version differs from the change, or the change is invalid.
    pub fn change(
        &self,
        kind: KindId,
        key: &Key,
        part: ObjectPart,
        change: ObjectChange,
    ) -> Written {
        self.change_or_try(kind, key, part, change, false)
    }

    /// Returns the result of [`Self::change`], but stores nothing (`dryRun=All`).
    ///
    /// # Errors
    ///
    /// The errors of [`Self::change`]. An object that does not exist is always an error.
    pub fn dry_run(
        &self,
        kind: KindId,
        key: &Key,
        part: ObjectPart,
        change: ObjectChange,
    ) -> Written {
        self.change_or_try(kind, key, part, change, true)
    }

    fn change_or_try(
        &self,
        kind: KindId,
        key: &Key,
        part: ObjectPart,
        change: ObjectChange,
        is_dry_run: bool,
    ) -> Written {
        let of = kind.kind();
        let mut state = self.state();
        let Some(stored) = state.get(kind, key).cloned() else {
            drop(state);
            return match is_dry_run {
                true => Err(Refusal::not_found(of, &key.1)),
                false => self.apply_to_nothing(kind, key, part, change),
            };
        };
        let existing = stored.value();
        let mut owners = stored.owners.clone();
        let applied = match &change {
            ObjectChange::Apply { body, .. } => Some(body.clone()),
            _ => None,
        };
        let is_apply = applied.is_some();
        let wanted = changed(&existing, part, change, &mut owners)?;
        let changed = self.amended(kind, wanted.clone());
        if let Some(body) = applied
            && let Some(path) = undeclared(&body, &wanted, &changed)
        {
            return Err(Refusal::undeclared(of, key, &path));
        }
        check(of, key, &existing, &changed)?;
        let mut next = merged(of, part, &existing, changed);
        // A write that changes only field owners is a change of the object too.
        if next == existing && owners == stored.owners {
            return Ok((StatusCode::OK, stored));
        }
        if !is_apply {
            owners.update(&existing, &next);
        }
        let is_spec_new =
            without_metadata_and_status(&next) != without_metadata_and_status(&existing);
        if of.has_status && is_spec_new {
            let generation = existing.pointer("/metadata/generation");
            let generation = generation.and_then(Value::as_u64).unwrap_or_default();
            next["metadata"]["generation"] = (generation + 1).into();
        }
        if is_dry_run {
            return Ok((StatusCode::OK, Arc::new(Stored::new(key, &next, owners))));
        }
        let is_held = next.pointer("/metadata/finalizers").is_some();
        let stored = match is_terminating(&next) && !is_held {
            // The response contains the changed object. The DELETED event contains the object before the change.
            true => {
                state.remove(kind, key, existing);
                Arc::new(Stored::new(key, &next, owners))
            }
            false => state.update(kind, key, next, owners),
        };
        Ok((StatusCode::OK, stored))
    }

    /// Creates the object if the change is a server-side apply. Any other change requires an existing object.
    fn apply_to_nothing(
        &self,
        kind: KindId,
        key: &Key,
        part: ObjectPart,
        change: ObjectChange,
    ) -> Written {
        let of = kind.kind();
        match (change, part) {
            (ObjectChange::Apply { body, manager, .. }, ObjectPart::Main) => {
                let uid = text(&body, "/metadata/uid");
                if !uid.is_empty() {
                    let problem = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Refusal::conflict(of, &key.1, &problem));
                }
                let owned = applicable(body.clone(), part);
                let owners = Owners::of_applied(&of_part(&manager, part), &owned);
                self.create_as(kind, key, body, |_| owners)
            }
            _ => Err(Refusal::not_found(of, &key.1)),
        }
    }

    /// Deletes an object with these preconditions, for a client. Returns whether the object is gone, and the last
    /// version of the object.
    ///
    /// # Errors
    ///
    /// When the object does not exist, or its UID or resource version differs from a precondition.
    pub fn delete(
        &self,
        kind: KindId,
        key: &Key,
        options: &Value,
    ) -> Result<(bool, Arc<Stored>), Refusal> {
        let mut state = self.state();
        let Some(stored) = state.get(kind, key).cloned() else {
            return Err(Refusal::not_found(kind.kind(), &key.1));
        };
        let existing = stored.value();
        for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let asked = text(options, &format!("/preconditions/{field}"));
            let found = text(&existing, &format!("/metadata/{field}"));
            if !asked.is_empty() && asked != found {
                let kind = kind.kind();
                return Err(Refusal::precondition(kind, &key.1, name, asked, found));
            }
        }
        let deleted = state.delete(kind, key, existing);
        Ok((state.get(kind, key).is_none(), deleted))
    }
}

/// Returns the path of the first field of an applied configuration that the schema of the kind does not have: the
/// amendment of the kind has removed the field. Other requests lose such a field without an error.
fn undeclared(body: &Value, wanted: &Value, amended: &Value) -> Option<String> {
    match (body, wanted, amended) {
        (Value::Object(body), Value::Object(wanted), Value::Object(amended)) => {
            body.iter().find_map(|(field, value)| {
                let path = match (wanted.get(field)?, amended.get(field)) {
                    (_, None) => String::new(),
                    (wanted, Some(amended)) => undeclared(value, wanted, amended)?,
                };
                Some(format!(".{field}{path}"))
            })
        }
        (Value::Array(body), Value::Array(wanted), Value::Array(amended)) => {
            let mut items = body.iter().zip(wanted).zip(amended).enumerate();
            items.find_map(|(index, ((body, wanted), amended))| {
                Some(format!("[{index}]{}", undeclared(body, wanted, amended)?))
            })
        }
        _ => None,
    }
}

/// Returns the name under which a manager owns fields. A manager has a second name for the status subresource.
fn of_part(manager: &str, part: ObjectPart) -> String {
    format!("{manager} {part:?}")
}

/// Returns a JSON patch without the tests for null of fields that the object does not have. For an API server, such a
/// test succeeds.
fn without_absent_nulls(patch: json_patch::Patch, object: &Value) -> json_patch::Patch {
    let is_needed = |operation: &json_patch::PatchOperation| match operation {
        json_patch::PatchOperation::Test(test) => {
            !test.value.is_null() || object.pointer(test.path.as_str()).is_some()
        }
        _ => true,
    };
    json_patch::Patch(patch.0.into_iter().filter(is_needed).collect())
}

fn changed(
    existing: &Value,
    part: ObjectPart,
    change: ObjectChange,
    owners: &mut Owners,
) -> Result<Value, Refusal> {
    let mut next = existing.clone();
    match change {
        ObjectChange::Put(body) => next = body,
        ObjectChange::Merge(body) => json_patch::merge(&mut next, &body),
        ObjectChange::Json(patch) => {
            let patch = without_absent_nulls(patch, existing);
            json_patch::patch(&mut next, &patch).map_err(|_| Refusal::patch_fails())?;
        }
        ObjectChange::Apply {
            body,
            manager,
            force,
        } => {
            let manager = of_part(&manager, part);
            let identity = body["metadata"].clone();
            let body = applicable(body, part);
            let conflicts = owners.conflicts(&body, &manager);
            if !force && !conflicts.is_empty() {
                return Err(Refusal::apply_conflict(&conflicts));
            }
            owners.apply(&mut next, &body, &manager);
            for field in ["uid", "resourceVersion"] {
                if let Some(asked) = identity.get(field) {
                    next["metadata"][field] = asked.clone();
                }
            }
        }
    }
    Ok(tidy(next))
}

/// Returns the fields of an applied body that belong to this part of an object.
fn applicable(mut body: Value, part: ObjectPart) -> Value {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in KEPT {
            metadata.remove(field);
        }
    }
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
        match part {
            ObjectPart::Main => fields.remove("status"),
            ObjectPart::Status => fields.remove("spec"),
        };
    }
    body
}

/// Checks that the UID and the resource version of the change match this object.
fn check(kind: &Kind, key: &Key, existing: &Value, changed: &Value) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        let pointer = format!("/metadata/{field}");
        let (asked, found) = (text(changed, &pointer), text(existing, &pointer));
        if asked.is_empty() || asked == found {
            continue;
        }
        return Err(match field {
            "uid" => Refusal::immutable(kind, &key.1, "metadata.uid", asked),
            _ => Refusal::conflict(kind, &key.1, MODIFIED),
        });
    }
    Ok(())
}

/// Copies the writable fields of the changed object into the existing object.
fn merged(kind: &Kind, part: ObjectPart, existing: &Value, mut changed: Value) -> Value {
    if part == ObjectPart::Status {
        let mut next = existing.clone();
        set(&mut next, "status", changed.get("status"));
        return next;
    }
    if kind.has_status {
        set(&mut changed, "status", existing.get("status"));
    }
    for field in ["apiVersion", "kind"] {
        set(&mut changed, field, existing.get(field));
    }
    if !changed.get("metadata").is_some_and(Value::is_object) {
        set(&mut changed, "metadata", Some(&json!({})));
    }
    for field in KEPT {
        let kept = existing.pointer(&format!("/metadata/{field}"));
        set(&mut changed["metadata"], field, kept);
    }
    changed
}

fn set(object: &mut Value, field: &str, value: Option<&Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
}

fn without_metadata_and_status(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(field, _)| !["metadata", "status"].contains(&field.as_str()))
        .collect()
}

/// Removes empty metadata fields, as API servers do.
fn tidy(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
    }
    object
}

fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
