//! The part of a status that decides whether a WorkloadDeployment is healthy.

use std::borrow::Cow;

use api::workload_deployment::AVAILABLE;
use serde::{Deserialize, Deserializer};

use api::decode::for_each;

/// The conditions of a status. Only conditions that can make the object healthy are kept.
#[derive(Deserialize)]
pub(crate) struct HealthStatus {
    #[serde(default)]
    conditions: AvailableConditions,
}

/// The `observedGeneration` of each condition `Available` with status True.
#[derive(Default)]
struct AvailableConditions(Vec<Option<i64>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HealthCondition<'a> {
    observed_generation: Option<i64>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(rename = "type", borrow, default)]
    type_: Cow<'a, str>,
}

impl<'de> Deserialize<'de> for AvailableConditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut available = Self::default();
        for_each(deserializer, |condition: HealthCondition<'de>| {
            if condition.type_ == AVAILABLE && condition.status == "True" {
                available.0.push(condition.observed_generation);
            }
        })?;
        Ok(available)
    }
}

impl HealthStatus {
    /// Returns whether `Available` is True for this generation. An `Available` without a generation is for each
    /// generation.
    pub(crate) fn is_healthy(&self, generation: Option<i64>) -> bool {
        let mut observed = self.conditions.0.iter();
        observed.any(|observed| observed.is_none() || *observed == generation)
    }
}
