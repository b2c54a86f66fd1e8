//! Admission webhooks of the compute API: whether a Workload is valid, and whether the requester may use its networks.
//!
//! The rules (`rules`) are pure: they take values and return field errors. The facts that they need about a project come
//! through [`ProjectLookup`], which the binary implements.

mod denial;
mod external_facts;
mod field_error;
mod handler;
mod nullable;
mod project_claims;
mod project_lookup;
mod reference;
mod review;
mod rules;
#[cfg(test)]
mod tests;
mod user_info;
mod validate_workload;
mod workload_change;
mod workload_view;

use std::collections::BTreeSet;

pub use project_lookup::{AccessDecision, AccessReview, ProjectLookup, ProjectLookupError};
pub use reference::{RULES, Rule};
pub use review::ReviewError;
pub use user_info::UserInfo;

pub(crate) use handler::{AdmissionContext, mutate, validate};

use external_facts::{AvailableCities, ExternalFacts};
use workload_change::WorkloadChange;

/// Path of the mutating webhook of Workload (docs/reference/admission.md).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Path of the validating webhook of Workload.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";

/// Answers an `AdmissionReview` without I/O, for a project that has these cities and lets everyone use its networks.
///
/// # Errors
///
/// [`ReviewError`] if the body holds no request that can be answered.
pub fn validate_alone(body: &[u8], cities: &BTreeSet<String>) -> Result<Vec<u8>, ReviewError> {
    let request = review::decode(body)?;
    let facts = ExternalFacts {
        cities: Some(AvailableCities::new(cities)),
        ..ExternalFacts::default()
    };
    let outcome = match WorkloadChange::decode(&request) {
        Ok(Some(change)) => change.check(&facts),
        Ok(None) => Ok(()),
        Err(denial) => Err(denial),
    };
    Ok(review::encode(&request.uid, &outcome))
}
