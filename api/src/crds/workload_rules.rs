//! The rules of admission that the CRD of Workload also has. They apply even if no webhook is registered.
//!
//! Only Workloads have these rules. A WorkloadDeployment uses the same Rust types for its template and scale settings.
//! But a controller or Karmada writes it. It may have 0 replicas, or come from a Workload that is older than a rule.
//!
//! A rule is here only if the Go manager's admission has it too. Otherwise, a stored Workload could break the rule. The
//! API server tolerates a broken rule in an update only if the value has not changed. It compares a list without a key
//! as a whole. So if one element breaks the rule, a change of any other element is refused
//! (docs/reference/admission.md#static-rules).
//!
//! The API server limits the estimated cost of a CEL rule. The estimate multiplies the lengths of nested lists, and
//! most lists of a Workload have no maximum length. So a CEL rule iterates over at most one list.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::allowed;
use crate::annotations::SSH_KEYS;

/// One rule of the CRD.
struct CrdRule {
    /// Path of the schema that has the rule. `[i]` is an element of a list.
    path: &'static str,
    /// The keywords of the rule.
    keywords: Value,
}

/// Returns the rules of the CRD of Workload that are not attributes of the Rust types.
fn workload_rules() -> Vec<CrdRule> {
    const VOLUME: &str = "spec.template.spec.volumes[i]";
    const DISK: &str = "spec.template.spec.volumes[i].disk.template.spec";
    let rule = |path, keywords| CrdRule { path, keywords };
    vec![
        rule("spec.template", ssh_keys()),
        rule("spec.template.spec", boot_disk()),
        rule("spec.template.spec.volumes[i].name", label()),
        rule(VOLUME, one_source()),
        rule(
            "spec.template.spec.volumes[i].disk.template.spec.type",
            json!({"enum": allowed::DISK_TYPES}),
        ),
        rule(
            "spec.template.spec.volumes[i].disk.template.spec.populator.image.name",
            json!({"enum": allowed::IMAGES}),
        ),
        rule(DISK, storage()),
        rule("spec.template.spec.volumes[i].configMap", config_map_name()),
        rule(
            "spec.template.spec.volumes[i].configMap.defaultMode",
            range(&allowed::FILE_MODES),
        ),
        rule(
            "spec.template.spec.volumes[i].configMap.items",
            json!({"maxItems": 0}),
        ),
        rule(
            "spec.template.spec.runtime.resources.instanceType",
            json!({"enum": allowed::INSTANCE_TYPES}),
        ),
        rule(
            "spec.template.spec.runtime.resources.requests",
            json!({"maxProperties": 0}),
        ),
        rule("spec.template.spec.runtime", one_runtime()),
        rule(
            "spec.template.spec.runtime.sandbox.containers[i].name",
            label(),
        ),
        rule(
            "spec.template.spec.runtime.sandbox.containers[i].image",
            json!({"minLength": 1}),
        ),
        rule(
            "spec.template.spec.runtime.sandbox.containers[i]",
            no_resources(),
        ),
        rule(
            "spec.template.spec.runtime.sandbox.imagePullSecrets[i].name",
            json!({"minLength": 1}),
        ),
        rule(
            "spec.template.spec.runtime.sandbox.containers[i].ports[i].name",
            port_name(),
        ),
        rule(
            "spec.template.spec.runtime.virtualMachine.ports[i].name",
            port_name(),
        ),
        rule(
            "spec.template.spec.networkInterfaces[i].network.name",
            label(),
        ),
        rule("spec.placements[i].name", label()),
        rule("spec.placements[i].cityCodes", json!({"minItems": 1})),
        rule(
            "spec.placements[i].scaleSettings.minReplicas",
            range(&allowed::REPLICAS),
        ),
        rule("spec.placements[i].scaleSettings", metrics()),
    ]
}

/// Adds the rules to the definition of Workload.
///
/// # Errors
///
/// The path of a rule, if the schema does not have the field of this rule.
pub(super) fn add(definition: &mut Value) -> Result<(), &'static str> {
    let versions = definition.pointer_mut("/spec/versions");
    let versions = versions.and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let schema = version.pointer_mut("/schema/openAPIV3Schema");
        let schema = schema.ok_or("openAPIV3Schema")?;
        for CrdRule { path, keywords } in workload_rules() {
            let field = find(schema, path).and_then(Value::as_object_mut);
            let (Some(field), Value::Object(keywords)) = (field, keywords) else {
                return Err(path);
            };
            field.extend(keywords);
        }
    }
    Ok(())
}

/// Returns the schema of a field.
fn find<'s>(schema: &'s mut Value, path: &str) -> Option<&'s mut Value> {
    path.split('.').try_fold(schema, |schema, part| {
        let name = part.trim_end_matches("[i]");
        let field = schema.get_mut("properties")?.get_mut(name)?;
        match part == name {
            true => Some(field),
            false => field.get_mut("items"),
        }
    })
}

fn range(values: &RangeInclusive<i32>) -> Value {
    json!({"minimum": values.start(), "maximum": values.end()})
}

fn label() -> Value {
    json!({"maxLength": allowed::DNS_LABEL_MAX, "pattern": allowed::DNS_LABEL})
}

fn port_name() -> Value {
    json!({"maxLength": allowed::PORT_NAME_MAX, "pattern": allowed::PORT_NAME})
}

/// Returns a CEL rule. `at` is the path of the reported field, relative to the schema with the rule.
fn cel(rule: &str, message: &str, reason: &str, at: &str) -> Value {
    let mut rule = json!({"rule": rule, "message": message, "reason": reason});
    if let Some(fields) = rule.as_object_mut()
        && !at.is_empty()
    {
        fields.insert("fieldPath".to_owned(), at.into());
    }
    rule
}

fn cel_rules(rules: impl IntoIterator<Item = Value>) -> Value {
    json!({"x-kubernetes-validations": Value::from_iter(rules)})
}

const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";

fn ssh_keys() -> Value {
    let rule = format!(
        "!has(self.spec.runtime.virtualMachine) || \
         (has(self.metadata) && has(self.metadata.annotations) && '{SSH_KEYS}' in self.metadata.annotations)"
    );
    let message =
        format!("a virtual machine needs the annotation {SSH_KEYS}, with one user:key per line");
    cel_rules([cel(&rule, &message, REQUIRED, ".metadata.annotations")])
}

/// The rule puts the name of the boot volume into a list of one element. The name is then selected once, not once for
/// each volume, which would exceed the cost limit. If the attachment names a volume
/// that does not exist, only the webhook reports it.
fn boot_disk() -> Value {
    let rule = "!has(self.runtime.virtualMachine) || size(self.runtime.virtualMachine.volumeAttachments) == 0 || \
                !has(self.volumes) || [self.runtime.virtualMachine.volumeAttachments[0].name].all(boot, \
                self.volumes.all(volume, volume.name != boot || (has(volume.disk) && \
                has(volume.disk.template.spec.populator) && has(volume.disk.template.spec.populator.image))))";
    let message = "the machine boots from the first attached volume, which must be a disk that is populated by an image";
    let at = ".runtime.virtualMachine.volumeAttachments";
    cel_rules([cel(rule, message, REQUIRED, at)])
}

fn one_source() -> Value {
    cel_rules([
        cel(
            "has(self.disk) || has(self.configMap) || has(self.secret)",
            "must specify a volume source",
            REQUIRED,
            "",
        ),
        cel(
            "!has(self.configMap) || !has(self.disk)",
            "may not specify more than one volume source",
            FORBIDDEN,
            ".configMap",
        ),
        cel(
            "!has(self.secret) || !(has(self.disk) || has(self.configMap))",
            "may not specify more than one volume source",
            FORBIDDEN,
            ".secret",
        ),
    ])
}

fn storage() -> Value {
    let rule = "has(self.resources) ? has(self.resources.requests) && 'storage' in self.resources.requests : \
                has(self.populator) && has(self.populator.image)";
    let message =
        "requests[storage] is required if resources is set, or if no image populates the disk";
    cel_rules([cel(rule, message, REQUIRED, ".resources")])
}

/// The name has the empty text as its default, so a `minLength` would make the schema invalid.
fn config_map_name() -> Value {
    let rule = "has(self.name) && self.name != ''";
    cel_rules([cel(rule, "must not be empty", REQUIRED, ".name")])
}

fn one_runtime() -> Value {
    cel_rules([
        cel(
            "has(self.sandbox) || has(self.virtualMachine)",
            "one of sandbox, virtualMachine",
            REQUIRED,
            "",
        ),
        cel(
            "!has(self.sandbox) || !has(self.virtualMachine)",
            "may not specify more than one runtime",
            FORBIDDEN,
            ".virtualMachine",
        ),
    ])
}

fn no_resources() -> Value {
    let message = "the instance type determines the resources";
    cel_rules([cel(
        "!has(self.resources)",
        message,
        FORBIDDEN,
        ".resources",
    )])
}

fn metrics() -> Value {
    let rule = "!has(self.maxReplicas) || (has(self.metrics) && size(self.metrics) > 0)";
    let message = "at least one metric is required when maxReplicas is set";
    cel_rules([cel(rule, message, REQUIRED, ".metrics")])
}
