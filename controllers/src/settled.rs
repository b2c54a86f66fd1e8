//! Tests of all controllers together on a paused clock: they make no write while nothing changes, and a process keeps
//! no keys of deleted objects, nor any key while it may not write.

mod data;
mod ended_keys;
mod networks;
mod outdated_copies;
mod quota;

use std::sync::Arc;
use std::time::Duration;

use api::instance::{PROGRAMMED, RUNNING};
use api::karmada::ResourceBinding;
use api::workload::AVAILABLE;
use api::{
    CellName, Instance, ProjectName, Workload, WorkloadDeployment, WorkloadSummary, condition,
    labels,
};
use apiserver::{ApiServer, Fault, Verb, objects};
use jiff::{SignedDuration, Timestamp};
use multicluster::projects::RegistryContext;
use multicluster::{Metrics, ProjectRegistry, Tasks};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::cell_controllers::{ConnectLedger, Networking};
use crate::fixtures::servers::{HUB_NAMESPACE, HUB_UID, hub_namespace, take_writes};
use crate::fixtures::{self, object};
use crate::{cell_controllers, management_controllers};

const WEB: &str = "web-us-dfw";
/// The controllers of both planes.
const CONTROLLERS: [&str; 18] = [
    "workload",
    "federator",
    "policy",
    "projector",
    "namespace",
    "referenced-data",
    "companion",
    "summary",
    "customizations",
    "deployment",
    "autoscaler",
    "instance",
    "instance-writeback",
    "outdated-copies",
    "quota",
    "quota-sweeper",
    "network",
    "data-gate",
];
/// Many times longer than every interval of the controllers: resync, renewed watches, re-application.
const HOURS: Duration = Duration::from_hours(6);

thread_local! {
    static BEGIN: Instant = Instant::now();
}

/// Returns the time of the paused clock.
fn clock() -> Timestamp {
    let elapsed = BEGIN.with(Instant::elapsed);
    fixtures::now() + SignedDuration::try_from(elapsed).unwrap()
}

/// A project, a hub and a cell with all controllers. The test does the work of Karmada and of the provider.
struct System {
    project: ApiServer,
    hub: ApiServer,
    cell: ApiServer,
    metrics: Metrics,
    may_write: CancellationToken,
    _tasks: Tasks,
}

impl System {
    fn start() -> Self {
        let system = Self::start_without_leadership();
        system.may_write.cancel();
        system
    }

    /// Starts the controllers in a process that may not write yet.
    fn start_without_leadership() -> Self {
        Self::start_cell(false, Networking::Disabled)
    }

    /// Starts the controllers in a process that may not write yet. The cell enforces quota or not, and makes networks
    /// in this way.
    fn start_cell(enforces_quota: bool, networking: Networking) -> Self {
        let server = || ApiServer::new().with_garbage_collection().with_clock(clock);
        let (project, hub, cell) = (server(), server(), server());
        project.put(objects::namespace("default", "1"));
        project.put(objects::network("default", "default"));
        project.put(objects::location_binding("dfw", "DFW", "True"));
        hub.put(objects::namespace("default", HUB_UID));
        cell.put(hub_namespace());
        let (tasks, metrics) = (Tasks::default(), Metrics::default());
        let may_write = CancellationToken::new();
        let context = RegistryContext {
            tasks: &tasks,
            metrics: &metrics,
        };
        let name = ProjectName::new("p").unwrap();
        let registry = ProjectRegistry::single(&context, name, project.client());
        let config = management_controllers::Config {
            hub: hub.client(),
            projects: registry.projects(),
            metrics: metrics.clone(),
            may_write: may_write.clone(),
            clock,
        };
        let (_, management) = management_controllers::start(&tasks, config);
        registry.begin(Some(Arc::new(management)));
        let config = cell_controllers::Config {
            name: CellName::new("dfw1").unwrap(),
            former_names: Vec::new(),
            client: cell.client(),
            hub: hub.client(),
            quota: enforces_quota.then(|| {
                let ledger = project.client();
                let connect: ConnectLedger = Box::new(move |_| Ok(ledger.clone()));
                connect
            }),
            networking,
            awaits_data: false,
            metrics: metrics.clone(),
            may_write: may_write.clone(),
            clock,
        };
        cell_controllers::start(&tasks, config);
        Self {
            project,
            hub,
            cell,
            metrics,
            may_write,
            _tasks: tasks,
        }
    }

    /// Waits until a condition holds.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < Duration::from_mins(5), "not {what}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn writes(&self) -> Vec<String> {
        take_writes(&[&self.project, &self.hub, &self.cell])
    }

    /// Copies the hub's deployment to the cell, as Karmada does.
    async fn propagate(&self) {
        let there = |it: &Self| {
            it.hub
                .get::<WorkloadDeployment>(HUB_NAMESPACE, WEB)
                .is_some()
        };
        self.until("the copy is on the hub", there).await;
        let copy: WorkloadDeployment = self.hub.get(HUB_NAMESPACE, WEB).unwrap();
        let former = self.cell.get::<WorkloadDeployment>(HUB_NAMESPACE, WEB);
        if former.is_none() {
            self.cell.put(json!({
                "apiVersion": api::API_VERSION,
                "kind": "WorkloadDeployment",
                "metadata": {"name": WEB, "namespace": HUB_NAMESPACE, "uid": "in-cell", "labels": copy.metadata.labels},
                "spec": copy.spec,
            }));
        } else {
            self.cell
                .modify::<WorkloadDeployment>(HUB_NAMESPACE, WEB, |it| {
                    it["spec"] = json!(copy.spec);
                });
        }
    }

    /// Starts the machine of an Instance, as the provider does.
    async fn provide(&self, ordinal: i32) {
        let name = format!("{WEB}-{ordinal}");
        let there = |it: &Self| it.cell.get::<Instance>(HUB_NAMESPACE, &name).is_some();
        self.until("the Instance exists", there).await;
        self.cell.modify::<Instance>(HUB_NAMESPACE, &name, |it| {
            let hash = it["spec"]["controller"]["templateHash"].clone();
            let condition = |type_: &str| {
                let mut condition = objects::condition(type_, "True");
                condition["observedGeneration"] = it["metadata"]["generation"].clone();
                condition
            };
            it["status"] = json!({
                "conditions": [condition(PROGRAMMED), condition(RUNNING)],
                "controller": {"observedTemplateHash": hash},
            });
        });
    }

    /// Starts the machine of an Instance that has conditions already.
    async fn provide_again(&self, ordinal: i32) {
        let name = format!("{WEB}-{ordinal}");
        self.cell.modify::<Instance>(HUB_NAMESPACE, &name, |it| {
            let generation = it["metadata"]["generation"].clone();
            let hash = it["spec"]["controller"]["templateHash"].clone();
            let conditions = it["status"]["conditions"].as_array_mut().unwrap();
            for type_ in [PROGRAMMED, RUNNING] {
                let mut condition = objects::condition(type_, "True");
                condition["observedGeneration"] = generation.clone();
                conditions.push(condition);
            }
            it["status"]["controller"] = json!({"observedTemplateHash": hash});
        });
        sleep(Duration::from_secs(1)).await;
    }

    /// Copies the status of the cell's deployment to the hub, as Karmada does.
    async fn report(&self, ready: i32) {
        let status = |it: &Self| {
            let deployment = it.cell.get::<WorkloadDeployment>(HUB_NAMESPACE, WEB)?;
            deployment.status.filter(|it| it.ready_replicas == ready)
        };
        self.until("all Instances are ready", |it| status(it).is_some())
            .await;
        let mut status = json!(status(self).unwrap());
        self.hub
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, WEB, |copy| {
                let generation = copy["metadata"]["generation"].clone();
                status["observedGeneration"] = generation.clone();
                for condition in status["conditions"].as_array_mut().unwrap() {
                    condition["observedGeneration"] = generation.clone();
                }
                copy["status"] = status;
            });
    }

    async fn until_available(&self, ready: i32) {
        let available = |it: &Self| {
            let workload = it.project.get::<Workload>("default", "web");
            let status = workload.and_then(|it| it.status).unwrap_or_default();
            condition::is_true(&status.conditions, AVAILABLE) && status.ready_replicas == ready
        };
        self.until("the Workload is available", available).await;
        let last = format!("{WEB}-{}", ready - 1);
        let projected = |it: &Self| {
            let projection = it.project.get::<Instance>("default", &last);
            projection.is_some_and(|it| it.status.is_some())
        };
        self.until("the Instance is projected", projected).await;
    }

    async fn scale(&self, from: i32, to: i32) {
        for ordinal in from..to {
            self.provide(ordinal).await;
        }
        self.report(to).await;
        self.until_available(to).await;
    }
}

fn workload() -> Value {
    let mut web = json!(fixtures::workload(&[("us", &["DFW"])]));
    web["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(2);
    web
}

/// Returns a summary of the cells, with the number of ready Instances.
fn summary() -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadSummary",
        "metadata": {"namespace": "default", "name": "by-cell"},
        "spec": {"selector": {}, "rows": "Cells", "columns": [{"name": "ready", "path": "$.status.readyReplicas"}]},
    })
}

/// I-3: timers, resyncs and renewed watches cause no write.
#[tokio::test(start_paused = true)]
async fn hours_without_a_change_have_no_write() {
    clock();
    let system = System::start();
    system.project.put(object(workload()));
    system.project.put(summary());
    system.propagate().await;
    system.scale(0, 2).await;
    // Events are published a moment later.
    sleep(Duration::from_mins(1)).await;
    assert!(!system.writes().is_empty());

    let summary: WorkloadSummary = system.project.get("default", "by-cell").unwrap();
    assert_eq!(summary.status.unwrap().total, 1);

    sleep(HOURS).await;
    assert_eq!(system.writes(), [""; 0]);

    // All controllers still work.
    system.project.modify::<Workload>("default", "web", |web| {
        web["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(3);
    });
    let scaled = |it: &System| {
        let copy = it.hub.get::<WorkloadDeployment>(HUB_NAMESPACE, WEB);
        copy.is_some_and(|it| it.spec.scale_settings.min_replicas == 3)
    };
    system.until("the hub has the new number", scaled).await;
    system.propagate().await;
    system.scale(2, 3).await;
    let projection: Instance = system.project.get("default", &format!("{WEB}-2")).unwrap();
    assert_eq!(
        projection.metadata.labels.unwrap()[labels::SOURCE_CLUSTER],
        "dfw1"
    );
}

/// Each status that the cell writes says something that the one before did not say: first that an Instance exists, then
/// for each Instance that it is ready and that the next one exists, and at last that the last one is ready.
#[tokio::test(start_paused = true)]
async fn a_cell_writes_a_status_once_for_each_change() {
    clock();
    let system = System::start();
    system.project.put(object(workload()));
    system.propagate().await;
    system.scale(0, 2).await;
    sleep(Duration::from_mins(1)).await;
    let status = format!("apply workloaddeployments/status {HUB_NAMESPACE}/{WEB}");
    let writes = take_writes(&[&system.cell]);
    let statuses = writes.iter().filter(|write| **write == status).count();
    assert_eq!(statuses, 3, "{writes:#?}");
}

/// A process that waits for the lease for months keeps no keys of deleted objects. When it may write, it reconciles the
/// objects that exist, although no event adds their keys.
#[tokio::test(start_paused = true)]
async fn a_process_that_may_not_write_keeps_no_keys() {
    clock();
    let system = System::start_without_leadership();
    let deployment = |name: &str| {
        json!({
            "apiVersion": api::API_VERSION,
            "kind": "WorkloadDeployment",
            "metadata": {"name": name, "namespace": HUB_NAMESPACE, "uid": name, "labels": {labels::UPSTREAM_CLUSTER_NAME: "cluster-p"}},
            "spec": fixtures::deployment(HUB_NAMESPACE, name, "DFW", 1).spec,
        })
    };
    system.project.put(object(workload()));
    system.project.put(summary());
    system.cell.put(deployment("deleted"));
    system.cell.put(deployment("kept"));
    system.hub.put(json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "shadowing"},
        "spec": {"target": {"apiVersion": api::API_VERSION, "kind": "Instance"}},
    }));
    sleep(Duration::from_mins(1)).await;
    let cell = &system.cell;
    cell.remove::<WorkloadDeployment>(HUB_NAMESPACE, "deleted");
    sleep(HOURS).await;
    for controller in CONTROLLERS {
        assert_eq!(system.metrics.queued_keys(controller), 0, "{controller}");
    }
    assert_eq!(system.writes(), [""; 0]);

    system.may_write.cancel();
    system.propagate().await;
    let instance = |it: &System| it.cell.get::<Instance>(HUB_NAMESPACE, "kept-0").is_some();
    system.until("the cell has an Instance", instance).await;
    sleep(Duration::from_mins(1)).await;
    let of_customization = |write: &String| write.starts_with("create events default/shadowing.");
    let writes = system.writes();
    assert!(writes.iter().any(of_customization), "{writes:?}");
}

/// A process may wait for the lease while its watches of the hub fail. Then what its caches say is old.
#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_until_its_caches_of_the_hub_are_current() {
    clock();
    let system = System::start_without_leadership();
    system.project.put(object(workload()));
    sleep(Duration::from_mins(1)).await;
    let fails = Fault::refuse(503).on(&[Verb::List, Verb::Watch]);
    system.hub.fail(fails.of::<WorkloadDeployment>());
    system.hub.interrupt();
    sleep(Duration::from_mins(1)).await;
    system.may_write.cancel();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(system.writes(), [""; 0]);
    assert!(system.metrics.controllers_wait());
    system.hub.heal();
    system.propagate().await;
    assert!(!system.metrics.controllers_wait());
    system.scale(0, 2).await;
}

/// Without current ResourceBindings, the federator would write old reports of cells over newer statuses.
#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_a_time_until_its_caches_of_optional_kinds_are_current() {
    clock();
    for heals in [true, false] {
        let system = System::start_without_leadership();
        system.project.put(object(workload()));
        sleep(Duration::from_mins(1)).await;
        let fails = Fault::refuse(503).on(&[Verb::List, Verb::Watch]);
        system.hub.fail(fails.of::<ResourceBinding>());
        system.hub.interrupt();
        sleep(Duration::from_secs(10)).await;
        system.may_write.cancel();
        sleep(Duration::from_secs(29)).await;
        assert_eq!(system.writes(), [""; 0]);
        if heals {
            system.hub.heal();
        }
        let has_copy = |it: &System| {
            it.hub
                .get::<WorkloadDeployment>(HUB_NAMESPACE, WEB)
                .is_some()
        };
        system.until("the hub has a copy", has_copy).await;
    }
}
