//! Server-side apply, as far as it is used: always by force, lists are replaced as a whole, but for those of the metadata,
//! which are sets.

use std::collections::BTreeMap;

use serde_json::Value;

/// What each field manager has applied last.
pub(super) type Applied = BTreeMap<String, Value>;

/// Lists that are merged.
const SETS: [&str; 2] = ["finalizers", "ownerReferences"];

/// Applies `body` for `manager`. What the manager has applied before, and no one else has, goes where `body` leaves it out.
pub(super) fn apply(object: &mut Value, body: &Value, manager: &str, applied: &mut Applied) {
    if let Some(former) = applied.remove(manager) {
        let others: Vec<_> = applied.values().collect();
        remove(object, &former, body, &others);
    }
    merge(object, body);
    applied.insert(manager.to_owned(), body.clone());
}

fn merge(object: &mut Value, body: &Value) {
    let Value::Object(fields) = body else {
        *object = body.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    let Some(object) = object.as_object_mut() else {
        return;
    };
    for (key, value) in fields {
        match (object.get_mut(key), value) {
            (Some(Value::Array(existing)), Value::Array(more)) if SETS.contains(&key.as_str()) => {
                let new = more.iter().filter(|item| !existing.contains(item));
                let new: Vec<_> = new.cloned().collect();
                existing.extend(new);
            }
            (Some(existing), value) => merge(existing, value),
            (None, value) => {
                object.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Removes what is in `former` and not in `body`, unless one of the others has it too.
fn remove(object: &mut Value, former: &Value, body: &Value, others: &[&Value]) {
    let (Some(fields), Value::Object(former)) = (object.as_object_mut(), former) else {
        return;
    };
    for (key, value) in former {
        let others: Vec<_> = others.iter().filter_map(|other| other.get(key)).collect();
        match (body.get(key), fields.get_mut(key)) {
            (Some(body), Some(field)) => remove(field, value, body, &others),
            (None, Some(_)) if others.is_empty() => {
                fields.remove(key);
            }
            (None, Some(field)) => remove(field, value, &Value::Null, &others),
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_applied_no_more_goes_unless_another_has_applied_it() {
        let mut applied = Applied::new();
        let mut object = json!({"spec": {"kept": 1}});
        let first = json!({"status": {"a": 1, "b": {"c": 1, "d": 1}}});
        apply(&mut object, &first, "one", &mut applied);
        apply(
            &mut object,
            &json!({"status": {"a": 2}}),
            "other",
            &mut applied,
        );
        let second = json!({"status": {"b": {"c": 3}}});
        apply(&mut object, &second, "one", &mut applied);
        let expected = json!({"spec": {"kept": 1}, "status": {"a": 2, "b": {"c": 3}}});
        assert_eq!(object, expected);
    }

    #[test]
    fn finalizers_of_others_stay() {
        let mut object = json!({"metadata": {"finalizers": ["a"]}});
        let body = json!({"metadata": {"finalizers": ["b"]}});
        apply(&mut object, &body, "one", &mut Applied::new());
        assert_eq!(object, json!({"metadata": {"finalizers": ["a", "b"]}}));
    }
}
