//! The objects of the comparison.

use api::annotations::{EXPECTED_REFERENCED_DATA, RESOURCE_TEMPLATE_GENERATION};
use api::instance::READY;
use api::workload_deployment::{AVAILABLE, REPLICAS_READY};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::caller::Request;
use crate::review::{InterpretedKind, Operation};

/// The fields that InterpretStatus adds for the fold.
pub(super) const HELPERS: [&str; 5] = [
    "assignedMinReplicas",
    "assignedReplicas",
    "cellRulesStamp",
    "generation",
    "resourceTemplateGeneration",
];
/// An object of the hub, and what Karmada knows about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The object of the hub.
    pub object: Value,
    /// The object in a cell.
    pub in_cell: Value,
    /// The statuses of the cells, sorted by the name of the cell (`AggregatedStatusItem`).
    pub items: Vec<Value>,
    /// The replicas that Karmada assigns to one cell.
    pub share: i32,
}

impl Subject {
    /// Returns the subject for an object of the hub. `share` is the number of replicas that Karmada has assigned to one
    /// cell. Without one, it is the number that Karmada will assign with Duplicated scheduling: all replicas. The hub does not have the objects of the cells. The object of the
    /// first cell that reports is built from the object of the hub and from the report.
    pub fn of_hub(object: Value, items: Vec<Value>, share: Option<i32>) -> Self {
        let desired = ["/spec/replicas", "/spec/scaleSettings/minReplicas"]
            .into_iter()
            .find_map(|field| object.pointer(field)?.as_i64());
        let desired = desired.and_then(|desired| i32::try_from(desired).ok());
        let share = share.or(desired).unwrap_or(0);
        let reported = items.iter().find_map(|item| item.get("status"));
        let in_cell = in_cell(&object, reported);
        Self {
            object,
            in_cell,
            items,
            share,
        }
    }

    /// Returns the namespace and the name of the object.
    pub fn key(&self) -> (&str, &str) {
        let text = |pointer: &str| {
            let value = self.object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default()
        };
        (text("/metadata/namespace"), text("/metadata/name"))
    }

    /// Returns an object of a usual customer, in one cell, as the replaced customization leaves it.
    pub fn sample(kind: InterpretedKind) -> Self {
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "Sample", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let runtime = json!({"resources": {"instanceType": "datumcloud/d1-standard-2"}});
        let (spec, status) = match kind {
            InterpretedKind::WorkloadDeployment => (
                json!({
                    "cityCode": "DFW", "placementName": "us", "workloadRef": {"name": "web", "uid": "u"},
                    "scaleSettings": {"minReplicas": 2, "maxReplicas": 6},
                    "template": {"spec": {"networkInterfaces": [], "runtime": runtime}},
                }),
                json!({
                    "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 1,
                    "updatedReplicas": 2, "observedGeneration": 2,
                    "conditions": [condition(AVAILABLE, "True"), condition(REPLICAS_READY, "False")],
                }),
            ),
            InterpretedKind::Instance => (
                json!({"runtime": runtime}),
                json!({"conditions": [condition(READY, "True")]}),
            ),
        };
        let annotations = json!({EXPECTED_REFERENCED_DATA: r#"["ConfigMap/settings"]"#});
        let object = json!({
            "apiVersion": api::API_VERSION, "kind": kind.as_str(),
            "metadata": {
                "name": "sample", "namespace": "sample", "generation": 3, "annotations": annotations,
            },
            "spec": spec, "status": status,
        });
        let item =
            json!({"clusterName": "dfw1", "applied": true, "health": "Unknown", "status": status});
        Self::of_hub(object, vec![item], None)
    }

    /// Returns the request that Karmada sends.
    pub(super) fn request(&self, operation: Operation) -> Request<'_> {
        Request {
            operation,
            object: match is_about_cell(operation) {
                true => &self.in_cell,
                false => &self.object,
            },
            observed: (operation == Operation::Retain).then_some(&self.in_cell),
            items: match operation {
                Operation::AggregateStatus => &self.items,
                _ => &[],
            },
            replicas: (operation == Operation::ReviseReplica).then_some(self.share),
        }
    }
}

/// Returns whether Karmada asks about the object in a cell.
fn is_about_cell(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::InterpretStatus | Operation::InterpretHealth
    )
}

/// A subject with its objects as JSON, so that they are written once for all operations.
#[derive(Debug)]
pub struct WrittenSubject {
    /// The subject.
    pub subject: Subject,
    object: Box<RawValue>,
    in_cell: Box<RawValue>,
}

impl WrittenSubject {
    /// Writes the objects of a subject.
    ///
    /// # Errors
    ///
    /// If a value cannot be written as JSON.
    pub fn new(subject: Subject) -> serde_json::Result<Self> {
        Ok(Self {
            object: to_raw_value(&subject.object)?,
            in_cell: to_raw_value(&subject.in_cell)?,
            subject,
        })
    }

    /// Returns the body of a request of [`Subject::request`].
    pub(super) fn body(&self, request: &Request<'_>) -> serde_json::Result<Vec<u8>> {
        let object = match is_about_cell(request.operation) {
            true => &self.in_cell,
            false => &self.object,
        };
        request.body_with(object, request.observed.map(|_| &self.in_cell))
    }
}

/// Builds the object in a cell that reports this status.
fn in_cell(object: &Value, reported: Option<&Value>) -> Value {
    let mut built = object.clone();
    let Some(fields) = built.as_object_mut() else {
        return built;
    };
    let mut status = reported.and_then(Value::as_object).cloned();
    let generation = status.as_ref().and_then(|status| {
        let field = |name: &str| status.get(name).filter(|value| value.is_number());
        field("generation")
            .or_else(|| field("observedGeneration"))
            .cloned()
    });
    if let Some(status) = &mut status {
        status.retain(|name, _| !HELPERS.contains(&name.as_str()));
    }
    match status {
        Some(status) => fields.insert("status".to_owned(), Value::Object(status)),
        None => fields.remove("status"),
    };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        let template_generation = metadata.get("generation").map(Value::to_string);
        if let Some(generation) = generation {
            metadata.insert("generation".to_owned(), generation);
        }
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()));
        if let (Some(annotations), Some(generation)) =
            (annotations.as_object_mut(), template_generation)
        {
            annotations.insert(RESOURCE_TEMPLATE_GENERATION.to_owned(), json!(generation));
        }
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_cell_is_built_from_its_report() {
        let object = json!({"metadata": {"name": "a", "generation": 7}, "spec": {"n": 1}, "status": {"replicas": 9}});
        let report = json!({"replicas": 1, "generation": 3, "assignedReplicas": 1});
        let items = vec![
            json!({"clusterName": "a"}),
            json!({"clusterName": "b", "status": report}),
        ];
        let subject = Subject::of_hub(object.clone(), items, Some(1));
        let expected = json!({
            "metadata": {
                "name": "a", "generation": 3,
                "annotations": {"resourcetemplate.karmada.io/generation": "7"},
            },
            "spec": {"n": 1}, "status": {"replicas": 1},
        });
        assert_eq!(subject.in_cell, expected);
        assert_eq!(subject.object, object);
        let silent = Subject::of_hub(object, vec![], None);
        assert_eq!(silent.in_cell.get("status"), None);
    }
}
