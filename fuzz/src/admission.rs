//! The property of the admission webhook.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use webhooks::admission;

/// Asserts that the body is refused, or that API servers accept the answer (Kubernetes documentation: Dynamic Admission
/// Control). The same body must always get the same answer. An update without a change of meaning must be allowed, even
/// if the object is invalid.
pub fn admit(body: &[u8]) {
    let cities: BTreeSet<String> = ["DFW", "LHR", "ORD"].map(str::to_owned).into();
    let validate = |body: &[u8]| {
        let answer = admission::validate_alone(body, &cities);
        answer.map_err(|error| error.to_string())
    };
    let answer = validate(body);
    assert_eq!(answer, validate(body));
    let Ok(answer) = answer else { return };
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = &answer["response"];
    assert!(response["uid"].as_str().is_some_and(|uid| !uid.is_empty()));
    let allowed = response["allowed"].as_bool().expect("a boolean");
    assert_eq!(response.get("status").is_none(), allowed);
    let errors = match allowed {
        true => Vec::new(),
        false => causes(&response["status"]),
    };
    let is_type_error = |cause: &Value| cause["reason"] == "FieldValueTypeInvalid";
    if !errors.iter().any(is_type_error) {
        unchanged(body, &validate);
    }
}

/// Checks the `Status` of a denial, and returns its causes.
fn causes(status: &Value) -> Vec<Value> {
    let code = status["code"].as_u64().expect("a code");
    assert!((400..600).contains(&code), "{code}");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    let causes = status["details"]["causes"].as_array();
    let causes = causes.cloned().unwrap_or_default();
    assert_eq!(code == 422, !causes.is_empty());
    assert!(causes.len() <= 101);
    for cause in &causes {
        assert!(
            cause["reason"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        // The webhook cuts long values.
        assert!(
            cause["message"]
                .as_str()
                .is_some_and(|text| text.len() < 4096)
        );
    }
    causes
}

/// Asserts that an update of the object to an equivalent one is allowed.
fn unchanged(body: &[u8], validate: &impl Fn(&[u8]) -> Result<Vec<u8>, String>) {
    // If a key is duplicated, this parser uses the last value, but the webhook uses the first value. The whole request
    // is therefore written again from the parsed value.
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    let object = review["request"]["object"].clone();
    if !object.is_object() {
        return;
    }
    // Adds an unknown field to the spec. Without a difference in the spec, the webhook would not check the update.
    let mut equivalent = object.clone();
    if let Some(spec) = equivalent.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("of another version".into(), json!(0));
    }
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["oldObject"] = object;
    review["request"]["object"] = equivalent;
    let Ok(answer) = validate(review.to_string().as_bytes()) else {
        return;
    };
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    let status = &answer["response"]["status"];
    let is_type_error = |cause: &Value| cause["reason"] == "FieldValueTypeInvalid";
    let unreadable = status["details"]["causes"]
        .as_array()
        .is_some_and(|causes| causes.iter().any(is_type_error));
    assert!(
        answer["response"]["allowed"] == true || status["code"] == 400 || unreadable,
        "{answer}"
    );
}
