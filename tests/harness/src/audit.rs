//! Reads the writes from the audit logs of the API servers.

mod ours;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::Plane;
pub(crate) use ours::record_kind;
pub use ours::{OurRequest, our_requests};

/// The verbs that write nothing. The audit logs contain such requests only of compute-federation.
const READS: [&str; 3] = ["get", "list", "watch"];

/// A write that an API server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Name of the plane that received the write.
    pub plane: String,
    /// User agent of the client.
    pub user_agent: String,
    /// Field manager that the client has named. Empty if it has named none.
    pub field_manager: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Resource, with its subresource.
    pub resource: String,
    /// Namespace and name of the object.
    pub object: String,
    /// HTTP status of the answer.
    pub code: u16,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plane,
            user_agent,
            verb,
            resource,
            object,
            code,
            ..
        } = self;
        write!(
            f,
            "{plane}: {verb} {resource} {object} by {user_agent}: {code}"
        )
    }
}

impl Write {
    /// Returns whether compute-federation made the write, in any of its roles.
    pub fn is_ours(&self) -> bool {
        self.user_agent.starts_with("compute-federation/")
    }

    /// Returns whether the written object is a Lease.
    pub fn is_lease(&self) -> bool {
        self.resource == "leases"
    }
}

/// A position in the audit logs of several planes.
#[derive(Clone, Debug)]
pub struct AuditPosition {
    logs: Vec<(String, PathBuf, usize)>,
}

impl AuditPosition {
    /// Returns the current end of each plane's audit log.
    ///
    /// # Errors
    ///
    /// When an audit log cannot be read.
    pub fn now<'p>(planes: impl IntoIterator<Item = &'p Plane>) -> anyhow::Result<Self> {
        let logs = planes
            .into_iter()
            .map(|plane| {
                let log = plane.audit_log().to_owned();
                let length = read(&log)?.len();
                Ok((plane.name().to_owned(), log, length))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { logs })
    }

    /// Returns the writes that were logged after this position.
    ///
    /// # Errors
    ///
    /// When an audit log cannot be read.
    pub fn writes(&self) -> anyhow::Result<Vec<Write>> {
        let mut writes = Vec::new();
        for (plane, log, begin) in &self.logs {
            let text = read(log)?;
            let new = text.get(*begin..).unwrap_or_default();
            for line in new.lines() {
                let entry: AuditEvent = serde_json::from_str(line)
                    .with_context(|| format!("{}: {line}", log.display()))?;
                if !READS.contains(&entry.verb.as_str()) {
                    writes.push(entry.write(plane));
                }
            }
        }
        Ok(writes)
    }
}

/// Returns the complete lines of a log. A last line without a line break is still being written, so the API server has
/// not answered its request yet.
fn read(log: &Path) -> anyhow::Result<String> {
    let mut text = fs::read(log).with_context(|| log.display().to_string())?;
    let end = text.iter().rposition(|byte| *byte == b'\n');
    text.truncate(end.map_or(0, |end| end + 1));
    String::from_utf8(text).with_context(|| log.display().to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    #[serde(default)]
    user_agent: String,
    #[serde(default, rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: AuditResponse,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuditResponse {
    code: u16,
}

impl ObjectRef {
    /// Returns the resource, with its subresource.
    fn qualified(&self) -> String {
        let Self {
            resource,
            subresource,
            ..
        } = self;
        if subresource.is_empty() {
            resource.clone()
        } else {
            format!("{resource}/{subresource}")
        }
    }
}

impl AuditEvent {
    fn write(self, plane: &str) -> Write {
        let resource = self.object_ref.qualified();
        let ObjectRef {
            namespace, name, ..
        } = self.object_ref;
        let (_, query) = self.request_uri.split_once('?').unwrap_or_default();
        let mut parameters = query.split('&').filter_map(|it| it.split_once('='));
        let field_manager = parameters.find(|(name, _)| *name == "fieldManager");
        Write {
            plane: plane.to_owned(),
            field_manager: field_manager.unwrap_or_default().1.to_owned(),
            user_agent: self.user_agent,
            verb: self.verb,
            resource,
            object: format!("{namespace}/{name}"),
            code: self.response_status.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_inside_a_line_is_moved_to_its_begin() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.log");
        let line = |name: &str| {
            format!(r#"{{"userAgent":"é","verb":"create","objectRef":{{"name":"{name}"}}}}"#) + "\n"
        };
        let text = line("a") + &line("b");
        for end in line("a").len()..text.len() {
            fs::write(&log, &text.as_bytes()[..end]).unwrap();
            let begin = read(&log).unwrap().len();
            let logs = vec![("hub".to_owned(), log.clone(), begin)];
            let position = AuditPosition { logs };
            assert_eq!(position.writes().unwrap(), []);
            fs::write(&log, &text).unwrap();
            let written = position.writes().unwrap();
            let written: Vec<_> = written.iter().map(|write| write.object.as_str()).collect();
            assert_eq!(written, ["/b"], "marked at {end}");
        }
    }
}
