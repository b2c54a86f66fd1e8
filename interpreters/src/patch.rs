//! JSON patches (RFC 6902) as they go back to Karmada. Each operation is an `add`, which works whether or not the field
//! is there.

use serde::Serialize;
use serde_json::value::RawValue;

/// A patch against `request.object`. Empty means that nothing changes.
#[derive(Debug, Default)]
pub(crate) struct Patch(Vec<Add>);

#[derive(Debug, Serialize)]
struct Add {
    op: &'static str,
    path: &'static str,
    value: Box<RawValue>,
}

impl Patch {
    /// Sets the field at this JSON pointer; its parent must exist.
    pub(crate) fn add(&mut self, path: &'static str, value: Box<RawValue>) {
        self.0.push(Add {
            op: "add",
            path,
            value,
        });
    }

    /// Sets the field at this JSON pointer to a number; its parent must exist.
    pub(crate) fn add_number(&mut self, path: &'static str, value: i32) {
        if let Ok(value) = RawValue::from_string(value.to_string()) {
            self.add(path, value);
        }
    }

    /// Whether the patch changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patch as JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}
