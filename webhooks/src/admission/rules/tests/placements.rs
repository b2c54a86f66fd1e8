use serde_json::{Value, json};

use super::{Case, check, sandbox};

#[test]
fn placements_and_their_cities() {
    const LABEL: &str = "spec.placements[0].name: Invalid value: \"US\": a lowercase RFC 1123 label must consist of lower \
        case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
        '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let cases: &[Case] = &[
        (
            "/placements",
            json!([]),
            &["spec.placements: Required value: at least one"],
        ),
        (
            "/placements/0/name",
            json!(""),
            &["spec.placements[0].name: Required value"],
        ),
        ("/placements/0/name", json!("US"), &[LABEL]),
        (
            "/placements/1/name",
            json!("us"),
            &["spec.placements[1].name: Duplicate value: \"us\""],
        ),
        (
            "/placements/0/cityCodes",
            json!([]),
            &["spec.placements[0].cityCodes: Required value: at least one"],
        ),
        (
            "/placements/0/cityCodes",
            json!(["dfw", "ORD", ""]),
            &[
                "spec.placements[0].cityCodes[0]: Unsupported value: \"dfw\": supported values: \"DFW\", \"LHR\", \"ORD\"",
                "spec.placements[0].cityCodes[2]: Unsupported value: \"\": supported values: \"DFW\", \"LHR\", \"ORD\"",
            ],
        ),
        (
            "/placements/0/cityCodes",
            json!(["DFW", "New York"]),
            &[
                "spec.placements[0].cityCodes[1]: Invalid value: \"New York\": must be a label value: at most 63 letters, \
                 digits, '-', '_' and '.', with a letter or digit at both ends",
            ],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn scale_settings() {
    let cases: &[Case] = &[
        (
            "/placements/1/scaleSettings/minReplicas",
            json!(0),
            &[
                "spec.placements[1].scaleSettings.minReplicas: Invalid value: 0: must be greater than 0",
            ],
        ),
        (
            "/placements/1/scaleSettings/minReplicas",
            json!(-1),
            &[
                "spec.placements[1].scaleSettings.minReplicas: Invalid value: -1: must be greater than 0",
            ],
        ),
        (
            "/placements/1/scaleSettings/minReplicas",
            json!(1001),
            &[
                "spec.placements[1].scaleSettings.minReplicas: Invalid value: 1001: must be less than or equal to 1000",
            ],
        ),
        ("/placements/1/scaleSettings/minReplicas", json!(1000), &[]),
        (
            "/placements/0/scaleSettings/maxReplicas",
            json!(0),
            &[
                "spec.placements[0].scaleSettings.maxReplicas: Invalid value: 0: must be greater than or equal to \
                 minReplicas, which is 1",
            ],
        ),
        (
            "/placements/0/scaleSettings/metrics",
            json!([]),
            &[
                "spec.placements[0].scaleSettings.metrics: Required value: at least one metric is required when maxReplicas is set",
            ],
        ),
        (
            // Metrics without maxReplicas have no effect, and are not checked.
            "/placements/1/scaleSettings/metrics",
            json!([{}]),
            &[],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn metrics() {
    let metric = |target: Value| json!([{"resource": {"name": "cpu", "target": target}}]);
    let path = "/placements/0/scaleSettings/metrics";
    let cases: &[Case] = &[
        (
            path,
            json!([{}]),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource: Required value: resource is the only supported source of a metric",
            ],
        ),
        (
            path,
            json!([{"resource": {"name": "memory", "target": {"averageUtilization": 1}}}]),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.name: Unsupported value: \"memory\": supported values: \
                 \"cpu\"",
            ],
        ),
        (
            path,
            metric(json!({})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target: Required value: one of value, averageValue, \
                 averageUtilization",
            ],
        ),
        (
            path,
            metric(json!({"value": "0"})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target.value: Invalid value: \"0\": must be positive",
            ],
        ),
        (
            path,
            metric(json!({"averageValue": "-1m"})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target.averageValue: Invalid value: \"-1m\": must be \
                 positive",
            ],
        ),
        (
            path,
            metric(json!({"averageValue": "much"})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target.averageValue: Invalid value: \"much\": must be a \
                 quantity, such as 500m",
            ],
        ),
        (
            path,
            metric(json!({"averageUtilization": 0})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be \
                 greater than or equal to 1",
            ],
        ),
        (
            path,
            metric(json!({"value": "1", "averageValue": "0", "averageUtilization": 0})),
            &[
                "spec.placements[0].scaleSettings.metrics[0].resource.target.averageValue: Forbidden: may not specify more \
                 than one target",
                "spec.placements[0].scaleSettings.metrics[0].resource.target.averageUtilization: Forbidden: may not specify \
                 more than one target",
            ],
        ),
        (path, metric(json!({"averageValue": 1})), &[]),
    ];
    check(sandbox, cases);
}
