//! Milo, thousands of its projects, a Karmada hub and a cell in one process, on API servers in memory. Karmada is
//! simulated: this program places the WorkloadDeployments that arrive on the hub. The benchmark itself writes the
//! statuses that cells would report.

#![allow(
    clippy::indexing_slicing,
    reason = "a JSON value that is indexed gives null where a field is missing"
)]

mod cell;
mod control;
mod karmada;
mod latency;
mod levels;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use apiserver::{Answer, ApiServer, KindId, Refusal, objects, time_now};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use serde_json::{Value, json};

use crate::serve;
use latency::Latencies;
use levels::Levels;

/// The path of the Projects on the root API server of Milo.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
/// The part of a project's path that follows the project's name.
const CONTROL_PLANE: &str = "/control-plane";
/// The path of the hub.
const HUB: &str = "/hub";
/// The path of the cell.
const CELL: &str = "/cell";
/// The namespace that exists in every project and on the hub.
const DEFAULT: &str = "default";
/// Name of the network in the namespace [`DEFAULT`] of every project.
const NETWORK: &str = "default";

/// One API server of the simulation.
struct Plane {
    name: String,
    server: ApiServer,
}

impl Plane {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            server: ApiServer::new().with_garbage_collection(),
        }
    }
}

/// The API servers.
pub(crate) struct Planes {
    root: Arc<Plane>,
    hub: Arc<Plane>,
    cell: Arc<Plane>,
    projects: RwLock<BTreeMap<String, Arc<Plane>>>,
    writes: AtomicU64,
    latencies: Latencies,
    levels: Levels,
}

/// Serves the API servers on loopback, until the process ends. `cert_dir` contains the certificate. The root API server
/// of Milo is at `/`, and the projects are below it. The hub is at `/hub`, the cell is at `/cell`, and the commands of
/// the benchmark are at `/control`. `projects` is the initial number of projects.
///
/// # Errors
///
/// When the certificate cannot be served, or the port is not free.
pub async fn serve_planes(port: u16, cert_dir: &Path, projects: usize) -> anyhow::Result<()> {
    let planes = Arc::new(Planes::new());
    planes.add_projects(projects);
    let router = Router::new()
        .route("/control/{what}", post(control::answer))
        .fallback(answer)
        .with_state(planes);
    serve(port, cert_dir, router).await
}

/// Answers a request to one of the API servers.
async fn answer(State(planes): State<Arc<Planes>>, request: Request) -> Response {
    let Some((plane, prefix)) = planes.route(request.uri().path()) else {
        return Refusal::no_path().response().map(Body::new);
    };
    let (parts, body) = request.into_parts();
    let answered = match to_bytes(body, usize::MAX).await {
        Ok(body) => {
            let request = http::Request::from_parts(parts, body);
            let answered = plane.server.answer(request, &prefix).await;
            answered.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    match answered {
        Ok(answer) => {
            planes.note(&plane, &answer);
            answer.response.map(Body::new)
        }
        Err(problem) => (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response(),
    }
}

impl Planes {
    fn new() -> Self {
        let hub = Plane::new("hub");
        // The UID of this Namespace `default` is the identity of the hub.
        hub.server
            .seed(KindId::named("Namespace"), "", DEFAULT, json!({}));
        karmada::join_cells(&hub.server);
        Self {
            root: Arc::new(Plane::new("root")),
            hub: Arc::new(hub),
            cell: Arc::new(Plane::new("cell")),
            projects: RwLock::default(),
            writes: AtomicU64::new(0),
            latencies: Latencies::default(),
            levels: Levels::default(),
        }
    }

    /// Returns the API server for a path, and the prefix of the path that selects this API server.
    fn route(&self, path: &str) -> Option<(Arc<Plane>, String)> {
        if let Some((name, _)) = path
            .strip_prefix(PROJECTS)
            .and_then(|rest| rest.split_once(CONTROL_PLANE))
        {
            let prefix = format!("{PROJECTS}{name}{CONTROL_PLANE}");
            return Some((self.project(name)?, prefix));
        }
        Some(if path.starts_with(HUB) {
            (Arc::clone(&self.hub), HUB.to_owned())
        } else if path.starts_with(CELL) {
            (Arc::clone(&self.cell), CELL.to_owned())
        } else {
            (Arc::clone(&self.root), String::new())
        })
    }

    fn project(&self, name: &str) -> Option<Arc<Plane>> {
        let projects = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        projects.get(name).cloned()
    }

    fn projects(&self) -> Vec<Arc<Plane>> {
        let projects = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        projects.values().cloned().collect()
    }

    /// Adds projects until there are `count`.
    fn add_projects(&self, count: usize) {
        for index in self.projects().len()..count {
            let plane = Plane::new(format!("p{index:05}"));
            let name = plane.name.clone();
            let server = &plane.server;
            server.seed(KindId::named("Namespace"), "", DEFAULT, json!({}));
            server.put(objects::network(DEFAULT, NETWORK));
            for city in ["DFW", "ORD"] {
                let location = city.to_lowercase();
                let binding = json!({"spec": {
                    "locationRef": {"name": location},
                    "topology": {"topology.datum.net/city-code": city},
                }});
                server.seed(KindId::named("LocationBinding"), "", &location, binding);
            }
            let mut projects = self
                .projects
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            projects.insert(name.clone(), Arc::new(plane));
            drop(projects);
            let project = json!({"status": ready_status(true)});
            let projects = KindId::named("Project");
            self.root.server.seed(projects, "", &name, project);
        }
    }

    /// Makes all projects ready, or makes all projects unready.
    fn set_ready(&self, ready: bool) {
        let root = &self.root.server;
        let kind = KindId::named("Project");
        for key in root.keys(kind) {
            if let Some(stored) = root.stored(kind, &key) {
                let mut project = stored.value();
                project["status"] = ready_status(ready);
                root.put(project);
            }
        }
    }

    /// Counts a write, and simulates the reaction of Karmada and of the quota system.
    fn note(&self, plane: &Plane, answer: &Answer) {
        if answer.deleted || answer.written.is_some() {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let Some((kind, stored)) = &answer.written else {
            return;
        };
        let is_new = answer.response.status() == StatusCode::CREATED;
        if *kind == KindId::named("ResourceClaim") && is_new {
            cell::grant(&plane.server, &stored.key);
        }
        if *kind != KindId::named("WorkloadDeployment") {
            return;
        }
        let is_on_hub = std::ptr::eq(plane, Arc::as_ptr(&self.hub));
        self.latencies.wrote(is_on_hub, plane, stored);
        match (is_on_hub, is_new) {
            (true, true) => karmada::place(&plane.server, &stored.key, &stored.value()),
            (true, false) => karmada::end(&plane.server, &stored.key, &stored.value()),
            (false, _) => {}
        }
    }
}

/// Returns the status of a Project.
fn ready_status(ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"conditions": [{
        "type": "Ready", "status": status, "reason": "Asked", "message": "", "lastTransitionTime": time_now(),
    }]})
}
