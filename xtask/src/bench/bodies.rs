//! The requests for the benchmarks, in the form in which Karmada sends them: one line of JSON, and objects with
//! managedFields.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

/// Number of cells in each measured aggregation.
pub(crate) const CELLS: [usize; 4] = [1, 10, 100, 1000];
/// A request of about 1 KB.
pub(crate) const HEALTH: &str = "health-1k";
/// A request of about 10 KB.
pub(crate) const STATUS: &str = "status-10k";
/// Largest body in bytes that Karmada's server SDK reads.
const SDK_MAX: usize = 1 << 20;
/// Number of environment variables in the large object. With this number, the request has about 10 KB.
const VARIABLES: usize = 34;
const SINCE: &str = "2026-11-21T10:00:00Z";

/// A request in a file.
pub(crate) struct Body {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) review: Value,
}

/// Returns the name of the aggregation with this many cells.
pub(crate) fn aggregate(cells: usize) -> String {
    format!("aggregate-{cells}")
}

/// Number of cells below each lower hub.
pub(crate) const CELLS_BELOW: usize = 100;

/// Returns the name of the aggregation with this many lower hubs.
pub(crate) fn aggregate_levels(lower_hubs: usize) -> String {
    format!("aggregate-{lower_hubs}x{CELLS_BELOW}")
}

/// Writes requests into files in `directory`. `text` encodes each request.
pub(crate) fn write(
    directory: &Path,
    requests: Vec<(String, Value)>,
    text: fn(&Value) -> String,
) -> anyhow::Result<Vec<Body>> {
    fs::create_dir_all(directory)?;
    requests
        .into_iter()
        .map(|(name, review)| {
            let file = directory.join(format!("{name}.json"));
            let text = text(&review);
            ensure!(
                text.len() < SDK_MAX,
                "{name} has {} bytes: Karmada's server SDK cuts it off",
                text.len()
            );
            fs::write(&file, text).with_context(|| file.display().to_string())?;
            Ok(Body { name, file, review })
        })
        .collect()
}

/// Returns the measured requests.
pub(crate) fn all() -> Vec<(String, Value)> {
    let small = deployment(0);
    let large = deployment(VARIABLES);
    let mut scaled = large.clone();
    set(&mut scaled, "/spec", "replicas", json!(5));
    let mut requests = vec![
        (HEALTH, "InterpretHealth", &small, json!({})),
        (STATUS, "InterpretStatus", &large, json!({})),
        ("health-10k", "InterpretHealth", &large, json!({})),
        ("replica-10k", "InterpretReplica", &large, json!({})),
        ("component-10k", "InterpretComponent", &large, json!({})),
        ("dependency-10k", "InterpretDependency", &large, json!({})),
        (
            "revise-10k",
            "ReviseReplica",
            &large,
            json!({"replicas": 2}),
        ),
        (
            "retain-10k",
            "Retain",
            &large,
            json!({"observedObject": scaled}),
        ),
    ]
    .into_iter()
    .map(|(name, operation, object, more)| {
        (
            name.to_owned(),
            review("WorkloadDeployment", operation, object, &more),
        )
    })
    .collect::<Vec<_>>();
    requests.extend(CELLS.map(|cells| (aggregate(cells), aggregation(cells, false))));
    requests
}

/// Returns requests that are not measured from end to end. The servers must give the same answers to them too.
pub(crate) fn checked() -> Vec<(String, Value)> {
    let mut requests = instances();
    for cells in [1, 3, 10] {
        requests.push((
            format!("aggregate-silent-{cells}"),
            aggregation(cells, true),
        ));
    }
    let mut of_former_version = aggregation(1, true);
    let status = of_former_version.pointer_mut("/request/object/status");
    if let Some(status) = status.and_then(Value::as_object_mut) {
        status.remove("reportingCell");
    }
    requests.push(("aggregate-silent-unnamed".to_owned(), of_former_version));
    requests
}

/// Returns the aggregation of the statuses of lower hubs with 100 cells each. It is measured only in the process, because
/// the Go webhook does not know lower hubs.
pub(crate) fn levels() -> Vec<(String, Value)> {
    [1, 10]
        .map(|lower_hubs| (aggregate_levels(lower_hubs), levels_of(lower_hubs)))
        .into()
}

/// Returns one request per operation on an Instance. These requests are measured only in the process, because our
/// policies select no Instances.
pub(crate) fn instances() -> Vec<(String, Value)> {
    let object = instance();
    let mut observed = object.clone();
    set(
        &mut observed,
        "/spec",
        "controller",
        json!({"templateHash": "5f7c"}),
    );
    let items = json!({"aggregatedStatus": [
        item("ord1", object.pointer("/status")),
        item("dfw1", Some(&json!({"conditions": [condition("Ready", "False", "Starting", "starting")]}))),
    ]});
    [
        ("InterpretReplica", json!({})),
        ("InterpretComponent", json!({})),
        ("ReviseReplica", json!({"replicas": 1})),
        ("Retain", json!({"observedObject": observed})),
        ("AggregateStatus", items),
        ("InterpretDependency", json!({})),
        ("InterpretStatus", json!({})),
        ("InterpretHealth", json!({})),
    ]
    .into_iter()
    .map(|(operation, more)| {
        (
            format!("instance-{operation}"),
            review("Instance", operation, &object, &more),
        )
    })
    .collect()
}

fn review(kind: &str, operation: &str, object: &Value, more: &Value) -> Value {
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": kind},
        "name": object.pointer("/metadata/name"),
        "namespace": object.pointer("/metadata/namespace"),
        "operation": operation,
        "object": object,
        "replicas": 0,
    });
    if let (Some(fields), Some(more)) = (request.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    json!({
        "kind": "ResourceInterpreterContext",
        "apiVersion": "config.karmada.io/v1alpha1",
        "request": request,
    })
}

/// Returns a WorkloadDeployment with this many environment variables. With 0 variables, the object is small and has no
/// managedFields.
fn deployment(variables: usize) -> Value {
    let env: Vec<_> = (0..variables)
        .map(|index| match index % 3 {
            0 => json!({"name": format!("SETTING_{index}"), "valueFrom": {"configMapKeyRef": {"key": format!("setting-{index}"), "name": "web-settings"}}}),
            1 => json!({"name": format!("TOKEN_{index}"), "valueFrom": {"secretKeyRef": {"key": format!("token-{index}"), "name": "web-tokens"}}}),
            _ => json!({"name": format!("FLAG_{index}"), "value": "enabled by default for every customer"}),
        })
        .collect();
    let mut container = json!({
        "name": "web",
        "image": "registry.example.com/web@sha256:6b1f",
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
    });
    let mut spec = json!({
        "cityCode": "DFW",
        "placementName": "default",
        "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 3},
        "template": {"spec": {
            "networkInterfaces": [{"network": {"name": "default"}}],
            "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}},
        }},
        "workloadRef": {"name": "web", "uid": "0f0bb2a8-5f3b-4d0c-9df5-1f6c4d2a9a11"},
    });
    if variables > 0 {
        set(&mut container, "", "env", env.into());
        let runtime = "/template/spec/runtime";
        set(&mut spec, "/scaleSettings", "maxReplicas", json!(9));
        set(
            &mut spec,
            runtime,
            "sandbox",
            json!({"containers": [container], "imagePullSecrets": [{"name": "pull"}]}),
        );
        set(
            &mut spec,
            "/template/spec",
            "volumes",
            json!([{"name": "site", "configMap": {"name": "web-site"}}, {"name": "tls", "secret": {"secretName": "web-tls"}}]),
        );
    }
    let status = json!({
        "conditions": conditions(),
        "currentReplicas": 3, "desiredReplicas": 3, "observedGeneration": 4, "readyReplicas": 3, "replicas": 3,
    });
    let mut metadata = json!({
        "name": "web-default-dfw",
        "namespace": "ns-0f0bb2a8",
        "uid": "8d2ff3ab-7a77-4b54-8f5e-6ad6e2f4c1a0",
        "generation": 4,
        "resourceVersion": "48213",
    });
    if variables > 0 {
        let annotations = json!({
            "compute.datumapis.com/expected-referenced-data": "[\"ConfigMap/web-settings\",\"ConfigMap/web-site\",\"Secret/web-tls\",\"Secret/web-tokens\"]",
            "resourcetemplate.karmada.io/generation": "4",
        });
        let applied = json!({"metadata": {"annotations": annotations}, "spec": spec});
        let entries = json!([
            managed("karmada-controller-manager", &applied, None),
            managed(
                "compute-federation-deployment",
                &json!({"status": status}),
                Some("status")
            ),
        ]);
        set(&mut metadata, "", "annotations", annotations);
        set(&mut metadata, "", "managedFields", entries);
    }
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

fn instance() -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {"name": "web-default-dfw-0", "namespace": "ns-0f0bb2a8", "generation": 1},
        "spec": {
            "networkInterfaces": [{"network": {"name": "default"}}],
            "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}},
            "volumes": [{"name": "tls", "secret": {"secretName": "web-tls"}}],
        },
        "status": {
            "conditions": [condition("Ready", "True", "Running", "running")],
            "networkInterfaces": [{"assignments": {"networkIP": "10.0.0.7"}}],
        },
    })
}

/// Returns an aggregation of this many cells. The first cell reports another number of ready instances than the status
/// on the hub. The other cells report no change. With `silent`, the first cell reports no status, and the second cell
/// has not applied the object.
fn aggregation(cells: usize, silent: bool) -> Value {
    let names: Vec<_> = (0..cells).map(|index| format!("cell-{index:04}")).collect();
    let items = names.iter().enumerate().map(|(index, name)| {
        let ready = if index == 0 { 3 } else { 2 };
        let status = json!({
            "assignedReplicas": 3, "conditions": conditions(), "currentReplicas": 3, "desiredReplicas": 3,
            "generation": 2, "observedGeneration": 2, "readyReplicas": ready, "replicas": 3,
            "resourceTemplateGeneration": 4,
        });
        match index {
            0 if silent => json!({"applied": true, "clusterName": name, "health": "Unknown"}),
            1 if silent => json!({"appliedMessage": "denied", "clusterName": name, "health": "Unknown"}),
            _ => json!({"applied": true, "clusterName": name, "health": "Healthy", "status": status}),
        }
    });
    let items: Vec<_> = items.collect();
    let mut object = deployment(VARIABLES);
    let mut status = json!({
        "conditions": conditions(),
        "currentReplicas": 3 * cells, "desiredReplicas": 3 * cells, "observedGeneration": 4,
        "readyReplicas": 2 * cells, "replicas": 3 * cells,
    });
    if cells > 1 {
        let memory: Vec<_> = names
            .iter()
            .map(|name| {
                json!({
                    "conditions": conditions(), "currentReplicas": 3, "desiredReplicas": 3, "name": name,
                    "readyReplicas": 2, "replicas": 3, "resourceTemplateGeneration": 4,
                })
            })
            .collect();
        set(&mut status, "", "cells", memory.into());
    } else if silent {
        set(&mut status, "", "reportingCell", names.concat().into());
    }
    if silent {
        // The former condition contains the transition time. The answer therefore does not depend on the clock.
        let condition = condition("CellsReporting", "False", "CellNotReported", "before");
        if let Some(conditions) = status
            .pointer_mut("/conditions")
            .and_then(Value::as_array_mut)
        {
            conditions.push(condition);
        }
    }
    set(&mut object, "", "status", status);
    review(
        "WorkloadDeployment",
        "AggregateStatus",
        &object,
        &json!({"aggregatedStatus": items}),
    )
}

/// Returns the aggregation of the statuses of this many lower hubs. In each, all cells have reported.
fn levels_of(lower_hubs: usize) -> Value {
    let entry = |name: String| {
        json!({
            "assignedReplicas": 3, "conditions": conditions(), "currentReplicas": 3, "desiredReplicas": 3,
            "name": name, "readyReplicas": 2, "replicas": 3, "resourceTemplateGeneration": 2, "templateReplicas": 300,
        })
    };
    let counters = |cells: usize| {
        json!({
            "conditions": conditions(), "currentReplicas": 3 * cells, "desiredReplicas": 3 * cells,
            "readyReplicas": 2 * cells, "replicas": 3 * cells,
        })
    };
    let cell = |index| format!("cell-{index:04}");
    let clusters: Vec<_> = (0..lower_hubs)
        .map(|index| format!("hub-{index:04}"))
        .collect();
    let items = clusters.iter().map(|cluster| {
        let mut status = counters(CELLS_BELOW);
        let cells: Vec<_> = (0..CELLS_BELOW).map(|index| entry(cell(index))).collect();
        for (name, value) in [
            ("assignedReplicas", json!(3 * CELLS_BELOW)),
            ("cells", cells.into()),
            ("generation", json!(2)),
            ("observedGeneration", json!(2)),
            ("resourceTemplateGeneration", json!(4)),
        ] {
            set(&mut status, "", name, value);
        }
        item(cluster, Some(&status))
    });
    let items: Vec<_> = items.collect();
    let names = clusters.iter().flat_map(|cluster| {
        (0..CELLS_BELOW).map(move |index| format!("{cluster}.{}", cell(index)))
    });
    let mut status = counters(lower_hubs * CELLS_BELOW);
    set(&mut status, "", "cells", names.map(entry).collect());
    set(&mut status, "", "observedGeneration", json!(4));
    let mut object = deployment(VARIABLES);
    set(&mut object, "", "status", status);
    review(
        "WorkloadDeployment",
        "AggregateStatus",
        &object,
        &json!({"aggregatedStatus": items}),
    )
}

fn item(cell: &str, status: Option<&Value>) -> Value {
    json!({"applied": true, "clusterName": cell, "health": "Healthy", "status": status})
}

fn conditions() -> Value {
    json!([
        condition(
            "Available",
            "True",
            "StableInstanceFound",
            "an instance is ready"
        ),
        condition(
            "ReplicasReady",
            "True",
            "ReplicasAvailable",
            "no instance waits for quota"
        ),
    ])
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"lastTransitionTime": SINCE, "message": message, "reason": reason, "status": status, "type": type_})
}

/// Returns an entry of managedFields that owns all fields of `object`.
pub(crate) fn managed(manager: &str, object: &Value, subresource: Option<&str>) -> Value {
    let mut entry = json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields(object),
        "manager": manager,
        "operation": "Apply",
        "time": SINCE,
    });
    if let Some(subresource) = subresource {
        set(&mut entry, "", "subresource", json!(subresource));
    }
    entry
}

/// Returns a value in the format `fieldsV1`. Elements of lists are identified by their `name` or `type`. Other lists
/// are one field.
fn fields(value: &Value) -> Value {
    let mut found = Map::new();
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(format!("f:{name}"), fields(value));
            }
        }
        Value::Array(list) => {
            for element in list {
                for key in ["name", "type"] {
                    if let Some(name) = element.get(key) {
                        let mut inner = fields(element);
                        set(&mut inner, "", ".", json!({}));
                        found.insert(format!("k:{{\"{key}\":{name}}}"), inner);
                        break;
                    }
                }
            }
        }
        _ => {}
    }
    found.into()
}

/// Sets a field of the object at this JSON pointer.
pub(crate) fn set(object: &mut Value, pointer: &str, name: &str, value: Value) {
    if let Some(object) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        object.insert(name.to_owned(), value);
    }
}
