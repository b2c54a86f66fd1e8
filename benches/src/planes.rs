//! Milo, thousands of its projects and a Karmada hub in one process: API servers that list, watch and write by the rules of
//! the real ones, as far as compute-federation asks. They authorize nothing, validate nothing, and default nothing. Karmada
//! places what arrives on the hub; what cells report is told to it from outside.

#![allow(
    clippy::indexing_slicing,
    reason = "what is indexed is JSON of our own making, which is null where there is nothing"
)]

mod apply;
mod control;
mod discovery;
mod http;
mod karmada;
mod kinds;
mod latency;
mod plane;
mod refusal;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ::http::StatusCode;
use axum::Router;
use axum::routing::post;
use serde_json::{Value, json};

use crate::serve;
use kinds::KindId;
use latency::Latencies;
use plane::{Plane, Stored};

/// Where the projects are, under the path of the Milo root.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
/// What follows the name of a project.
const CONTROL_PLANE: &str = "/control-plane";
/// The path of the hub.
const HUB: &str = "/hub";
/// The namespace that every project has.
const DEFAULT: &str = "default";
/// The network that every project has there.
const NETWORK: &str = "default";

/// The API servers.
pub(crate) struct Planes {
    root: Arc<Plane>,
    hub: Arc<Plane>,
    projects: RwLock<BTreeMap<String, Arc<Plane>>>,
    counts: Counts,
    latencies: Latencies,
}

/// What has been asked.
#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    lists: AtomicU64,
    watches: AtomicU64,
}

impl Counts {
    fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn listed(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    fn watched(&self) {
        self.watches.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves the API servers on loopback with the certificate in this directory, for ever: the Milo root at `/`, its projects
/// below, the hub at `/hub`; and what drives them, at `/control`. There are so many projects at first.
///
/// # Errors
///
/// When the certificate cannot be served, or the port is not free.
pub async fn serve_planes(port: u16, cert_dir: &Path, projects: usize) -> anyhow::Result<()> {
    let planes = Arc::new(Planes::new());
    planes.add_projects(projects);
    let router = Router::new()
        .route("/control/{what}", post(control::answer))
        .fallback(http::answer)
        .with_state(planes);
    serve(port, cert_dir, router).await
}

impl Planes {
    fn new() -> Self {
        let hub = Plane::new("hub");
        karmada::join_cells(&hub);
        Self {
            root: Arc::new(Plane::new("root")),
            hub: Arc::new(hub),
            projects: RwLock::default(),
            counts: Counts::default(),
            latencies: Latencies::default(),
        }
    }

    /// The plane that a path leads to, and the path there.
    fn route<'p>(&self, path: &'p str) -> Option<(Arc<Plane>, &'p str)> {
        if let Some((name, rest)) = path
            .strip_prefix(PROJECTS)
            .and_then(|rest| rest.split_once(CONTROL_PLANE))
        {
            return Some((self.project(name)?, rest));
        }
        Some(match path.strip_prefix(HUB) {
            Some(rest) => (Arc::clone(&self.hub), rest),
            None => (Arc::clone(&self.root), path),
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

    /// Makes projects until there are so many.
    fn add_projects(&self, count: usize) {
        for index in self.projects().len()..count {
            let plane = Plane::new(format!("p{index:05}"));
            let name = plane.name.clone();
            plane.seed(KindId::named("Namespace"), "", DEFAULT, json!({}));
            let network = json!({"spec": {"ipam": {"mode": "Auto"}}});
            plane.seed(KindId::named("Network"), DEFAULT, NETWORK, network);
            for city in ["DFW", "ORD"] {
                let location = city.to_lowercase();
                let binding = json!({"spec": {
                    "locationRef": {"name": location},
                    "topology": {"topology.datum.net/city-code": city},
                }});
                plane.seed(KindId::named("LocationBinding"), "", &location, binding);
            }
            let mut projects = self
                .projects
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            projects.insert(name.clone(), Arc::new(plane));
            drop(projects);
            let project = json!({"status": is_ready(true)});
            self.root.seed(KindId::named("Project"), "", &name, project);
        }
    }

    /// Lets all projects say that they are ready, or none.
    fn set_ready(&self, ready: bool) {
        let kind = KindId::named("Project");
        for key in self.root.keys(kind) {
            let mut state = self.root.state();
            let Some(stored) = state.get(kind, &key) else {
                continue;
            };
            let (mut project, applied) = (stored.value(), stored.applied.clone());
            if let Some(fields) = project.as_object_mut() {
                fields.insert("status".into(), is_ready(ready));
            }
            state.update(kind, &key, project, applied);
        }
    }

    /// What others do once a client has written something.
    fn wrote(&self, plane: &Plane, kind: KindId, stored: &Stored, code: StatusCode) {
        self.counts.wrote();
        if kind != KindId::named("WorkloadDeployment") {
            return;
        }
        let is_on_hub = std::ptr::eq(plane, Arc::as_ptr(&self.hub));
        self.latencies.wrote(is_on_hub, plane, stored);
        if is_on_hub && code == StatusCode::CREATED {
            karmada::place(plane, &stored.key, &stored.value());
        }
    }
}

/// The status of a Project.
fn is_ready(ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"conditions": [{
        "type": "Ready", "status": status, "reason": "Asked", "message": "", "lastTransitionTime": plane::now(),
    }]})
}
