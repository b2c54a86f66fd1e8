//! Bad Workloads: at least one for each rule of docs/reference/admission.md.

use anyhow::Context;
use serde_json::{Value, json};

use crate::fixture::{template, workload};

/// A valid Workload with one mistake.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// Field and text of the rule in the table.
    pub(super) field: &'static str,
    pub(super) rule: &'static str,
    /// JSON pointer below `spec` of the changed field, and its new value as JSON. Without a value, the field is
    /// removed.
    pub(super) pointer: &'static str,
    pub(super) value: &'static str,
    /// The field that the API server names.
    pub(super) reported: &'static str,
    /// The valid Workload that is changed.
    valid: fn() -> Value,
    /// Whether every former CRD of Workload had the rule, so no stored object can break it.
    pub(super) always_held: bool,
}

/// Rules without a case: they depend on more than the object, or concern only the text of an error.
pub(super) const WITHOUT_CASE: [(&str, &str); 7] = [
    ("spec.placements[i].cityCodes[j]", "A city of the project."),
    (
        "spec.template.spec.networkInterfaces[i].network",
        "The requester may `use` the Network.",
    ),
    (
        "spec.template.spec.runtime.sandbox.containers[i].env[j].valueFrom",
        "The requester may `get` the ConfigMap of `configMapKeyRef` and the Secret of `secretKeyRef`.",
    ),
    (
        "spec.template.spec.runtime.sandbox.containers[i].envFrom[j]",
        "The requester may `get` the ConfigMap of `configMapRef` and the Secret of `secretRef`.",
    ),
    (
        "spec.template.spec.runtime.sandbox.imagePullSecrets[i]",
        "The requester may `get` the Secret.",
    ),
    (
        "spec.template.spec.volumes[i]",
        "The requester may `get` the ConfigMap of `configMap` and the Secret of `secret`.",
    ),
    (
        "spec.template.spec.runtime.*.ports[i].port",
        "The error shows the port number. (The Go manager shows the name.)",
    ),
];

/// Annotations with 1,001 lines of SSH keys, as JSON.
const MANY_KEYS: &str = {
    const BEFORE: &[u8] = br#"{"compute.datumapis.com/ssh-keys":"a"#;
    const LINE: &[u8] = br"\na";
    const LINES: usize = 1000;
    const AFTER: &[u8] = br#""}"#;
    const LENGTH: usize = BEFORE.len() + LINES * LINE.len() + AFTER.len();
    const BYTES: [u8; LENGTH] = {
        let mut bytes = [0; LENGTH];
        let mut index = 0;
        while index < LENGTH {
            let end = LENGTH - AFTER.len();
            bytes[index] = if index < BEFORE.len() {
                BEFORE[index]
            } else if index < end {
                LINE[(index - BEFORE.len()) % LINE.len()]
            } else {
                AFTER[index - end]
            };
            index += 1;
        }
        bytes
    };
    match str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!("not UTF-8"),
    }
};

const fn case(
    valid: fn() -> Value,
    field: &'static str,
    rule: &'static str,
    (pointer, value): (&'static str, &'static str),
    reported: &'static str,
) -> Case {
    Case {
        field,
        rule,
        pointer,
        value,
        reported,
        valid,
        always_held: false,
    }
}

const fn always_held(case: Case) -> Case {
    Case {
        always_held: true,
        ..case
    }
}

/// Returns a case of a rule that only the webhook has.
const fn webhook(
    valid: fn() -> Value,
    field: &'static str,
    rule: &'static str,
    change: (&'static str, &'static str),
) -> Case {
    case(valid, field, rule, change, "")
}

/// Returns a valid Workload of containers, with one volume of each source.
pub(super) fn sandbox() -> Value {
    let mut object = workload("static", &[("us", &["DFW"], 1)]);
    let spec = &mut object["spec"]["template"]["spec"];
    spec["runtime"]["sandbox"] = json!({
        "containers": [{
            "name": "app",
            "image": "app:1",
            "ports": [{"name": "http", "port": 80}],
            "volumeAttachments": [{"name": "data", "mountPath": "/data"}, {"name": "config"}, {"name": "keys"}],
        }],
        "imagePullSecrets": [{"name": "pull"}],
    });
    spec["volumes"] = json!([
        {"name": "data", "disk": {"template": {"spec": {
            "populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}},
        }}}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "keys", "secret": {"secretName": "s"}},
    ]);
    object
}

/// Returns a valid Workload of virtual machines.
pub(super) fn machine() -> Value {
    let mut object = workload("static", &[("us", &["DFW"], 1)]);
    let mut template = template();
    template["metadata"] =
        json!({"annotations": {"compute.datumapis.com/ssh-keys": "a:ssh-ed25519 AAAA"}});
    template["spec"]["runtime"] = json!({
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "virtualMachine": {"volumeAttachments": [{"name": "boot"}], "ports": [{"name": "ssh", "port": 22}]},
    });
    template["spec"]["volumes"] = json!([{"name": "boot", "disk": {"template": {"spec": {
        "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
    }}}}]);
    object["spec"]["template"] = template;
    object
}

/// Returns the Workload of a case.
pub(super) fn bad(case: &Case) -> anyhow::Result<Value> {
    let mut object = (case.valid)();
    let (parent, name) = case.pointer.rsplit_once('/').context("a pointer")?;
    let parent = object["spec"].pointer_mut(parent).context(case.pointer)?;
    if case.value.is_empty() {
        let fields = parent.as_object_mut().context(case.pointer)?;
        fields.remove(name).context(case.pointer)?;
        return Ok(object);
    }
    let value: Value = serde_json::from_str(case.value)?;
    match parent {
        Value::Array(list) if name == "-" => list.push(value),
        Value::Array(list) => list[name.parse::<usize>()?] = value,
        fields => fields[name] = value,
    }
    Ok(object)
}

/// The cases, in the order of the table.
pub(super) const CASES: &[Case] = &[
    case(
        machine,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "Required for a virtual machine.",
        ("/template/metadata", ""),
        "spec.template.metadata.annotations",
    ),
    case(
        machine,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "Required for a virtual machine.",
        ("/template/metadata", r#"{"annotations":{"other":""}}"#),
        "spec.template.metadata.annotations",
    ),
    webhook(
        machine,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "`user:key`, one per line.",
        (
            "/template/metadata/annotations",
            r#"{"compute.datumapis.com/ssh-keys":"key"}"#,
        ),
    ),
    webhook(
        machine,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "At most 1,000 lines.",
        ("/template/metadata/annotations", MANY_KEYS),
    ),
    webhook(
        machine,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "The type of a key matches its content, because sshd requires this.",
        (
            "/template/metadata/annotations",
            r#"{"compute.datumapis.com/ssh-keys":"a:ssh-rsa AAAA"}"#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].name",
        "A DNS label.",
        ("/template/spec/volumes/0/name", r#""Data""#),
        "spec.template.spec.volumes[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].name",
        "A DNS label.",
        ("/template/spec/volumes/0/name", r#""""#),
        "spec.template.spec.volumes[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].name",
        "A DNS label.",
        (
            "/template/spec/volumes/0/name",
            r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#,
        ),
        "spec.template.spec.volumes[0].name",
    ),
    always_held(case(
        sandbox,
        "spec.template.spec.volumes[i].name",
        "Unique.",
        (
            "/template/spec/volumes/-",
            r#"{"name":"data","configMap":{"name":"c"}}"#,
        ),
        "spec.template.spec.volumes[3]",
    )),
    webhook(
        sandbox,
        "spec.template.spec",
        "The `name` or `secretName` of a ConfigMap or Secret is a DNS subdomain, or empty.",
        (
            "/template/spec/runtime/sandbox/imagePullSecrets/0/name",
            r#""Not_A_Name""#,
        ),
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].name",
        "Attached by a container or the virtual machine.",
        (
            "/template/spec/volumes/-",
            r#"{"name":"more","configMap":{"name":"c"}}"#,
        ),
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].disk.deviceName",
        "Unique. The default is `persistent-disk-` followed by the index of the volume.",
        (
            "/template/spec/volumes/0/disk/deviceName",
            r#""persistent-disk-1""#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i]",
        "Exactly one source: `disk`, `configMap` or `secret`.",
        ("/template/spec/volumes/1/configMap", ""),
        "spec.template.spec.volumes[1]",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i]",
        "Exactly one source: `disk`, `configMap` or `secret`.",
        ("/template/spec/volumes/0/configMap", r#"{"name":"c"}"#),
        "spec.template.spec.volumes[0].configMap",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i]",
        "Exactly one source: `disk`, `configMap` or `secret`.",
        ("/template/spec/volumes/1/secret", r#"{"secretName":"s"}"#),
        "spec.template.spec.volumes[1].secret",
    ),
    always_held(case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template",
        "Required.",
        ("/template/spec/volumes/0/disk/template", ""),
        "spec.template.spec.volumes[0].disk.template",
    )),
    case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.type",
        "`pd-standard`.",
        (
            "/template/spec/volumes/0/disk/template/spec/type",
            r#""pd-fast""#,
        ),
        "spec.template.spec.volumes[0].disk.template.spec.type",
    ),
    case(
        machine,
        "spec.template.spec.volumes[i].disk.template.populator.image.name",
        "`datumcloud/ubuntu-2204-lts`.",
        (
            "/template/spec/volumes/0/disk/template/spec/populator/image/name",
            r#""other""#,
        ),
        "spec.template.spec.volumes[0].disk.template.spec.populator.image.name",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.populator.filesystem.type",
        "`ext4`.",
        (
            "/template/spec/volumes/0/disk/template/spec/populator/filesystem/type",
            r#""xfs""#,
        ),
        "spec.template.spec.volumes[0].disk.template.spec.populator.filesystem.type",
    ),
    webhook(
        machine,
        "spec.template.spec.volumes[i].disk.template.populator.filesystem",
        "Absent if there is an image.",
        (
            "/template/spec/volumes/0/disk/template/spec/populator/filesystem",
            r#"{"type":"ext4"}"#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "Required without an image, and where `resources` is set.",
        ("/template/spec/volumes/0/disk/template/spec/resources", ""),
        "spec.template.spec.volumes[0].disk.template.spec.resources",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "Required without an image, and where `resources` is set.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            "{}",
        ),
        "spec.template.spec.volumes[0].disk.template.spec.resources",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "Required without an image, and where `resources` is set.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{"other":"1Gi"}}"#,
        ),
        "spec.template.spec.volumes[0].disk.template.spec.resources",
    ),
    case(
        machine,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "Required without an image, and where `resources` is set.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{}}"#,
        ),
        "spec.template.spec.volumes[0].disk.template.spec.resources",
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "A multiple of 1Gi from 10Gi to 100Gi, for an image at least 25Gi.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{"storage":"5Gi"}}"#,
        ),
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "A multiple of 1Gi from 10Gi to 100Gi, for an image at least 25Gi.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{"storage":"101Gi"}}"#,
        ),
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "A multiple of 1Gi from 10Gi to 100Gi, for an image at least 25Gi.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{"storage":"10.5Gi"}}"#,
        ),
    ),
    webhook(
        machine,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "A multiple of 1Gi from 10Gi to 100Gi, for an image at least 25Gi.",
        (
            "/template/spec/volumes/0/disk/template/spec/resources",
            r#"{"requests":{"storage":"10Gi"}}"#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].configMap.name",
        "Required.",
        ("/template/spec/volumes/1/configMap/name", r#""""#),
        "spec.template.spec.volumes[1].configMap.name",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].configMap.defaultMode",
        "From 0 to 0777 (octal).",
        ("/template/spec/volumes/1/configMap/defaultMode", "-1"),
        "spec.template.spec.volumes[1].configMap.defaultMode",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].configMap.defaultMode",
        "From 0 to 0777 (octal).",
        ("/template/spec/volumes/1/configMap/defaultMode", "512"),
        "spec.template.spec.volumes[1].configMap.defaultMode",
    ),
    case(
        sandbox,
        "spec.template.spec.volumes[i].configMap.items",
        "Empty: every key becomes a file.",
        (
            "/template/spec/volumes/1/configMap/items",
            r#"[{"key":"k","path":"p"}]"#,
        ),
        "spec.template.spec.volumes[1].configMap.items",
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].secret",
        "`secretName` is set, `defaultMode` is within 0 to 0777 (octal), `items` is empty.",
        ("/template/spec/volumes/2/secret", "{}"),
    ),
    webhook(
        sandbox,
        "spec.template.spec.volumes[i].secret",
        "`secretName` is set, `defaultMode` is within 0 to 0777 (octal), `items` is empty.",
        ("/template/spec/volumes/2/secret/defaultMode", "512"),
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.resources",
        "`instanceType` is `datumcloud/d1-standard-2`.",
        (
            "/template/spec/runtime/resources/instanceType",
            r#""datumcloud/d1-huge""#,
        ),
        "spec.template.spec.runtime.resources.instanceType",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.resources.requests",
        "Empty, because the instance type defines the resources.",
        (
            "/template/spec/runtime/resources/requests",
            r#"{"cpu":"1"}"#,
        ),
        "spec.template.spec.runtime.resources.requests",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime",
        "Exactly one of `sandbox` and `virtualMachine`.",
        ("/template/spec/runtime/sandbox", ""),
        "spec.template.spec.runtime",
    ),
    case(
        machine,
        "spec.template.spec.runtime",
        "Exactly one of `sandbox` and `virtualMachine`.",
        (
            "/template/spec/runtime/sandbox",
            r#"{"containers":[{"name":"app","image":"app:1"}]}"#,
        ),
        "spec.template.spec.runtime.virtualMachine",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.sandbox.containers",
        "At least one.",
        ("/template/spec/runtime/sandbox/containers", "[]"),
        "spec.template.spec.runtime.sandbox.containers",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.sandbox.containers[i].name",
        "A DNS label, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/name",
            r#""App""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].name",
    ),
    always_held(case(
        sandbox,
        "spec.template.spec.runtime.sandbox.containers[i].name",
        "A DNS label, unique.",
        (
            "/template/spec/runtime/sandbox/containers/-",
            r#"{"name":"app","image":"app:2"}"#,
        ),
        "spec.template.spec.runtime.sandbox.containers[1]",
    )),
    case(
        sandbox,
        "spec.template.spec.runtime.sandbox.containers[i].image",
        "Required.",
        ("/template/spec/runtime/sandbox/containers/0/image", r#""""#),
        "spec.template.spec.runtime.sandbox.containers[0].image",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.sandbox.containers[i].resources",
        "Absent, because the instance type defines the resources.",
        (
            "/template/spec/runtime/sandbox/containers/0/resources",
            r#"{"limits":{"cpu":"1"}}"#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].resources",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.sandbox.imagePullSecrets[i].name",
        "Required.",
        (
            "/template/spec/runtime/sandbox/imagePullSecrets/0/name",
            r#""""#,
        ),
        "spec.template.spec.runtime.sandbox.imagePullSecrets[0].name",
    ),
    case(
        machine,
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
        "At least one.",
        (
            "/template/spec/runtime/virtualMachine/volumeAttachments",
            "[]",
        ),
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
    ),
    case(
        machine,
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
        "The first is a disk that is populated by an image.",
        (
            "/template/spec/volumes/0",
            r#"{"name":"boot","configMap":{"name":"c"}}"#,
        ),
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
    ),
    webhook(
        sandbox,
        "spec.template.spec.runtime.*.volumeAttachments[i].name",
        "The name of a volume.",
        (
            "/template/spec/runtime/sandbox/containers/0/volumeAttachments/-",
            r#"{"name":"other"}"#,
        ),
    ),
    webhook(
        sandbox,
        "spec.template.spec.runtime.*.volumeAttachments[i].mountPath",
        "Unique. A disk with a mount path needs a populator, which creates the file system.",
        (
            "/template/spec/runtime/sandbox/containers/0/volumeAttachments/-",
            r#"{"name":"config","mountPath":"/data"}"#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""Http""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""80""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""a--b""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""-a""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/name",
            r#""aaaaaaaaaaaaaaaa""#,
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].name",
    ),
    case(
        machine,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/virtualMachine/ports/0/name",
            r#""Ssh""#,
        ),
        "spec.template.spec.runtime.virtualMachine.ports[0].name",
    ),
    always_held(case(
        machine,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
        (
            "/template/spec/runtime/virtualMachine/ports/-",
            r#"{"name":"ssh","port":23}"#,
        ),
        "spec.template.spec.runtime.virtualMachine.ports[1]",
    )),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].port",
        "From 1 to 65535.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/port",
            "0",
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].port",
    ),
    case(
        sandbox,
        "spec.template.spec.runtime.*.ports[i].port",
        "From 1 to 65535.",
        (
            "/template/spec/runtime/sandbox/containers/0/ports/0/port",
            "65536",
        ),
        "spec.template.spec.runtime.sandbox.containers[0].ports[0].port",
    ),
    case(
        sandbox,
        "spec.template.spec.networkInterfaces",
        "At least one.",
        ("/template/spec/networkInterfaces", "[]"),
        "spec.template.spec.networkInterfaces",
    ),
    webhook(
        sandbox,
        "spec.template.spec.networkInterfaces[i].name",
        "A DNS label, or absent.",
        ("/template/spec/networkInterfaces/0/name", r#""Eth0""#),
    ),
    webhook(
        sandbox,
        "spec.template.spec.networkInterfaces[i].name",
        "Unique. The default is `eth` followed by the index of the interface.",
        (
            "/template/spec/networkInterfaces",
            r#"[{"network":{"name":"default"}},{"name":"eth0","network":{"name":"default"}}]"#,
        ),
    ),
    case(
        sandbox,
        "spec.template.spec.networkInterfaces[i].network.name",
        "A DNS label.",
        (
            "/template/spec/networkInterfaces/0/network/name",
            r#""Net""#,
        ),
        "spec.template.spec.networkInterfaces[0].network.name",
    ),
    case(
        sandbox,
        "spec.placements",
        "At least one.",
        ("/placements", "[]"),
        "spec.placements",
    ),
    case(
        sandbox,
        "spec.placements[i].name",
        "A DNS label.",
        ("/placements/0/name", r#""Us_1""#),
        "spec.placements[0].name",
    ),
    webhook(
        sandbox,
        "spec.placements[i].name",
        "Unique.",
        (
            "/placements/-",
            r#"{"name":"us","cityCodes":["ORD"],"scaleSettings":{"minReplicas":1}}"#,
        ),
    ),
    case(
        sandbox,
        "spec.placements[i].cityCodes",
        "At least one.",
        ("/placements/0/cityCodes", "[]"),
        "spec.placements[0].cityCodes",
    ),
    webhook(
        sandbox,
        "spec.placements[i].cityCodes[j]",
        "A label value: Karmada finds the cells of the city by that label.",
        ("/placements/0/cityCodes/-", r#""New York""#),
    ),
    case(
        sandbox,
        "spec.placements[i].scaleSettings.minReplicas",
        "From 1 to 1000.",
        ("/placements/0/scaleSettings/minReplicas", "0"),
        "spec.placements[0].scaleSettings.minReplicas",
    ),
    case(
        sandbox,
        "spec.placements[i].scaleSettings.minReplicas",
        "From 1 to 1000.",
        ("/placements/0/scaleSettings/minReplicas", "1001"),
        "spec.placements[0].scaleSettings.minReplicas",
    ),
    case(
        sandbox,
        "spec.placements[i].scaleSettings.minReplicas",
        "From 1 to 1000.",
        ("/placements/0/scaleSettings/minReplicas", "2000000000"),
        "spec.placements[0].scaleSettings.minReplicas",
    ),
    webhook(
        sandbox,
        "spec.placements[i].scaleSettings.maxReplicas",
        "Not below `minReplicas`.",
        (
            "/placements/0/scaleSettings",
            r#"{"minReplicas":2,"maxReplicas":1,"metrics":[{"resource":{"name":"cpu","target":{"averageUtilization":50}}}]}"#,
        ),
    ),
    case(
        sandbox,
        "spec.placements[i].scaleSettings.metrics",
        "At least one, if `maxReplicas` is set.",
        (
            "/placements/0/scaleSettings",
            r#"{"minReplicas":2,"maxReplicas":3}"#,
        ),
        "spec.placements[0].scaleSettings.metrics",
    ),
    case(
        sandbox,
        "spec.placements[i].scaleSettings.metrics",
        "At least one, if `maxReplicas` is set.",
        (
            "/placements/0/scaleSettings",
            r#"{"minReplicas":2,"maxReplicas":3,"metrics":[]}"#,
        ),
        "spec.placements[0].scaleSettings.metrics",
    ),
    webhook(
        sandbox,
        "spec.placements[i].scaleSettings.metrics[j].resource.name",
        "`cpu`.",
        (
            "/placements/0/scaleSettings",
            r#"{"minReplicas":2,"maxReplicas":3,"metrics":[{"resource":{"name":"memory","target":{"averageUtilization":50}}}]}"#,
        ),
    ),
    webhook(
        sandbox,
        "spec.placements[i].scaleSettings.metrics[j].resource.target",
        "Exactly one of `value`, `averageValue` (positive quantities) and `averageUtilization` (at least 1).",
        (
            "/placements/0/scaleSettings",
            r#"{"minReplicas":2,"maxReplicas":3,"metrics":[{"resource":{"name":"cpu","target":{}}}]}"#,
        ),
    ),
];
