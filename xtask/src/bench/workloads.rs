//! Create requests for Workloads, in the form in which a kube-apiserver sends them: objects have managedFields.

use serde_json::{Value, json};

use super::bodies::{managed, set};

/// A Workload with one container, one network and one placement.
pub(crate) const SMALL: &str = "workload-small";
/// A Workload with 100 containers. Its request has 64 KB.
pub(crate) const LARGE: &str = "workload-64k";
/// The small Workload with several volumes and with [`MISTAKES`] mistakes.
pub(crate) const MISTAKEN: &str = "workload-10-mistakes";
/// A Workload with an empty spec.
pub(crate) const EMPTY: &str = "workload-empty";
/// The small Workload with [`NETWORKS`] networks instead of one.
pub(crate) const CONNECTED: &str = "workload-16-networks";

pub(crate) const MISTAKES: usize = 10;
pub(crate) const NETWORKS: usize = 16;
const CONTAINERS: usize = 100;
/// The requester. The load generator makes others of this one.
pub(crate) const USER: &str = "ada@example.com";
/// A network that the user may not use.
pub(crate) const DENIED_NETWORK: &str = "denied";
const SINCE: &str = "2026-11-21T10:00:00Z";

/// Returns the requests that are measured.
pub(crate) fn all() -> Vec<(String, Value)> {
    let requests = [
        (SMALL, small()),
        (LARGE, large()),
        (MISTAKEN, mistaken()),
        (CONNECTED, connected()),
    ];
    requests
        .map(|(name, spec)| (name.to_owned(), review(&spec)))
        .into()
}

/// Returns requests that are not measured. The servers must give the same answers to them too. Each of these requests
/// breaks one rule that the measured requests keep. No request is about virtual machines, because the Go webhook does
/// not check them.
pub(crate) fn checked() -> Vec<(String, Value)> {
    let changes = [of_placements(), of_runtime(), of_volumes()].concat();
    let mut requests = vec![
        ("workload-valid".to_owned(), review(&with_volumes())),
        (EMPTY.to_owned(), review(&json!({}))),
    ];
    for (index, (pointer, field, value)) in changes.into_iter().enumerate() {
        let mut spec = with_volumes();
        set(&mut spec, pointer, field, value);
        requests.push((format!("workload-broken-{index}"), review(&spec)));
    }
    requests
}

/// JSON pointer of the parent, name of the field, and value of the field.
type FieldChange = (&'static str, &'static str, Value);

fn of_placements() -> Vec<FieldChange> {
    let placement = "/placements/0";
    let scale = "/placements/0/scaleSettings";
    let metrics = json!([
        {"resource": {"name": "memory", "target": {"averageUtilization": 0}}},
        {"resource": {"name": "cpu", "target": {"averageValue": "1", "value": "0"}}},
        {"resource": {"name": "cpu", "target": {}}},
        {},
    ]);
    vec![
        ("", "placements", json!([])),
        (placement, "name", json!("No_Label")),
        (placement, "name", json!("x".repeat(64))),
        (placement, "cityCodes", json!([])),
        (placement, "cityCodes", json!(["dfw", "NYC", "ORD"])),
        (scale, "minReplicas", json!(1001)),
        (scale, "maxReplicas", json!(0)),
        (scale, "metrics", metrics.clone()),
        (
            placement,
            "scaleSettings",
            json!({"minReplicas": 1, "maxReplicas": 2, "metrics": metrics}),
        ),
    ]
}

fn of_runtime() -> Vec<FieldChange> {
    let instance = "/template/spec";
    let sandbox = "/template/spec/runtime/sandbox";
    let container = "/template/spec/runtime/sandbox/containers/0";
    let networks = ["a", "B", DENIED_NETWORK, DENIED_NETWORK];
    let networks = networks.map(|name| json!({"network": {"name": name}}));
    let attachments = json!([
        {"name": "config", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}, {"name": "cache"},
    ]);
    let ports = json!([
        {"name": "", "port": 0}, {"name": "HTTP-and-much-more", "port": 70000}, {"name": "80", "port": 80},
        {"name": "http", "port": 80}, {"name": "http", "port": 81},
    ]);
    vec![
        (instance, "networkInterfaces", json!([])),
        (instance, "networkInterfaces", json!(networks)),
        (
            instance,
            "runtime",
            json!({"resources": {"instanceType": ""}}),
        ),
        (
            "/template/spec/runtime/resources",
            "requests",
            json!({"cpu": "1"}),
        ),
        (sandbox, "containers", json!([])),
        (
            sandbox,
            "containers",
            json!([container_of(0), container_of(0)]),
        ),
        (sandbox, "imagePullSecrets", json!([{"name": ""}])),
        (container, "name", json!("-")),
        (container, "resources", json!({"limits": {"cpu": "1"}})),
        (container, "volumeAttachments", json!([])),
        (container, "volumeAttachments", attachments),
        (container, "ports", ports),
    ]
}

fn of_volumes() -> Vec<FieldChange> {
    let instance = "/template/spec";
    let config = "/template/spec/volumes/0";
    let token = "/template/spec/volumes/1";
    let data = "/template/spec/volumes/2";
    let disk = "/template/spec/volumes/2/disk/template/spec";
    let size = |size: &str| json!({"requests": {"storage": size}});
    vec![
        (instance, "volumes", json!([])),
        (config, "secret", json!({"secretName": "web"})),
        (
            config,
            "configMap",
            json!({"name": "", "items": [{"key": "a", "path": "b"}]}),
        ),
        (token, "secret", json!({"defaultMode": -1})),
        (token, "secret", Value::Null),
        (token, "name", json!("config")),
        (data, "disk", json!({"deviceName": "persistent-disk-0"})),
        (disk, "type", json!("pd-extreme")),
        (disk, "populator", Value::Null),
        (
            disk,
            "populator",
            json!({"image": {"name": "other"}, "filesystem": {"type": "xfs"}}),
        ),
        (disk, "populator", json!({"filesystem": {"type": "xfs"}})),
        (disk, "resources", Value::Null),
        (disk, "resources", json!({"requests": {}})),
        (disk, "resources", size("0")),
        (disk, "resources", size("5500Mi")),
        (disk, "resources", size("101Gi")),
    ]
}

fn small() -> Value {
    json!({
        "placements": [{
            "cityCodes": ["DFW"],
            "name": "default",
            "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 1},
        }],
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "networkInterfaces": [{"network": {"name": "default"}}],
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{
                        "image": "registry.example.com/web@sha256:6b1f",
                        "name": "web",
                        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
                    }]},
                },
            },
        },
    })
}

/// Returns the small Workload with one volume of each kind.
fn with_volumes() -> Value {
    let mut spec = small();
    let attachments = json!([
        {"mountPath": "/etc/web", "name": "config"},
        {"mountPath": "/var/run/secrets/web", "name": "token"},
        {"mountPath": "/var/lib/web", "name": "data"},
    ]);
    let container = "/template/spec/runtime/sandbox/containers/0";
    set(&mut spec, container, "volumeAttachments", attachments);
    set(&mut spec, "/template/spec", "volumes", volumes());
    spec
}

fn volumes() -> Value {
    json!([
        {"configMap": {"defaultMode": 420, "name": "web"}, "name": "config"},
        {"name": "token", "secret": {"defaultMode": 256, "secretName": "web"}},
        {"disk": {"template": {"spec": {
            "populator": {"filesystem": {"type": "ext4"}},
            "resources": {"requests": {"storage": "20Gi"}},
            "type": "pd-standard",
        }}}, "name": "data"},
    ])
}

fn large() -> Value {
    let mut spec = with_volumes();
    let containers: Vec<_> = (0..CONTAINERS).map(container_of).collect();
    let sandbox = json!({"containers": containers, "imagePullSecrets": [{"name": "registry"}]});
    set(&mut spec, "/template/spec/runtime", "sandbox", sandbox);
    spec
}

fn container_of(index: usize) -> Value {
    let volume = ["config", "token", "data"].get(index % 3);
    json!({
        "env": [
            {"name": "MODE", "value": index.to_string()},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"key": "token", "name": "web"}}},
        ],
        "image": "web:1.4",
        "name": format!("w-{index}"),
        "ports": [{"name": "http", "port": 8000 + index}],
        "volumeAttachments": [{"mountPath": "/web", "name": volume}],
    })
}

/// Returns a Workload with mistakes that the schema of the CRD does not find. An API server rejects other mistakes
/// before it calls webhooks.
fn mistaken() -> Value {
    let mut spec = with_volumes();
    let instance = "/template/spec";
    let container = "/template/spec/runtime/sandbox/containers/0";
    for (pointer, field, value) in [
        ("/placements/0", "cityCodes", json!(["DFW", "NYC"])),
        ("/placements/0/scaleSettings", "minReplicas", json!(0)),
        (
            instance,
            "networkInterfaces",
            json!([{"network": {"name": DENIED_NETWORK}}]),
        ),
        (
            "/template/spec/runtime/resources",
            "instanceType",
            json!("datumcloud/d1-standard-64"),
        ),
        (container, "image", json!("")),
        (
            container,
            "ports",
            json!([{"name": "http--alt", "port": 8080}]),
        ),
        (
            container,
            "volumeAttachments",
            json!([{"name": "config"}, {"name": "cache"}, {"mountPath": "/var/lib/web", "name": "data"}]),
        ),
        (
            "/template/spec/volumes/0/configMap",
            "defaultMode",
            json!(1000),
        ),
        (
            "/template/spec/volumes/2/disk/template/spec/resources/requests",
            "storage",
            json!("5Gi"),
        ),
    ] {
        set(&mut spec, pointer, field, value);
    }
    spec
}

fn connected() -> Value {
    let mut spec = small();
    let interfaces: Vec<_> = (0..NETWORKS)
        .map(|index| json!({"network": {"name": format!("network-{index}")}}))
        .collect();
    set(
        &mut spec,
        "/template/spec",
        "networkInterfaces",
        interfaces.into(),
    );
    spec
}

/// Returns the user that creates the Workloads. The user has the Extra keys that Milo adds for a project.
pub(crate) fn user() -> Value {
    json!({
        "username": USER,
        "uid": "c0a1b2de-2b8e-4a52-9f0b-4d1c7f2b6a10",
        "groups": ["system:authenticated", "milo:users"],
        "extra": {
            "authentication.kubernetes.io/credential-id": ["JTI=5d7f2c1e-8a40-4d0e-9c11-0a3b6f5e2d19"],
            "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
            "iam.miloapis.com/parent-name": ["shop"],
            "iam.miloapis.com/parent-type": ["Project"],
        },
    })
}

fn review(spec: &Value) -> Value {
    let kind = json!({"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"});
    let resource =
        json!({"group": "compute.datumapis.com", "version": "v1alpha", "resource": "workloads"});
    let metadata = json!({
        "creationTimestamp": SINCE,
        "generation": 1,
        "labels": {"app": "web"},
        "managedFields": [managed("kubectl", &json!({"spec": spec}), None)],
        "name": "web",
        "namespace": "default",
        "uid": "0f0bb2a8-5f3b-4d0c-9df5-1f6c4d2a9a11",
    });
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "web",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": user(),
            "object": {
                "apiVersion": "compute.datumapis.com/v1alpha",
                "kind": "Workload",
                "metadata": metadata,
                "spec": spec,
            },
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        },
    })
}
