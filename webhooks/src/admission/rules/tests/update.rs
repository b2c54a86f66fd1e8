//! What was wrong before and has not changed does not stand in the way of other changes.

use serde_json::{Value, json};

use super::{Refusals, lines, lines_since, sandbox, set};

fn with(changes: &[(&str, Value)]) -> Value {
    let mut workload = sandbox();
    for (pointer, value) in changes {
        set(&mut workload, pointer, value.clone());
    }
    workload
}

fn new_lines(former: &Value, workload: &Value) -> Vec<String> {
    lines_since(Some(former), workload, Refusals::new())
}

const NONE: [&str; 0] = [];

#[test]
fn what_was_invalid_before_stays_accepted_and_what_is_worse_does_not() {
    let min = "/placements/0/scaleSettings/minReplicas";
    let image = "/template/spec/runtime/sandbox/containers/0/image";
    let former = with(&[(min, json!(0))]);
    assert_eq!(
        new_lines(&former, &with(&[(min, json!(0)), (image, json!("b"))])),
        NONE
    );
    assert_eq!(
        new_lines(&former, &with(&[(min, json!(2)), (image, json!("b"))])),
        NONE
    );
    assert_eq!(
        new_lines(&former, &with(&[(min, json!(-1))])),
        ["spec.placements[0].scaleSettings.minReplicas: Invalid value: -1: must be greater than 0"]
    );
    assert_eq!(
        new_lines(&former, &with(&[(min, json!(0)), (image, json!(""))])),
        ["spec.template.spec.runtime.sandbox.containers[0].image: Required value"]
    );
}

#[test]
fn a_city_that_is_gone_stays_where_it_was_and_comes_nowhere_else() {
    let cities = "/placements/0/cityCodes";
    let former = with(&[(cities, json!(["GONE", "DFW"]))]);
    assert_eq!(
        new_lines(&former, &with(&[(cities, json!(["DFW", "LHR", "GONE"]))])),
        NONE
    );
    assert_eq!(
        new_lines(
            &former,
            &with(&[
                (cities, json!(["GONE"])),
                ("/placements/1/cityCodes", json!(["GONE"]))
            ])
        ),
        [
            "spec.placements[1].cityCodes[0]: Unsupported value: \"GONE\": supported values: \"DFW\", \"LHR\", \"ORD\""
        ]
    );
}

#[test]
fn elements_are_known_by_their_names() {
    let ports = "/template/spec/runtime/sandbox/containers/0/ports";
    let port = |name: &str, port: i32| json!({"name": name, "port": port});
    let former = with(&[(ports, json!([port("a", 0), port("b", 1)]))]);
    let moved = with(&[(ports, json!([port("c", 2), port("b", 1), port("a", 0)]))]);
    assert_eq!(new_lines(&former, &moved), NONE);
    let another = with(&[(ports, json!([port("a", 1), port("b", 0)]))]);
    assert_eq!(
        new_lines(&former, &another),
        [
            "spec.template.spec.runtime.sandbox.containers[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, \
             inclusive"
        ]
    );
}

#[test]
fn a_forbidden_value_may_stay_and_may_not_change() {
    let resources = "/template/spec/runtime/sandbox/containers/0/resources";
    let former = with(&[(resources, json!({"limits": {"cpu": "1"}}))]);
    assert_eq!(new_lines(&former, &former), NONE);
    let changed = with(&[(resources, json!({"limits": {"cpu": "2"}}))]);
    assert_eq!(new_lines(&former, &changed), lines(&changed));
    assert_eq!(lines(&changed).len(), 1);
}

#[test]
fn a_volume_that_loses_its_attachment_is_a_new_error() {
    let attachments = "/template/spec/runtime/sandbox/containers/0/volumeAttachments";
    let workload = with(&[(attachments, json!([{"name": "data", "mountPath": "/data"}]))]);
    assert_eq!(
        new_lines(&sandbox(), &workload),
        [
            "spec.template.spec.volumes[0].name: Required value: the volume must be attached by a container or the virtual \
             machine"
        ]
    );
}
