//! Conditions, with the validation that a CRD has for `metav1.Condition`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest `reason`, in characters.
pub const REASON_MAX: usize = 1024;
/// Longest `message`, in characters.
pub const MESSAGE_MAX: usize = 32768;
/// Longest `type`, in characters.
pub const TYPE_MAX: usize = 316;

/// One aspect of the current state of an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// When the status last changed.
    pub last_transition_time: Time,
    /// Details for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// The `.metadata.generation` that the condition is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Reason of the condition, for programs.
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// Status of the condition, one of True, False, Unknown.
    pub status: ConditionStatus,
    /// Type of the condition, in CamelCase or in foo.example.com/CamelCase.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub type_: String,
}

/// Status of a condition. The order is that of aggregation: `False` is the worst.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
pub enum ConditionStatus {
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
    /// The condition holds.
    True,
}

impl Condition {
    /// Creates a condition with `now` as its transition time. [`set`] keeps the former time if the status stays.
    pub fn new(
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            // `metav1.Time` has whole seconds.
            last_transition_time: Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
            message: message.into(),
            observed_generation: None,
            reason: reason.to_owned(),
            status,
            type_: type_.to_owned(),
        }
    }

    /// Returns the condition with this observed generation.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }

    /// Returns whether the condition is True.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Returns whether the condition is False.
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

/// Returns the condition of this type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether the condition of this type exists and is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_true)
}

/// Replaces the condition of the same type, or appends `condition`. The transition time changes only with the status.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions
        .iter_mut()
        .find(|existing| existing.type_ == condition.type_)
    {
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time = existing.last_transition_time.clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

/// Removes the condition of this type, if there is one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = vec![Condition::new(
            "Ready",
            ConditionStatus::False,
            "Pending",
            "",
            at(1),
        )];
        set(
            &mut conditions,
            Condition::new("Ready", ConditionStatus::False, "Starting", "soon", at(2)),
        );
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].reason, "Starting");
        set(
            &mut conditions,
            Condition::new("Ready", ConditionStatus::True, "Running", "", at(3)),
        );
        assert_eq!(conditions[0].last_transition_time, Time(at(3)));
        assert_eq!(conditions.len(), 1);
    }
}
