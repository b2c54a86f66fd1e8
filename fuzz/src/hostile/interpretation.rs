//! Hostile requests of Karmada.

use super::Generator;

const CONDITION: &str = r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"A","status":"True","type":"@"},"#;
const GENERATION: &str = r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":1,"reason":"A","status":"True","type":"@"},"#;
/// A character of one byte in JSON, and of six bytes in Rust's quoted form of a string.
const DELETE: &str = "\u{7f}";

fn start(kind: &str, operation: &str) -> String {
    format!(
        r#"{{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{{"uid":"u","kind":{{"group":"compute.datumapis.com","version":"v1alpha","kind":"{kind}"}},"name":"web","namespace":"ns","operation":"{operation}","object":"#
    )
}

fn deployment(operation: &str, object: &str) -> String {
    format!("{}{object}", start("WorkloadDeployment", operation))
}

fn instance(operation: &str, object: &str) -> String {
    format!("{}{object}", start("Instance", operation))
}

pub(super) fn generators() -> Vec<Generator> {
    [
        texts(),
        specs(),
        statuses(),
        items(),
        several_cells(),
        instances(),
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
            "]}}}}}}}",
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
            "\"}}}}",
        ),
        Generator::new(
            "expected-data-in-a-long-namespace",
            deployment("InterpretDependency", annotation),
            r#"\"Secret/@\""#,
            format!("\"}},\"namespace\":\"{namespace}\"}}}}}}}}"),
        ),
    ]
}

/// Statuses of one cell with many small parts.
fn statuses() -> Vec<Generator> {
    let status = |name, operation: &str, before: &str, piece, after: &str| {
        let before = format!(
            r#"{{"metadata":{{"generation":1}},"spec":{{"replicas":1}},"status":{{{before}"#
        );
        Generator::new(
            name,
            deployment(operation, &before),
            piece,
            format!("{after}}}}}}}}}"),
        )
    };
    vec![
        status(
            "health-empty-conditions",
            "InterpretHealth",
            r#""conditions":["#,
            "{},",
            "]",
        ),
        status(
            "health-conditions",
            "InterpretHealth",
            r#""conditions":["#,
            r#"{"type":"Available","status":"True","observedGeneration":9},"#,
            "]",
        ),
        status(
            "health-conditions-with-escapes",
            "InterpretHealth",
            r#""conditions":["#,
            r#"{"type":"\n"},"#,
            "]",
        ),
        status("status-fields", "InterpretStatus", "", r#""@":0,"#, ""),
        status("status-fields-again", "InterpretStatus", "", r#""":0,"#, ""),
        status(
            "status-fields-with-escapes",
            "InterpretStatus",
            "",
            r#""\n@":0,"#,
            "",
        ),
        status(
            "status-fields-in-reverse",
            "InterpretStatus",
            r#""~":0,"#,
            r#""@":0,"#,
            r#","!":0"#,
        ),
        Generator::new(
            "reported-fields",
            deployment(
                "AggregateStatus",
                r#"{"spec":{}},"aggregatedStatus":[{"clusterName":"a","applied":true,"status":{"#,
            ),
            r#""@":0,"#,
            "}}]}}",
        ),
        Generator::new(
            "reported-fields-with-escapes",
            deployment(
                "AggregateStatus",
                r#"{"spec":{}},"aggregatedStatus":[{"clusterName":"a","applied":true,"status":{"#,
            ),
            r#""\n@":0,"#,
            "}}]}}",
        ),
        Generator::new(
            "former-fields",
            deployment("AggregateStatus", r#"{"spec":{},"status":{"#),
            r#""@":0,"#,
            r#"}},"aggregatedStatus":[{"clusterName":"a"}]}}"#,
        ),
        Generator::new(
            "former-cells",
            deployment("AggregateStatus", r#"{"spec":{},"status":{"cells":["#),
            r#"{"currentReplicas":0,"desiredReplicas":0,"name":"@","readyReplicas":0,"replicas":0},"#,
            r#"]}},"aggregatedStatus":[{"clusterName":"a"}]}}"#,
        ),
        Generator::new(
            "former-cells-with-conditions",
            deployment("AggregateStatus", r#"{"spec":{},"status":{"cells":["#),
            r#"{"conditions":[],"currentReplicas":0,"desiredReplicas":0,"name":"@","readyReplicas":0,"replicas":0},"#,
            r#"]}},"aggregatedStatus":[{"clusterName":"a"}]}}"#,
        ),
        Generator::new(
            "former-conditions",
            deployment("AggregateStatus", r#"{"spec":{},"status":{"conditions":["#),
            CONDITION,
            r#"]}},"aggregatedStatus":[{"clusterName":"a"},{"clusterName":"b"}]}}"#,
        ),
    ]
}

/// Many cell reports.
fn items() -> Vec<Generator> {
    let items = |name, piece, after: &str| {
        let before = r#"{"metadata":{"generation":1},"spec":{"replicas":1}},"aggregatedStatus":["#;
        Generator::new(
            name,
            deployment("AggregateStatus", before),
            piece,
            format!("{after}]}}}}"),
        )
    };
    vec![
        items("items-that-are-numbers", "0,", ""),
        items("empty-items", "{},", ""),
        items(
            "items-of-one-cell",
            r#"{"clusterName":"a","status":{"replicas":0}},"#,
            "",
        ),
        items("named-items", r#"{"clusterName":"@"},"#, ""),
        items("items-with-escapes", r#"{"clusterName":"\u0061@"},"#, ""),
        items(
            "named-items-with-status",
            r#"{"clusterName":"@","status":{"replicas":0}},"#,
            "",
        ),
        items(
            "named-items-with-another-field",
            r#"{"status":{"x":0},"clusterName":"@"},"#,
            "",
        ),
        items(
            "named-items-without-conditions",
            r#"{"clusterName":"@","status":{"conditions":[]}},"#,
            "",
        ),
        items(
            "malformed-items",
            r#"{"clusterName":"@","status":{"replicas":"x"}},"#,
            "",
        ),
        items("malformed-names", r#"{"clusterName":0},"#, ""),
        items(
            "applied-items",
            r#"{"applied":true,"clusterName":"@","status":{"assignedReplicas":1,"generation":1,"observedGeneration":1,"replicas":0,"resourceTemplateGeneration":1}},"#,
            "",
        ),
        items(
            "items-that-are-not-applied",
            r#"{"clusterName":"@","appliedMessage":"\"no\""},"#,
            "",
        ),
        items(
            "conditions-as-lists",
            r#"{"clusterName":"@","status":{"conditions":[["","",0,"","True",""]]}},"#,
            "",
        ),
    ]
}

/// Many conditions, of one cell and of several cells.
fn several_cells() -> Vec<Generator> {
    let before = |object: &str, first: &str| {
        let text = format!(
            r#"{object},"aggregatedStatus":[{first}{{"applied":true,"clusterName":"a","status":{{"assignedReplicas":1,"conditions":["#
        );
        deployment("AggregateStatus", &text)
    };
    let object = r#"{"metadata":{"generation":1},"spec":{"replicas":1}}"#;
    let after = r#"],"generation":1,"observedGeneration":1,"replicas":1,"resourceTemplateGeneration":1}}]}}"#;
    let other = r#"{"applied":true,"clusterName":"b","status":{"assignedReplicas":1,"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"A","status":"False","type":"Available"}],"generation":1,"observedGeneration":1,"replicas":1,"resourceTemplateGeneration":1}},"#;
    let former = r#"{"metadata":{"generation":1},"spec":{"replicas":1},"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"A","status":"False","type":"Available"},{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"A","status":"False","type":"Ready"}]}}"#;
    let long_name = format!(r#"{{"clusterName":"{}"}},"#, "c".repeat(2000));
    vec![
        Generator::new("conditions", before(object, ""), CONDITION, after),
        Generator::new(
            "conditions-with-generations",
            before(former, ""),
            GENERATION,
            after,
        ),
        Generator::new(
            "conditions-of-one-type",
            before(former, ""),
            r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":1,"reason":"A","status":"True","type":"a"},"#,
            after,
        ),
        Generator::new(
            "conditions-with-escapes",
            before(object, ""),
            r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"\"\n","reason":"A","status":"True","type":"@"},"#,
            after,
        ),
        Generator::new(
            "conditions-of-two-cells",
            before(object, other),
            CONDITION,
            after,
        ),
        Generator::new(
            "generations-of-two-cells",
            before(former, other),
            GENERATION,
            after,
        ),
        Generator::new(
            "conditions-beside-a-long-name",
            before(object, &long_name),
            CONDITION,
            after,
        ),
        Generator::new(
            "conditions-of-a-cell-with-a-long-name",
            before(object, other).replace(
                r#""clusterName":"a""#,
                &format!(r#""clusterName":"{}""#, "c".repeat(2000)),
            ),
            CONDITION,
            after,
        ),
        Generator::new(
            "conditions-that-are-invalid",
            before(object, ""),
            r#"{"type":"","status":"True","reason":"","lastTransitionTime":""},"#,
            after,
        ),
        Generator::new(
            "conditions-that-are-lists",
            before(object, ""),
            r#"["","",0,"","True",""],"#,
            after,
        ),
        Generator::new(
            "conditions-about-reporting",
            before(object, ""),
            r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"A","status":"True","type":"CellsReporting"},"#,
            after,
        ),
    ]
}

/// Requests about Instances.
fn instances() -> Vec<Generator> {
    let one = |name, piece| {
        Generator::new(
            name,
            instance("AggregateStatus", r#"{"status":{"x":["#),
            piece,
            r#"]}},"aggregatedStatus":[{"clusterName":"a","status":{"x":[]}}]}}"#,
        )
    };
    let reported = |name, before: &str, piece, after: &str| {
        let before = format!(r#"{{"status":{{"x":[]}}}},"aggregatedStatus":[{before}"#);
        Generator::new(
            name,
            instance("AggregateStatus", &before),
            piece,
            format!("{after}]}}}}"),
        )
    };
    let retain = r#"{"spec":{"controller":{"x":0}}},"observedObject":{"spec":{"controller":{"#;
    vec![
        one("former-empty-objects", r#"{"":0},"#),
        one("former-numbers", "0,"),
        one("former-empty-lists", "[],"),
        one("former-objects", r#"{"a":{"b":{"c":{"d":{}}}}},"#),
        reported(
            "reported-empty-objects",
            r#"{"clusterName":"a","status":{"x":["#,
            r#"{"":0},"#,
            "]}}",
        ),
        reported(
            "reported-keys",
            r#"{"clusterName":"a","status":{"x":{"#,
            r#""@":0,"#,
            "}}}",
        ),
        reported(
            "reported-keys-again",
            r#"{"clusterName":"a","status":{"x":{"#,
            r#""":0,"#,
            "}}}",
        ),
        reported(
            "reported-keys-with-escapes",
            r#"{"clusterName":"a","status":{"x":{"#,
            r#""\n@":0,"#,
            "}}}",
        ),
        reported(
            "reported-text",
            r#"{"clusterName":"a","status":{"x":""#,
            "\\n",
            "\"}}",
        ),
        reported(
            "reported-empty-conditions",
            r#"{"clusterName":"a","status":{"conditions":["#,
            "{},",
            "]}}",
        ),
        reported(
            "instances-of-many-cells",
            "",
            r#"{"clusterName":"@","status":{"a":0}},"#,
            "",
        ),
        reported("numbers-of-many-cells", "", "0,", ""),
        Generator::new(
            "instance-status",
            instance("InterpretStatus", r#"{"status":{"#),
            r#""@":0,"#,
            "}}}}",
        ),
        Generator::new(
            "instance-controller",
            instance("Retain", retain),
            r#""@":0,"#,
            "}}}}}",
        ),
        Generator::new(
            "instance-variables",
            instance(
                "InterpretDependency",
                r#"{"spec":{"runtime":{"sandbox":{"containers":[{"env":["#,
            ),
            "{},",
            "]}]}}}}}}",
        ),
    ]
}
