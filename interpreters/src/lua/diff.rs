//! The JSON patch (RFC 6902) that makes one object of another.

use serde_json::{Value, json};

/// The operations of the patch would be larger than the limit.
#[derive(Debug, PartialEq)]
pub(super) struct TooLarge;

/// Returns the operations of the patch, which need about `limit` bytes of memory at most. Lists are replaced as a whole.
pub(super) fn diff(before: &Value, after: Value, limit: usize) -> Result<Vec<Value>, TooLarge> {
    let mut differences = Differences {
        operations: Vec::new(),
        path: String::new(),
        left: limit,
    };
    differences.compare(before, after)?;
    Ok(differences.operations)
}

struct Differences {
    operations: Vec<Value>,
    /// JSON pointer (RFC 6901) of the values that are compared.
    path: String,
    /// How many bytes of memory the operations can still need.
    left: usize,
}

impl Differences {
    fn compare(&mut self, before: &Value, after: Value) -> Result<(), TooLarge> {
        let (former, current) = match (before, after) {
            (Value::Object(former), Value::Object(current)) => (former, current),
            (before, after) if *before == after => return Ok(()),
            (_, after) => return self.add("replace", Some(after)),
        };
        for field in former.keys() {
            if !current.contains_key(field) {
                self.below(field, |this| this.add("remove", None))?;
            }
        }
        for (field, value) in current {
            self.below(&field, |this| match former.get(&field) {
                Some(former) => this.compare(former, value),
                None => this.add("add", Some(value)),
            })?;
        }
        Ok(())
    }

    /// Runs `then` with the path of a field.
    fn below<R>(&mut self, field: &str, then: impl FnOnce(&mut Self) -> R) -> R {
        let length = self.path.len();
        self.path.push('/');
        self.path
            .push_str(&field.replace('~', "~0").replace('/', "~1"));
        let result = then(self);
        self.path.truncate(length);
        result
    }

    fn add(&mut self, op: &str, value: Option<Value>) -> Result<(), TooLarge> {
        /// Memory of an operation without its path and value, in bytes, rounded up.
        const OPERATION: usize = 800;
        let size = OPERATION + self.path.len();
        self.left = self.left.checked_sub(size).ok_or(TooLarge)?;
        let mut operation = json!({"op": op, "path": self.path});
        if let (Some(value), Some(fields)) = (value, operation.as_object_mut()) {
            fields.insert("value".to_owned(), value);
        }
        self.operations.push(operation);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_names_what_differs() {
        let before = json!({"a": 1, "b": {"c/d": [1], "e~f": null}, "g": {}});
        let after = json!({"a": 1, "b": {"c/d": [1, 2]}, "g": [], "h": {"i": 1}});
        assert_eq!(diff(&before, before.clone(), 0), Ok(Vec::new()));
        let operations = diff(&before, after, 10_000).unwrap();
        assert_eq!(
            json!(operations),
            json!([
                {"op": "remove", "path": "/b/e~0f"},
                {"op": "replace", "path": "/b/c~1d", "value": [1, 2]},
                {"op": "replace", "path": "/g", "value": []},
                {"op": "add", "path": "/h", "value": {"i": 1}},
            ])
        );
    }

    /// Each operation repeats the path.
    #[test]
    fn a_long_path_does_not_multiply() {
        let fields: serde_json::Map<_, _> =
            (0..10_000).map(|i| (i.to_string(), Value::Null)).collect();
        let key = "k".repeat(100_000);
        let before = json!({key.as_str(): fields});
        let after = json!({key.as_str(): {}});
        assert_eq!(diff(&before, after, 1 << 20), Err(TooLarge));
    }
}
