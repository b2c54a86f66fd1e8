//! The replicas that Karmada assigned to one cell, as the interpreter records them on the copy of a WorkloadDeployment.

use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::annotations::ASSIGNED_REPLICAS;
use crate::workload_deployment::WorkloadDeployment;

/// The value of the annotation [`ASSIGNED_REPLICAS`]. See docs/concepts/interpreter.md#workloaddeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedReplicas {
    /// The field that has the share.
    pub field: ReplicasField,
    /// Generation of the hub's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Number of replicas of the cell.
    pub share: i32,
    /// Number of replicas of the hub's object.
    pub total: i32,
}

/// The field of a WorkloadDeployment that sets its number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicasField {
    /// It counts if it is set.
    #[serde(rename = "spec.replicas")]
    Replicas,
    /// It counts while `spec.replicas` is absent.
    #[serde(rename = "spec.scaleSettings.minReplicas")]
    MinReplicas,
}

impl AssignedReplicas {
    /// Reads the value of the annotation. Returns `None` if it is not valid.
    pub fn parse(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }
}

impl WorkloadDeployment {
    /// Returns what Karmada assigned to this cell. Returns `None` for 0 replicas, for which Karmada does not ask the
    /// interpreter, and for a copy that an earlier version has written.
    pub fn assigned_replicas(&self) -> Option<AssignedReplicas> {
        let value = self.annotations().get(ASSIGNED_REPLICAS)?;
        AssignedReplicas::parse(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_read_as_it_is_written() {
        let assigned = AssignedReplicas {
            field: ReplicasField::MinReplicas,
            generation: Some(4),
            share: 2,
            total: 6,
        };
        let text = serde_json::to_string(&assigned).unwrap();
        let expected =
            r#"{"field":"spec.scaleSettings.minReplicas","generation":4,"share":2,"total":6}"#;
        assert_eq!(text, expected);
        assert_eq!(AssignedReplicas::parse(&text), Some(assigned));
        let without = r#"{"field":"spec.replicas","share":2,"total":6,"later":[]}"#;
        let read = AssignedReplicas::parse(without).unwrap();
        assert_eq!(
            (read.field, read.generation),
            (ReplicasField::Replicas, None)
        );
        for invalid in ["", "3", "{}", r#"{"field":"x","share":2,"total":6}"#] {
            assert_eq!(AssignedReplicas::parse(invalid), None, "{invalid}");
        }
    }
}
