//! Normalizes the responses of two API servers for comparison.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Fields of metadata that the comparison ignores, because the in-memory API server does not support them.
const DROPPED: [&str; 3] = ["managedFields", "remainingItemCount", "selfLink"];

/// Replaces UIDs and resource versions by names. The names depend only on the order in which the values appear. Also
/// keeps the metadata of answers for later requests.
#[derive(Default)]
pub(super) struct Normalizer {
    names: BTreeMap<String, String>,
    /// The metadata of answers. The key is the name in `Step::saves`.
    saved: BTreeMap<&'static str, Value>,
}

impl Normalizer {
    /// Returns the request with the values for each `$<saved>.<field>`. `<field>` is a field of the saved metadata.
    pub(super) fn fill(&self, request: &str) -> String {
        let mut request = request.to_owned();
        for (name, metadata) in &self.saved {
            for field in ["uid", "resourceVersion", "continue"] {
                let value = metadata[field].as_str().unwrap_or_default();
                request = request.replace(&format!("${name}.{field}"), value);
            }
        }
        request
    }

    /// Returns the code and the normalized body of an answer. The body of a watch is the list of its events without the
    /// bookmarks. How many bookmarks a kube-apiserver sends near the end of a watch depends on its load.
    pub(super) fn answer(&mut self, saves: &'static str, code: u16, text: &str) -> Value {
        let lines: Vec<Result<Value, _>> = text.lines().map(serde_json::from_str).collect();
        let body = match lines.into_iter().collect::<Result<Vec<Value>, _>>() {
            Ok(mut values) if values.len() == 1 && values[0].get("object").is_none() => {
                values.remove(0)
            }
            Ok(mut events) => {
                events.retain(|event| event["type"] != "BOOKMARK");
                Value::Array(events)
            }
            Err(_) => json!(text),
        };
        if !saves.is_empty() {
            self.saved.insert(saves, body["metadata"].clone());
        }
        json!({"code": code, "body": self.value(body)})
    }

    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.value(item)).collect())
            }
            Value::Object(fields) => {
                let is_list = fields.contains_key("items");
                let mut normal = serde_json::Map::new();
                for (field, value) in fields {
                    let value = match field.as_str() {
                        "metadata" if is_list => list_metadata(&value),
                        "metadata" => self.metadata(value),
                        "message" => json!(message(value.as_str().unwrap_or_default())),
                        "uid" => self.named("uid", &value),
                        _ => self.value(value),
                    };
                    normal.insert(field, value);
                }
                Value::Object(normal)
            }
            value => value,
        }
    }

    fn metadata(&mut self, metadata: Value) -> Value {
        let mut metadata = self.value(metadata);
        if let Some(fields) = metadata.as_object_mut() {
            for field in DROPPED {
                fields.remove(field);
            }
            for field in ["creationTimestamp", "deletionTimestamp"] {
                if let Some(time) = fields.get_mut(field) {
                    *time = json!(time.is_string());
                }
            }
            if let Some(version) = fields.get("resourceVersion").cloned() {
                let version = self.named("version", &version);
                fields.insert("resourceVersion".to_owned(), version);
            }
        }
        metadata
    }

    fn named(&mut self, prefix: &str, value: &Value) -> Value {
        let known = format!("{prefix} {value}");
        let next = format!("{prefix}-{}", self.names.len());
        json!(self.names.entry(known).or_insert(next))
    }
}

/// Returns whether the metadata of a list have a continue token and a resource version. The values are not compared:
/// the version of a list depends on all other requests to the API server.
fn list_metadata(metadata: &Value) -> Value {
    let is_there = |field: &str| metadata[field].as_str().is_some_and(|it| !it.is_empty());
    json!({"continue": is_there("continue"), "resourceVersion": is_there("resourceVersion")})
}

/// Returns a message without its numbers and UIDs.
///
/// Cuts off the end of three messages. The in-memory API server does not list the owner of each conflicting field, and
/// gives no reason why a continue token is invalid.
fn message(text: &str) -> String {
    for cut in [
        "Apply failed with",
        "conflict with",
        "invalid continue token",
    ] {
        if text.starts_with(cut) {
            return cut.to_owned();
        }
    }
    let is_of_uid = |it: char| it.is_ascii_hexdigit() || it == '-';
    let words = text.split_inclusive(|it: char| !is_of_uid(it));
    words
        .map(|word| {
            let core = word.trim_end_matches(|it: char| !is_of_uid(it));
            let rest = &word[core.len()..];
            let is_uid = core.len() == 36 && core.matches('-').count() == 4;
            let is_number = !core.is_empty() && core.bytes().all(|it| it.is_ascii_digit());
            match is_uid || is_number {
                true => format!("#{rest}"),
                false => word.to_owned(),
            }
        })
        .collect()
}
