//! The expressions of the dashboards.

use std::fs;

use harness::checkout::root;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::promtool;

const DASHBOARDS: &str = "deploy/components/dashboards";
/// The values that Grafana gives to its variables.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "2m"), ("$namespace", ".*")];

/// Adds the expressions of all panels. Rows contain panels too.
fn collect(panel: &Value, expressions: &mut Vec<String>) {
    let list = |field: &str| panel[field].as_array().cloned().unwrap_or_default();
    for target in list("targets") {
        expressions.push(target["expr"].as_str().unwrap().to_owned());
    }
    for inner in list("panels") {
        collect(&inner, expressions);
    }
}

fn expressions() -> Vec<String> {
    let mut expressions = Vec::new();
    for entry in fs::read_dir(root().join(DASHBOARDS)).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let dashboard = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            collect(&dashboard, &mut expressions);
        }
    }
    expressions
}

/// Promtool parses the expressions of recording rules, so each expression becomes one.
#[test]
fn every_expression_of_a_panel_is_valid() {
    let expressions = expressions();
    assert!(expressions.len() > 40, "{}", expressions.len());
    let rules = expressions.iter().enumerate().map(|(index, expression)| {
        let mut expression = expression.clone();
        for (variable, value) in VARIABLES {
            expression = expression.replace(variable, value);
        }
        assert!(!expression.contains('$'), "unknown variable: {expression}");
        json!({"record": format!("panel:expression:{index}"), "expr": expression})
    });
    let group = json!({"name": "dashboards", "rules": rules.collect::<Vec<_>>()});
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("dashboards.yaml");
    fs::write(&file, json!({"groups": [group]}).to_string()).unwrap();
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &[&file]);
}
