//! The part of a status that says whether the cells were told to run no instances.

use serde::Deserialize;

/// The number of instances that the cells were told to run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DesiredStatus {
    desired_replicas: Option<i64>,
    observed_generation: Option<i64>,
}

impl DesiredStatus {
    /// Returns whether all cells have acted on 0 replicas.
    pub(super) fn is_of_none(&self) -> bool {
        self.observed_generation.is_some() && self.desired_replicas == Some(0)
    }
}
