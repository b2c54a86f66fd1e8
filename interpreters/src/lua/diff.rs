//! The JSON patch (RFC 6902) that makes one object of another.

use serde_json::{Value, json};

/// Returns the operations of the patch. Lists are replaced as a whole.
pub(super) fn diff(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(before, after, &mut String::new(), &mut operations);
    operations
}

fn compare(before: &Value, after: &Value, path: &mut String, operations: &mut Vec<Value>) {
    let (Value::Object(former), Value::Object(current)) = (before, after) else {
        if before != after {
            operations.push(json!({"op": "replace", "path": path, "value": after}));
        }
        return;
    };
    for field in former.keys() {
        if !current.contains_key(field) {
            let path = at(path, field);
            operations.push(json!({"op": "remove", "path": path}));
        }
    }
    for (field, value) in current {
        match former.get(field) {
            Some(former) => {
                let length = path.len();
                *path = at(path, field);
                compare(former, value, path, operations);
                path.truncate(length);
            }
            None => {
                let path = at(path, field);
                operations.push(json!({"op": "add", "path": path, "value": value}));
            }
        }
    }
}

/// Returns the JSON pointer (RFC 6901) of a field.
fn at(path: &str, field: &str) -> String {
    let field = field.replace('~', "~0").replace('/', "~1");
    format!("{path}/{field}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_names_what_differs() {
        let before = json!({"a": 1, "b": {"c/d": [1], "e~f": null}, "g": {}});
        let after = json!({"a": 1, "b": {"c/d": [1, 2]}, "g": [], "h": {"i": 1}});
        assert_eq!(diff(&before, &before), [Value::Null; 0]);
        assert_eq!(
            json!(diff(&before, &after)),
            json!([
                {"op": "remove", "path": "/b/e~0f"},
                {"op": "replace", "path": "/b/c~1d", "value": [1, 2]},
                {"op": "replace", "path": "/g", "value": []},
                {"op": "add", "path": "/h", "value": {"i": 1}},
            ])
        );
    }
}
