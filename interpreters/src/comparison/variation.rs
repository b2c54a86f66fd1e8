//! Generated objects around an object of the hub.

use std::borrow::Cow;

use api::annotations::EXPECTED_REFERENCED_DATA;
use api::reasons::instance::PENDING;
use api::workload_deployment::CELLS_REPORTING;
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::subject::Subject;
use crate::caller::Answer;
use crate::review::{InterpretedKind, Operation};

/// Most cells of a generated object.
const CELLS_MAX: usize = 3;
/// Most changes of one object.
const CHANGES_MAX: usize = 5;
const COUNTERS: [&str; 5] = [
    "replicas",
    "currentReplicas",
    "desiredReplicas",
    "readyReplicas",
    "updatedReplicas",
];

/// Returns a variation of an object: what a customer, Karmada or a cell could make of it. The same seed gives the same
/// variation.
pub fn varied(subject: &Subject, seed: u64, now: Timestamp) -> Subject {
    let mut random = Rng::with_seed(seed);
    let mut varied = Subject {
        share: random.i32(0..4),
        ..subject.clone()
    };
    let status = status_of(subject);
    if random.bool() {
        varied.items = items(&status, &mut random);
    }
    if random.u8(0..4) == 0 {
        remember(&mut varied, &status, &mut random, now);
    }
    for _ in 0..random.usize(1..=CHANGES_MAX) {
        change(&mut varied, &status, &mut random);
    }
    varied
}

/// Returns a status that a cell could report.
fn status_of(subject: &Subject) -> Value {
    let of_items = subject.items.iter().find_map(|item| item.get("status"));
    let status = |object: &Value| object.get("status").cloned();
    let known = [
        of_items.cloned(),
        status(&subject.in_cell),
        status(&subject.object),
    ];
    let is_report = |status: &Value| status.as_object().is_some_and(|it| !it.is_empty());
    let known = known.into_iter().flatten().find(is_report);
    let kind = match is_instance(&subject.object) {
        true => InterpretedKind::Instance,
        false => InterpretedKind::WorkloadDeployment,
    };
    let sample = || status(&Subject::sample(kind).object);
    let mut reported = known.or_else(sample).unwrap_or_default();
    // A cell does not report these fields.
    for field in ["cells", "reportingCell"] {
        remove(&mut reported, field);
    }
    let conditions = reported.get_mut("conditions").and_then(Value::as_array_mut);
    if let Some(conditions) = conditions {
        let is_own = |condition: &Value| {
            condition.get("type").and_then(Value::as_str) == Some(CELLS_REPORTING)
        };
        conditions.retain(|condition| !is_own(condition));
    }
    reported
}

fn is_instance(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some(InterpretedKind::Instance.as_str())
}

/// Returns the statuses of up to [`CELLS_MAX`] cells.
fn items(status: &Value, random: &mut Rng) -> Vec<Value> {
    let cells = random.usize(0..=CELLS_MAX);
    let item = |index: usize| {
        let applied = random.u8(0..8) > 0;
        let mut item = json!({"clusterName": format!("cell-{index}"), "applied": applied});
        if !applied && random.bool() {
            set(&mut item, &["appliedMessage"], json!("connection refused"));
        }
        match random.u8(0..10) {
            0 => {}
            1 => set(&mut item, &["status"], json!({})),
            _ => set(&mut item, &["status"], varied_status(status, random)),
        }
        item
    };
    (0..cells).map(item).collect()
}

/// Gives the object of the hub a status that the native interpreter has written before.
fn remember(subject: &mut Subject, status: &Value, random: &mut Rng, now: Timestamp) {
    let before = Subject {
        items: items(status, random),
        ..subject.clone()
    };
    let request = before.request(Operation::AggregateStatus);
    let answer = request.body().ok();
    let answer = answer.and_then(|body| crate::interpret(&body, now).ok());
    let answer = answer.filter(|answer| answer.error.is_none());
    let object = answer.and_then(|answer| {
        let answer = Answer::decode(request.operation, &answer.body, request.object);
        answer.ok()?.object.map(Cow::into_owned)
    });
    if let Some(object) = object {
        subject.object = object;
    }
}

/// Changes something in a status. The CRD does not allow every result.
fn varied_status(status: &Value, random: &mut Rng) -> Value {
    let mut status = status.clone();
    for _ in 0..random.usize(0..4) {
        match random.u8(0..8) {
            0..2 => {
                let counter = random.choice(COUNTERS).unwrap_or("replicas");
                let number = match random.u8(0..16) {
                    0 => json!(3_000_000_000_i64),
                    1 => json!(-1),
                    _ => json!(random.i32(0..5)),
                };
                set(&mut status, &[counter], number);
            }
            2 => remove(&mut status, random.choice(COUNTERS).unwrap_or("replicas")),
            3 => set_generations(&mut status, random),
            4 => add_field(&mut status, random),
            _ => change_condition(&mut status, random),
        }
    }
    status
}

fn set_generations(status: &mut Value, random: &mut Rng) {
    let fields = [
        "observedGeneration",
        "generation",
        "resourceTemplateGeneration",
        "assignedReplicas",
    ];
    for field in fields {
        if random.bool() {
            set(status, &[field], json!(random.i32(0..4)));
        }
    }
}

/// Adds a field that few statuses have.
fn add_field(status: &mut Value, random: &mut Rng) {
    let (field, value) = match random.u8(0..7) {
        0 => ("selector", json!(format!("app={}", random.u8(0..2)))),
        1 => ("suspended", json!(random.bool())),
        2 => ("added", json!({"by": "a later version"})),
        3 => ("empty", json!([])),
        4 => ("empty", json!({"none": {}})),
        5 => ("large", json!(9_007_199_254_740_993_i64)),
        _ => ("conditions", json!([])),
    };
    set(status, &[field], value);
}

fn change_condition(status: &mut Value, random: &mut Rng) {
    let pointer = format!("/conditions/{}", random.u8(0..4));
    let Some(condition) = status.pointer_mut(&pointer) else {
        return;
    };
    let values = ["True", "False", "Unknown", "True", "False", "not allowed"];
    let value = random.choice(values).unwrap_or("True");
    set(condition, &["status"], json!(value));
    let reason = if random.bool() { PENDING } else { "Other" };
    set(condition, &["reason"], json!(reason));
    if random.bool() {
        set(condition, &["observedGeneration"], json!(random.i32(1..4)));
    }
}

/// Changes something in the objects.
fn change(subject: &mut Subject, status: &Value, random: &mut Rng) {
    let Subject {
        object, in_cell, ..
    } = subject;
    let is_instance = is_instance(object);
    // An Instance has no number of replicas.
    let first = if is_instance { 2 } else { 0 };
    match random.u8(first..14) {
        0 => set(object, &["spec", "replicas"], replicas(random)),
        1 => {
            let least = random.i32(0..4);
            let most = least + random.i32(0..10);
            set(
                object,
                &["spec", "scaleSettings", "minReplicas"],
                json!(least),
            );
            set(
                object,
                &["spec", "scaleSettings", "maxReplicas"],
                json!(most),
            );
        }
        2 => set(object, &["metadata", "generation"], json!(random.i32(1..4))),
        3 => {
            let listed = [
                r#"["ConfigMap/settings","Secret/key"]"#,
                r#"["Secret/key","Secret/key","Pod/other","ConfigMap/"]"#,
                "not json",
                "",
            ];
            let listed = random.choice(listed).unwrap_or_default();
            let annotation = ["metadata", "annotations", EXPECTED_REFERENCED_DATA];
            set(object, &annotation, json!(listed));
        }
        4 => set(object, &["metadata", "annotations"], Value::Null),
        5 => {
            let volumes = json!([
                {"name": "v", "secret": {"secretName": "used"}},
                {"name": "w", "configMap": {"name": "settings"}},
            ]);
            let path: &[&str] = match is_instance {
                true => &["spec", "volumes"],
                false => &["spec", "template", "spec", "volumes"],
            };
            set(object, path, volumes);
        }
        6 => remove(object, "status"),
        7 => {
            let time = json!("2026-01-02T00:00:00Z");
            set(in_cell, &["metadata", "deletionTimestamp"], time);
        }
        8 => remove(in_cell, "status"),
        9 => set(in_cell, &["status"], varied_status(status, random)),
        10 => {
            let controller = json!({"templateHash": "v1-0"});
            set(in_cell, &["spec", "controller"], controller);
        }
        11 => set(
            in_cell,
            &["metadata", "generation"],
            json!(random.i32(1..4)),
        ),
        _ if is_instance => {}
        _ => {
            set(in_cell, &["spec", "replicas"], replicas(random));
            let managers = [
                "karmada-controller-manager",
                "karmada-agent",
                "kube-controller-manager",
            ];
            let manager = random.choice(managers).unwrap_or_default();
            let owned = json!([{"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
            set(in_cell, &["metadata", "managedFields"], owned);
        }
    }
}

fn replicas(random: &mut Rng) -> Value {
    match random.u8(0..5) {
        0 => Value::Null,
        number => json!(number - 1),
    }
}

/// Sets a field. Anything on the way that is no object is replaced. `null` removes the field.
fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((name, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    if rest.is_empty() && new.is_null() {
        fields.remove(*name);
    } else {
        set(fields.entry(*name).or_insert(Value::Null), rest, new);
    }
}

fn remove(value: &mut Value, field: &str) {
    set(value, &[field], Value::Null);
}
