//! The rules of admission for the reference page `docs/reference/admission.md`.

/// One rule for one field.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// File in `rules/` with the code of the rule.
    pub file: &'static str,
    /// Path of the field. `spec` is the spec of the Workload.
    pub field: &'static str,
    /// The requirement for the value of the field.
    pub rule: &'static str,
    /// True if the Go manager does not have the rule.
    pub is_added: bool,
    /// Whether the CRD of Workload has the rule too.
    pub in_crd: InCrd,
}

/// The part of the CRD of Workload that has a rule. The API server checks it, with or without a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InCrd {
    /// The CRD does not have the rule.
    No,
    /// Keywords of the OpenAPI schema.
    Schema,
    /// `x-kubernetes-validations`.
    Cel,
}

const fn rule(file: &'static str, field: &'static str, rule: &'static str) -> Rule {
    Rule {
        file,
        field,
        rule,
        is_added: false,
        in_crd: InCrd::No,
    }
}

/// Returns a rule that the schema of the CRD has too.
const fn schema(file: &'static str, field: &'static str, text: &'static str) -> Rule {
    Rule {
        in_crd: InCrd::Schema,
        ..rule(file, field, text)
    }
}

/// Returns a rule that the CRD has too, as a CEL expression.
const fn cel(file: &'static str, field: &'static str, text: &'static str) -> Rule {
    Rule {
        in_crd: InCrd::Cel,
        ..rule(file, field, text)
    }
}

const fn added(file: &'static str, field: &'static str, text: &'static str) -> Rule {
    Rule {
        is_added: true,
        ..rule(file, field, text)
    }
}

const METADATA: &str = "metadata.rs";
const VOLUMES: &str = "volumes.rs";
const RUNTIME: &str = "runtime.rs";
const NETWORKS: &str = "networks.rs";
const DATA: &str = "data.rs";
const PLACEMENTS: &str = "placements.rs";

/// All rules, in the order of their errors in an answer.
pub const RULES: &[Rule] = &[
    cel(
        METADATA,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "Required for a virtual machine.",
    ),
    rule(
        METADATA,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "`user:key`, one per line.",
    ),
    added(
        METADATA,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "At most 1,000 lines.",
    ),
    added(
        METADATA,
        "spec.template.annotations[compute.datumapis.com/ssh-keys]",
        "The type of a key matches its content, because sshd requires this.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].name",
        "A DNS label.",
    ),
    schema(VOLUMES, "spec.template.spec.volumes[i].name", "Unique."),
    rule(
        VOLUMES,
        "spec.template.spec.volumes[i].name",
        "Attached by a container or the virtual machine.",
    ),
    rule(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.deviceName",
        "Unique. The default is `persistent-disk-` followed by the index of the volume.",
    ),
    cel(
        VOLUMES,
        "spec.template.spec.volumes[i]",
        "Exactly one source: `disk`, `configMap` or `secret`.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template",
        "Required.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.spec.type",
        "`pd-standard`.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.populator.image.name",
        "`datumcloud/ubuntu-2204-lts`.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.populator.filesystem.type",
        "`ext4`.",
    ),
    added(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.populator.filesystem",
        "Absent if there is an image.",
    ),
    cel(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "Required without an image, and where `resources` is set.",
    ),
    rule(
        VOLUMES,
        "spec.template.spec.volumes[i].disk.template.spec.resources.requests[storage]",
        "A multiple of 1Gi from 10Gi to 100Gi, for an image at least 25Gi.",
    ),
    cel(
        VOLUMES,
        "spec.template.spec.volumes[i].configMap.name",
        "Required.",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].configMap.defaultMode",
        "From 0 to 0777 (octal).",
    ),
    schema(
        VOLUMES,
        "spec.template.spec.volumes[i].configMap.items",
        "Empty: every key becomes a file.",
    ),
    added(
        VOLUMES,
        "spec.template.spec.volumes[i].secret",
        "`secretName` is set, `defaultMode` is within 0 to 0777 (octal), `items` is empty.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.resources",
        "`instanceType` is `datumcloud/d1-standard-2`.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.resources.requests",
        "Empty, because the instance type defines the resources.",
    ),
    cel(
        RUNTIME,
        "spec.template.spec.runtime",
        "Exactly one of `sandbox` and `virtualMachine`.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.sandbox.containers",
        "At least one.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.sandbox.containers[i].name",
        "A DNS label, unique.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.sandbox.containers[i].image",
        "Required.",
    ),
    cel(
        RUNTIME,
        "spec.template.spec.runtime.sandbox.containers[i].resources",
        "Absent, because the instance type defines the resources.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.sandbox.imagePullSecrets[i].name",
        "Required.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
        "At least one.",
    ),
    cel(
        RUNTIME,
        "spec.template.spec.runtime.virtualMachine.volumeAttachments",
        "The first is a disk that is populated by an image.",
    ),
    rule(
        RUNTIME,
        "spec.template.spec.runtime.*.volumeAttachments[i].name",
        "The name of a volume.",
    ),
    rule(
        RUNTIME,
        "spec.template.spec.runtime.*.volumeAttachments[i].mountPath",
        "Unique. A disk with a mount path needs a populator, which creates the file system.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.*.ports[i].name",
        "An IANA service name, unique.",
    ),
    schema(
        RUNTIME,
        "spec.template.spec.runtime.*.ports[i].port",
        "From 1 to 65535.",
    ),
    added(
        RUNTIME,
        "spec.template.spec.runtime.*.ports[i].port",
        "The error shows the port number. (The Go manager shows the name.)",
    ),
    schema(
        NETWORKS,
        "spec.template.spec.networkInterfaces",
        "At least one.",
    ),
    added(
        NETWORKS,
        "spec.template.spec.networkInterfaces[i].name",
        "A DNS label, or absent.",
    ),
    added(
        NETWORKS,
        "spec.template.spec.networkInterfaces[i].name",
        "Unique. The default is `eth` followed by the index of the interface.",
    ),
    schema(
        NETWORKS,
        "spec.template.spec.networkInterfaces[i].network.name",
        "A DNS label.",
    ),
    rule(
        NETWORKS,
        "spec.template.spec.networkInterfaces[i].network",
        "The requester may `use` the Network.",
    ),
    rule(
        DATA,
        "spec.template.spec.runtime.sandbox.containers[i].env[j].valueFrom",
        "The requester may `get` the ConfigMap of `configMapKeyRef` and the Secret of `secretKeyRef`.",
    ),
    rule(
        DATA,
        "spec.template.spec.runtime.sandbox.containers[i].envFrom[j]",
        "The requester may `get` the ConfigMap of `configMapRef` and the Secret of `secretRef`.",
    ),
    rule(
        DATA,
        "spec.template.spec.runtime.sandbox.imagePullSecrets[i]",
        "The requester may `get` the Secret.",
    ),
    rule(
        DATA,
        "spec.template.spec.volumes[i]",
        "The requester may `get` the ConfigMap of `configMap` and the Secret of `secret`.",
    ),
    added(
        DATA,
        "spec.template.spec",
        "The `name` or `secretName` of a ConfigMap or Secret is a DNS subdomain, or empty.",
    ),
    schema(PLACEMENTS, "spec.placements", "At least one."),
    schema(PLACEMENTS, "spec.placements[i].name", "A DNS label."),
    added(PLACEMENTS, "spec.placements[i].name", "Unique."),
    schema(PLACEMENTS, "spec.placements[i].cityCodes", "At least one."),
    rule(
        PLACEMENTS,
        "spec.placements[i].cityCodes[j]",
        "A city of the project.",
    ),
    added(
        PLACEMENTS,
        "spec.placements[i].cityCodes[j]",
        "A label value: Karmada finds the cells of the city by that label.",
    ),
    schema(
        PLACEMENTS,
        "spec.placements[i].scaleSettings.minReplicas",
        "From 1 to 1000.",
    ),
    added(
        PLACEMENTS,
        "spec.placements[i].scaleSettings.maxReplicas",
        "Not below `minReplicas`.",
    ),
    cel(
        PLACEMENTS,
        "spec.placements[i].scaleSettings.metrics",
        "At least one, if `maxReplicas` is set.",
    ),
    rule(
        PLACEMENTS,
        "spec.placements[i].scaleSettings.metrics[j].resource.name",
        "`cpu`.",
    ),
    rule(
        PLACEMENTS,
        "spec.placements[i].scaleSettings.metrics[j].resource.target",
        "Exactly one of `value`, `averageValue` (positive quantities) and `averageUtilization` (at least 1).",
    ),
];
