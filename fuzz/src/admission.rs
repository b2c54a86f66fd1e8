//! Properties of admission.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use webhooks::admission;

/// Admission refuses the body, or gives an answer that API servers accept (Kubernetes: Dynamic Admission Control). The
/// same body gets the same answer. An update that does not change the meaning of an object is allowed, even if the
/// object is invalid.
pub fn admit(body: &[u8]) {
    let cities: BTreeSet<String> = ["DFW", "LHR", "ORD"].map(str::to_owned).into();
    let validate = |body: &[u8]| admission::validate_alone(body, &cities);
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
    let of_types = |cause: &Value| cause["reason"] == "FieldValueTypeInvalid";
    if !errors.iter().any(of_types) {
        unchanged(body, &validate);
    }
}

/// Returns the causes that the user sees.
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
        // Messages cut long values off.
        assert!(
            cause["message"]
                .as_str()
                .is_some_and(|text| text.len() < 4096)
        );
    }
    causes
}

/// Checks an update that does not change the meaning of the object.
fn unchanged(body: &[u8], validate: &impl Fn(&[u8]) -> Result<Vec<u8>, String>) {
    // If a field occurs twice, `Value` keeps the last one and admission the first one.
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    let object = review["request"]["object"].clone();
    if !object.is_object() {
        return;
    }
    // Adds an unknown field, so that admission does not skip the update as identical.
    let mut written_otherwise = object.clone();
    if let Some(spec) = written_otherwise
        .get_mut("spec")
        .and_then(Value::as_object_mut)
    {
        spec.insert("of another version".into(), json!(0));
    }
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["oldObject"] = object;
    review["request"]["object"] = written_otherwise;
    let Ok(answer) = validate(review.to_string().as_bytes()) else {
        return;
    };
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    let status = &answer["response"]["status"];
    let of_types = |cause: &Value| cause["reason"] == "FieldValueTypeInvalid";
    let unreadable = status["details"]["causes"]
        .as_array()
        .is_some_and(|causes| causes.iter().any(of_types));
    assert!(
        answer["response"]["allowed"] == true || status["code"] == 400 || unreadable,
        "{answer}"
    );
}
