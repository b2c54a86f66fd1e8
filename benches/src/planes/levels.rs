//! Lower hubs, with the cells below them. Each lower hub serves a city of its own, and has one WorkloadDeployment. This
//! program does what Karmada of both levels does: it calls the interpreter for the object of the lower hub and for that
//! of the hub, and writes the results to the hub.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{API_VERSION, ProjectName, annotations, labels};
use apiserver::{Key, KindId, ObjectChange, ObjectPart, Refusal, text, time_now};
use interpreters::Operation;
use interpreters::caller::{Answer, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::control::{PATIENCE, TICK, deployment, hub_namespace};
use super::latency::{Shown, percentiles};
use super::{DEFAULT, Plane, Planes, karmada};

/// If no write happens in this time, the work that an event has caused is done.
const QUIET: Duration = Duration::from_millis(100);

/// Adds lower hubs until there are `count`.
#[derive(Deserialize)]
pub(super) struct LowerHubs {
    count: usize,
    /// The number of cells below each lower hub.
    cells: usize,
}

/// Lets an event happen this many times, each time at another lower hub.
#[derive(Deserialize)]
pub(super) struct Events {
    event: Event,
    count: usize,
    /// The process whose CPU time is measured.
    process: u32,
}

/// An event at a lower hub.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Event {
    /// A cell reports another status.
    Status,
    /// A cell dies, and returns when the project shows it.
    DeadCell,
    /// The lower hub cannot be reached, and returns when the project shows it.
    DeadHub,
}

/// The field of the answer of InterpretStatus.
const RAW_STATUS: &str = "rawStatus";

/// The lower hubs, by name.
#[derive(Default)]
pub(super) struct Levels(Mutex<BTreeMap<String, LowerHub>>);

/// A lower hub, and its WorkloadDeployment.
struct LowerHub {
    /// The WorkloadDeployment on the hub.
    key: Key,
    /// The object of the WorkloadDeployment on the lower hub.
    object: Value,
    /// The items of the cells on the lower hub.
    cells: Vec<Value>,
}

/// Returns the name of a lower hub. Its city has the same name in upper case.
fn lower_hub_name(index: usize) -> String {
    format!("h{index:03}")
}

fn cell_name(index: usize) -> String {
    format!("a{index:03}")
}

/// Calls the interpreter. Returns the status that it answers.
fn interpret(request: &Request<'_>) -> anyhow::Result<Value> {
    let interpretation = crate::interpret(&request.body()?)?;
    let mut answer = Answer::decode(request.operation, &interpretation.body, request.object)?;
    Ok(match answer.object {
        Some(object) => object["status"].clone(),
        None => answer.fields.remove(RAW_STATUS).unwrap_or_default(),
    })
}

/// Returns the status of an object after the aggregation of these items.
fn aggregated(object: &Value, items: &[Value]) -> anyhow::Result<Value> {
    interpret(&Request {
        operation: Operation::AggregateStatus,
        object,
        observed: None,
        items,
        replicas: None,
    })
}

/// Returns the status that Karmada reads from an object.
fn reflected(object: &Value) -> anyhow::Result<Value> {
    interpret(&Request {
        operation: Operation::InterpretStatus,
        object,
        observed: None,
        items: &[],
        replicas: None,
    })
}

impl LowerHub {
    /// Creates the lower hub to which Karmada propagates this WorkloadDeployment of the hub.
    fn new(key: Key, copy: &Value, cells: usize) -> Self {
        let metadata = json!({
            "annotations": {annotations::RESOURCE_TEMPLATE_GENERATION: copy["metadata"]["generation"].to_string()},
            "generation": 1, "name": key.1, "namespace": key.0,
        });
        let object = json!({
            "apiVersion": copy["apiVersion"], "kind": copy["kind"], "metadata": metadata, "spec": copy["spec"],
        });
        let cells = (0..cells).map(|index| of_cell(&object, index, 1)).collect();
        Self { key, object, cells }
    }

    /// Aggregates the statuses of the cells, and returns the item of the lower hub on the hub.
    fn report(&mut self, name: &str) -> anyhow::Result<Value> {
        self.object["status"] = aggregated(&self.object, &self.cells)?;
        Ok(karmada::item(name, &reflected(&self.object)?))
    }
}

/// Returns the item of a cell with this number of Instances.
fn of_cell(object: &Value, index: usize, replicas: u64) -> Value {
    let mut status = karmada::report(object, replicas)["status"].take();
    status["assignedReplicas"] = json!(1);
    status["generation"] = json!(1);
    status["resourceTemplateGeneration"] = json!(1);
    karmada::item(&cell_name(index), &status)
}

impl Planes {
    /// Creates lower hubs, and a WorkloadDeployment of the first project in the city of each. Waits for the copies on
    /// the hub. Then all cells report.
    pub(super) async fn add_lower_hubs(&self, asked: &LowerHubs) -> Result<Value, Refusal> {
        let project = self.first_project()?;
        let deployments = KindId::named("WorkloadDeployment");
        for index in 0..asked.count {
            let name = lower_hub_name(index);
            karmada::join_lower_hub(&self.hub.server, &name);
            let lower_hub = json!({"spec": {}, "status": cells_below(asked.cells, None)});
            let lower_hubs = KindId::named("LowerHub");
            self.hub.server.seed(lower_hubs, "", &name, lower_hub);
            let mut spec = deployment();
            spec["cityCode"] = name.to_uppercase().into();
            let object = json!({"metadata": {"name": format!("web-{name}")}, "spec": spec});
            project.server.create(deployments, DEFAULT, object)?;
        }
        let hub = &self.hub.server;
        let over = Instant::now() + PATIENCE;
        while hub.count(KindId::named("ResourceBinding")) < asked.count {
            if Instant::now() > over {
                return Err(Refusal::bad("not all WorkloadDeployments are on the hub"));
            }
            sleep(TICK).await;
        }
        let namespace = hub_namespace(&project).ok_or_else(Refusal::no_path)?;
        let of = ProjectName::new(&project.name);
        let of = of.map_err(|error| refusal(&error))?;
        for index in 0..asked.count {
            let name = lower_hub_name(index);
            let key = (namespace.clone(), format!("web-{name}"));
            let copy = hub.stored(deployments, &key);
            let copy = copy.ok_or_else(Refusal::no_path)?.value();
            for cell in 0..asked.cells {
                let below = format!("{name}.{}", cell_name(cell));
                let instance = instance(&of, &copy, &below);
                let name = format!("{}-0-{}", key.1, cell_name(cell));
                hub.seed(KindId::named("Instance"), &namespace, &name, instance);
            }
            let mut lower_hub = LowerHub::new(key, &copy, asked.cells);
            let (item, status) = self.fold(&name, &mut lower_hub)?;
            self.write_reports(&lower_hub.key, &item, &status)?;
            self.lower_hubs().insert(name, lower_hub);
            tokio::task::yield_now().await;
        }
        Ok(self.summary())
    }

    /// Lets an event happen at one lower hub after the other. Waits each time until the project shows it, and until
    /// nothing is written any more. Returns the latencies, and the CPU time of the process.
    pub(super) async fn let_happen(&self, asked: &Events) -> Result<Value, Refusal> {
        let project = self.first_project()?;
        let names: Vec<_> = self.lower_hubs().keys().cloned().collect();
        let (begin, cpu) = (
            Instant::now(),
            crate::precise_cpu_time(asked.process).map_err(|error| refusal(&error))?,
        );
        let mut took = Vec::new();
        for (index, name) in names.iter().cycle().take(asked.count).enumerate() {
            let cell = index / names.len();
            match asked.event {
                Event::Status => self.change_cell(&project, name, cell)?,
                Event::DeadCell => self.set_cell(&project, name, cell, false)?,
                Event::DeadHub => self.set_hub(&project, name, false)?,
            }
            took.extend(self.until_shown().await);
            if self.latencies.missing_statuses() > 0 {
                break;
            }
            match asked.event {
                Event::Status => continue,
                Event::DeadCell => self.set_cell(&project, name, cell, true)?,
                Event::DeadHub => self.set_hub(&project, name, true)?,
            }
            self.until_shown().await;
        }
        let cpu = crate::precise_cpu_time(asked.process).map_err(|error| refusal(&error))? - cpu;
        let mut found = percentiles(&took, self.latencies.missing_statuses());
        found["cpuMilliseconds"] = json!(Duration::from_nanos(cpu).as_secs_f64() * 1000.0);
        found["seconds"] = json!(begin.elapsed().as_secs_f64());
        Ok(found)
    }

    /// Lets a cell have another Instance.
    fn change_cell(&self, project: &Plane, name: &str, cell: usize) -> Result<(), Refusal> {
        let mut lower_hubs = self.lower_hubs();
        let lower_hub = lower_hubs.get_mut(name).ok_or_else(Refusal::no_path)?;
        if let Some(item) = lower_hub.cells.get_mut(cell) {
            let replicas = item["status"]["replicas"].as_u64().unwrap_or_default();
            *item = of_cell(&lower_hub.object, cell, replicas + 1);
        }
        let (item, status) = self.fold(name, lower_hub)?;
        let replicas = status["replicas"].as_u64().unwrap_or_default();
        self.await_shown(project, &lower_hub.key, Shown::Replicas(replicas));
        self.write_reports(&lower_hub.key, &item, &status)
    }

    /// Makes a cell ready or not, in the LowerHub.
    fn set_cell(
        &self,
        project: &Plane,
        name: &str,
        cell: usize,
        is_ready: bool,
    ) -> Result<(), Refusal> {
        let lower_hubs = self.lower_hubs();
        let lower_hub = lower_hubs.get(name).ok_or_else(Refusal::no_path)?;
        let dead = Some(cell).filter(|_| !is_ready);
        let status = cells_below(lower_hub.cells.len(), dead);
        let cell = format!("{name}.{}", cell_name(cell));
        self.await_shown(project, &lower_hub.key, shown(cell, is_ready));
        self.write_status("LowerHub", &(String::new(), name.to_owned()), &status)
    }

    /// Makes the Cluster of a lower hub ready or not.
    fn set_hub(&self, project: &Plane, name: &str, is_ready: bool) -> Result<(), Refusal> {
        let lower_hubs = self.lower_hubs();
        let lower_hub = lower_hubs.get(name).ok_or_else(Refusal::no_path)?;
        self.await_shown(project, &lower_hub.key, shown(name.to_owned(), is_ready));
        let status = karmada::cluster_status(is_ready);
        self.write_status("Cluster", &(String::new(), name.to_owned()), &status)
    }

    /// Returns the item of a lower hub on the hub, and the status there, as Karmada computes them when a cell has
    /// reported.
    fn fold(&self, name: &str, lower_hub: &mut LowerHub) -> Result<([Value; 1], Value), Refusal> {
        let deployments = KindId::named("WorkloadDeployment");
        let copy = self.hub.server.stored(deployments, &lower_hub.key);
        let copy = copy.ok_or_else(Refusal::no_path)?.value();
        let item = [lower_hub.report(name).map_err(|error| refusal(&error))?];
        let status = aggregated(&copy, &item).map_err(|error| refusal(&error))?;
        Ok((item, status))
    }

    fn write_reports(&self, key: &Key, item: &[Value; 1], status: &Value) -> Result<(), Refusal> {
        let (namespace, name) = key;
        let binding = (namespace.clone(), format!("{name}-workloaddeployment"));
        let item = json!({"aggregatedStatus": item});
        self.write_status("ResourceBinding", &binding, &item)?;
        self.write_status("WorkloadDeployment", key, status)
    }

    fn write_status(&self, kind: &str, key: &Key, status: &Value) -> Result<(), Refusal> {
        let change = ObjectChange::Merge(json!({"status": status}));
        let hub = &self.hub.server;
        hub.change(KindId::named(kind), key, ObjectPart::Status, change)?;
        Ok(())
    }

    fn await_shown(&self, project: &Plane, key: &Key, shown: Shown) {
        let in_project = (DEFAULT.to_owned(), key.1.clone());
        self.latencies
            .await_status(&project.name, in_project, shown);
    }

    /// Waits until the project shows the last event, and until nothing is written any more. Returns the latency.
    async fn until_shown(&self) -> Vec<Duration> {
        let over = Instant::now() + PATIENCE;
        while self.latencies.missing_statuses() > 0 && Instant::now() < over {
            sleep(TICK).await;
        }
        let mut writes = self.writes.load(Ordering::Relaxed);
        loop {
            sleep(QUIET).await;
            let now = self.writes.load(Ordering::Relaxed);
            if now == writes {
                return self.latencies.take_statuses();
            }
            writes = now;
        }
    }

    fn first_project(&self) -> Result<Arc<Plane>, Refusal> {
        let mut projects = self.projects().into_iter();
        projects.next().ok_or_else(Refusal::no_path)
    }

    fn lower_hubs(&self) -> MutexGuard<'_, BTreeMap<String, LowerHub>> {
        let Levels(lower_hubs) = &self.levels;
        lower_hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(error: &impl ToString) -> Refusal {
    Refusal::bad(error.to_string())
}

fn shown(unreachable: String, is_ready: bool) -> Shown {
    match is_ready {
        true => Shown::Reachable,
        false => Shown::Unreachable(unreachable),
    }
}

/// Returns the status of a LowerHub. One cell can be dead.
fn cells_below(count: usize, dead: Option<usize>) -> Value {
    let cells = (0..count).map(|index| {
        let name = cell_name(index);
        match dead == Some(index) {
            true => {
                json!({"name": name, "ready": false, "since": time_now(), "message": "no answer"})
            }
            false => json!({"name": name, "ready": true}),
        }
    });
    json!({
        "cellCount": count,
        "cells": cells.collect::<Vec<_>>(),
        "notReady": usize::from(dead.is_some()),
    })
}

/// Returns the copy of an Instance of a cell on the hub.
fn instance(project: &ProjectName, copy: &Value, cell: &str) -> Value {
    let uid = text(copy, "/metadata/uid");
    let name = text(copy, "/metadata/name");
    let conditions = ["Ready", "Programmed", "Running"]
        .map(|type_| karmada::condition(type_, "True", "InstanceRunning"));
    json!({
        "metadata": {
            "generation": 1,
            "labels": {
                labels::INSTANCE_CITY_CODE: copy["spec"]["cityCode"],
                labels::INSTANCE_INDEX: "0",
                labels::PLACEMENT_NAME: copy["spec"]["placementName"],
                labels::SOURCE_CLUSTER: cell,
                labels::UPSTREAM_CLUSTER_NAME: project.to_label(),
                labels::UPSTREAM_NAMESPACE: DEFAULT,
                labels::WORKLOAD_DEPLOYMENT_NAME: name,
                labels::WORKLOAD_DEPLOYMENT_UID: uid,
                labels::WORKLOAD_NAME: copy["spec"]["workloadRef"]["name"],
                labels::WORKLOAD_UID: copy["spec"]["workloadRef"]["uid"],
            },
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": "WorkloadDeployment", "name": name, "uid": uid,
                "blockOwnerDeletion": true, "controller": true,
            }],
        },
        "spec": copy["spec"]["template"]["spec"],
        "status": {"conditions": conditions},
    })
}
