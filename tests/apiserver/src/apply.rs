//! Server-side apply: merges the configuration that a field manager applies, and tracks the fields that each manager
//! owns.
//!
//! A manager owns the fields of its last applied configuration until another manager changes their value. All creates,
//! updates and patches together count as one manager. This manager owns the fields that they set. An apply removes a
//! field if only its manager owned the field and the new configuration does not contain the field.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::write::KEPT;

/// The owners of the fields of one object. A field is represented by its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners {
    /// The fields that each manager owns by server-side apply.
    applied: BTreeMap<String, Value>,
    /// The fields that creates, updates and patches own, as JSON. For a new object, this text is shared with the first
    /// version of the object.
    updated: Bytes,
}

impl Owners {
    /// Returns the owners of an object that was created by a POST.
    pub(crate) fn of_created(object: Bytes) -> Self {
        Self {
            applied: BTreeMap::new(),
            updated: object,
        }
    }

    /// Returns the owners of an object that was created by an apply.
    pub(crate) fn of_applied(manager: &str, body: &Value) -> Self {
        Self {
            applied: BTreeMap::from([(manager.to_owned(), body.clone())]),
            updated: Bytes::new(),
        }
    }

    fn updated(&self) -> Value {
        let mut updated: Value = serde_json::from_slice(&self.updated).unwrap_or_default();
        if let Some(metadata) = updated.get_mut("metadata").and_then(Value::as_object_mut) {
            // Fields that only the API server writes have no owner.
            metadata.retain(|field, _| !KEPT.contains(&field.as_str()));
        }
        updated
    }

    /// Records an update. The update owns the fields that it changed.
    pub(crate) fn update(&mut self, before: &Value, after: &Value) {
        self.prune(after);
        let Some(changed) = changed("", Some(before), after) else {
            return;
        };
        let updated = merge("", &self.updated(), &changed);
        self.updated = updated.to_string().into();
    }

    /// Applies `body` to `object` for `manager`, with `force`.
    pub(crate) fn apply(&mut self, object: &mut Value, body: &Value, manager: &str) {
        let updated = self.updated();
        if let Some(former) = self.applied.remove(manager) {
            let others = self.applied.values().chain([&updated]).collect::<Vec<_>>();
            *object = remove("", object, &former, Some(body), &others).unwrap_or_default();
        }
        *object = merge("", object, body);
        self.prune(object);
        self.applied.insert(manager.to_owned(), body.clone());
    }

    /// Returns the conflicts of an apply, each with the owner of the field. A field of `body` is in conflict if another
    /// manager owns it with another value.
    pub(crate) fn conflicts(&self, body: &Value, manager: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (other, owned) in self.applied.iter().filter(|(other, _)| *other != manager) {
            conflicts("", owned, body, "", &mut |path| {
                found.push((path.to_owned(), other.clone()));
            });
        }
        conflicts("", &self.updated(), body, "", &mut |path| {
            found.push((path.to_owned(), "update".to_owned()));
        });
        found
    }

    /// Removes the ownership of fields whose value has changed.
    fn prune(&mut self, object: &Value) {
        let kept = |owned: &Value| kept("", owned, Some(object));
        self.applied = std::mem::take(&mut self.applied)
            .into_iter()
            .filter_map(|(manager, owned)| Some((manager, kept(&owned)?)))
            .collect();
        let updated = self.updated();
        let kept = kept(&updated).unwrap_or_default();
        if kept != updated {
            self.updated = kept.to_string().into();
        }
    }
}

/// How the items of a list are identified.
#[derive(Clone, Copy)]
enum Items {
    /// By the value of the item.
    Set,
    /// By this field of the item.
    Map(&'static str),
}

/// Returns how the items of a list in this field are identified, as in our CRDs. Returns `None` for an atomic list.
fn items(field: &str, list: &[Value]) -> Option<Items> {
    let items = match field {
        "finalizers" => Items::Set,
        "ownerReferences" => Items::Map("uid"),
        "cells" | "containers" | "env" | "ports" | "schedulingGates" | "volumes" => {
            Items::Map("name")
        }
        _ => return None,
    };
    let has_key = |item: &Value| match items {
        Items::Set => item.is_string(),
        Items::Map(key) => item[key].is_string(),
    };
    list.iter().all(has_key).then_some(items)
}

/// Returns the parts of a value that have separate owners, each with its name. Returns `None` for an atomic value.
fn parts<'v>(field: &str, value: &'v Value) -> Option<Vec<(&'v str, &'v Value)>> {
    match value {
        Value::Object(fields) => Some(
            fields
                .iter()
                .map(|(name, value)| (name.as_str(), value))
                .collect(),
        ),
        Value::Array(list) => {
            let items = items(field, list)?;
            let name = |item: &'v Value| match items {
                Items::Set => item.as_str(),
                Items::Map(key) => item[key].as_str(),
            };
            let named = list.iter().map(|item| (name(item), item));
            Some(
                named
                    .map(|(name, item)| (name.unwrap_or_default(), item))
                    .collect(),
            )
        }
        _ => None,
    }
}

/// The parts of two values. Exists only if both values have parts.
type Both<'a, 'b> = (Vec<(&'a str, &'a Value)>, Vec<(&'b str, &'b Value)>);

fn both<'a, 'b>(field: &str, one: &'a Value, other: &'b Value) -> Option<Both<'a, 'b>> {
    let is_same_form = one.is_object() == other.is_object();
    is_same_form
        .then(|| Some((parts(field, one)?, parts(field, other)?)))
        .flatten()
}

fn find<'v>(parts: &[(&str, &'v Value)], name: &str) -> Option<&'v Value> {
    let found = parts.iter().find(|(of, _)| *of == name);
    found.map(|(_, value)| *value)
}

/// Builds a value of the same form as `like` from these parts.
fn build<'p>(like: &Value, parts: impl IntoIterator<Item = (&'p str, Value)>) -> Value {
    let parts = parts.into_iter();
    match like {
        Value::Array(_) => Value::Array(parts.map(|(_, value)| value).collect()),
        _ => Value::Object(
            parts
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>(),
        ),
    }
}

/// Merges `new` into `old`.
fn merge(field: &str, old: &Value, new: &Value) -> Value {
    let Some((olds, news)) = both(field, old, new) else {
        return new.clone();
    };
    let mut merged: Vec<_> = olds
        .iter()
        .map(|(name, value)| match find(&news, name) {
            Some(new) => (*name, merge(name, value, new)),
            None => (*name, (*value).clone()),
        })
        .collect();
    for (name, value) in news {
        if find(&olds, name).is_none() {
            merged.push((name, value.clone()));
        }
    }
    build(new, merged)
}

/// Returns the fields of `owned` that still have the same value in the object.
fn kept(field: &str, owned: &Value, object: Option<&Value>) -> Option<Value> {
    let object = object?;
    let Some((owneds, parts)) = both(field, owned, object) else {
        return (owned == object).then(|| owned.clone());
    };
    let is_empty = owneds.is_empty();
    let keeps: Vec<_> = owneds
        .into_iter()
        .filter_map(|(name, value)| Some((name, kept(name, value, find(&parts, name))?)))
        .collect();
    (is_empty || !keeps.is_empty()).then(|| build(owned, keeps))
}

/// Returns the fields of `after` that differ from `before`.
fn changed(field: &str, before: Option<&Value>, after: &Value) -> Option<Value> {
    let Some((befores, afters)) = before.and_then(|before| both(field, before, after)) else {
        return (before != Some(after)).then(|| after.clone());
    };
    let changes: Vec<_> = afters
        .into_iter()
        .filter_map(|(name, value)| Some((name, changed(name, find(&befores, name), value)?)))
        .collect();
    (!changes.is_empty()).then(|| build(after, changes))
}

/// Removes from the object the fields that are in `former` but not in `body`. Keeps a field that another manager owns
/// too.
fn remove(
    field: &str,
    object: &Value,
    former: &Value,
    body: Option<&Value>,
    others: &[&Value],
) -> Option<Value> {
    let Some((values, formers)) = both(field, object, former) else {
        let stays = body.is_some() || !others.is_empty();
        return stays.then(|| object.clone());
    };
    let bodies = body.and_then(|body| parts(field, body)).unwrap_or_default();
    let others: Vec<_> = others
        .iter()
        .filter_map(|other| parts(field, other))
        .collect();
    let left: Vec<_> = values
        .into_iter()
        .filter_map(|(name, value)| {
            let Some(former) = find(&formers, name) else {
                return Some((name, value.clone()));
            };
            let others: Vec<_> = others
                .iter()
                .filter_map(|other| find(other, name))
                .collect();
            let body = find(&bodies, name);
            Some((name, remove(name, value, former, body, &others)?))
        })
        .collect();
    let stays = !left.is_empty() || body.is_some() || !others.is_empty();
    stays.then(|| build(object, left))
}

/// Finds the fields that both values contain with different contents.
fn conflicts(field: &str, owned: &Value, body: &Value, path: &str, found: &mut impl FnMut(&str)) {
    let Some((owneds, bodies)) = both(field, owned, body) else {
        if owned != body && !owned.is_null() {
            found(path);
        }
        return;
    };
    for (name, value) in bodies {
        if let Some(owned) = find(&owneds, name) {
            conflicts(name, owned, value, &format!("{path}.{name}"), found);
        }
    }
}

#[cfg(test)]
mod tests;
