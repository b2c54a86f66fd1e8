use serde_json::{Value, json};

use super::*;
use crate::fixtures::object;

fn spec(change: &Value) -> WorkloadSummarySpec {
    let mut spec = json!({
        "workload": "web", "rows": "Cells",
        "columns": [{"name": "city", "path": "$.city"}, {"name": "ready", "path": "$.status.readyReplicas"}],
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    object(spec)
}

#[test]
fn a_problem_names_its_field() {
    let many: Vec<_> = (0..17)
        .map(|it| json!({"name": format!("c{it}"), "path": "$"}))
        .collect();
    let filter = |operator: &str, values: Value| json!({"where": [{"column": "ready", "operator": operator, "values": values}]});
    let selector = |expression: Value| json!({"workload": null, "selector": {"matchExpressions": [expression]}});
    let labels: Value = (0..17).map(|it| (format!("l{it}"), json!("x"))).collect();
    for (change, problem) in [
        (
            json!({"selector": {}}),
            "spec: exactly one of workload and selector is required",
        ),
        (
            json!({"workload": null}),
            "spec: exactly one of workload and selector is required",
        ),
        (
            json!({"workload": null, "selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            "spec.selector: ",
        ),
        (
            selector(json!({"key": "a", "operator": "In", "values": vec!["x"; 17]})),
            "spec.selector.matchExpressions[0].values: more than 16 entries",
        ),
        (
            selector(json!({"key": "a", "operator": "NotIn"})),
            "spec.selector.matchExpressions[0].values: at least one value is required",
        ),
        (
            selector(json!({"key": "a", "operator": "DoesNotExist", "values": ["x"]})),
            "spec.selector.matchExpressions[0].values: no value is allowed",
        ),
        (
            json!({"workload": null, "selector": {"matchExpressions": vec![json!({"key": "a", "operator": "Exists"}); 17]}}),
            "spec.selector.matchExpressions: more than 16 entries",
        ),
        (
            json!({"workload": null, "selector": {"matchLabels": labels}}),
            "spec.selector.matchLabels: more than 16 entries",
        ),
        (
            json!({"groupBy": ["city"], "aggregates": [{"name": "city", "function": "Count"}]}),
            "spec.aggregates[0].name: groupBy has a column of the name \"city\"",
        ),
        (
            json!({"aggregates": vec![json!({"name": "n", "function": "Count"}); 2]}),
            "spec.aggregates: a name is there twice",
        ),
        (
            json!({"columns": many}),
            "spec.columns: more than 16 entries",
        ),
        (
            json!({"columns": [{"name": "a", "path": "$"}, {"name": "a", "path": "$"}]}),
            "spec.columns: a name is there twice",
        ),
        (
            json!({"columns": [{"name": "a", "path": "$.a"}, {"name": "b", "path": "a"}]}),
            "spec.columns[1].path: character 1: `$` is expected, not `a`",
        ),
        (
            json!({"columns": [{"name": "a", "path": format!("$.{}", "a".repeat(255))}]}),
            "spec.columns[0].path: more than 256 characters",
        ),
        (
            json!({"groupBy": ["city", "x"]}),
            "spec.groupBy[1]: no column has the name \"x\"",
        ),
        (
            json!({"aggregates": [{"name": "n", "function": "Sum"}]}),
            "spec.aggregates[0].column is required, except for Count",
        ),
        (
            json!({"aggregates": [{"name": "n", "function": "Sum", "column": "x"}]}),
            "spec.aggregates[0].column: no column has the name \"x\"",
        ),
        (
            json!({"where": [{"column": "x", "operator": "Exists"}]}),
            "spec.where[0].column: no column has the name \"x\"",
        ),
        (
            filter("In", json!([])),
            "spec.where[0].values: at least one value is required",
        ),
        (
            filter("Exists", json!(["1"])),
            "spec.where[0].values: no value is allowed",
        ),
        (
            filter("LessThan", json!(["1", "2"])),
            "spec.where[0].values: exactly one value is required",
        ),
        (
            filter("GreaterThan", json!(["x"])),
            "spec.where[0].values: \"x\" is neither a number, nor a quantity, nor a time",
        ),
    ] {
        let found = Query::of(&spec(&change)).unwrap_err();
        assert!(found.starts_with(problem), "{change}: {found}");
    }
}

#[test]
fn a_query_knows_which_parts_of_a_document_it_reads() {
    let query = Query::of(&spec(&json!({}))).unwrap();
    assert!(query.reads("city") && query.reads("status"));
    assert!(!query.reads("deployment"));
    let whole = json!({"columns": [{"name": "a", "path": "$[?@.x == 1]"}]});
    assert!(Query::of(&spec(&whole)).unwrap().reads("deployment"));
}

#[test]
fn workloads_are_selected_by_name_or_labels() {
    let labelled: ObjectMeta = object(json!({"name": "web", "labels": {"app": "shop"}}));
    let plain: ObjectMeta = object(json!({"name": "api"}));
    let by = |change: Value| Query::of(&spec(&change)).unwrap().workloads;
    let selects =
        |workloads: SelectedWorkloads| (workloads.contains(&labelled), workloads.contains(&plain));
    assert_eq!(selects(by(json!({}))), (true, false));
    assert_eq!(
        selects(by(json!({"workload": null, "selector": {}}))),
        (true, true)
    );
    let selector = json!({"matchLabels": {"app": "shop"}});
    assert_eq!(
        selects(by(json!({"workload": null, "selector": selector}))),
        (true, false)
    );
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    assert_eq!(
        selects(by(json!({"workload": null, "selector": selector}))),
        (false, true)
    );
}
