//! The identity of a template.

use api::WorkloadDeployment;

use crate::names;

/// Prefix of our template hashes. The Go manager wrote hashes without this prefix. They cannot be recomputed (I-22).
pub(crate) const HASH_PREFIX: &str = "v1-";

/// Returns a hash of the template. The infrastructure provider reports which template a running Instance uses, by this
/// hash.
pub(crate) fn template_hash(deployment: &WorkloadDeployment) -> String {
    let template = serde_json::to_string(&deployment.spec.template).unwrap_or_default();
    format!("{HASH_PREFIX}{}", names::hash(&[&template]))
}
