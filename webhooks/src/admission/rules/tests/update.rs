//! Tests of updates. An error that the former Workload had does not block other changes.

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
fn a_former_error_is_accepted_and_a_new_one_is_not() {
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
fn a_removed_city_may_stay_in_its_placement_but_not_enter_another() {
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
fn list_elements_are_compared_by_name() {
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

/// Returns the new duplicates. Each line has the path below the spec of the template, and the value.
fn new_duplicates(former: &Value, workload: &Value) -> Vec<String> {
    let lines = new_lines(former, workload).into_iter();
    let duplicates = lines.filter_map(|line| {
        let (field, value) = line.split_once(": Duplicate value: ")?;
        Some(format!(
            "{} {value}",
            field.strip_prefix("spec.template.spec.")?
        ))
    });
    duplicates.collect()
}

#[test]
fn attachments_that_share_a_path_may_be_reordered_but_no_other_may_join_them() {
    let mounts = |mounts: [(&str, &str); 3]| {
        let mounts = mounts.map(|(name, path)| json!({"name": name, "mountPath": path}));
        let pointer = "/template/spec/runtime/sandbox/containers/0/volumeAttachments";
        with(&[(pointer, mounts.to_vec().into())])
    };
    let former = mounts([("config", "/x"), ("data", "/x"), ("more", "/y")]);
    for unchanged in [
        [("data", "/x"), ("config", "/x"), ("more", "/y")],
        [("more", "/y"), ("data", "/x"), ("config", "/x")],
        [("data", "/x"), ("new", "/z"), ("config", "/x")],
    ] {
        assert_eq!(new_duplicates(&former, &mounts(unchanged)), NONE);
    }
    for (worse, index, value) in [
        ([("data", "/x"), ("config", "/x"), ("more", "/x")], 2, "/x"),
        ([("more", "/x"), ("data", "/x"), ("config", "/x")], 1, "/x"),
        ([("data", "/x"), ("config", "/z"), ("more", "/x")], 2, "/x"),
        ([("new", "/x"), ("config", "/x"), ("more", "/y")], 1, "/x"),
        ([("data", "/x"), ("config", "/y"), ("more", "/y")], 2, "/y"),
        ([("data", "/z"), ("config", "/z"), ("more", "/y")], 1, "/z"),
    ] {
        let list = "runtime.sandbox.containers[0].volumeAttachments";
        let expected = format!("{list}[{index}].mountPath \"{value}\"");
        assert_eq!(new_duplicates(&former, &mounts(worse)), [expected]);
    }
}

#[test]
fn volumes_that_share_a_device_may_be_reordered_but_no_other_may_join_them() {
    const ZERO: Option<&str> = Some("persistent-disk-0");
    let volumes = |volumes: &[(&str, Option<&str>)]| {
        let volumes = volumes.iter();
        let volumes =
            volumes.map(|(name, device)| json!({"name": name, "disk": {"deviceName": device}}));
        with(&[("/template/spec/volumes", volumes.collect())])
    };
    let former = volumes(&[("a", None), ("b", ZERO), ("c", ZERO)]);
    for unchanged in [
        volumes(&[("a", None), ("c", ZERO), ("b", ZERO)]),
        volumes(&[("c", ZERO), ("b", ZERO)]),
        volumes(&[("a", ZERO), ("c", ZERO)]),
    ] {
        assert_eq!(new_duplicates(&former, &unchanged), NONE);
    }
    for (worse, expected) in [
        (
            volumes(&[("d", None), ("c", ZERO), ("b", ZERO)]),
            "volumes[1].disk.deviceName \"persistent-disk-0\"",
        ),
        (
            volumes(&[("c", ZERO), ("b", ZERO), ("d", ZERO)]),
            "volumes[2].disk.deviceName \"persistent-disk-0\"",
        ),
        (
            volumes(&[("c", Some("x")), ("b", Some("x"))]),
            "volumes[1].disk.deviceName \"x\"",
        ),
    ] {
        assert_eq!(new_duplicates(&former, &worse), [expected]);
    }
}

#[test]
fn metrics_of_one_name_may_have_as_many_errors_as_before() {
    let metrics = |values: &[&str]| {
        let values = values.iter();
        let metrics = values.map(|v| json!({"resource": {"name": "cpu", "target": {"value": v}}}));
        let pointer = "/placements/0/scaleSettings/metrics";
        with(&[(pointer, metrics.collect())])
    };
    let former = metrics(&["0", "1", "2"]);
    for unchanged in [&["1", "0"][..], &["0"], &["3", "1", "0", "2"]] {
        assert_eq!(new_lines(&former, &metrics(unchanged)), NONE);
    }
    for (worse, index, value) in [(["0", "0"], 1, "0"), (["1", "-1"], 1, "-1")] {
        let metric = format!("spec.placements[0].scaleSettings.metrics[{index}]");
        assert_eq!(
            new_lines(&former, &metrics(&worse)),
            [format!(
                "{metric}.resource.target.value: Invalid value: \"{value}\": must be positive"
            )]
        );
    }
}

#[test]
fn contradicting_replica_bounds_may_stay_unchanged() {
    let scale = |min: i32, max: i32| {
        with(&[
            ("/placements/0/scaleSettings/minReplicas", json!(min)),
            ("/placements/0/scaleSettings/maxReplicas", json!(max)),
        ])
    };
    let former = scale(5, 1);
    assert_eq!(new_lines(&former, &scale(5, 1)), NONE);
    assert_eq!(new_lines(&former, &scale(1, 1)), NONE);
    for (min, max) in [(5, 2), (6, 1), (3, 1)] {
        assert_eq!(
            new_lines(&former, &scale(min, max)),
            [format!(
                "spec.placements[0].scaleSettings.maxReplicas: Invalid value: {max}: must be greater than or equal to \
                 minReplicas, which is {min}"
            )]
        );
    }
}

#[test]
fn a_forbidden_value_may_stay_but_not_change() {
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
