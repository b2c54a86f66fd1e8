//! Admission webhooks of the compute API. The webhooks check that a Workload is valid, and that the requester may use
//! the networks of the Workload.
//!
//! The rules (module `rules`) are pure functions: their input is values, their output is field errors. The rules need
//! facts about the project. [`ProjectLookup`] provides these facts, and the binary implements [`ProjectLookup`].

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

pub use project_lookup::{
    AccessDecision, AccessReview, KnownCities, ProjectLookup, ProjectLookupError,
};
pub use reference::{InCrd, RULES, Rule};
pub use review::ReviewError;
pub use user_info::UserInfo;

pub(crate) use handler::{AdmissionContext, mutate, validate};

use external_facts::{AvailableCities, ExternalFacts};
use field_error::Warnings;
use workload_change::WorkloadChange;

/// Path of the mutating webhook for Workloads (docs/reference/admission.md).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Path of the validating webhook for Workloads.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";

/// Returns whether a request for this path is for admission.
pub fn is_path(path: &str) -> bool {
    [MUTATE_WORKLOAD, VALIDATE_WORKLOAD].contains(&path)
}

/// Maximum memory for the errors and warnings of one answer, in bytes: a hundred errors, twice.
pub const ANSWER_BYTES: usize = 256 << 10;

/// Returns the maximum memory to decode and to check one review, in bytes, without the body itself and without
/// [`ANSWER_BYTES`]. `fuzz/tests/memory.rs` measures it.
///
/// A list element of two bytes can need two hundred bytes of memory. But the number of values in a Workload is limited,
/// and so is the size of the requester.
pub fn peak_bytes(body: &[u8]) -> usize {
    /// Memory for each list element, in bytes.
    const OF_ELEMENT: usize = 200;
    /// Maximum memory for all list elements, in bytes.
    const OF_ALL_ELEMENTS: usize = 12 << 20;
    /// Memory for each byte of any body, in bytes.
    const PER_BYTE: usize = 12;
    // Every element follows one of these characters.
    let elements = body.iter().filter(|c| matches!(c, b',' | b'[')).count();
    let of_elements = elements.saturating_mul(OF_ELEMENT).min(OF_ALL_ELEMENTS);
    body.len()
        .saturating_mul(PER_BYTE)
        .saturating_add(of_elements)
}

/// Answers an `AdmissionReview` without I/O. The project of the request has the given cities, and every requester may
/// use its networks.
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
