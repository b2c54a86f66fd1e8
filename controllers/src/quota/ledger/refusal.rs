//! Says what the refusals of a project's API server mean.

use api::reasons::quota_granted as reason;
use api::{ProjectName, milo};
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use kube::core::Status;
use multicluster::absence::is_definitive_not_found;

use crate::quota::bounded::bounded;
use crate::quota::plan::{LedgerProblem, Remedy};
use crate::runtime::ReconcileError;

/// The cause of a 403 for a new object in a Namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Returns the problem if the API server has answered. Returns `None` if it gave no answer, or cannot answer at
/// present.
pub(super) fn refusal(project: &ProjectName, error: &ReconcileError) -> Option<LedgerProblem> {
    let (ReconcileError::Api { source, .. } | ReconcileError::NotServed { source, .. }) = error
    else {
        return None;
    };
    let (reason, remedy) = match source.as_ref() {
        kube::Error::Api(status) => of_status(project, status)?,
        kube::Error::SerdeError(_) => (reason::MISCONFIGURED, Remedy::Correct),
        _ => return None,
    };
    Some(LedgerProblem {
        reason,
        message: bounded(&error.to_string()),
        remedy,
    })
}

pub(super) fn of_status(project: &ProjectName, status: &Status) -> Option<(&'static str, Remedy)> {
    let is_about_namespace = || {
        let details = status.details.as_ref();
        details.is_some_and(|details| details.kind == Namespace::plural(&()))
    };
    let has_cause = |reason: &str| {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == reason)
    };
    Some(match status.code {
        404 if is_definitive_not_found::<milo::Project>(project.as_str(), status) => {
            (reason::PROJECT_NOT_FOUND, Remedy::ProjectGone)
        }
        404 if is_about_namespace() => (reason::NAMESPACE_NOT_FOUND, Remedy::Correct),
        404 => (reason::PROJECT_NOT_FOUND, Remedy::Correct),
        409 => (reason::BACKEND_UNAVAILABLE, Remedy::Repeat),
        403 if has_cause(NAMESPACE_TERMINATING) => (reason::NAMESPACE_NOT_FOUND, Remedy::Correct),
        403 if has_cause(milo::PROJECT_SUSPENDED) => (reason::MISCONFIGURED, Remedy::Resume),
        400 | 403 | 422 => (reason::MISCONFIGURED, Remedy::Correct),
        _ => return None,
    })
}
