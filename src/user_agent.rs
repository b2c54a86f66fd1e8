//! The user agent, which identifies the process in the audit logs of API servers.

/// Returns the user agent of a client. `role` is the use of the client, such as `management` or `lease`.
pub(crate) fn user_agent(role: &str) -> String {
    format!("compute-federation/{} ({role})", env!("CARGO_PKG_VERSION"))
}
