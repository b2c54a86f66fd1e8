use serde_json::json;

use super::*;

/// Applies the bodies of several managers in order.
fn apply_all(object: &Value, bodies: &[(&str, Value)]) -> (Value, Owners) {
    let (mut object, mut owners) = (object.clone(), Owners::default());
    for (manager, body) in bodies {
        owners.apply(&mut object, body, manager);
    }
    (object, owners)
}

#[test]
fn a_field_that_is_applied_no_more_is_removed_unless_another_manager_owns_it() {
    let bodies = [
        ("one", json!({"status": {"a": 1, "b": {"c": 1, "d": 1}}})),
        ("other", json!({"status": {"a": 1}})),
        ("one", json!({"status": {"b": {"c": 3}}})),
    ];
    let (object, _) = apply_all(&json!({"spec": {"kept": 1}}), &bodies);
    let expected = json!({"spec": {"kept": 1}, "status": {"a": 1, "b": {"c": 3}}});
    assert_eq!(object, expected);
}

#[test]
fn a_manager_loses_the_fields_that_another_changes() {
    let bodies = [
        ("one", json!({"data": {"a": 1, "b": 1}})),
        ("other", json!({"data": {"a": 2}})),
        ("one", json!({"data": {"b": 1}})),
    ];
    let (mut object, mut owners) = apply_all(&json!({}), &bodies);
    assert_eq!(object, json!({"data": {"a": 2, "b": 1}}));
    let before = object.clone();
    object["data"]["b"] = json!(2);
    owners.update(&before, &object);
    owners.apply(&mut object, &json!({"data": {}}), "one");
    assert_eq!(object, json!({"data": {"a": 2, "b": 2}}));
}

#[test]
fn a_created_field_stays_when_it_is_applied_no_more() {
    let mut object = json!({"data": {"a": 1}});
    let mut owners = Owners::of_created(object.to_string().into());
    owners.apply(&mut object, &json!({"data": {"a": 1, "b": 1}}), "one");
    owners.apply(&mut object, &json!({"data": {}}), "one");
    assert_eq!(object, json!({"data": {"a": 1}}));
}

#[test]
fn finalizers_are_a_set_and_named_items_are_merged_by_name() {
    let object = json!({
        "metadata": {"finalizers": ["a"]},
        "spec": {"env": [{"name": "A", "value": "1"}], "list": [1, 2]},
    });
    let body = json!({
        "metadata": {"finalizers": ["b"]},
        "spec": {"env": [{"name": "B", "value": "2"}], "list": [3]},
    });
    let (object, _) = apply_all(&object, &[("one", body)]);
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    let expected =
        json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"env": env, "list": [3]}});
    assert_eq!(object, expected);
}

#[test]
fn a_conflict_names_the_field_and_its_owner() {
    let (object, mut owners) = apply_all(&json!({}), &[("one", json!({"data": {"a": 1}}))]);
    let conflicts =
        |owners: &Owners, value: u32| owners.conflicts(&json!({"data": {"a": value}}), "other");
    assert_eq!(conflicts(&owners, 1), []);
    let expected = [(".data.a".to_owned(), "one".to_owned())];
    assert_eq!(conflicts(&owners, 2), expected);
    owners.update(&object, &json!({"data": {"a": 3}}));
    let expected = [(".data.a".to_owned(), "update".to_owned())];
    assert_eq!(conflicts(&owners, 2), expected);
}
