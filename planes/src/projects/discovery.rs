//! Which objects say that there is a project, when its API server can be used, and where that is (platform.md 1.5).

use api::ProjectName;
use api::condition::{self, Condition, ConditionStatus};
use api::milo::{self, ConditionsStatus, ProjectControlPlane};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use kube::client::Body;
use kube::{Client, Config, Resource};
use tower::{BoxError, service_fn};

use crate::connect::{self, Clients, ConnectError};

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

/// Makes a client of the API server of a project.
pub(super) type Connect = Box<dyn Fn(&ProjectName) -> Result<Clients, ConnectError> + Send + Sync>;

/// How clients of projects are made.
///
/// # Errors
///
/// [`ConnectError::Client`] when the template is of no use for any project.
pub(super) fn connect(
    kind: DiscoveryKind,
    template: Config,
    user_agent: String,
) -> Result<Connect, ConnectError> {
    Ok(match kind {
        DiscoveryKind::Project => {
            let host = connect::clients(at(&template, None)?, &user_agent)?;
            Box::new(move |name| {
                Ok(Clients {
                    watches: below(&host.watches, name),
                    requests: below(&host.requests, name),
                })
            })
        }
        DiscoveryKind::ProjectControlPlane => {
            connect::client(template.clone(), &user_agent)?;
            Box::new(move |name| {
                let host = format!("milo-apiserver.project-{name}.svc.cluster.local:6443");
                connect::clients(at(&template, Some(&host))?, &user_agent)
            })
        }
    })
}

/// The template without a path, and at another host if one is given. Scheme, TLS and credentials are the template's.
fn at(template: &Config, host: Option<&str>) -> Result<Config, ConnectError> {
    let error = |problem: String| ConnectError::Client {
        url: template.cluster_url.to_string(),
        problem,
    };
    let mut parts = template.cluster_url.clone().into_parts();
    if let Some(host) = host {
        parts.authority = Some(host.parse().map_err(|e| error(format!("{host}: {e}")))?);
    }
    parts.path_and_query = Some(PathAndQuery::from_static("/"));
    let mut config = template.clone();
    config.cluster_url = Uri::from_parts(parts).map_err(|e| error(e.to_string()))?;
    Ok(config)
}

/// A client of the API server of a project, which is a path of a host. Thousands of projects share the connections and the
/// credentials of the host's client.
fn below(host: &Client, name: &ProjectName) -> Client {
    let prefix = format!(
        "/apis/{}/v1alpha1/projects/{name}/control-plane",
        milo::RESOURCE_MANAGER_GROUP
    );
    let (host, namespace) = (host.clone(), host.default_namespace().to_owned());
    let service = service_fn(move |mut request: Request<Body>| {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", PathAndQuery::as_str);
        let path = Uri::try_from(format!("{prefix}{path}"));
        let host = host.clone();
        async move {
            *request.uri_mut() = path?;
            Ok::<_, BoxError>(host.send(request).await?)
        }
    });
    Client::new(service, namespace)
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
    fn the_address_in_the_cluster_replaces_host_port_and_path_only() {
        let host = "milo-apiserver.project-p1.svc.cluster.local:6443";
        for (template, expected) in [
            (
                "https://api.example:8443/some/path?query",
                format!("https://{host}/"),
            ),
            ("http://localhost", format!("http://{host}/")),
        ] {
            let mut template = Config::new(template.parse().unwrap());
            template.tls_server_name = Some("milo".to_owned());
            let config = at(&template, Some(host)).unwrap();
            assert_eq!(config.cluster_url.to_string(), expected);
            assert_eq!(config.tls_server_name, template.tls_server_name);
        }
        let template = Config::new(
            "https://api.example:8443/projects/other/control-plane/"
                .parse()
                .unwrap(),
        );
        let config = at(&template, None).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://api.example:8443/");
    }

    #[tokio::test]
    async fn requests_to_a_project_go_below_its_path() {
        let host = service_fn(|request: Request<Body>| async move {
            let body = Body::from(request.uri().to_string().into_bytes());
            Ok::<_, BoxError>(http::Response::new(body))
        });
        let client = below(
            &Client::new(host, "default"),
            &ProjectName::new("p1").unwrap(),
        );
        for path in ["/api/v1/namespaces?limit=500", "/version"] {
            let request = Request::get(path).body(Vec::new()).unwrap();
            assert_eq!(
                client.request_text(request).await.unwrap(),
                format!(
                    "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane{path}"
                )
            );
        }
    }
}
