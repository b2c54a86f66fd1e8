//! Hostile requests about the status of a WorkloadDeployment.

use super::request::deployment;
use crate::hostile::generator::{BLANKS, Generator};

const CONDITION: &str = r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"A","status":"True","type":"@"},"#;
const GENERATION: &str = r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":1,"reason":"A","status":"True","type":"@"},"#;

/// Number of items whose names contain each other.
const NESTED: usize = 20;

/// Returns items with the names `.`, `..` and so on. Each could be a lower hub above the next one.
fn nested_items() -> String {
    let names = (1..=NESTED).map(|length| ".".repeat(length));
    let items = names.map(|name| format!(r#"{{"clusterName":"{name}"}}"#));
    items.collect::<Vec<_>>().join(",")
}

/// Returns all generators of this module.
pub(super) fn generators() -> Vec<Generator> {
    [statuses(), items(), conditions()]
        .into_iter()
        .flatten()
        .collect()
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
            "reported-field-with-blanks",
            deployment(
                "AggregateStatus",
                &format!(r#"{{"spec":{{}}}},"aggregatedStatus":[{{"status":{{"z"{BLANKS}:1}}}},"#),
            ),
            r#"{"status":{"a":1}},"#,
            "]}}",
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
            "former-cells-below-each-item",
            deployment("AggregateStatus", r#"{"spec":{},"status":{"cells":["#),
            r#"{"currentReplicas":0,"desiredReplicas":0,"name":".....................@","readyReplicas":0,"replicas":0},"#,
            format!(r#"]}}}},"aggregatedStatus":[{}]}}}}"#, nested_items()),
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
    let beside_a_lower_hub = |name, piece| {
        let before = r#"{"metadata":{"generation":1},"spec":{"replicas":1}},"aggregatedStatus":[{"clusterName":"a","status":{"reportingCell":""}},"#;
        let before = deployment("AggregateStatus", before);
        Generator::new(name, before, piece, "]}}")
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
            "named-items-with-an-empty-field-name",
            r#"{"status":{"":0},"clusterName":"@"},"#,
            "",
        ),
        items(
            "named-items-with-a-reporting-cell",
            r#"{"status":{"reportingCell":"x"},"clusterName":"@"},"#,
            "",
        ),
        beside_a_lower_hub("items-beside-a-lower-hub", r#"{"clusterName":"@"},"#),
        beside_a_lower_hub(
            "reports-beside-a-lower-hub",
            r#"{"clusterName":"@","status":{"selector":""}},"#,
        ),
        Generator::new(
            "cells-of-a-lower-hub",
            deployment(
                "AggregateStatus",
                r#"{"metadata":{"generation":1},"spec":{"replicas":1}},"aggregatedStatus":[{"clusterName":"a","status":{"cells":["#,
            ),
            r#"{"currentReplicas":0,"desiredReplicas":0,"name":"@","readyReplicas":0,"replicas":0},"#,
            "]}}]}}",
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
fn conditions() -> Vec<Generator> {
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
    let below = format!(
        r#"{object},"aggregatedStatus":[{{"applied":true,"clusterName":"{}","status":{{"cells":[{{"conditions":["#,
        "c".repeat(63)
    );
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
            "conditions-of-a-cell-below-with-a-long-name",
            deployment("AggregateStatus", &below),
            r#"{"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"A","status":"True","type":"@"},"#,
            format!(
                r#"],"currentReplicas":0,"desiredReplicas":0,"name":"{}","readyReplicas":0,"replicas":0}}]}}}}]}}}}"#,
                "c".repeat(253)
            ),
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
