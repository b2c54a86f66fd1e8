//! Encodes requests as Karmada (docs/concepts/interpreter.md) and kube-apiservers do. Fields of their own types are in
//! the order of declaration. Fields of objects are sorted.

use serde_json::Value;

const REVIEW: [&str; 2] = ["kind", "apiVersion"];
const KIND: [&str; 3] = ["group", "version", "kind"];
const RESOURCE: [&str; 3] = ["group", "version", "resource"];
const USER: [&str; 4] = ["username", "uid", "groups", "extra"];
const OPTIONS: [&str; 3] = ["kind", "apiVersion", "fieldManager"];
const ITEM: [&str; 5] = [
    "clusterName",
    "status",
    "applied",
    "appliedMessage",
    "health",
];
/// The fields of a request that come after its field `kind`.
const REQUEST: [&str; 6] = [
    "name",
    "namespace",
    "operation",
    "object",
    "observedObject",
    "replicas",
];

/// Returns the JSON text of a `ResourceInterpreterContext`.
pub(crate) fn interpretation(review: &Value) -> String {
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
        fields(review, &REVIEW),
        fields(request, &["uid"]),
        fields(kind, &KIND),
        fields(request, &REQUEST),
        items.unwrap_or_default(),
    )
}

/// Returns the JSON text of an `AdmissionReview`.
pub(crate) fn admission(review: &Value) -> String {
    let request = review.get("request").unwrap_or(&Value::Null);
    let part = |name: &str, names: &[&str]| {
        let part = request.get(name).unwrap_or(&Value::Null);
        format!("{name:?}:{{{}}}", fields(part, names))
    };
    let request = [
        fields(request, &["uid"]),
        part("kind", &KIND),
        part("resource", &RESOURCE),
        part("requestKind", &KIND),
        part("requestResource", &RESOURCE),
        fields(request, &["name", "namespace", "operation"]),
        part("userInfo", &USER),
        fields(request, &["object", "oldObject", "dryRun"]),
        part("options", &OPTIONS),
    ];
    format!(
        r#"{{{},"request":{{{}}}}}"#,
        fields(review, &REVIEW),
        request.join(",")
    )
}

/// Returns the JSON text of those fields that the value contains, in this order.
fn fields(value: &Value, names: &[&str]) -> String {
    let present = names
        .iter()
        .filter_map(|name| Some(format!("{name:?}:{}", value.get(name)?)));
    present.collect::<Vec<_>>().join(",")
}
