//! Reasons of the Events that Karmada writes about an object of the hub.

/// An OverridePolicy or a ClusterOverridePolicy cannot be applied for a cell. The message names both.
pub const OVERRIDE_FAILED: &str = "ApplyOverridePolicyFailed";
/// The Work of a cell is not written. The message has the cause, without the cell.
pub const WORK_FAILED: &str = "SyncWorkFailed";
