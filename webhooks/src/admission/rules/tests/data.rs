//! Tests of the rules of ConfigMaps and Secrets.

use std::collections::BTreeSet;

use api::InstanceSpec;
use api::references::{SourceKind, references};
use serde_json::{Value, json};

use super::{Refusals, lines, lines_since, sandbox, set};
use crate::admission::access_review::UsedKind;
use crate::admission::external_facts::{Refusal, UsedObject};
use crate::admission::rules::newly_used;
use crate::admission::workload_view::WorkloadSpecView;

const CONTAINER: &str = "/template/spec/runtime/sandbox/containers/0";

/// Returns a Workload with a use in each place. The sandbox has the ConfigMap `web` and the pull secret `registry`.
fn with_every_place() -> Value {
    let mut workload = sandbox();
    let key = |name: &str| json!({"name": name, "key": "k", "optional": true});
    let env = json!([
        {"name": "A", "value": "v"},
        {"name": "B", "valueFrom": {"configMapKeyRef": key("c1")}},
        {"name": "C", "valueFrom": {"secretKeyRef": key("s1")}},
        {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "E", "valueFrom": {"secretKeyRef": key("s1")}},
    ]);
    let env_from = json!([
        {"configMapRef": {"name": "c2", "optional": true}},
        {"secretRef": {"name": "s2"}},
        {"configMapRef": {"name": ""}},
    ]);
    set(&mut workload, &format!("{CONTAINER}/env"), env);
    set(&mut workload, &format!("{CONTAINER}/envFrom"), env_from);
    let volume = json!({"name": "keys", "secret": {"secretName": "s3", "optional": true}});
    set(&mut workload, "/template/spec/volumes/-", volume);
    let attachment = json!({"name": "keys", "mountPath": "/keys"});
    let attachments = format!("{CONTAINER}/volumeAttachments/-");
    set(&mut workload, &attachments, attachment);
    workload
}

/// Returns the ConfigMaps and Secrets that the Workload uses and the former one did not use, as `Kind/name`.
fn new_data(former: Option<&Value>, workload: &Value) -> Vec<String> {
    let (text, former) = (workload.to_string(), former.map(Value::to_string));
    let spec: WorkloadSpecView<'_> = serde_json::from_str(&text).unwrap();
    let former: Option<WorkloadSpecView<'_>> = former
        .as_deref()
        .map(|text| serde_json::from_str(text).unwrap());
    let new = newly_used(&spec, former.as_ref()).into_iter();
    let shown = new.filter_map(|object| match object.kind {
        UsedKind::Network => None,
        UsedKind::Data(kind) => Some(format!("{}/{}", kind.as_str(), object.name)),
    });
    shown.collect()
}

#[test]
fn every_place_of_a_template_is_found_once() {
    let workload = with_every_place();
    assert_eq!(lines(&workload), [""; 0]);
    let found = new_data(None, &workload);
    let expected = [
        "ConfigMap/c1",
        "Secret/s1",
        "ConfigMap/c2",
        "Secret/s2",
        "Secret/registry",
        "ConfigMap/web",
        "Secret/s3",
    ];
    assert_eq!(found, expected);
    let spec: InstanceSpec = serde_json::from_value(workload["template"]["spec"].clone()).unwrap();
    let resolved: BTreeSet<_> = references(&spec).into_keys().collect();
    let resolved: BTreeSet<_> = resolved.iter().map(ToString::to_string).collect();
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), resolved);
}

#[test]
fn both_sources_of_one_entry_are_found() {
    let mut workload = sandbox();
    let both = json!([{"configMapRef": {"name": "c"}, "secretRef": {"name": "s"}}]);
    set(&mut workload, &format!("{CONTAINER}/envFrom"), both);
    assert_eq!(
        new_data(Some(&sandbox()), &workload),
        ["ConfigMap/c", "Secret/s"]
    );
}

#[test]
fn only_new_objects_of_an_update_are_found() {
    let former = with_every_place();
    let mut changed = former.clone();
    let env = json!([
        {"name": "F", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "other"}}},
        {"name": "G", "valueFrom": {"configMapKeyRef": {"name": "s2", "key": "k"}}},
        {"name": "H", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
    ]);
    set(&mut changed, &format!("{CONTAINER}/env"), env);
    assert_eq!(
        new_data(Some(&former), &changed),
        ["ConfigMap/s2", "Secret/s4"]
    );
    assert_eq!(new_data(Some(&former), &former), [""; 0]);
}

#[test]
fn a_refused_object_is_an_error_of_each_of_its_uses() {
    let object = |kind, name| UsedObject {
        kind: UsedKind::Data(kind),
        name,
    };
    let denied = || Refusal::Denied("no right".into());
    let refusals = Refusals::from([
        (object(SourceKind::ConfigMap, "c1"), denied()),
        (object(SourceKind::ConfigMap, "c2"), Refusal::NotAsked),
        (object(SourceKind::ConfigMap, "web"), denied()),
        (object(SourceKind::Secret, "registry"), Refusal::NotAsked),
        (object(SourceKind::Secret, "s1"), denied()),
        (
            object(SourceKind::Secret, "s2"),
            Refusal::NotReviewed("no answer".into()),
        ),
        (object(SourceKind::Secret, "s3"), denied()),
        // A network and a Secret of one name are two objects.
        (object(SourceKind::Secret, "default"), denied()),
    ]);
    let (container, spec) = (
        "spec.template.spec.runtime.sandbox.containers[0]",
        "spec.template.spec",
    );
    let not_asked = |kind| {
        format!(
            "Forbidden: the right to get the {kind} was not checked: the Workload has too many new or refused references"
        )
    };
    assert_eq!(
        lines_since(None, &with_every_place(), refusals),
        [
            format!("{container}.env[1].valueFrom.configMapKeyRef: Forbidden: no right"),
            format!("{container}.env[2].valueFrom.secretKeyRef: Forbidden: no right"),
            format!("{container}.env[4].valueFrom.secretKeyRef: Forbidden: no right"),
            format!(
                "{container}.envFrom[0].configMapRef: {}",
                not_asked("ConfigMap")
            ),
            format!("{container}.envFrom[1].secretRef: Internal error: no answer"),
            format!(
                "{spec}.runtime.sandbox.imagePullSecrets[0]: {}",
                not_asked("Secret")
            ),
            format!("{spec}.volumes[0].configMap: Forbidden: no right"),
            format!("{spec}.volumes[2].secret: Forbidden: no right"),
        ]
    );
}

/// An object cannot have such a name, so no access review is sent about it.
#[test]
fn names_are_subdomains() {
    let with = |name: &str| {
        let mut workload = with_every_place();
        let all = format!("{CONTAINER}/envFrom/1/secretRef/name");
        set(&mut workload, &all, json!(name));
        workload
    };
    for valid in ["a.b-c.d", &"a".repeat(253), "0"] {
        assert_eq!(lines(&with(valid)), [""; 0], "{valid}");
        assert!(new_data(None, &with(valid)).contains(&format!("Secret/{valid}")));
    }
    let field = "spec.template.spec.runtime.sandbox.containers[0].envFrom[1].secretRef.name";
    let long = "a".repeat(254);
    let is_long = format!("{field}: Invalid value: \"{}\"", "a".repeat(128));
    for (invalid, expected) in [
        (
            "A",
            format!("{field}: Invalid value: \"A\": a lowercase RFC 1123 subdomain must"),
        ),
        (
            "a..b",
            format!("{field}: Invalid value: \"a..b\": a lowercase"),
        ),
        (
            "a/b",
            format!("{field}: Invalid value: \"a/b\": a lowercase"),
        ),
        (&long, is_long),
    ] {
        let found = lines(&with(invalid));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&expected), "{found:?}");
        assert!(!new_data(None, &with(invalid)).contains(&format!("Secret/{invalid}")));
        let mut changed = with(invalid);
        set(
            &mut changed,
            "/placements/1/scaleSettings/minReplicas",
            json!(3),
        );
        let since = lines_since(Some(&with(invalid)), &changed, Refusals::new());
        assert_eq!(since, [""; 0]);
    }
}
