//! Reads the requests of compute-federation from the audit logs of all API servers of this process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::{ObjectRef, read};

/// File with the kinds and the names of the planes, in the directory of the logs.
const PLANES: &str = "planes";
const USER_AGENT: &str = "compute-federation/";

/// A request of compute-federation that an API server has answered, or a watch that has started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OurRequest {
    /// `root`, `project`, `hub`, `lower-hub` or `cell`.
    pub kind: String,
    /// Label of the federation or Milo.
    pub label: String,
    /// Name of the plane.
    pub plane: String,
    /// The user, or the user that Milo's front impersonates.
    pub user: String,
    /// Verb of RBAC.
    pub verb: String,
    /// API group. The core group is empty.
    pub group: String,
    /// Resource, with its subresource. Empty for a path that is no resource.
    pub resource: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// The message of a refusal.
    pub message: String,
}

/// Records the kind of a plane for [`our_requests`].
pub(crate) fn record_kind(logs: &Path, name: &str, kind: &str) -> anyhow::Result<()> {
    let path = logs.join(PLANES);
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    // One write, because planes start concurrently.
    file.write_all(format!("{kind} {name}\n").as_bytes())
        .with_context(|| path.display().to_string())
}

/// Calls `request` with each request of compute-federation to the API servers that this process has started.
/// `target` is Cargo's target directory.
///
/// # Errors
///
/// When an audit log cannot be read.
pub fn our_requests(target: &Path, mut request: impl FnMut(OurRequest)) -> anyhow::Result<()> {
    let of_this_process = format!("-{}", std::process::id());
    for directory in fs::read_dir(target.join("federation"))
        .into_iter()
        .flatten()
    {
        let directory = directory?;
        let name = directory.file_name().to_string_lossy().into_owned();
        let Some(label) = name.strip_suffix(&of_this_process) else {
            continue;
        };
        let logs = directory.path().join("logs");
        let planes = fs::read_to_string(logs.join(PLANES)).unwrap_or_default();
        for (kind, plane) in planes.lines().filter_map(|line| line.split_once(' ')) {
            let log = logs.join(format!("{plane}-audit.log"));
            // The log does not exist if the API server did not start.
            if log.exists() {
                for line in read(&log)?.lines().filter(|line| line.contains(USER_AGENT)) {
                    let event: AuditEvent = serde_json::from_str(line)
                        .with_context(|| format!("{}: {line}", log.display()))?;
                    request(event.into_request(kind, label, plane));
                }
            }
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    verb: String,
    user: AuditUser,
    impersonated_user: Option<AuditUser>,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct AuditUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
    message: String,
}

impl AuditEvent {
    fn into_request(self, kind: &str, label: &str, plane: &str) -> OurRequest {
        let user = self.impersonated_user.unwrap_or(self.user);
        OurRequest {
            kind: kind.to_owned(),
            label: label.to_owned(),
            plane: plane.to_owned(),
            user: user.username,
            verb: self.verb,
            group: self.object_ref.api_group.clone(),
            resource: self.object_ref.qualified(),
            code: self.response_status.code,
            message: self.response_status.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_through_the_front_is_one_of_the_impersonated_user() {
        let line = r#"{"verb":"patch","user":{"username":"front"},"impersonatedUser":{"username":"us"},
            "objectRef":{"apiGroup":"compute.datumapis.com","resource":"workloads","subresource":"status"},
            "responseStatus":{"code":403,"message":"no"}}"#;
        let event: AuditEvent = serde_json::from_str(line).unwrap();
        let request = event.into_request("project", "tests", "a");
        assert_eq!(request.user, "us");
        assert_eq!(request.resource, "workloads/status");
        assert_eq!((request.code, request.message.as_str()), (403, "no"));
    }
}
