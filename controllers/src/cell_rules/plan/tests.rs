use serde_json::{Value, json};

use super::*;
use crate::fixtures::object;

fn rule(name: &str, cells: &Value, rules: &Value) -> Arc<CellRule> {
    Arc::new(object(json!({
        "metadata": {"name": name, "generation": 1}, "spec": {"cells": cells, "rules": rules},
    })))
}

fn cells(all: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, StringMap> {
    let labels = |labels: &[(&str, &str)]| {
        let labels = labels.iter();
        labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let all = all.iter();
    all.map(|(name, of)| ((*name).to_owned(), labels(of)))
        .collect()
}

/// The stamp of `{"labels":[{"key":"site","value":"x"}]}`.
const STAMP: &str = "709040075";

fn stamp_of(policy: Option<&ClusterOverridePolicySpec>, cell: &str) -> Option<i64> {
    stamps_of(policy, [cell].into_iter())[cell]
}

fn label(value: &str) -> Value {
    json!({"labels": [{"key": "site", "value": value}]})
}

#[test]
fn cells_with_the_same_rules_are_one_group() {
    let cells = cells(&[
        ("a", &[("tier", "far")]),
        ("b", &[("tier", "near")]),
        ("c", &[("tier", "far")]),
        ("d", &[]),
    ]);
    let rules = [
        rule(
            "2",
            &json!({"matchLabels": {"tier": "far"}}),
            &json!({"labels": [{"key": "site", "value": "x"}, {"key": "far", "value": "1"}]}),
        ),
        rule(
            "1",
            &json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
            &label("y"),
        ),
        rule("3", &json!({"matchLabels": {"tier": "none"}}), &label("z")),
    ];
    let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells);
    let policy = policy(&of_cells);
    let spec = json!(policy);
    let of = |index: usize| {
        let rule = &spec["overrideRules"][index];
        let text = &rule["overriders"]["annotationsOverrider"][0]["value"][CELL_RULES];
        let rules: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        (rule["targetCluster"]["clusterNames"].clone(), rules)
    };
    assert_eq!(
        of(0),
        (
            json!(["a", "c"]),
            json!({"labels": [{"key": "site", "value": "y"}, {"key": "far", "value": "1"}]})
        )
    );
    assert_eq!(of(1), (json!(["b"]), label("y")));
    assert_eq!(spec["overrideRules"].as_array().unwrap().len(), 2);
    let stamps = ["a", "b", "c", "d"].map(|cell| stamp_of(policy.as_ref(), cell).unwrap());
    assert!(stamps[0] != 0 && stamps[1] != 0 && stamps[0] != stamps[1]);
    assert_eq!((stamps[2], stamps[3]), (stamps[0], 0));
    assert_eq!(stamp_of(None, "a"), Some(0));
    assert_eq!(of_cells.cells["a"].names, ["1", "2"]);
    assert_eq!(of_cells.cells["b"].names, ["1"]);
    assert!(of_cells.problems.is_empty());
    let (in_policy, unreadable) = rules_in_policy(&policy.unwrap());
    let expected = of_cells.cells.iter();
    let expected = expected.map(|(cell, it)| (cell.clone(), it.rules.clone()));
    assert_eq!(in_policy, expected.collect());
    assert!(unreadable.is_empty());
    assert_eq!(super::policy(&rules_of_cells([], &cells)), None);
}

#[test]
fn the_stamp_of_a_policy_of_an_earlier_version_is_unknown() {
    let rules = [rule("1", &json!({}), &label("x"))];
    let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells(&[("a", &[])]));
    let mut policy = policy(&of_cells).unwrap();
    let overriders = &mut policy.override_rules[0].overriders;
    let value = &mut overriders.annotations_overrider[0].value;
    // Never another number for the same rules: all objects would count as stale.
    assert_eq!(value[CELL_RULES_STAMP], STAMP);
    value.remove(CELL_RULES_STAMP);
    assert_eq!(stamp_of(Some(&policy), "a"), None);
    assert_eq!(stamp_of(Some(&policy), "b"), Some(0));
}

#[test]
fn a_rule_that_cannot_count_is_reported_and_the_others_count() {
    let cells = cells(&[("a", &[])]);
    let long = "x".repeat(CELL_RULES_MAX);
    let rules = [
        rule(
            "bad",
            &json!({}),
            &json!({"images": [{"prefix": "", "replacement": "x"}]}),
        ),
        rule(
            "large",
            &json!({}),
            &json!({"env": [{"name": "A", "value": long}]}),
        ),
        rule(
            "odd",
            &json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            &label("x"),
        ),
        rule("right", &json!({}), &label("x")),
        // They would select all cells.
        rule(
            "none",
            &json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}),
            &label("x"),
        ),
        rule(
            "absent",
            &json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["b"]}]}),
            &label("x"),
        ),
        rule(
            "crossed",
            &json!({}),
            &json!({"replicas": {"min": 4, "max": 3}}),
        ),
    ];
    let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells);
    assert_eq!(of_cells.cells["a"].names, ["right"]);
    let now = crate::fixtures::now();
    let statuses = changed_statuses(&rules, &of_cells, |_| None, now);
    let shown = statuses.iter().map(|(rule, status)| {
        let condition = &status.conditions[0];
        (
            rule.name_any(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    });
    let shown: Vec<_> = shown.collect();
    for (name, reason, message) in [
        (
            "absent",
            "Invalid",
            "spec.cells.matchExpressions[0].values: no value is allowed",
        ),
        ("bad", "Invalid", "spec.rules.images[].prefix is empty"),
        ("crossed", "Invalid", "spec.rules.replicas.min is 4"),
        ("large", "TooLarge", "cell a would have"),
        (
            "none",
            "Invalid",
            "spec.cells.matchExpressions[0].values: at least one value is required",
        ),
        ("odd", "Invalid", "spec.cells: "),
        ("right", "Accepted", "cells with the rule: 1"),
    ] {
        let found = shown.iter().find(|(of, ..)| of == name).unwrap();
        assert!(found.1 == reason && found.2.contains(message), "{found:?}");
    }
}

/// The cell must be able to read what the policy gives it.
#[test]
fn the_rules_of_several_objects_can_be_longer_than_a_list_of_one() {
    let of = |name: &str| {
        let env = (0..40).map(|it| json!({"name": format!("{name}{it}"), "value": ""}));
        rule(name, &json!({}), &json!({"env": env.collect::<Vec<_>>()}))
    };
    let rules = [of("a"), of("b")];
    let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells(&[("dfw1", &[])]));
    assert!(of_cells.problems.is_empty());
    let (in_policy, unreadable) = rules_in_policy(&policy(&of_cells).unwrap());
    assert!(unreadable.is_empty(), "{unreadable:?}");
    assert_eq!(in_policy["dfw1"].env.len(), 80);
    let env = (0..65).map(|it| json!({"name": it.to_string(), "value": ""}));
    let long = rule("long", &json!({}), &json!({"env": env.collect::<Vec<_>>()}));
    let of_cells = rules_of_cells([long.as_ref()], &cells(&[("dfw1", &[])]));
    assert_eq!(of_cells.problems["long"].reason, "Invalid");
}

/// A rule for which there is no space does not count, and a smaller one after it does.
#[test]
fn the_rules_of_a_cell_together_have_a_maximum() {
    let of = |name: &str, size: usize| {
        let value = "x".repeat(size);
        rule(
            name,
            &json!({}),
            &json!({"env": [{"name": name, "value": value}]}),
        )
    };
    let half = CELL_RULES_MAX / 2;
    // The last one is for something that has a rule already.
    let rules = [
        of("a", half),
        of("b", half),
        of("c", half / 2),
        rule(
            "d",
            &json!({}),
            &json!({"env": [{"name": "a", "value": "x".repeat(half)}]}),
        ),
    ];
    let of_cells = rules_of_cells(
        rules.iter().map(AsRef::as_ref),
        &cells(&[("dfw1", &[]), ("dfw2", &[])]),
    );
    let expected = &of_cells.cells["dfw1"];
    assert_eq!(expected.names, ["a", "c", "d"]);
    assert_eq!(expected.rules.env.len(), 2);
    assert!(Arc::ptr_eq(expected, &of_cells.cells["dfw2"]));
    let problems: Vec<_> = of_cells.problems.keys().collect();
    assert_eq!(problems, ["b"]);
    assert!(
        of_cells.problems["b"]
            .message
            .contains("cell dfw1 would have")
    );
}

#[test]
fn a_settled_rule_has_no_new_status() {
    let mut settled = rule("right", &json!({}), &label("x"));
    let cells = cells(&[("a", &[])]);
    let now = crate::fixtures::now();
    let of = |rule: &Arc<CellRule>, refusal: Option<&str>| {
        let refused = |message: &str| Problem {
            reason: reason::POLICY_REFUSED,
            message: message.to_owned(),
        };
        let rules = [Arc::clone(rule)];
        let of_cells = rules_of_cells([rule.as_ref()], &cells);
        let changed = changed_statuses(&rules, &of_cells, |_| refusal.map(refused), now);
        changed.into_iter().map(|(_, status)| status).next()
    };
    let status = of(&settled, None).unwrap();
    Arc::make_mut(&mut settled).status = Some(status);
    assert_eq!(of(&settled, None), None);
    let refused = of(&settled, Some("no")).unwrap();
    assert_eq!(refused.conditions[0].reason, "PolicyRefused");
    assert_eq!(refused.cells, 1, "the cell keeps the rule");
}

#[test]
fn a_policy_that_cannot_be_stored_is_not_written() {
    let name = |number: usize| format!("c{number}");
    let of_number = |number: usize| {
        let value = "x".repeat(CELL_RULES_MAX / 2);
        rule(
            &name(number),
            &json!({"matchLabels": {"name": name(number)}}),
            &json!({"env": [{"name": name(number), "value": value}]}),
        )
    };
    for (count, fits) in [(10, true), (40, false)] {
        let rules: Vec<_> = (0..count).map(of_number).collect();
        let cells =
            (0..count).map(|it| (name(it), StringMap::from([("name".to_owned(), name(it))])));
        let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells.collect());
        assert_eq!(of_cells.cells.len(), count);
        let policy = policy(&of_cells);
        assert_eq!(too_large(policy.as_ref()).is_none(), fits);
    }
}
