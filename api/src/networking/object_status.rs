//! The status of objects of which only the conditions are used.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Conditions of an object whose other status is not used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct NetworkObjectStatus {
    /// Conditions of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
