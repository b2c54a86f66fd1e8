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
mod review;
mod rules;
#[cfg(test)]
mod tests;
mod workload;

pub use projects::{AccessReview, Decision, ProjectError, Projects};
pub use review::UserInfo;

pub(crate) use handle::{mutate, validate};

/// Where API servers ask for changes of a Workload (compute.md 3.1).
pub const MUTATE_WORKLOAD: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
/// Where API servers ask whether a Workload is accepted.
pub const VALIDATE_WORKLOAD: &str = "/validate-compute-datumapis-com-v1alpha-workload";
