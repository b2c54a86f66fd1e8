//! The hub object, which Karmada calls the resource template.

/// The object that a status is rendered for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceTemplate<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `spec.scaleSettings.minReplicas`.
    pub min_replicas: Option<i32>,
    /// `spec.replicas`.
    pub replicas: Option<i32>,
    /// `status` as JSON: the status on the hub, without the conditions for unreachable cells.
    pub status: Option<&'a str>,
    /// The conditions that the target object shows now, if the target is not the hub object itself. If the hub's status
    /// does not give a transition time, the time shown here stays while the condition's status stays.
    pub shown: &'a [api::Condition],
}
