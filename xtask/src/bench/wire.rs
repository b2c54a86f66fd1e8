//! A request as Karmada writes it (karmada.md 1.2): the fields of its own types stand in their order, those of objects are
//! sorted.

use serde_json::Value;

const CONTEXT: [&str; 2] = ["kind", "apiVersion"];
const KIND: [&str; 3] = ["group", "version", "kind"];
const ITEM: [&str; 5] = [
    "clusterName",
    "status",
    "applied",
    "appliedMessage",
    "health",
];
/// The fields of a request that stand after its kind.
const REQUEST: [&str; 6] = [
    "name",
    "namespace",
    "operation",
    "object",
    "observedObject",
    "replicas",
];

/// The text of a `ResourceInterpreterContext`.
pub(crate) fn text(review: &Value) -> String {
    let request = review.get("request").unwrap_or(&Value::Null);
    let kind = request.get("kind").unwrap_or(&Value::Null);
    let items = request.get("aggregatedStatus").and_then(Value::as_array);
    let items = items.map(|items| {
        let items: Vec<_> = items
            .iter()
            .map(|item| format!("{{{}}}", fields(item, &ITEM)))
            .collect();
        format!(r#","aggregatedStatus":[{}]"#, items.join(","))
    });
    format!(
        r#"{{{},"request":{{{},"kind":{{{}}},{}{}}}}}"#,
        fields(review, &CONTEXT),
        fields(request, &["uid"]),
        fields(kind, &KIND),
        fields(request, &REQUEST),
        items.unwrap_or_default(),
    )
}

/// Those of the fields that are present.
fn fields(value: &Value, names: &[&str]) -> String {
    let present = names
        .iter()
        .filter_map(|name| Some(format!("{name:?}:{}", value.get(name)?)));
    present.collect::<Vec<_>>().join(",")
}
