//! Tests of all operations on a WorkloadDeployment except AggregateStatus, through the wire protocol.

use api::annotations::{ASSIGNED_REPLICAS, CELL_RULES_STAMP};
use serde_json::{Value, json};

use super::patch;

fn call(operation: &str, object: &Value, more: &Value) -> Value {
    super::call("WorkloadDeployment", operation, object, more)
}

fn template() -> Value {
    json!({"spec": {
        "networkInterfaces": [{"network": {"name": "default"}}],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": "app:1", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
            ]}]},
        },
    }})
}

#[test]
fn replicas_come_from_spec_replicas_else_from_min_replicas() {
    let object = json!({"spec": {"replicas": 5, "scaleSettings": {"minReplicas": 2}, "template": template()}});
    let response = call("InterpretReplica", &object, &json!({}));
    assert_eq!(response["replicas"], 5);
    assert_eq!(
        response["replicaRequirements"],
        json!({"resourceRequest": {"cpu": "1", "memory": "2Gi"}})
    );
    let object = json!({"spec": {"scaleSettings": {"minReplicas": 2}, "template": template()}});
    assert_eq!(call("InterpretReplica", &object, &json!({}))["replicas"], 2);
}

#[test]
fn with_zero_replicas_there_are_no_requirements() {
    let object = json!({"spec": {"scaleSettings": {"minReplicas": 0}, "template": template()}});
    let response = call("InterpretReplica", &object, &json!({}));
    assert_eq!(response["replicas"], 0);
    assert!(response.get("replicaRequirements").is_none());
}

#[test]
fn the_instances_are_one_component() {
    let object = json!({"spec": {"scaleSettings": {"minReplicas": 2}, "template": template()}});
    assert_eq!(
        call("InterpretComponent", &object, &json!({}))["components"],
        json!([{"name": "instances", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "2Gi"}}}])
    );
}

#[test]
fn revise_replica_sets_the_field_that_was_read_and_divides_max_replicas() {
    const MIN: &str = "spec.scaleSettings.minReplicas";
    const REPLICAS: &str = "spec.replicas";
    let revise = |spec: Value, share: i32| {
        let object = json!({"metadata": {"annotations": {}, "generation": 7}, "spec": spec});
        patch(&call("ReviseReplica", &object, &json!({"replicas": share})))
    };
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let stamp = |field: &str, share: i32, total: i32| {
        let value =
            format!(r#"{{"field":"{field}","generation":7,"share":{share},"total":{total}}}"#);
        let path = "/metadata/annotations/compute.datumapis.com~1assigned-replicas";
        add(path, json!(value))
    };
    let min = |value| add("/spec/scaleSettings/minReplicas", json!(value));
    let max = |value| add("/spec/scaleSettings/maxReplicas", json!(value));
    let replicas = |value| add("/spec/replicas", json!(value));

    // A binding without assigned replicas must not delete the Instances of the cell.
    for spec in [
        json!({"scaleSettings": {"minReplicas": 3, "maxReplicas": 4}}),
        json!({"replicas": 2, "scaleSettings": {"minReplicas": 1}}),
    ] {
        assert_eq!(revise(spec, 0), json!([]));
    }
    for (spec, share, expected) in [
        (
            json!({"scaleSettings": {"minReplicas": 3}}),
            3,
            json!([stamp(MIN, 3, 3)]),
        ),
        (
            json!({"scaleSettings": {"minReplicas": 3}}),
            1,
            json!([min(1), stamp(MIN, 1, 3)]),
        ),
        (
            json!({"scaleSettings": {"minReplicas": 3, "maxReplicas": 10}}),
            1,
            json!([min(1), max(3), stamp(MIN, 1, 3)]),
        ),
        (
            json!({"scaleSettings": {"minReplicas": 3, "maxReplicas": 3}}),
            2,
            json!([min(2), max(2), stamp(MIN, 2, 3)]),
        ),
        (
            json!({"replicas": 4, "scaleSettings": {"minReplicas": 3}}),
            2,
            json!([replicas(2), stamp(REPLICAS, 2, 4)]),
        ),
        (
            json!({"replicas": 4, "scaleSettings": {"minReplicas": 3, "maxReplicas": 4}}),
            2,
            json!([replicas(2), max(3), stamp(REPLICAS, 2, 4)]),
        ),
        (
            json!({"scaleSettings": {"minReplicas": 0, "maxReplicas": 4}}),
            2,
            json!([min(2), stamp(MIN, 2, 0)]),
        ),
    ] {
        assert_eq!(revise(spec.clone(), share), expected, "{spec}");
    }
    // An object without annotations gets them.
    let object = json!({"spec": {"replicas": 1}});
    let revised = patch(&call("ReviseReplica", &object, &json!({"replicas": 1})));
    let value = format!(r#"{{"field":"{REPLICAS}","share":1,"total":1}}"#);
    assert_eq!(revised[0], add("/metadata/annotations", json!({})));
    assert_eq!(revised[1]["value"], value);
}

/// Karmada sends the shares of 0 replicas once more after the number was raised.
#[test]
fn a_cell_without_instances_keeps_its_share_of_0_until_it_gets_another() {
    let stamp =
        |field: &str| format!(r#"{{"field":"{field}","generation":7,"share":0,"total":3}}"#);
    for (status, is_revised) in [
        (json!({"desiredReplicas": 0, "observedGeneration": 6}), true),
        (
            json!({"desiredReplicas": 1, "observedGeneration": 6}),
            false,
        ),
        (json!({"desiredReplicas": 0}), false),
        (
            json!({"desiredReplicas": "0", "observedGeneration": 6}),
            false,
        ),
        (json!([]), false),
        (json!(null), false),
    ] {
        for (spec, field, path) in [
            (
                json!({"scaleSettings": {"minReplicas": 3, "maxReplicas": 9}}),
                "spec.scaleSettings.minReplicas",
                "/spec/scaleSettings/minReplicas",
            ),
            (json!({"replicas": 3}), "spec.replicas", "/spec/replicas"),
        ] {
            let object = json!({
                "metadata": {"annotations": {}, "generation": 7}, "spec": spec, "status": status,
            });
            let revised = patch(&call("ReviseReplica", &object, &json!({"replicas": 0})));
            let annotation = "/metadata/annotations/compute.datumapis.com~1assigned-replicas";
            let expected = json!([
                {"op": "add", "path": path, "value": 0},
                {"op": "add", "path": annotation, "value": stamp(field)},
            ]);
            let expected = if is_revised { expected } else { json!([]) };
            assert_eq!(revised, expected, "{object}");
        }
    }
}

#[test]
fn replicas_of_the_cell_are_retained_unless_the_desired_object_sets_them() {
    let retain = |desired: Value, observed: Value| {
        let more = json!({"observedObject": {"spec": observed}});
        patch(&call("Retain", &json!({"spec": desired}), &more))
    };
    assert_eq!(
        retain(json!({}), json!({"replicas": 7})),
        json!([{"op": "add", "path": "/spec/replicas", "value": 7}])
    );
    assert_eq!(
        retain(json!({"replicas": 2}), json!({"replicas": 7})),
        json!([])
    );
    assert_eq!(retain(json!({}), json!({})), json!([]));
}

/// The cell's object keeps the number of an autoscaler. It loses the share that the hub does not assign any more.
#[test]
fn a_former_share_of_karmada_is_not_retained() {
    let kept = json!([{"op": "add", "path": "/spec/replicas", "value": 7}]);
    let entry = |manager: &str, subresource: &str, field: &str| {
        json!({
            "manager": manager, "operation": "Update", "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {".": {}, field: {}}},
        })
    };
    let by_karmada = entry("karmada-controller-manager", "", "f:replicas");
    let template = entry("karmada-controller-manager", "", "f:template");
    for (managed_fields, expected) in [
        (json!([template, by_karmada]), json!([])),
        (json!([entry("karmada-agent", "", "f:replicas")]), json!([])),
        (
            json!([
                template,
                entry("kube-controller-manager", "scale", "f:replicas")
            ]),
            kept.clone(),
        ),
        (json!([entry("someone", "", "f:replicas")]), kept.clone()),
        (json!([{"manager": 7}, by_karmada]), json!([])),
        (json!([7]), kept.clone()),
        (json!({}), kept.clone()),
        (json!(null), kept),
    ] {
        let observed = json!({
            "metadata": {"managedFields": managed_fields}, "spec": {"replicas": 7},
        });
        let more = json!({"observedObject": observed});
        let patch = patch(&call("Retain", &json!({"spec": {}}), &more));
        assert_eq!(patch, expected, "{managed_fields}");
    }
}

#[test]
fn dependencies_come_from_the_template_and_the_annotation() {
    let object = json!({
        "metadata": {
            "namespace": "ns-1",
            "annotations": {"compute.datumapis.com/expected-referenced-data": "[\"Secret/token\"]"},
        },
        "spec": {"template": template()},
    });
    assert_eq!(
        call("InterpretDependency", &object, &json!({}))["dependencies"],
        json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns-1", "name": "settings"},
            {"apiVersion": "v1", "kind": "Secret", "namespace": "ns-1", "name": "token"},
        ])
    );
    assert_eq!(
        call("InterpretDependency", &json!({}), &json!({}))["dependencies"],
        json!([])
    );
}

#[test]
fn the_reported_status_is_whole_with_generations_and_share() {
    let mut object = json!({
        "metadata": {"generation": 3, "annotations": {"resourcetemplate.karmada.io/generation": "7"}},
        "spec": {"scaleSettings": {"minReplicas": 2}},
        "status": {"replicas": 2, "observedGeneration": 3, "unknown": {"b": [], "a": 1.0}},
    });
    let status = |object: &Value| call("InterpretStatus", object, &json!({}))["rawStatus"].clone();
    assert_eq!(
        status(&object),
        json!({
            "replicas": 2, "observedGeneration": 3, "unknown": {"b": [], "a": 1.0},
            "generation": 3, "resourceTemplateGeneration": 7, "assignedReplicas": 2,
            "cellRulesStamp": 0,
        })
    );
    for (stamp, expected) in [("4294967295", 4_294_967_295_i64), ("x", 0), ("0", 0)] {
        object["metadata"]["annotations"][CELL_RULES_STAMP] = stamp.into();
        assert_eq!(status(&object)["cellRulesStamp"], expected);
    }
    object["spec"]["replicas"] = json!(9);
    assert_eq!(status(&object)["assignedReplicas"], 9);
    assert_eq!(status(&object)["assignedMinReplicas"], 2);

    // The number in the spec is another one if an OverridePolicy or an autoscaler has set it.
    let recorded =
        r#"{"field":"spec.scaleSettings.minReplicas","generation":7,"share":4,"total":8}"#;
    object["metadata"]["annotations"][ASSIGNED_REPLICAS] = recorded.into();
    assert_eq!(status(&object)["assignedReplicas"], 4);
    assert_eq!(status(&object)["assignedMinReplicas"], json!(null));
    for of_another in [recorded.replace('7', "6"), recorded.replace('4', "\"4\"")] {
        object["metadata"]["annotations"][ASSIGNED_REPLICAS] = of_another.into();
        assert_eq!(status(&object)["assignedReplicas"], 9);
        assert_eq!(status(&object)["assignedMinReplicas"], 2);
    }

    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
    assert_eq!(status(&object), json!({}));
    for nothing in [
        json!({}),
        json!({"status": null}),
        json!({"metadata": {"generation": 1}, "status": {}}),
    ] {
        assert_eq!(status(&nothing), json!({}), "{nothing}");
    }
}

#[test]
fn healthy_means_available_at_the_current_generation() {
    let health = |object: Value| {
        call("InterpretHealth", &object, &json!({}))["healthy"]
            .as_bool()
            .unwrap()
    };
    let with = |replicas: i32, condition: Value| {
        json!({
            "metadata": {"generation": 2},
            "spec": {"scaleSettings": {"minReplicas": replicas}},
            "status": {"conditions": [{"type": "ReplicasReady", "status": "False"}, condition]},
        })
    };
    assert!(health(with(
        1,
        json!({"type": "Available", "status": "True"})
    )));
    assert!(health(with(
        1,
        json!({"type": "Available", "status": "True", "observedGeneration": 2})
    )));
    assert!(!health(with(
        1,
        json!({"type": "Available", "status": "True", "observedGeneration": 1})
    )));
    assert!(!health(with(
        1,
        json!({"type": "Available", "status": "Unknown"})
    )));
    assert!(health(with(
        0,
        json!({"type": "Available", "status": "False"})
    )));
    assert!(!health(json!({"spec": {"replicas": 1}})));
}
