//! JSON patches (RFC 6902) in the responses of the webhook. Every operation in a patch of the native
//! interpreter is `add`. The operation `add` also replaces an existing field.

use serde::Serialize;

/// The operations of a patch for `request.object`, as JSON. An empty patch means that nothing changes.
#[derive(Debug, Default)]
pub(crate) struct Patch(Vec<u8>);

impl Patch {
    /// Returns a patch of these operations.
    pub(crate) fn of_operations(operations: &[serde_json::Value]) -> Self {
        let mut patch = Self::default();
        for operation in operations {
            patch.0.push(if patch.0.is_empty() { b'[' } else { b',' });
            patch.0.extend_from_slice(operation.to_string().as_bytes());
        }
        patch
    }

    /// Sets the field at this JSON pointer. The parent of the field must exist. `write` appends the value as JSON. If
    /// there is no value, `write` returns false, and the patch does not change.
    pub(crate) fn add_written(
        &mut self,
        path: &'static str,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        let before = self.0.len();
        let separator = if before == 0 { "[" } else { "," };
        for part in [separator, r#"{"op":"add","path":""#, path, r#"","value":"#] {
            self.0.extend_from_slice(part.as_bytes());
        }
        if write(&mut self.0) {
            self.0.push(b'}');
        } else {
            self.0.truncate(before);
        }
    }

    /// Sets the field at this JSON pointer to a JSON text. The parent of the field must exist.
    pub(crate) fn add(&mut self, path: &'static str, value: &str) {
        self.add_written(path, |out| {
            out.extend_from_slice(value.as_bytes());
            true
        });
    }

    /// Sets the field at this JSON pointer to a number. The parent of the field must exist.
    pub(crate) fn add_number(&mut self, path: &'static str, value: i32) {
        self.add(path, &value.to_string());
    }

    /// Sets the field at this JSON pointer to a string that contains this value as JSON. The parent of the field must
    /// exist.
    pub(crate) fn add_json_text(&mut self, path: &'static str, value: &impl Serialize) {
        self.add_written(path, |out| {
            let text = serde_json::to_string(value);
            text.is_ok_and(|text| serde_json::to_writer(out, &text).is_ok())
        });
    }

    /// Returns the patch as JSON. Returns `None` if the patch has no operations.
    pub(crate) fn into_json(mut self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push(b']');
        Some(self.0)
    }
}
