//! Which objects say that there is a project, when its API server can be used, and where that is (platform.md 1.5).

use api::ProjectName;
use api::condition::{self, Condition, ConditionStatus};
use api::milo::{self, ConditionsStatus, ProjectControlPlane};
use http::Uri;
use kube::{Client, Config, Resource};

use crate::connect::{ConnectError, Connector};
use crate::lease::Leadership;

/// How projects are found, and how their API servers are reached.
pub struct DiscoveryConfig {
    /// A client of the API server that has the objects which say which projects there are.
    pub client: Client,
    /// The kind of those objects.
    pub kind: DiscoveryKind,
    /// How an API server of a project is reached, but for its address.
    pub template: Config,
    /// Tells the audit logs of the projects' API servers who it was.
    pub user_agent: String,
    /// Only the leader writes to them.
    pub leadership: Leadership,
}

/// What says which projects there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    /// Projects that are `Ready`. Their API servers are paths of the template's.
    Project,
    /// ProjectControlPlanes that are `ControlPlaneReady`, of the infrastructure cluster. Their API servers are services
    /// in that cluster (`discovery.internalServiceDiscovery`).
    ProjectControlPlane,
}

/// An object that says that there is a project of its name.
pub(super) trait Discovered: Resource<DynamicType = ()> {
    /// The condition that is True where the project's API server can be used.
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

/// Whether a project is to be used, and if not, what it lacks. A terminating one is used until its object is gone, whatever
/// its conditions say: what we have put there keeps it from going, and only we can remove that.
pub(super) fn verdict<K: Discovered>(object: &K) -> Result<(), String> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(());
    }
    let type_ = K::CONDITION;
    let conditions = object.status().map(|status| status.conditions.as_slice());
    let Some(condition) = condition::find(conditions.unwrap_or_default(), type_) else {
        return Err(format!("it has no condition {type_}"));
    };
    let status = match condition.status {
        ConditionStatus::True => return Ok(()),
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let Condition {
        reason, message, ..
    } = condition;
    Err(format!("{type_} is {status} ({reason}): {message}"))
}

/// Whether a project refuses to create and to update. A ProjectControlPlane does not say it.
pub(super) fn is_suspended<K: Discovered>(object: &K) -> bool {
    let conditions = object.status().map(|status| status.conditions.as_slice());
    condition::is_true(conditions.unwrap_or_default(), milo::SUSPENDED)
}

/// Makes a client of the API server of a project.
pub(super) type Connect = Box<dyn Fn(&ProjectName) -> Result<Client, ConnectError> + Send + Sync>;

/// How clients of projects are made: thousands of projects share credentials and, where they are on one host, connections.
///
/// # Errors
///
/// [`ConnectError::Client`] when the template is of no use for any project.
pub(super) fn connect(
    kind: DiscoveryKind,
    template: Config,
    user_agent: &str,
    leadership: Leadership,
) -> Result<Connect, ConnectError> {
    let url = template.cluster_url.clone();
    let connector = Connector::new(template, user_agent, leadership)?;
    Ok(Box::new(move |name| {
        let address = address(kind, &url, name).map_err(|error| ConnectError::Client {
            url: url.to_string(),
            problem: format!("project {name} has no address: {error}"),
        });
        Ok(connector.client(address?))
    }))
}

/// Where the API server of a project is: a path of the template's host, or another host. The template's own path is left
/// out.
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
        assert_eq!(verdict(&project(&ready("True"))), Ok(()));
        for (conditions, problem) in [
            (ready("False"), "Ready is False (Provisioning): Wait."),
            (ready("Unknown"), "Ready is Unknown (Provisioning): Wait."),
            (json!([]), "it has no condition Ready"),
        ] {
            let mut project = project(&conditions);
            assert_eq!(verdict(&project), Err(problem.to_owned()));
            let now = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            project.metadata.deletion_timestamp = now;
            assert_eq!(verdict(&project), Ok(()));
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
            verdict(&plane),
            Err("it has no condition ControlPlaneReady".to_owned())
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
