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

pub use project_lookup::{AccessDecision, AccessReview, ProjectLookup, ProjectLookupError};
pub use reference::{RULES, Rule};
pub use review::ReviewError;
pub use user_info::UserInfo;

pub(crate) use handler::{AdmissionContext, mutate, validate};

use external_facts::{AvailableCities, ExternalFacts};
use workload_change::WorkloadChange;

/// Path of the mutating webhook for Workloads (docs/reference/admission.md).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Path of the validating webhook for Workloads.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";

/// Returns the maximum memory to decode and to check one review, in bytes. `body` is the size of the review in bytes. The
/// memory of the body itself is not included. `fuzz/tests/memory.rs` measures it.
///
/// A list element of two bytes can need two hundred bytes of memory. But the number of values in a Workload is limited,
/// and so is the size of the requester.
pub fn peak_bytes(body: usize) -> usize {
    /// Memory for each byte of a body with many list elements, in bytes.
    const OF_ELEMENTS: usize = 96;
    /// Maximum memory for all list elements, in bytes.
    const OF_ALL_ELEMENTS: usize = 12 << 20;
    /// Memory for each byte of any body, in bytes.
    const PER_BYTE: usize = 12;
    /// Memory for any answer, in bytes: a hundred errors, twice.
    const OF_ANY: usize = 256 << 10;
    let of_elements = body.saturating_mul(OF_ELEMENTS).min(OF_ALL_ELEMENTS);
    body.saturating_mul(PER_BYTE)
        .saturating_add(of_elements)
        .saturating_add(OF_ANY)
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
        Ok(None) => Ok(()),
        Err(denial) => Err(denial),
    };
    Ok(review::encode(&request.uid, &outcome))
}
