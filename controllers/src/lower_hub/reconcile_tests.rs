//! Tests of the controller of a lower hub. Both hubs are in-memory API servers.

use api::karmada::Cluster;
use api::{DEFAULT_NAMESPACE, LowerHubStatus, annotations};
use apiserver::{ApiServer, Fault, objects};
use kube::ResourceExt;
use multicluster::Metrics;
use multicluster::cache::{ListLimiter, Reflector};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::triggers::all_cells;
use super::*;
use crate::fixtures::now;
use crate::fixtures::servers::{context, converge, settle, take_writes};
use crate::hub_in_use::HubVerdict;
use crate::objects::Namespace;

const SINCE: &str = "2026-11-21T09:30:00Z";
const STATUS: &str = "patch lowerhubs/status dfw";

fn cluster(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "status": {"conditions": [{
            "type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": SINCE,
        }]},
    })
}

fn lower_hub(name: &str) -> Value {
    json!({"apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": name}, "spec": {}})
}

struct Hubs {
    lower: ApiServer,
    upper: ApiServer,
    controller: LowerHubController,
}

impl Hubs {
    /// Starts the lower hub `dfw` with the cells `a1` and `a2`, below an upper hub with these objects.
    async fn start(on_upper: Vec<Value>) -> Self {
        let lower = ApiServer::new().with_clock(now);
        let upper = ApiServer::new().with_clock(now);
        lower.put(cluster("a1", "True"));
        lower.put(cluster("a2", "True"));
        for object in on_upper {
            upper.put(object);
        }
        let metrics = Metrics::default();
        let clusters = Reflector::<Cluster>::new("lower hub", &metrics);
        let mut lower_hubs = Reflector::<LowerHub>::new("lower hub", &metrics);
        let leases = Reflector::new("lower hub", &metrics);
        let caches = LowerHubCaches {
            name: CellName::new("dfw").unwrap(),
            client: lower.client(),
            upper_hub: upper.client(),
            clusters: ClusterStates::new(clusters.cache()),
            lower_hubs: WatchedLowerHubs::new(lower.client(), &mut lower_hubs, &leases),
            has_reported: AtomicBool::default(),
        };
        let lists = ListLimiter::default();
        tokio::spawn(clusters.run(lower.client(), lists.for_another_cache()));
        tokio::spawn(lower_hubs.run(lower.client(), lists));
        settle().await;
        let writer = Writer::new(LowerHubController::NAME, &metrics);
        take_writes(&[&lower, &upper]);
        Self {
            lower,
            upper,
            controller: LowerHubController::new(
                Arc::new(caches),
                writer,
                HeldReport::new(&metrics),
            ),
        }
    }

    async fn pass(&self) -> Vec<String> {
        settle().await;
        converge(&self.controller, all_cells, &[&self.lower, &self.upper]).await
    }

    async fn outcome(&self) -> Result<Outcome, ReconcileError> {
        settle().await;
        self.controller.reconcile(&context(), all_cells()).await
    }

    fn status(&self) -> Option<LowerHubStatus> {
        self.upper.get::<LowerHub>("", "dfw")?.status
    }

    /// Returns the names of the reported cells. A `!` marks those that are not ready.
    fn cells(&self) -> Vec<String> {
        let cells = self.status().unwrap().cells.into_iter();
        let mark = |ready: bool| if ready { "" } else { "!" };
        cells
            .map(|cell| format!("{}{}", mark(cell.ready), cell.name))
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_upper_hub_knows_the_cells() {
    let hubs = Hubs::start(vec![lower_hub("dfw"), lower_hub("ord")]).await;
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["a1", "a2"]);

    hubs.lower.put(cluster("a2", "False"));
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["a1", "!a2"]);
    let dead = &hubs.status().unwrap().cells[1];
    assert_eq!(json!(dead)["since"], SINCE);
    assert_eq!(dead.message, "m");

    hubs.lower.put(cluster("a3", "True"));
    hubs.lower.remove::<Cluster>("", "a1");
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["!a2", "a3"]);
    let other: LowerHub = hubs.upper.get("", "ord").unwrap();
    assert_eq!(other.status, None);

    assert_eq!(hubs.outcome().await.unwrap(), Outcome::Again(CHECK));
    assert_eq!(take_writes(&[&hubs.lower, &hubs.upper]), [""; 0]);
}

/// The upper hub `upper` and the lower hub `lower` have recorded each other.
#[tokio::test(start_paused = true)]
async fn a_report_goes_from_the_recorded_lower_hub_to_the_recorded_upper_hub() {
    let default = |uid: &str| objects::namespace(DEFAULT_NAMESPACE, uid);
    let replacing = |uid: &str, former: &str| {
        let mut default = default(uid);
        default["metadata"]["annotations"] = json!({annotations::REPLACES_HUBS: former});
        default
    };
    let hubs = Hubs::start(vec![lower_hub("dfw"), default("upper")]).await;
    hubs.lower.put(default("lower"));
    let lower_hub_check = hubs.controller.held.lower_hub_check();
    let is_lower = |verdict| lower_hub_check.verdict() == verdict;
    assert!(is_lower(HubVerdict::Unknown));
    let writes = hubs.pass().await;
    assert_eq!(writes, ["patch namespaces default", STATUS]);
    let record = || {
        let default = hubs.lower.get::<Namespace>("", DEFAULT_NAMESPACE).unwrap();
        default
            .annotations()
            .get(annotations::UPPER_HUB_UID)
            .cloned()
    };
    assert_eq!(record().as_deref(), Some("upper"));
    assert_eq!(hubs.status().unwrap().hub_uid.as_deref(), Some("lower"));
    let held = async |text: &str| {
        hubs.lower.put(cluster("a9", "True"));
        let error = hubs.outcome().await.expect_err(text);
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held && error.to_string().contains(text), "{error}");
        assert_eq!(take_writes(&[&hubs.lower, &hubs.upper]), [""; 0]);
        assert!(!hubs.controller.caches.are_reported(), "no heartbeat");
        hubs.controller.held.warning().expect(text);
        hubs.lower.remove::<Cluster>("", "a9");
    };
    // Another upper hub has a LowerHub of this name, which has no status yet.
    hubs.upper.put(default("another"));
    hubs.upper.put(lower_hub("dfw"));
    held("--federation-kubeconfig").await;
    assert!(is_lower(HubVerdict::Own));
    // It has the cells of another lower hub. One of the two hubs is wrong.
    hubs.upper.modify::<LowerHub>("", "dfw", |it| {
        it["status"] = json!({"cellCount": 0, "notReady": 0, "hubUID": "elsewhere"});
    });
    held("--federation-kubeconfig").await;
    assert!(matches!(lower_hub_check.verdict(), HubVerdict::Another(_)));
    hubs.upper.put(lower_hub("dfw"));
    hubs.upper.put(replacing("another", "older, upper"));
    assert_eq!(hubs.pass().await, ["patch namespaces default", STATUS]);
    assert_eq!(record().as_deref(), Some("another"));
    assert_eq!(hubs.controller.held.warning(), None);

    // The process reads another lower hub.
    hubs.lower.put(default("beside"));
    held("--kubeconfig").await;
    assert!(matches!(lower_hub_check.verdict(), HubVerdict::Another(_)));
    hubs.lower.put(replacing("beside", "lower"));
    assert_eq!(hubs.pass().await, ["patch namespaces default", STATUS]);
    assert_eq!(hubs.status().unwrap().hub_uid.as_deref(), Some("beside"));
    assert!(is_lower(HubVerdict::Own));

    // The roles of a former version.
    for hub in [&hubs.lower, &hubs.upper] {
        hub.fail(Fault::refuse(403).of::<Namespace>());
    }
    hubs.lower.put(cluster("a9", "True"));
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.status().unwrap().hub_uid.as_deref(), Some("beside"));
}

/// The upper hub writes the conditions in the same status.
#[tokio::test(start_paused = true)]
async fn the_conditions_of_the_upper_hub_stay() {
    let hubs = Hubs::start(vec![lower_hub("dfw")]).await;
    assert_eq!(hubs.pass().await, [STATUS]);
    hubs.upper.modify::<LowerHub>("", "dfw", |it| {
        it["status"]["conditions"] = json!([{
            "type": "Reporting", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": SINCE,
        }]);
    });
    assert_eq!(hubs.pass().await, [""; 0]);
    for cell in ["a1", "a2"] {
        hubs.lower.remove::<Cluster>("", cell);
    }
    assert_eq!(hubs.pass().await, [STATUS]);
    let status = hubs.status().unwrap();
    assert_eq!((status.cells.len(), status.conditions.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_was_removed_and_a_lower_hub_that_comes_later_get_the_cells() {
    let hubs = Hubs::start(Vec::new()).await;
    let error = hubs.outcome().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "LowerHub dfw of the upper hub: waiting for an administrator to create it"
    );
    hubs.upper.put(lower_hub("dfw"));
    assert_eq!(hubs.pass().await, [STATUS]);
    hubs.upper.remove::<LowerHub>("", "dfw");
    hubs.upper.put(lower_hub("dfw"));
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_without_the_kind_is_named() {
    let hubs = Hubs::start(Vec::new()).await;
    hubs.upper.stop_serving::<LowerHub>();
    let error = hubs.outcome().await.unwrap_err().to_string();
    assert!(error.contains("with the CRDs?"), "{error}");
}

/// A cell is removed from the list only if the lower hub has no such Cluster.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_current_changes_nothing() {
    for code in [503, 403] {
        let hubs = Hubs::start(vec![lower_hub("dfw")]).await;
        hubs.pass().await;
        hubs.lower.fail(Fault::refuse(code).of::<Cluster>());
        hubs.lower.interrupt();
        settle().await;
        hubs.lower.remove::<Cluster>("", "a1");
        let requests = hubs.upper.requests();
        assert_eq!(
            hubs.outcome().await.unwrap(),
            Outcome::Again(NOT_CURRENT),
            "{code}"
        );
        assert_eq!(hubs.upper.requests(), requests, "{code}");
        assert_eq!(hubs.cells(), ["a1", "a2"], "{code}");
        hubs.lower.heal();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(hubs.pass().await, [STATUS], "{code}");
        assert_eq!(hubs.cells(), ["a2"], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn cells_below_a_further_hub_are_reported_too() {
    let hubs = Hubs::start(vec![lower_hub("dfw")]).await;
    let mut below = lower_hub("a2");
    below["status"] = json!({
        "cellCount": 1, "notReady": 1,
        "cells": [{"name": "x", "ready": false, "since": SINCE, "message": "m"}],
    });
    hubs.lower.put(below);
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["a1", "!a2.x"]);
    // While the kind is not served, nothing new is known of the cells below `a2`.
    hubs.lower.stop_serving::<LowerHub>();
    hubs.lower.interrupt();
    sleep(Duration::from_mins(2)).await;
    assert_eq!(hubs.pass().await, [""; 0]);
    assert_eq!(hubs.cells(), ["a1", "!a2.x"]);
    hubs.lower.serve_again::<LowerHub>();
    // The process of `a2` is silent for some time.
    for (is_true, silent) in [("False", 1), ("True", 0)] {
        hubs.lower.modify::<LowerHub>("", "a2", |it| {
            it["status"]["conditions"] = json!([{
                "type": "Reporting", "status": is_true, "reason": "r", "message": "m", "lastTransitionTime": SINCE,
            }]);
        });
        sleep(Duration::from_mins(2)).await;
        assert_eq!(hubs.pass().await, [STATUS]);
        assert_eq!(hubs.cells(), ["a1", "!a2.x"]);
        assert_eq!(hubs.status().unwrap().silent_lower_hubs.len(), silent);
    }
    hubs.lower.remove::<LowerHub>("", "a2");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(hubs.pass().await, [STATUS]);
    assert_eq!(hubs.cells(), ["a1", "a2"]);
}

/// The first change is reported at once. Later changes are reported together.
#[tokio::test(start_paused = true)]
async fn a_long_list_is_written_less_often() {
    let hubs = Hubs::start(vec![lower_hub("dfw")]).await;
    for number in 0..1000 {
        hubs.lower.put(cluster(&format!("b{number}"), "True"));
    }
    assert_eq!(hubs.outcome().await.unwrap(), Outcome::Again(CHECK));
    take_writes(&[&hubs.upper]);
    hubs.lower.put(cluster("a1", "False"));
    let Outcome::Again(pause) = hubs.outcome().await.unwrap() else {
        panic!("settled");
    };
    assert!(pause < Duration::from_secs(1), "{pause:?}");
    assert_eq!(take_writes(&[&hubs.upper]), [""; 0]);
    sleep(pause).await;
    assert_eq!(hubs.outcome().await.unwrap(), Outcome::Again(CHECK));
    assert_eq!(take_writes(&[&hubs.upper]), [STATUS]);
}
