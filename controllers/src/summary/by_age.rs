//! The WorkloadSummaries of a namespace by their age.

use api::WorkloadSummary;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::{Index, NamespacedName};

/// Summaries of one namespace that are evaluated: the oldest ones. Each change in the namespace can cause an evaluation of
/// all of them.
pub(crate) const SUMMARIES_MAX: usize = 50;

/// Returns the values of the index by namespace and age. Each summary has a value of its own, and older ones have lower
/// values.
pub(crate) fn by_age(summary: &WorkloadSummary) -> Vec<String> {
    by_age_of_metadata(&summary.metadata)
}

/// Returns the values of the index for a summary that cannot be decoded.
pub(crate) fn by_age_of_metadata(summary: &ObjectMeta) -> Vec<String> {
    let created = summary.creation_timestamp.as_ref();
    let created = created.map_or(i64::MIN, |created| created.0.as_second());
    // As an unsigned number of fixed width, so that texts have the order of the times.
    let created = created.wrapping_sub(i64::MIN).cast_unsigned();
    let prefix = prefix(summary.namespace.as_deref().unwrap_or_default());
    let name = summary.name.as_deref().unwrap_or_default();
    vec![format!("{prefix}{created:020}/{name}")]
}

/// Returns the summaries of a namespace that are evaluated.
pub(crate) fn oldest(by_age: &Index<WorkloadSummary>, namespace: &str) -> Vec<NamespacedName> {
    by_age.lowest(&prefix(namespace), SUMMARIES_MAX)
}

/// The name of a namespace has no slash.
fn prefix(namespace: &str) -> String {
    format!("{namespace}/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    #[test]
    fn older_summaries_have_lower_values() {
        let value = |created: Option<&str>, name: &str| {
            let metadata: ObjectMeta =
                object(json!({"namespace": "n", "name": name, "creationTimestamp": created}));
            by_age_of_metadata(&metadata).remove(0)
        };
        let values = [
            value(None, "z"),
            value(Some("1960-01-01T00:00:00Z"), "y"),
            value(Some("2026-11-21T09:00:00Z"), "a"),
            value(Some("2026-11-21T09:00:00Z"), "x"),
            value(Some("2026-11-21T10:00:00Z"), "b"),
        ];
        assert!(values.is_sorted() && values.iter().all(|it| it.starts_with("n/")));
    }
}
