//! Which objects say that there is a project, when its API server can be used, and where that is (platform.md 1.5).

use api::ProjectName;
use api::condition::{self, Condition, ConditionStatus};
use api::milo::{self, ConditionsStatus, ProjectControlPlane};
use http::Uri;
use http::uri::PathAndQuery;
use kube::{Client, Config, Resource};

use crate::connect::ConnectError;

/// How projects are found, and how their API servers are reached.
pub struct Discovery {
    /// A client of the API server that has the objects which say which projects there are.
    pub client: Client,
    /// The kind of those objects.
    pub kind: DiscoveryKind,
    /// How an API server of a project is reached, but for its address.
    pub template: Config,
    /// Tells the audit logs of the projects' API servers who it was.
    pub user_agent: String,
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

/// How the API server of a project is reached: as the template's, at another address.
///
/// # Errors
///
/// [`ConnectError::Client`] when the address of the template cannot be changed so.
pub(super) fn config(
    template: &Config,
    kind: DiscoveryKind,
    name: &ProjectName,
) -> Result<Config, ConnectError> {
    let mut config = template.clone();
    let mut parts = template.cluster_url.clone().into_parts();
    let error = |problem: String| ConnectError::Client {
        url: template.cluster_url.to_string(),
        problem,
    };
    let path = match kind {
        DiscoveryKind::Project => format!(
            "/apis/{}/v1alpha1/projects/{name}/control-plane",
            milo::RESOURCE_MANAGER_GROUP
        ),
        DiscoveryKind::ProjectControlPlane => {
            let host = format!("milo-apiserver.project-{name}.svc.cluster.local:6443");
            parts.authority = Some(host.parse().map_err(|e| error(format!("{host}: {e}")))?);
            "/".to_owned()
        }
    };
    let path: PathAndQuery = path.parse().map_err(|e| error(format!("{path}: {e}")))?;
    parts.path_and_query = Some(path);
    config.cluster_url = Uri::from_parts(parts).map_err(|e| error(e.to_string()))?;
    Ok(config)
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
    fn the_address_of_a_project_is_a_path_of_the_template_or_a_service() {
        let name = ProjectName::new("p1").unwrap();
        let path = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane";
        let service = "milo-apiserver.project-p1.svc.cluster.local:6443";
        for (template, kind, expected) in [
            (
                "https://api.example",
                DiscoveryKind::Project,
                format!("https://api.example{path}"),
            ),
            (
                "https://api.example:8443/projects/other/control-plane/",
                DiscoveryKind::Project,
                format!("https://api.example:8443{path}"),
            ),
            (
                "https://api.example:8443/some/path?query",
                DiscoveryKind::ProjectControlPlane,
                format!("https://{service}/"),
            ),
            (
                "http://localhost",
                DiscoveryKind::ProjectControlPlane,
                format!("http://{service}/"),
            ),
        ] {
            let mut template = Config::new(template.parse().unwrap());
            template.tls_server_name = Some("milo".to_owned());
            let config = config(&template, kind, &name).unwrap();
            assert_eq!(config.cluster_url.to_string(), expected);
            assert_eq!(config.tls_server_name, template.tls_server_name);
        }
    }
}
