//! The start of a request, in the form that Karmada writes.

/// Returns the start of a request, up to its object.
pub(super) fn start(kind: &str, operation: &str) -> String {
    format!(
        r#"{{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{{"uid":"u","kind":{{"group":"compute.datumapis.com","version":"v1alpha","kind":"{kind}"}},"name":"web","namespace":"ns","operation":"{operation}","object":"#
    )
}

/// Returns the start of a request about a WorkloadDeployment.
pub(super) fn deployment(operation: &str, object: &str) -> String {
    format!("{}{object}", start("WorkloadDeployment", operation))
}

/// Returns the start of a request about an Instance.
pub(super) fn instance(operation: &str, object: &str) -> String {
    format!("{}{object}", start("Instance", operation))
}
