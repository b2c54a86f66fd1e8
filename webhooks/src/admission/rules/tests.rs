//! Tests of each rule and its message. Each part of the Workload has one table.

mod data;
mod metadata;
mod names;
mod networks;
mod placements;
mod runtime;
mod update;
mod volumes;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::errors;
use crate::admission::external_facts::{AvailableCities, ExternalFacts, Refusals};
use crate::admission::workload_view::WorkloadSpecView;

/// Returns a valid Workload of containers.
fn sandbox() -> Value {
    json!({
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {
                        "containers": [{
                            "name": "web",
                            "image": "nginx",
                            "volumeAttachments": [
                                {"name": "config", "mountPath": "/config"},
                                {"name": "data", "mountPath": "/data"},
                            ],
                            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
                        }],
                        "imagePullSecrets": [{"name": "registry"}],
                    },
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {"name": "config", "configMap": {"name": "web", "defaultMode": 0o644}},
                    {"name": "data", "disk": {"template": {"spec": {
                        "type": "pd-standard",
                        "populator": {"filesystem": {"type": "ext4"}},
                        "resources": {"requests": {"storage": "10Gi"}},
                    }}}},
                ],
            },
        },
        "placements": [
            {"name": "us", "cityCodes": ["DFW", "ORD"], "scaleSettings": {
                "instanceManagementPolicy": "OrderedReady",
                "minReplicas": 1,
                "maxReplicas": 3,
                "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}],
            }},
            {"name": "eu", "cityCodes": ["LHR"], "scaleSettings": {
                "instanceManagementPolicy": "OrderedReady", "minReplicas": 2,
            }},
        ],
    })
}

/// Returns a valid Workload of virtual machines.
fn machine() -> Value {
    let mut workload = sandbox();
    workload["template"]["metadata"] = json!({"annotations": {
        "compute.datumapis.com/ssh-keys":
            "admin:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBQAbgZzVGVyJQVGtJdXhCyHGKx0mbl5hqPEuGAiVJ8H me@example.com\n",
    }});
    workload["template"]["spec"]["runtime"] = json!({
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "virtualMachine": {
            "volumeAttachments": [{"name": "boot"}],
            "ports": [{"name": "ssh", "port": 22}],
        },
    });
    workload["template"]["spec"]["volumes"] = json!([{"name": "boot", "disk": {"template": {"spec": {
        "type": "pd-standard",
        "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
    }}}}]);
    workload
}

fn cities() -> BTreeSet<String> {
    ["DFW", "LHR", "New York", "ORD"].map(str::to_owned).into()
}

/// Returns the errors of a Workload, one line per error.
fn lines(workload: &Value) -> Vec<String> {
    lines_since(None, workload, Refusals::new())
}

/// Returns the errors of a Workload that the former Workload did not have.
fn lines_since(former: Option<&Value>, workload: &Value, refusals: Refusals<'_>) -> Vec<String> {
    let codes = cities();
    let facts = ExternalFacts {
        cities: Some(AvailableCities::new(&codes)),
        refusals,
    };
    let (text, former) = (workload.to_string(), former.map(Value::to_string));
    let spec: WorkloadSpecView<'_> = serde_json::from_str(&text).unwrap();
    let former: Option<WorkloadSpecView<'_>> = former
        .as_deref()
        .map(|text| serde_json::from_str(text).unwrap());
    let errors = errors(&spec, former.as_ref(), &facts);
    assert_eq!(errors.more, 0);
    let lines = errors.listed.into_iter();
    lines
        .map(|error| format!("{}: {}", error.field, error.message))
        .collect()
}

/// A change of a valid Workload, with the expected errors: a JSON pointer, the new value, and the error lines. The new
/// value null removes the field.
type Case = (&'static str, Value, &'static [&'static str]);

fn check(valid: fn() -> Value, cases: &[Case]) {
    assert_eq!(lines(&valid()), [""; 0]);
    for (pointer, value, expected) in cases {
        let mut workload = valid();
        set(&mut workload, pointer, value.clone());
        assert_eq!(lines(&workload), *expected, "{pointer} = {value}");
    }
}

/// Sets a field of an object. The value null removes the field. The index `-` appends the value to a list.
fn set(workload: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match workload.pointer_mut(parent).unwrap() {
        Value::Array(list) if name == "-" => list.push(value),
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        Value::Object(fields) if value.is_null() => {
            assert!(fields.remove(&name.replace("~1", "/")).is_some());
        }
        Value::Object(fields) => drop(fields.insert(name.replace("~1", "/"), value)),
        other => panic!("{pointer}: {other}"),
    }
}

#[test]
fn an_empty_workload_has_four_errors() {
    assert_eq!(
        lines(&json!({})),
        [
            "spec.template.spec.runtime.resources: Unsupported value: \"\": supported values: \"datumcloud/d1-standard-2\"",
            "spec.template.spec.runtime: Required value: one of sandbox, virtualMachine",
            "spec.template.spec.networkInterfaces: Required value: at least one",
            "spec.placements: Required value: at least one",
        ]
    );
}

#[test]
fn errors_are_listed_in_the_order_of_the_parts() {
    let mut workload = machine();
    for (pointer, value) in [
        ("/placements/0/name", json!("")),
        (
            "/template/spec/networkInterfaces/0/network/name",
            json!("A"),
        ),
        (
            "/template/spec/runtime/virtualMachine/ports/0/name",
            json!(""),
        ),
        ("/template/spec/volumes/0/name", json!("other")),
        ("/template/metadata", Value::Null),
    ] {
        set(&mut workload, pointer, value);
    }
    let fields: Vec<_> = lines(&workload)
        .into_iter()
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.template.annotations[compute.datumapis.com/ssh-keys]",
            "spec.template.spec.volumes[0].name",
            "spec.template.spec.runtime.virtualMachine.volumeAttachments[0].name",
            "spec.template.spec.runtime.virtualMachine.ports[0].name",
            "spec.template.spec.networkInterfaces[0].network.name",
            "spec.placements[0].name",
        ]
    );
}
