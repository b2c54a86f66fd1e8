//! Names of the scheduling gates that hold an Instance back (compute.md 1.5).

/// Held until the networks of the Instance are ready in its cell.
pub const NETWORK: &str = "Network";
/// Held until quota is granted.
pub const QUOTA: &str = "Quota";
