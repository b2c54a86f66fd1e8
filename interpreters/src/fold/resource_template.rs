//! The hub object. Karmada's name for this object is resource template.

/// The object whose status is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceTemplate<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `spec.scaleSettings.minReplicas`.
    pub min_replicas: Option<i32>,
    /// `spec.replicas`.
    pub replicas: Option<i32>,
    /// The status on the hub, as JSON. Conditions about unreachable cells are not part of this status.
    pub status: Option<&'a str>,
    /// The conditions that the target object shows now. Empty if the target is the hub object. If the hub status
    /// contains no transition time for a condition, the shown transition time is kept while the status of the condition
    /// stays the same.
    pub shown: &'a [api::Condition],
}
