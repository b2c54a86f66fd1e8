//! Hostile requests about Instances.

use super::request::instance;
use crate::hostile::generator::Generator;

/// Returns all generators of this module.
pub(super) fn generators() -> Vec<Generator> {
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
