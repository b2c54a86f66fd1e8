//! The objects that one request needs.

use serde_json::Value;

/// The objects of one request.
#[derive(Debug, Default)]
pub(super) struct RequestObjects {
    pub(super) object: Value,
    /// The object in the cell, for Retain.
    pub(super) observed: Option<Value>,
    /// The statuses of the cells, for AggregateStatus.
    pub(super) items: Vec<Value>,
    /// For ReviseReplica.
    pub(super) replicas: Option<i32>,
}
