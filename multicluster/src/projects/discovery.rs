//! Decides which objects announce a project, when the process may use the API server of a project, and which URL this
//! API server has (docs/concepts/milo.md).

use api::ProjectName;
use api::condition::{self, Condition, ConditionStatus};
use api::milo::{self, ConditionsStatus, ProjectControlPlane};
use http::Uri;
use kube::{Client, Resource};
use thiserror::Error;

use crate::connect::{ClientError, ClusterConfig, ConnectError, Connector};
use crate::lease::Leadership;

/// The configuration of discovery: how projects are found, and how their API servers are reached.
pub struct DiscoveryConfig {
    /// A client of the API server that has the objects which announce projects.
    pub client: Client,
    /// The kind of those objects.
    pub kind: DiscoveryKind,
    /// The configuration of all projects' API servers, except their addresses.
    pub template: ClusterConfig,
    /// The user agent in the audit logs of the projects' API servers.
    pub user_agent: String,
    /// The leadership of this process. Only the leader writes to the projects' API servers.
    pub leadership: Leadership,
}

/// The kind of the objects that announce projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    /// Projects that are `Ready`. Their API servers are paths on the host of the template.
    Project,
    /// ProjectControlPlanes of the infrastructure cluster that are `ControlPlaneReady`. Their API servers are Services
    /// in that cluster (`discovery.internalServiceDiscovery`).
    ProjectControlPlane,
}

/// An object that announces a project. The project has the name of the object.
pub(super) trait Discovered: Resource<DynamicType = ()> {
    /// Type of the condition that must be True before the project's API server is used.
    const CONDITION: &'static str;

    fn status(&self) -> Option<&ConditionsStatus>;
}

impl Discovered for milo::Project {
    const CONDITION: &'static str = milo::READY;

    fn status(&self) -> Option<&ConditionsStatus> {
        self.status.as_ref()
    }
}

impl Discovered for ProjectControlPlane {
    const CONDITION: &'static str = milo::CONTROL_PLANE_READY;

    fn status(&self) -> Option<&ConditionsStatus> {
        self.status.as_ref()
    }
}

/// The reason why a project is not used. Users see the message.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Unready {
    /// The object has no condition of the required type.
    #[error("it has no condition {0}")]
    NoCondition(&'static str),
    /// The condition is not True.
    #[error("{type_} is {status} ({reason}): {message}")]
    NotTrue {
        type_: &'static str,
        status: &'static str,
        reason: String,
        message: String,
    },
}

/// Checks whether a project is ready. A terminating project counts as ready until its object is deleted, regardless of
/// its conditions. Reason: our finalizers keep the objects in the project, and only compute-federation can remove these
/// finalizers.
///
/// # Errors
///
/// [`Unready`] if the project must not be used.
pub(super) fn check_ready<K: Discovered>(object: &K) -> Result<(), Unready> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(());
    }
    let type_ = K::CONDITION;
    let conditions = object.status().map(|status| status.conditions.as_slice());
    let Some(condition) = condition::find(conditions.unwrap_or_default(), type_) else {
        return Err(Unready::NoCondition(type_));
    };
    let status = match condition.status {
        ConditionStatus::True => return Ok(()),
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let Condition {
        reason, message, ..
    } = condition.clone();
    Err(Unready::NotTrue {
        type_,
        status,
        reason,
        message,
    })
}

/// Returns whether a project rejects creates and updates. A ProjectControlPlane has no condition for this state, so the
/// result is `false` for it.
pub(super) fn is_suspended<K: Discovered>(object: &K) -> bool {
    let conditions = object.status().map(|status| status.conditions.as_slice());
    condition::is_true(conditions.unwrap_or_default(), milo::SUSPENDED)
}

/// Makes a client of a project's API server.
pub(super) type Connect = Box<dyn Fn(&ProjectName) -> Result<Client, ConnectError> + Send + Sync>;

/// Returns a function that makes the clients of projects. All clients share credentials. Clients of API servers on the
/// same host also share connections. Both are necessary because there may be thousands of projects.
///
/// # Errors
///
/// [`ConnectError::Client`] if the template is invalid for every project.
pub(super) fn connect(
    kind: DiscoveryKind,
    template: ClusterConfig,
    user_agent: &str,
    leadership: Leadership,
) -> Result<Connect, ConnectError> {
    let url = template.config.cluster_url.clone();
    let connector = Connector::new(template, user_agent, leadership)?;
    Ok(Box::new(move |name| {
        let address = address(kind, &url, name).map_err(|error| ConnectError::Client {
            url: url.to_string(),
            problem: ClientError::Address {
                project: name.clone(),
                source: error,
            },
        });
        Ok(connector.client(address?))
    }))
}

/// Makes clients of the API servers of projects without discovering the projects. The clients share credentials and
/// connections.
pub struct ProjectClients(Connect);

impl ProjectClients {
    /// Makes clients with the host and the credentials of this configuration. The path of its URL is replaced by that
    /// of the project. Writes fail unless this process is the leader.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] if the configuration is invalid for every project.
    pub fn new(
        template: ClusterConfig,
        user_agent: &str,
        leadership: Leadership,
    ) -> Result<Self, ConnectError> {
        let connect = connect(DiscoveryKind::Project, template, user_agent, leadership)?;
        Ok(Self(connect))
    }

    /// Makes a client of the API server of this project.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] if the project has no valid URL.
    pub fn client(&self, project: &ProjectName) -> Result<Client, ConnectError> {
        (self.0)(project)
    }
}

/// Returns the URL of a project's API server. The URL is a path on the template's host, or it has another host. The
/// path of the template is ignored.
fn address(kind: DiscoveryKind, template: &Uri, name: &ProjectName) -> http::Result<Uri> {
    let mut parts = template.clone().into_parts();
    let path = match kind {
        DiscoveryKind::Project => format!(
            "/apis/{}/v1alpha1/projects/{name}/control-plane",
            milo::RESOURCE_MANAGER_GROUP
        ),
        DiscoveryKind::ProjectControlPlane => {
            let host = format!("milo-apiserver.project-{name}.svc.cluster.local:6443");
            parts.authority = Some(host.parse()?);
            "/".to_owned()
        }
    };
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn project(conditions: &Value) -> milo::Project {
        serde_json::from_value(json!({
            "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
            "kind": "Project",
            "metadata": {"name": "p1"},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn ready(status: &str) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Provisioning", "message": "Wait.",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }])
    }

    #[test]
    fn a_project_is_used_while_it_is_ready_and_while_it_terminates() {
        assert_eq!(check_ready(&project(&ready("True"))), Ok(()));
        for (conditions, problem) in [
            (ready("False"), "Ready is False (Provisioning): Wait."),
            (ready("Unknown"), "Ready is Unknown (Provisioning): Wait."),
            (json!([]), "it has no condition Ready"),
        ] {
            let mut project = project(&conditions);
            let unready = check_ready(&project).unwrap_err();
            assert_eq!(unready.to_string(), problem);
            let now = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            project.metadata.deletion_timestamp = now;
            assert_eq!(check_ready(&project), Ok(()));
        }
    }

    #[test]
    fn a_control_plane_has_a_condition_of_its_own() {
        let plane: ProjectControlPlane = serde_json::from_value(json!({
            "metadata": {"name": "p1"},
            "status": {"conditions": ready("True")},
        }))
        .unwrap();
        assert_eq!(
            check_ready(&plane),
            Err(Unready::NoCondition("ControlPlaneReady"))
        );
    }

    #[test]
    fn an_api_server_is_a_path_of_the_template_or_a_service_of_the_cluster() {
        use DiscoveryKind::{Project, ProjectControlPlane};
        let path = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane";
        let service = "milo-apiserver.project-p1.svc.cluster.local:6443";
        let name = ProjectName::new("p1").unwrap();
        for (kind, template, expected) in [
            (
                Project,
                "https://api.example:8443/projects/other/control-plane/",
                format!("https://api.example:8443{path}"),
            ),
            (
                ProjectControlPlane,
                "https://api.example:8443/some/path?query",
                format!("https://{service}/"),
            ),
            (
                ProjectControlPlane,
                "http://localhost",
                format!("http://{service}/"),
            ),
        ] {
            let address = address(kind, &template.parse().unwrap(), &name).unwrap();
            assert_eq!(address.to_string(), expected);
        }
    }
}
