//! Hostile requests of Karmada.

#![expect(clippy::too_many_lines, reason = "tables of data")]

mod instance;
mod request;
mod status;

use super::generator::Generator;
use request::{deployment, start};

/// A character of one byte in JSON, and of six bytes in Rust's quoted form of a string.
const DELETE: &str = "\u{7f}";

pub(super) fn generators() -> Vec<Generator> {
    [
        texts(),
        specs(),
        status::generators(),
        instance::generators(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Long texts, deep nesting, and texts that an error could repeat.
fn texts() -> Vec<Generator> {
    let name = |before: &str, after: &str| {
        let start = start("Instance", "InterpretHealth");
        let (head, tail) = start.split_once(before).expect("a field of the request");
        (
            format!("{head}{after}"),
            tail.trim_end_matches("\"object\":").to_owned(),
        )
    };
    let (uid, after_uid) = name(r#""uid":"u""#, r#""uid":"u"#);
    let (operation, after_operation) = name(r#""operation":"InterpretHealth"#, r#""operation":""#);
    let (kind, after_kind) = name(r#""kind":"Instance"#, r#""kind":""#);
    vec![
        Generator::new("text-of-the-review", r#"""#, DELETE, r#"""#),
        Generator::new(
            "uid",
            &*uid,
            DELETE,
            format!(r#""{after_uid}"object":{{}}}}}}"#),
        ),
        Generator::new(
            "uid-with-escapes",
            uid,
            "\\u0001",
            format!(r#""{after_uid}"object":{{}}}}}}"#),
        ),
        Generator::new(
            "operation",
            operation,
            DELETE,
            format!(r#"{after_operation}"object":{{}}}}}}"#),
        ),
        Generator::new(
            "kind",
            kind,
            DELETE,
            format!(r#"{after_kind}"object":{{}}}}}}"#),
        ),
        Generator::new(
            "text-as-object",
            deployment("InterpretHealth", "\""),
            DELETE,
            "\"}}",
        ),
        Generator::new(
            "text-as-status",
            deployment("InterpretHealth", r#"{"spec":{"replicas":1},"status":""#),
            DELETE,
            "\"}}}",
        ),
        Generator::new(
            "text-as-number",
            deployment("InterpretHealth", r#"{"metadata":{"generation":""#),
            DELETE,
            "\"}}}}",
        ),
        Generator::new(
            "text-as-number-with-escapes",
            deployment("InterpretHealth", r#"{"metadata":{"generation":""#),
            "\\u007f",
            "\"}}}}",
        ),
        Generator::new(
            "text-as-list",
            deployment(
                "InterpretDependency",
                r#"{"spec":{"template":{"spec":{"volumes":""#,
            ),
            DELETE,
            "\"}}}}}}",
        ),
        Generator::new(
            "text-as-items",
            deployment("AggregateStatus", r#"{"spec":{}},"aggregatedStatus":""#),
            DELETE,
            "\"}}",
        ),
        Generator::new(
            "text-as-counter",
            deployment(
                "AggregateStatus",
                r#"{"spec":{}},"aggregatedStatus":[{"clusterName":"a","status":{"replicas":""#,
            ),
            DELETE,
            "\"}}]}}",
        ),
        Generator::new(
            "digits-of-a-quantity",
            deployment(
                "InterpretReplica",
                r#"{"spec":{"replicas":1,"template":{"spec":{"runtime":{"resources":{"requests":{"memory":"1","cpu":"0."#,
            ),
            "9",
            "Ei\"}}}}}}}}}",
        ),
        Generator::new(
            "quantity",
            deployment(
                "InterpretReplica",
                r#"{"spec":{"replicas":1,"template":{"spec":{"runtime":{"resources":{"requests":{"memory":"1","cpu":""#,
            ),
            DELETE,
            "\"}}}}}}}}}",
        ),
        Generator::new(
            "resource",
            deployment(
                "InterpretReplica",
                r#"{"spec":{"replicas":1,"template":{"spec":{"runtime":{"resources":{"requests":{"memory":"1","cpu":"1",""#,
            ),
            DELETE,
            "\":\"x\"}}}}}}}}}",
        ),
        Generator::new(
            "annotation-key",
            deployment("InterpretHealth", r#"{"metadata":{"annotations":{""#),
            DELETE,
            "\":0}}}}}",
        ),
        Generator::new(
            "annotations",
            deployment("InterpretHealth", r#"{"metadata":{"annotations":{"#),
            r#""\u0001@":"\u0001","#,
            "}},\"spec\":{\"replicas\":1}}}}",
        ),
        Generator::new("nested-lists", deployment("InterpretHealth", ""), "[", ""),
        Generator::new(
            "nested-objects",
            deployment("InterpretStatus", r#"{"status":"#),
            r#"{"":"#,
            "",
        ),
    ]
}

/// Specs with many small elements.
fn specs() -> Vec<Generator> {
    let spec = |name, operation: &str, before: &str, piece, after: &str| {
        let before = format!(
            r#"{{"metadata":{{"namespace":"ns"}},"spec":{{"replicas":1,"template":{{"spec":{{{before}"#
        );
        Generator::new(
            name,
            deployment(operation, &before),
            piece,
            format!("{after}}}}}}}}}}}}}"),
        )
    };
    let namespace = "n".repeat(63);
    let with_namespace = |annotation: &str| {
        format!(
            r#"{{"metadata":{{{annotation}"namespace":"{namespace}"}},"spec":{{"replicas":1,"template":{{"spec":{{"#
        )
    };
    let annotation =
        r#"{"metadata":{"annotations":{"compute.datumapis.com/expected-referenced-data":""#;
    let pulls = r#""runtime":{"sandbox":{"imagePullSecrets":["#;
    vec![
        spec(
            "empty-volumes",
            "InterpretDependency",
            r#""volumes":["#,
            "{},",
            "]",
        ),
        spec(
            "volumes",
            "InterpretDependency",
            r#""volumes":["#,
            r#"{"secret":{"secretName":"@"}},"#,
            "]",
        ),
        spec(
            "empty-containers",
            "InterpretDependency",
            r#""runtime":{"sandbox":{"containers":["#,
            "{},",
            "]}}",
        ),
        spec(
            "empty-containers-of-a-replica",
            "InterpretReplica",
            r#""runtime":{"sandbox":{"containers":["#,
            "{},",
            "]}}",
        ),
        spec(
            "containers",
            "InterpretComponent",
            r#""runtime":{"sandbox":{"containers":["#,
            r#"{"resources":{"limits":{"cpu":0,"memory":0}}},"#,
            "]}}",
        ),
        spec(
            "containers-with-limits",
            "InterpretReplica",
            r#""runtime":{"sandbox":{"containers":["#,
            r#"{"resources":{"limits":{"cpu":0,"memory":0,"@":0}}},"#,
            "]}}",
        ),
        spec(
            "limits",
            "InterpretReplica",
            r#""runtime":{"sandbox":{"containers":[{"resources":{"limits":{"cpu":0,"memory":0,"#,
            r#""@":0,"#,
            "}}}]}}",
        ),
        spec(
            "requests",
            "InterpretComponent",
            r#""runtime":{"resources":{"requests":{"cpu":0,"memory":0,"#,
            r#""@":0,"#,
            "}}}",
        ),
        spec(
            "requests-with-escapes",
            "InterpretComponent",
            r#""runtime":{"resources":{"requests":{"cpu":0,"memory":0,"#,
            r#""\n@":0,"#,
            "}}}",
        ),
        spec(
            "empty-variables",
            "InterpretDependency",
            r#""runtime":{"sandbox":{"containers":[{"env":["#,
            "{},",
            "]}]}}",
        ),
        spec(
            "variables",
            "InterpretDependency",
            r#""runtime":{"sandbox":{"containers":[{"env":["#,
            r#"{"valueFrom":{"secretKeyRef":{"name":"@"}}},"#,
            "]}]}}",
        ),
        spec(
            "empty-pull-secrets",
            "InterpretDependency",
            pulls,
            "{},",
            "]}}",
        ),
        spec(
            "pull-secrets",
            "InterpretDependency",
            pulls,
            r#"{"name":"@"},"#,
            "]}}",
        ),
        spec(
            "pull-secrets-with-escapes",
            "InterpretDependency",
            pulls,
            r#"{"name":"\n@"},"#,
            "]}}",
        ),
        spec(
            "pull-secrets-as-lists",
            "InterpretDependency",
            pulls,
            r#"["@"],"#,
            "]}}",
        ),
        Generator::new(
            "pull-secrets-in-a-long-namespace",
            deployment(
                "InterpretDependency",
                &format!("{}{pulls}", with_namespace("")),
            ),
            r#"{"name":"@"},"#,
            "]}}}}}}}}",
        ),
        Generator::new(
            "namespace",
            deployment(
                "InterpretDependency",
                r#"{"spec":{"template":{"spec":{"runtime":{"sandbox":{"imagePullSecrets":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"},{"name":"e"},{"name":"f"},{"name":"g"},{"name":"h"},{"name":"i"},{"name":"j"}]}}}}},"metadata":{"namespace":""#,
            ),
            "n",
            "\"}}}}",
        ),
        Generator::new(
            "expected-data",
            deployment("InterpretDependency", annotation),
            r#"\"Secret/@\""#,
            "\"}}}}}",
        ),
        Generator::new(
            "expected-data-in-a-long-namespace",
            deployment("InterpretDependency", annotation),
            r#"\"Secret/@\""#,
            format!("\"}},\"namespace\":\"{namespace}\"}}}}}}}}"),
        ),
        Generator::new(
            "expected-data-in-a-namespace-with-escapes",
            deployment("InterpretDependency", annotation),
            r#"\"Secret/@\""#,
            format!(r#""}},"namespace":"{}"}}}}}}}}"#, r"\u0001".repeat(63)),
        ),
    ]
}
