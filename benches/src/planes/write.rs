//! Creates, changes and deletes objects by the rules of API servers.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::apply::{self, Applied};
use super::kinds::{Kind, KindId};
use super::plane::{Key, Plane, Stored, text};
use super::refusal::Refusal;

/// A part of an object that is written by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

/// What is to become of an object.
pub(super) enum Change {
    Put(Value),
    Merge(Value),
    Json(json_patch::Patch),
    Apply { body: Value, manager: String },
}

/// Fields of the metadata that only the API server writes.
const KEPT: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

/// Code of the answer, and the object.
pub(super) type Written = Result<(StatusCode, Arc<Stored>), Refusal>;

impl Plane {
    /// Creates an object. A status is left out, where that is written apart.
    pub(super) fn create(&self, kind: KindId, namespace: &str, object: Value) -> Written {
        let name = match text(&object, "/metadata/name") {
            "" => match text(&object, "/metadata/generateName") {
                "" => return Err(Refusal::invalid("name or generateName is required")),
                prefix => format!("{prefix}{:05x}", unique()),
            },
            name => name.to_owned(),
        };
        let key = (namespace.to_owned(), name);
        self.create_as(kind, &key, object, Applied::new())
    }

    fn create_as(&self, kind: KindId, key: &Key, object: Value, applied: Applied) -> Written {
        let of = kind.kind();
        let mut object = tidy(object);
        if let (true, Some(fields)) = (of.has_status, object.as_object_mut()) {
            fields.remove("status");
        }
        let mut state = self.state();
        let namespaces = KindId::named("Namespace");
        let in_nothing = (String::new(), key.0.clone());
        if of.is_namespaced && state.get(namespaces, &in_nothing).is_none() {
            return Err(Refusal::not_found(namespaces.kind(), &key.0));
        }
        if state.get(kind, key).is_some() {
            return Err(Refusal::already_exists(of, &key.1));
        }
        let stored = state.insert(kind, key, object, applied);
        Ok((StatusCode::CREATED, stored))
    }

    /// Changes an object, or a part of it.
    pub(super) fn change(&self, kind: KindId, key: &Key, part: Part, change: Change) -> Written {
        let of = kind.kind();
        let mut state = self.state();
        let Some(stored) = state.get(kind, key).cloned() else {
            drop(state);
            return match (change, part) {
                (Change::Apply { body, manager }, Part::Main)
                    if text(&body, "/metadata/uid").is_empty() =>
                {
                    let applied = Applied::from([(manager, body.clone())]);
                    self.create_as(kind, key, body, applied)
                }
                _ => Err(Refusal::not_found(of, &key.1)),
            };
        };
        let existing = stored.value();
        let mut applied = stored.applied.clone();
        let changed = changed(&existing, part, change, &mut applied)?;
        check(of, key, &existing, &changed)?;
        let mut next = merged(of, part, &existing, changed);
        if next == existing {
            return Ok((StatusCode::OK, stored));
        }
        let is_spec_new =
            without_metadata_and_status(&next) != without_metadata_and_status(&existing);
        if of.has_status && is_spec_new {
            let generation = existing.pointer("/metadata/generation");
            let generation = generation.and_then(Value::as_u64).unwrap_or_default();
            next["metadata"]["generation"] = (generation + 1).into();
        }
        let is_terminating = next.pointer("/metadata/deletionTimestamp").is_some();
        let is_held = next.pointer("/metadata/finalizers").is_some();
        let stored = match is_terminating && !is_held {
            true => state.remove(kind, key, next),
            false => state.update(kind, key, next, applied),
        };
        Ok((StatusCode::OK, stored))
    }

    /// Deletes an object with these preconditions. Gives it back while it has finalizers.
    pub(super) fn delete(
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
        for field in ["uid", "resourceVersion"] {
            let asked = text(options, &format!("/preconditions/{field}"));
            if !asked.is_empty() && asked != text(&existing, &format!("/metadata/{field}")) {
                let problem = format!("is another one: {field} is not {asked}");
                return Err(Refusal::conflict(kind.kind(), &key.1, &problem));
            }
        }
        let deleted = state.delete(kind, key, existing);
        Ok((state.get(kind, key).is_none(), deleted))
    }
}

fn changed(
    existing: &Value,
    part: Part,
    change: Change,
    applied: &mut Applied,
) -> Result<Value, Refusal> {
    let mut next = existing.clone();
    match change {
        Change::Put(body) => next = body,
        Change::Merge(body) => json_patch::merge(&mut next, &body),
        Change::Json(patch) => json_patch::patch(&mut next, &patch)
            .map_err(|error| Refusal::invalid(format!("the patch fails: {error}")))?,
        Change::Apply { body, manager } => {
            // A manager of the status is another one.
            let manager = format!("{manager} {part:?}");
            apply::apply(&mut next, &body, &manager, applied);
        }
    }
    Ok(tidy(next))
}

/// Whether it is a change of this version of this object.
fn check(kind: &Kind, key: &Key, existing: &Value, changed: &Value) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        let pointer = format!("/metadata/{field}");
        let asked = text(changed, &pointer);
        if !asked.is_empty() && asked != text(existing, &pointer) {
            let problem = match field {
                "uid" => "is another object",
                _ => "has been modified; please apply your changes to the latest version",
            };
            return Err(Refusal::conflict(kind, &key.1, problem));
        }
    }
    Ok(())
}

/// The existing object with what of the changed one may be written.
fn merged(kind: &Kind, part: Part, existing: &Value, mut changed: Value) -> Value {
    if part == Part::Status {
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

/// Without what API servers drop from metadata.
fn tidy(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove("managedFields");
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
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
