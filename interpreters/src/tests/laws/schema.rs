//! Checks a status against the schema of the CRD. The API server does the same before it stores a status.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use api::crds;
use regex::Regex;
use serde_json::{Value, json};

static STATUS: LazyLock<Value> = LazyLock::new(|| {
    let definitions = serde_json::to_value(crds::definitions().unwrap()).unwrap();
    let of_kind = |kind: &Value| kind["spec"]["names"]["kind"] == "WorkloadDeployment";
    let definition = definitions
        .as_array()
        .unwrap()
        .iter()
        .find(|d| of_kind(d))
        .unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"].clone()
});

/// Returns the violations of the schema. The list is empty if the status is valid.
pub(super) fn violations(status: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(&STATUS, status, "status", &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let type_ = schema["type"].as_str().unwrap_or_default();
    let right_type = match type_ {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        other => panic!("{path}: the schema has type {other:?}, which this check does not know"),
    };
    if !right_type {
        return found.push(format!("{path}: {value} is no {type_}"));
    }
    let mut require = |holds: bool, rule: &str| {
        if !holds {
            found.push(format!("{path}: {value} breaks {rule}"));
        }
    };
    if let Some(minimum) = schema["minimum"].as_f64() {
        require(value.as_f64().unwrap() >= minimum, "minimum");
    }
    if schema["format"] == "int32" {
        require(i32::try_from(value.as_i64().unwrap()).is_ok(), "int32");
    }
    if let Some(text) = value.as_str() {
        let length = u64::try_from(text.chars().count()).unwrap();
        require(
            schema["maxLength"].as_u64().is_none_or(|max| length <= max),
            "maxLength",
        );
        require(
            schema["minLength"].as_u64().is_none_or(|min| length >= min),
            "minLength",
        );
        if let Some(pattern) = schema["pattern"].as_str() {
            static PATTERNS: LazyLock<Mutex<HashMap<String, Regex>>> =
                LazyLock::new(Mutex::default);
            let mut patterns = PATTERNS.lock().unwrap();
            let pattern = patterns
                .entry(pattern.to_owned())
                .or_insert_with(|| Regex::new(pattern).unwrap());
            require(pattern.is_match(text), "pattern");
        }
        if schema["format"] == "date-time" {
            static RFC3339: LazyLock<Regex> = LazyLock::new(|| {
                Regex::new(r"^\d{4}-(0\d|1[0-2])-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)$").unwrap()
            });
            require(RFC3339.is_match(text), "date-time");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        require(values.contains(value), "enum");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        require(
            value.get(name.as_str().unwrap()).is_some(),
            &format!("required {name}"),
        );
    }
    if schema["x-kubernetes-list-type"] == "map" {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
        let items = value.as_array().unwrap().iter();
        let mut seen: Vec<Value> = items
            .map(|item| {
                json!(
                    keys.iter()
                        .map(|key| &item[key.as_str().unwrap()])
                        .collect::<Vec<_>>()
                )
            })
            .collect();
        let count = seen.len();
        seen.sort_by_key(ToString::to_string);
        seen.dedup();
        require(seen.len() == count, "list-map keys");
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        // The API server prunes unknown fields.
        if let Some(schema) = schema["properties"].get(name) {
            check(schema, value, &format!("{path}.{name}"), found);
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], value, &format!("{path}[{index}]"), found);
    }
}
