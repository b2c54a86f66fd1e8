//! Tests that the fast way and the general way to decode a request give the same answer.

use jiff::Timestamp;

use super::NOW;
use crate::{Interpretation, MalformedReview, Operation, interpret, interpret_general};

const CONDITION: &str = r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"Ok","status":"True","type":"Available"}"#;
const OBJECTS: [&str; 14] = [
    "null",
    "{}",
    "[]",
    "[{},{},{}]",
    "1",
    r#"{"metadata":{"annotations":null}}"#,
    r#"{"spec":{"template":null,"replicas":1}}"#,
    r#"{"spec":{"replicas":1},"status":null}"#,
    r#"{"spec":{"replicas":0},"status":3}"#,
    r#"{"spec":{"replicas":1},"status":{"conditions":null}}"#,
    r#"{"spec":{"replicas":1},"spec":{}}"#,
    r#"{"spec":{"replicas":1},"status":{"a":1,"a":2,"b":1e999}}"#,
    r#"{"spec":{"replicas":1,"template":{"spec":{"volumes":null}}}}"#,
    r#"{"spec":{"replicas":1},"status":{"cells":[{"conditions":[],"currentReplicas":1,"desiredReplicas":1,"name":"a","readyReplicas":1,"replicas":1},{}]}}"#,
];
const OBSERVED: [&str; 5] = [
    "",
    r#","observedObject":null"#,
    r#","observedObject":{}"#,
    r#","observedObject":{"spec":{"replicas":3,"controller":{"x":1.0}}}"#,
    r#","observedObject":[]"#,
];
const REPLICAS: [&str; 5] = [
    "",
    r#","replicas":0"#,
    r#","replicas":null"#,
    r#","replicas":-3"#,
    r#","replicas":3000000000"#,
];

/// Returns cell reports in canonical and in other forms. `STATUS` is replaced by canonical and by other statuses.
fn items() -> Vec<String> {
    let forms = [
        "",
        r#","aggregatedStatus":null"#,
        r#","aggregatedStatus":{}"#,
        r#","aggregatedStatus":[]"#,
        r#","aggregatedStatus":[null]"#,
        r#","aggregatedStatus":[{},{}]"#,
        r#","aggregatedStatus":[{"clusterName":"a","status":STATUS}]"#,
        r#","aggregatedStatus":[{"clusterName":"a","status":STATUS,"applied":null}]"#,
        r#","aggregatedStatus":[{"clusterName":"a","status":STATUS,"applied":true,"applied":true}]"#,
        r#","aggregatedStatus":[{"clusterName":"a","status":STATUS,"applied":true,"x":[{}]}]"#,
        r#","aggregatedStatus":[{"clusterName":"b","status":STATUS,"applied":true}, {"clusterName":"a","status":STATUS,"applied":true}]"#,
        r#","aggregatedStatus":[{"clusterName":"a\u0062","status":STATUS,"applied":true},{"clusterName":"a","status":null,"applied":true}]"#,
        // Two items of the same cell. The JSON form of the two statuses must not decide which status is kept.
        r#","aggregatedStatus":[{"clusterName":"a","status":{"replicas":1,"observedGeneration":9},"applied":true},{"clusterName":"a","status":{"observedGeneration":8,"replicas":1},"applied":true}]"#,
    ];
    let canonical = format!(
        r#"{{"assignedReplicas":1,"conditions":[{CONDITION}],"currentReplicas":1,"desiredReplicas":1,"generation":1,"observedGeneration":1,"readyReplicas":1,"replicas":1,"resourceTemplateGeneration":2}}"#
    );
    let other = canonical.replace(":1,", ":1.0,");
    let twice = canonical.replace(CONDITION, &format!("{CONDITION},{CONDITION}"));
    [canonical, other, twice]
        .iter()
        .flat_map(|status| forms.map(|form| form.replace("STATUS", status)))
        .collect()
}

#[test]
fn the_fast_and_the_general_way_give_the_same_answer_to_odd_requests() {
    let now: Timestamp = NOW.parse().unwrap();
    let text = |interpretation: Result<Interpretation, MalformedReview>| {
        let body = interpretation.ok()?.body;
        Some(String::from_utf8(body).unwrap())
    };
    let items = items();
    let mut answered = 0;
    for kind in ["WorkloadDeployment", "Instance"] {
        for operation in Operation::ALL.map(Operation::as_str) {
            for object in OBJECTS {
                for (observed, replicas) in OBSERVED.iter().flat_map(|o| REPLICAS.map(|r| (o, r))) {
                    for items in &items {
                        let body = format!(
                            r#"{{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{{"uid":"u1","kind":{{"group":"compute.datumapis.com","version":"v1alpha","kind":"{kind}"}},"name":"web","namespace":"ns","operation":"{operation}","object":{object}{observed}{replicas}{items}}}}}"#
                        );
                        let fast = text(interpret(body.as_bytes(), now));
                        let general = text(interpret_general(body.as_bytes(), now));
                        answered += i32::from(general.is_some());
                        assert_eq!(fast, general, "{body}");
                    }
                }
            }
        }
    }
    assert!(answered > 10_000, "{answered}");
}
