//! Admission webhooks of the compute API. The webhooks check that a Workload is valid, and that the requester may use
//! the networks of the Workload and may read its ConfigMaps and Secrets. They protect the annotations about referenced
//! data of WorkloadDeployments.
//!
//! The rules (module `rules`) are pure functions: their input is values, their output is field errors. The rules need
//! facts about the project. [`ProjectLookup`] provides these facts, and the binary implements [`ProjectLookup`].

mod access_review;
mod denial;
mod external_facts;
mod field_error;
mod handler;
mod memory;
mod nullable;
mod project_claims;
mod project_lookup;
mod reference;
mod review;
mod rules;
#[cfg(test)]
mod tests;
mod user_info;
mod validate_deployment;
mod validate_workload;
mod workload_change;
mod workload_view;

use std::collections::BTreeSet;

pub use access_review::{AccessReview, Requester, UsedKind};
pub use handler::Admission;
pub use memory::{ANSWER_BYTES, REVIEW_COPIES, peak_bytes};
pub use project_lookup::{AccessDecision, KnownCities, ProjectLookup, ProjectLookupError};
pub use reference::{InCrd, RULES, Rule};
pub use review::ReviewError;

pub(crate) use handler::{AdmissionContext, mutate, validate, validate_deployments};

use external_facts::{AvailableCities, ExternalFacts};
use field_error::Warnings;
use workload_change::WorkloadChange;

/// Path of the mutating webhook for Workloads (docs/reference/admission.md).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Path of the validating webhook for Workloads.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";
/// Path of the validating webhook for WorkloadDeployments.
pub const VALIDATE_DEPLOYMENT: &str = "/validate-compute-datumapis-com-v1alpha-workloaddeployment";

/// Returns whether a request for this path is for admission.
pub fn is_path(path: &str) -> bool {
    [MUTATE_WORKLOAD, VALIDATE_WORKLOAD, VALIDATE_DEPLOYMENT].contains(&path)
}

/// Answers an `AdmissionReview` without I/O. The project of the request has the given cities, and every requester may
/// use its networks and read its ConfigMaps and Secrets.
///
/// # Errors
///
/// [`ReviewError`] if the body has no request that can be answered.
pub fn validate_alone(body: &[u8], cities: &BTreeSet<String>) -> Result<Vec<u8>, ReviewError> {
    let request = review::decode(body)?;
    let facts = ExternalFacts {
        cities: Some(AvailableCities::new(cities)),
        ..ExternalFacts::default()
    };
    let outcome = match WorkloadChange::decode(&request) {
        Ok(Some(change)) => change.check(&facts),
        Ok(None) => Ok(Warnings::default()),
        Err(denial) => Err(denial),
    };
    Ok(review::encode(&request.uid, outcome))
}
