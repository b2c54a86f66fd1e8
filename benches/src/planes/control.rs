//! The commands of the benchmark. Each command is a request with a JSON body. The response is sent when the command is
//! done.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apiserver::{
    ApiServer, KindId, ObjectChange, ObjectPart, Refusal, Verb, json_response, objects, text,
};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::latency::Shown;
use super::{DEFAULT, NETWORK, Plane, Planes, karmada};

/// Time limit for changes to arrive after a command has made them.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Number of objects that are created before the task yields. The yield lets the server answer other requests.
const AT_ONCE: usize = 50;
/// Time between two batches of changes.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Adds projects until there are `count`.
#[derive(Deserialize)]
struct Projects {
    count: usize,
}

/// Makes all projects ready, or makes all projects unready.
#[derive(Deserialize)]
struct Ready {
    ready: bool,
}

/// Creates WorkloadDeployments without a Workload, distributed over the projects.
#[derive(Deserialize)]
struct Deployments {
    count: usize,
}

/// Changes statuses on the hub at a rate per second.
#[derive(Deserialize)]
struct Statuses {
    rate: f64,
    seconds: f64,
}

/// Creates Workloads in one project at a rate per second.
#[derive(Deserialize)]
struct Storm {
    project: String,
    count: usize,
    rate: f64,
}

/// Creates Workloads in one project with a pause after each.
#[derive(Deserialize)]
struct Probe {
    project: String,
    label: String,
    count: usize,
    every_milliseconds: u64,
}

/// Runs a command and answers with its result.
pub(super) async fn answer(
    State(planes): State<Arc<Planes>>,
    Path(what): Path<String>,
    body: Bytes,
) -> Response {
    let done = match what.as_str() {
        "state" => Ok(planes.summary()),
        "projects" => read(&body).map(|Projects { count }| {
            planes.add_projects(count);
            planes.summary()
        }),
        "cell" => planes.fill_cell().map(|()| planes.summary()),
        "ready" => read(&body).map(|Ready { ready }| {
            planes.set_ready(ready);
            planes.summary()
        }),
        "deployments" => match read(&body) {
            Ok(Deployments { count }) => planes.create_deployments(count).await,
            Err(error) => Err(error),
        },
        "statuses" => match read(&body) {
            Ok(asked) => Ok(planes.change_statuses(&asked).await),
            Err(error) => Err(error),
        },
        "storm" => match read(&body) {
            Ok(asked) => planes.storm(&asked).await,
            Err(error) => Err(error),
        },
        "probe" => match read(&body) {
            Ok(asked) => planes.probe(&asked).await,
            Err(error) => Err(error),
        },
        "lowerHubs" => match read(&body) {
            Ok(asked) => planes.add_lower_hubs(&asked).await,
            Err(error) => Err(error),
        },
        "events" => match read(&body) {
            Ok(asked) => planes.let_happen(&asked).await,
            Err(error) => Err(error),
        },
        _ => Err(Refusal::no_path()),
    };
    match done {
        Ok(answer) => json_response(StatusCode::OK, answer.to_string()),
        Err(refusal) => refusal.response(),
    }
    .map(Body::new)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(error.to_string()))
}

impl Planes {
    /// Returns the numbers of objects and requests.
    pub(super) fn summary(&self) -> Value {
        let projects = self.projects();
        let deployments = KindId::named("WorkloadDeployment");
        let bindings = KindId::named("ResourceBinding");
        let in_projects = |kind| -> usize {
            let counts = projects.iter().map(|plane| plane.server.count(kind));
            counts.sum()
        };
        json!({
            "projects": projects.len(),
            "deployments": in_projects(deployments),
            "copies": self.hub.server.count(deployments),
            "bindings": self.hub.server.count(bindings),
            "projections": in_projects(KindId::named("Instance")),
            "openInstances": self.open_instances(),
            "writes": self.writes.load(Ordering::Relaxed),
            "lists": self.count_requests(Verb::List),
            "watches": self.count_requests(Verb::Watch),
        })
    }

    /// Returns the number of requests with this verb, for all API servers together.
    fn count_requests(&self, verb: Verb) -> usize {
        let projects = self.projects();
        let planes = [&self.root, &self.hub, &self.cell]
            .into_iter()
            .chain(&projects);
        planes.map(|plane| plane.server.count_requests(verb)).sum()
    }

    async fn create_deployments(&self, count: usize) -> Result<Value, Refusal> {
        let projects = self.projects();
        let deployments = KindId::named("WorkloadDeployment");
        for (index, plane) in projects.iter().cycle().take(count).enumerate() {
            let name = format!("web-{:05}", index / projects.len());
            let object = json!({"metadata": {"name": name}, "spec": deployment()});
            plane.server.create(deployments, DEFAULT, object)?;
            if index % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(self.summary())
    }

    /// Changes the statuses on the hub one after the other. Waits until the projects have the new statuses.
    async fn change_statuses(&self, asked: &Statuses) -> Value {
        let deployments = KindId::named("WorkloadDeployment");
        let copies = self.hub.server.keys(deployments);
        let namespaces = self.upstreams();
        let begin = Instant::now();
        let end = begin + Duration::from_secs_f64(asked.seconds);
        let mut changed = 0_u64;
        let mut copies = copies.iter().cycle();
        let mut tick = begin;
        while Instant::now() < end {
            tick += TICK;
            let seconds = tick.duration_since(begin).as_secs_f64();
            while f64::from(u32::try_from(changed).unwrap_or(u32::MAX)) < seconds * asked.rate {
                let Some(key) = copies.next() else {
                    return json!({});
                };
                changed += 1;
                let (Some(copy), Some(project)) = (
                    self.hub.server.stored(deployments, key),
                    namespaces.get(&key.0),
                ) else {
                    continue;
                };
                let replicas = 1 + changed;
                let status = ObjectChange::Merge(karmada::report(&copy.value(), replicas));
                let in_project = (DEFAULT.to_owned(), key.1.clone());
                let shown = Shown::Replicas(replicas);
                self.latencies.await_status(project, in_project, shown);
                // An error means that the WorkloadDeployment was deleted on the hub. Its status counts as missing at
                // the end.
                let _ = self
                    .hub
                    .server
                    .change(deployments, key, ObjectPart::Status, status);
            }
            sleep_until(tick).await;
        }
        let late = begin.elapsed().as_secs_f64() - asked.seconds;
        let over = Instant::now() + PATIENCE;
        while self.latencies.missing_statuses() > 0 && Instant::now() < over {
            sleep(TICK).await;
        }
        let mut found = self.latencies.statuses();
        found["changed"] = changed.into();
        found["late"] = late.into();
        found
    }

    /// Maps each hub namespace to the name of its project. The hub namespace belongs to the namespace `default` of the
    /// project.
    fn upstreams(&self) -> HashMap<String, String> {
        let of = |plane: &Arc<Plane>| Some((hub_namespace(plane)?, plane.name.clone()));
        self.projects().iter().filter_map(of).collect()
    }

    async fn storm(&self, asked: &Storm) -> Result<Value, Refusal> {
        let plane = self.project(&asked.project);
        let plane = plane.ok_or_else(Refusal::no_path)?;
        let begin = Instant::now();
        for index in 0..asked.count {
            create_workload(&plane.server, &format!("storm-{index:05}"))?;
            let created = f64::from(u32::try_from(index).unwrap_or(u32::MAX));
            sleep_until(begin + Duration::from_secs_f64(created / asked.rate)).await;
        }
        Ok(self.summary())
    }

    async fn probe(&self, asked: &Probe) -> Result<Value, Refusal> {
        let plane = self.project(&asked.project);
        let plane = plane.ok_or_else(Refusal::no_path)?;
        let namespace = hub_namespace(&plane).ok_or_else(Refusal::no_path)?;
        for index in 0..asked.count {
            let name = format!("{}-{index:05}", asked.label);
            self.latencies.await_arrival(&namespace, &name);
            create_workload(&plane.server, &name)?;
            sleep(Duration::from_millis(asked.every_milliseconds)).await;
        }
        let over = Instant::now() + PATIENCE;
        while self.latencies.missing_arrivals() > 0 && Instant::now() < over {
            sleep(TICK).await;
        }
        Ok(self.latencies.arrivals())
    }
}

/// Returns the hub namespace of a project's namespace `default`.
pub(super) fn hub_namespace(plane: &Plane) -> Option<String> {
    let key = (String::new(), DEFAULT.to_owned());
    let namespace = plane.server.stored(KindId::named("Namespace"), &key)?;
    Some(format!("ns-{}", text(&namespace.value(), "/metadata/uid")))
}

fn template() -> Value {
    json!({"spec": {
        "networkInterfaces": [{"network": {"name": NETWORK}}],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{
                "name": "app",
                "image": "registry.example/team/app:1.4.2",
                "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "us"}],
                "ports": [{"name": "http", "port": 8080}],
            }]},
        },
    }})
}

/// Returns the spec of a WorkloadDeployment that belongs to no Workload.
pub(super) fn deployment() -> Value {
    json!({
        "cityCode": "DFW",
        "placementName": "us",
        "scaleSettings": objects::scale(1),
        "template": template(),
        "workloadRef": {"name": "web", "uid": "00000000-0000-0000-0000-000000000001"},
    })
}

/// Creates a Workload with one deployment.
fn create_workload(server: &ApiServer, name: &str) -> Result<(), Refusal> {
    let placement = json!({"name": "us", "cityCodes": ["DFW"], "scaleSettings": objects::scale(1)});
    let workload = json!({
        "metadata": {"name": name},
        "spec": {"placements": [placement], "template": template()},
    });
    let workloads = KindId::named("Workload");
    server.create(workloads, DEFAULT, workload).map(drop)
}
