//! What tells API servers' audit logs who it was.

/// Of this process in one of its roles.
pub(crate) fn user_agent(role: &str) -> String {
    format!("compute-federation/{} ({role})", env!("CARGO_PKG_VERSION"))
}
