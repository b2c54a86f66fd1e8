//! Admission webhooks of the compute API: what a Workload must be, and who may use what.
//!
//! The rules (`rules`) are pure: values in, field errors out. What they need to know of a project, its cities and the
//! requester's rights, is asked through [`Projects`], which the binary joins with the planes.

mod field_errors;
mod handle;
mod identity;
mod path;
mod problem;
mod projects;
mod reference;
mod review;
mod rules;
mod subject;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeSet;

pub use projects::{AccessReview, Decision, ProjectError, Projects};
pub use reference::{RULES, Rule};
pub use review::UserInfo;

pub(crate) use handle::{mutate, validate};

use rules::{Cities, Verdicts};
use subject::Subject;

/// Where API servers ask for changes of a Workload (compute.md 3.1).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Where API servers ask whether a Workload is accepted.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";

/// What is answered to an `AdmissionReview` in a project with these cities, whose networks anyone may use.
///
/// # Errors
///
/// When the body is no request that could be answered; the text says what is wrong.
pub fn validate_alone(body: &[u8], cities: &BTreeSet<String>) -> Result<Vec<u8>, String> {
    let request = review::decode(body)?;
    let verdicts = Verdicts {
        cities: Some(Cities::new(cities)),
        ..Verdicts::default()
    };
    let outcome = match Subject::read(&request) {
        Ok(Some(subject)) => subject.check(&verdicts),
        Ok(None) => Ok(()),
        Err(denial) => Err(denial),
    };
    Ok(review::encode(&request.uid, &outcome))
}
