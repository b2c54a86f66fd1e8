//! Objects for tests, as JSON. All crates share these functions.

use serde_json::{Value, json};

const COMPUTE: &str = "compute.datumapis.com/v1alpha";
const NETWORKING: &str = "networking.datumapis.com/v1alpha";

/// Returns a condition with the reason `Because`.
pub fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "It is so.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Returns a Namespace.
pub fn namespace(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid}})
}

/// Returns a Milo Project whose condition `Ready` has this status.
pub fn project(name: &str, uid: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name, "uid": uid},
        "status": {"conditions": [condition("Ready", ready)]},
    })
}

/// Returns a LocationBinding of a city. Its condition `Available` has this status.
pub fn location_binding(name: &str, city: &str, available: &str) -> Value {
    json!({
        "apiVersion": NETWORKING,
        "kind": "LocationBinding",
        "metadata": {"name": name, "uid": name},
        "spec": {"locationRef": {"name": name}, "topology": {"topology.datum.net/city-code": city}},
        "status": {"conditions": [condition("Available", available)]},
    })
}

/// Returns a Network.
pub fn network(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": NETWORKING,
        "kind": "Network",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ipam": {"mode": "Auto"}},
    })
}

/// Returns a template of Instances. Each Instance runs one container with this image in the network `default`.
pub fn template(image: &str) -> Value {
    json!({"spec": {
        "networkInterfaces": [{"network": {"name": "default"}}],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": image}]},
        },
    }})
}

/// Returns a template with every field that the types of this project know, except `controller`.
pub fn complete_template() -> Value {
    let metadata = json!({
        "annotations": {"example.com/note": "a"}, "finalizers": ["example.com/held"],
        "labels": {"tier": "web"}, "name": "n", "namespace": "ns",
    });
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let attachments = json!([{"name": "data", "mountPath": "/data"}]);
    let items = json!([{"key": "k", "mode": 420, "path": "p"}]);
    let key = json!({"key": "k", "name": "n", "optional": true});
    let env = json!([
        {"name": "A", "value": "a"},
        {"name": "B", "valueFrom": {
            "configMapKeyRef": key, "secretKeyRef": key,
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"},
            "resourceFieldRef": {"containerName": "app", "divisor": "1m", "resource": "limits.cpu"},
        }},
    ]);
    let ingress = json!([{
        "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
        "ports": [{"endPort": 90, "port": 80, "protocol": "TCP"}],
    }]);
    let disk = json!({
        "populator": {"filesystem": {"type": "ext4"}, "image": {"name": "i"}},
        "resources": {"requests": {"storage": "10Gi"}}, "type": "pd-standard",
    });
    json!({"metadata": metadata, "spec": {
        "location": {"name": "dfw1", "namespace": "ns"},
        "networkInterfaces": [{
            "network": {"name": "default", "namespace": "ns"}, "networkPolicy": {"ingress": ingress},
        }],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2", "requests": {"cpu": "1"}},
            "sandbox": {
                "containers": [{
                    "name": "app", "image": "app:1", "env": env, "ports": ports,
                    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                    "volumeAttachments": attachments,
                }],
                "imagePullSecrets": [{"name": "pull"}],
            },
            "virtualMachine": {"ports": ports, "volumeAttachments": attachments},
        },
        "volumes": [
            {"name": "data", "disk": {
                "deviceName": "sda", "template": {"metadata": metadata, "spec": disk},
            }},
            {"name": "config", "configMap": {
                "defaultMode": 420, "items": items, "name": "n", "optional": true,
            }},
            {"name": "secret", "secret": {
                "defaultMode": 420, "items": items, "secretName": "n", "optional": true,
            }},
        ],
    }})
}

/// Returns [`complete_template`] with a field `later` in every object whose fields a schema names. The types of this
/// project do not know this field.
pub fn later_template() -> Value {
    let mut template = complete_template();
    add_later_fields(&mut template);
    template
}

/// Names of fields whose values are maps with keys of the user's choice.
const MAPS: [&str; 4] = ["annotations", "labels", "limits", "requests"];

fn add_later_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let known = fields.iter_mut();
            known
                .filter(|(name, _)| !MAPS.contains(&name.as_str()))
                .for_each(|(_, value)| add_later_fields(value));
            let later = json!({"list": [1, "a", {"b": null}], "text": "t"});
            fields.insert("later".to_owned(), later);
        }
        Value::Array(items) => items.iter_mut().for_each(add_later_fields),
        _ => {}
    }
}

/// Returns scale settings with this minimum number of replicas.
pub fn scale(replicas: i32) -> Value {
    json!({"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"})
}

/// Returns a Workload with these placements. A placement is a name and a list of cities, and has two replicas in each
/// city.
pub fn workload(namespace: &str, name: &str, placements: &[(&str, &[&str])]) -> Value {
    let placements: Vec<_> = placements
        .iter()
        .map(|(name, cities)| json!({"name": name, "cityCodes": cities, "scaleSettings": scale(2)}))
        .collect();
    json!({
        "apiVersion": COMPUTE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"placements": placements, "template": template("app:1")},
    })
}

/// Returns a WorkloadDeployment for the placement `us` of the Workload `web`, which has the UID `workload-uid`.
pub fn deployment(namespace: &str, name: &str, city: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "WorkloadDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "cityCode": city,
            "placementName": "us",
            "scaleSettings": scale(replicas),
            "template": template("app:1"),
            "workloadRef": {"name": "web", "uid": "workload-uid"},
        },
    })
}

/// Returns an Instance without an owner.
pub fn instance(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "Instance",
        "metadata": {"name": name, "namespace": namespace},
        "spec": template("app:1")["spec"],
    })
}
