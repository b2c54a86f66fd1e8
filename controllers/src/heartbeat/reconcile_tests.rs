//! Tests of the controller of heartbeats. The hub is an in-memory API server.

use std::time::Duration;

use api::LowerHub;
use api::labels::LOWER_HUB;
use api::rights::NAMESPACE;
use apiserver::{ApiServer, Fault, Verb};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use multicluster::heartbeat::GRACE;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::fixtures::servers::{FakePlanes, context, converge, recorded, settle, take_writes};
use crate::fixtures::{now, of_hub};

const STATUS: &str = "patch lowerhubs/status dfw";

fn lower_hub() -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "dfw"}, "spec": {},
        "status": {"cellCount": 1, "notReady": 0, "cells": [{"name": "a1", "ready": true}]},
    })
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {LOWER_HUB: "true"}}, "spec": {},
    })
}

fn key() -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: "dfw".to_owned(),
    }
}

struct Hub {
    planes: FakePlanes,
    controller: HeartbeatController,
    beats: u32,
}

/// Makes a controller as a process does. The caches are filled before it leads.
fn controller_on(planes: &FakePlanes) -> HeartbeatController {
    let lower_hubs = planes.hub_caches.lower_hubs.clone();
    let writer = planes.writer::<HeartbeatController>();
    let (hub_check, metrics) = (planes.hub_in_use.clone().into(), Metrics::default());
    HeartbeatController::new(lower_hubs, hub_check, writer, &metrics)
}

impl Hub {
    async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// Starts with these objects in the project.
    async fn start_with(in_project: Vec<Value>) -> Self {
        Self::start_on(ApiServer::new(), in_project).await
    }

    /// Starts on this API server of the hub, with these objects in the project.
    async fn start_on(hub: ApiServer, in_project: Vec<Value>) -> Self {
        let on_hub = vec![lower_hub(), lease("compute-lower-hub-dfw")];
        let planes = FakePlanes::start_on(hub, in_project, on_hub, |_| {}).await;
        let controller = controller_on(&planes);
        Self {
            planes,
            controller,
            beats: 0,
        }
    }

    /// Sends a heartbeat, as the process of the lower hub does.
    async fn beat(&mut self) {
        self.renew();
        settle().await;
        self.planes.hub_caches.lower_hubs.heartbeats.observe("dfw");
    }

    /// Renews the Lease.
    fn renew(&mut self) {
        self.beats += 1;
        let time = format!("2026-11-21T09:30:{:02}.000000Z", self.beats);
        let hub = &self.planes.hub;
        hub.modify::<Lease>(NAMESPACE, "compute-lower-hub-dfw", |lease| {
            lease["spec"]["renewTime"] = json!(time);
        });
    }

    async fn pass(&self) -> Vec<String> {
        settle().await;
        self.planes.hub_caches.lower_hubs.heartbeats.observe("dfw");
        converge(&self.controller, key, &self.planes.servers()).await
    }

    /// Returns the reason of the condition.
    fn shown(&self) -> Option<String> {
        let lower_hub: LowerHub = self.planes.hub.get("", "dfw").unwrap();
        let status = lower_hub.status.unwrap();
        assert_eq!(status.cells.len(), 1, "the list stays");
        let reporting = condition::find(&status.conditions, REPORTING)?;
        Some(reporting.reason.clone())
    }

    fn counted(&self) -> usize {
        self.controller.silent.lock().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_process_is_shown_until_it_sends_a_heartbeat() {
    let mut hub = Hub::start().await;
    sleep(GRACE * 2).await;
    assert_eq!(hub.pass().await, [""; 0], "a former version sends none");
    hub.beat().await;
    assert_eq!(hub.pass().await, [""; 0], "the first one can be old");
    hub.beat().await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessReports"));
    for _ in 0..6 {
        sleep(BEAT_INTERVAL).await;
        hub.beat().await;
        assert_eq!(hub.pass().await, [""; 0]);
    }
    sleep(GRACE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(hub.pass().await, [""; 0]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessSilent"));
    assert_eq!(hub.counted(), 1);
    // A write of the Lease that is no heartbeat.
    let lease = "compute-lower-hub-dfw";
    hub.planes.hub.modify::<Lease>(NAMESPACE, lease, |lease| {
        lease["metadata"]["annotations"] = json!({"by": "someone"});
    });
    assert_eq!(hub.pass().await, [""; 0]);
    hub.beat().await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessReports"));
    assert_eq!(hub.counted(), 0);

    hub.planes.hub.remove::<Lease>(NAMESPACE, lease);
    assert_eq!(hub.pass().await, [""; 0], "it can be made anew");
    sleep(GRACE).await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessSilent"));
}

/// After a return to a former version of the process: docs/operate/upgrade.md.
#[tokio::test(start_paused = true)]
async fn a_lower_hub_that_is_made_anew_without_its_lease_has_no_silent_process() {
    for (is_seen_absent, by_another_replica) in [(true, false), (false, false), (false, true)] {
        let mut hub = Hub::start().await;
        hub.beat().await;
        hub.beat().await;
        assert_eq!(hub.pass().await, [STATUS]);
        sleep(GRACE).await;
        assert_eq!(hub.pass().await, [STATUS]);
        assert_eq!(hub.shown().as_deref(), Some("ProcessSilent"));
        let lease = "compute-lower-hub-dfw";
        hub.planes.hub.remove::<Lease>(NAMESPACE, lease);
        assert_eq!(hub.pass().await, [""; 0], "a lost Lease ends no silence");
        hub.planes.hub.remove::<LowerHub>("", "dfw");
        if is_seen_absent {
            assert_eq!(hub.pass().await, [""; 0]);
        }
        hub.planes.hub.put(lower_hub());
        sleep(GRACE).await;
        if by_another_replica {
            hub.controller = controller_on(&hub.planes);
        }
        assert_eq!(hub.pass().await, [""; 0]);
        assert_eq!((hub.shown(), hub.counted()), (None, 0));
    }
}

/// A management process that starts does not know when the Lease was lost.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_before_the_start_is_noticed() {
    let hub = Hub::start().await;
    hub.planes.hub.modify::<LowerHub>("", "dfw", |it| {
        it["status"]["conditions"] = json!([{
            "type": REPORTING, "status": "True", "reason": "ProcessReports", "message": "",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        }]);
    });
    let lease = "compute-lower-hub-dfw";
    hub.planes.hub.remove::<Lease>(NAMESPACE, lease);
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessSilent"));
    assert_eq!(hub.counted(), 1);
}

/// The cache of LowerHubs has none of them yet. A heartbeat that arrives meanwhile is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_process_is_not_silent_because_its_lower_hub_is_listed_late() {
    let server = ApiServer::new();
    server.fail(Fault::refuse(503).of::<LowerHub>());
    let mut hub = Hub::start_on(server, Vec::new()).await;
    hub.planes.hub.modify::<LowerHub>("", "dfw", |it| {
        it["status"]["conditions"] = json!([{
            "type": REPORTING, "status": "True", "reason": "ProcessReports", "message": "",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        }]);
    });
    for _ in 0..2 {
        hub.beat().await;
        let outcome = hub.controller.reconcile(&context(), key()).await;
        assert_eq!(outcome.unwrap(), Outcome::Gone);
    }
    hub.planes.hub.heal();
    while !*hub.planes.hub_caches.lower_hubs.cache.synced().borrow() {
        sleep(Duration::from_secs(1)).await;
    }
    // The list wakes the controller. The next heartbeat has not arrived.
    let writes = converge(&hub.controller, key, &hub.planes.servers()).await;
    assert_eq!(writes, [""; 0]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessReports"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_the_hub_of_another_installation() {
    let on_another = of_hub(recorded("web"), Some("another"));
    let mut hub = Hub::start_with(vec![on_another]).await;
    hub.beat().await;
    hub.beat().await;
    assert_eq!(hub.pass().await, [""; 0]);
    assert_eq!(hub.shown(), None);
}

/// A CRD of a former release has no conditions of LowerHubs. The API server prunes them.
#[tokio::test(start_paused = true)]
async fn a_condition_that_the_hub_does_not_store_is_written_once_an_hour() {
    let mut hub = Hub::start().await;
    hub.planes.hub.amend::<LowerHub>(|lower_hub| {
        if let Some(status) = lower_hub["status"].as_object_mut() {
            status.remove("conditions");
        }
    });
    hub.beat().await;
    let at: [fn() -> Timestamp; 4] = [
        now,
        || now() + BEAT_INTERVAL,
        || now() + BEAT_INTERVAL * 2,
        || now() + Duration::from_hours(2),
    ];
    let mut written = Vec::new();
    for now in at {
        hub.beat().await;
        let context = ReconcileContext::new(now, None);
        hub.controller.reconcile(&context, key()).await.unwrap();
        written.push(take_writes(&hub.planes.servers()).len());
        settle().await;
    }
    assert_eq!(written, [1, 0, 0, 1]);
    assert_eq!(hub.shown(), None);
}

/// The hub was away. The processes of lower hubs could not send heartbeats meanwhile, or this process did not see them.
#[tokio::test(start_paused = true)]
async fn the_time_in_which_no_heartbeat_can_be_seen_does_not_count() {
    let mut hub = Hub::start().await;
    hub.beat().await;
    hub.beat().await;
    assert_eq!(hub.pass().await, [STATUS]);
    hub.planes.hub.fail(Fault::refuse(503).of::<Lease>());
    hub.planes.hub.interrupt();
    for _ in 0..10 {
        sleep(BEAT_INTERVAL).await;
        assert_eq!(hub.pass().await, [""; 0]);
    }
    hub.planes.hub.heal();
    let second = Duration::from_secs(1);
    while !hub.planes.hub_caches.lower_hubs.heartbeats.are_seen() {
        sleep(second).await;
    }
    sleep(GRACE.saturating_sub(2 * second)).await;
    assert_eq!(hub.pass().await, [""; 0]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessReports"));
    sleep(2 * second).await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessSilent"));
}

/// The process of the lower hub may not run yet. A list without cells says that it does not have the others.
#[tokio::test(start_paused = true)]
async fn a_lower_hub_that_never_gets_a_list_is_shown() {
    let mut hub = Hub::start().await;
    let created = |after: Duration| json!((context().now() + after).to_string());
    let make = |hub: &Hub, created: Value| {
        hub.planes.hub.modify::<LowerHub>("", "dfw", |it| {
            it["status"] = Value::Null;
            it["metadata"]["creationTimestamp"] = created;
        });
    };
    make(&hub, created(Duration::ZERO));
    assert_eq!(hub.pass().await, [""; 0]);
    let before = context().now() - GRACE;
    make(&hub, json!(before.to_string()));
    assert_eq!(hub.pass().await, [STATUS]);
    let lower_hub: LowerHub = hub.planes.hub.get("", "dfw").unwrap();
    let status = lower_hub.status.unwrap();
    assert_eq!(status.conditions[0].reason, "ProcessSilent");
    assert_eq!((status.cells.len(), hub.counted()), (0, 1));
    // The process runs, and writes the list later.
    hub.beat().await;
    hub.beat().await;
    assert_eq!(hub.pass().await, [""; 0]);
    assert_eq!(hub.counted(), 1);
    hub.planes.hub.put(self::lower_hub());
    hub.beat().await;
    assert_eq!(hub.pass().await, [STATUS]);
    assert_eq!(hub.shown().as_deref(), Some("ProcessReports"));
}

/// A proxy has dropped the watch, and keeps the connection. That is noticed after 150 s.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_the_watch_does_not_report_counts() {
    let server = ApiServer::new();
    let dropped = Fault::delay_body(Duration::from_hours(1));
    server.fail(dropped.of::<Lease>().on(&[Verb::Watch]));
    let mut hub = Hub::start_on(server, Vec::new()).await;
    hub.planes.hub.modify::<LowerHub>("", "dfw", |it| {
        it["status"]["conditions"] = json!([{
            "type": REPORTING, "status": "True", "reason": "ProcessReports", "message": "",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        }]);
    });
    settle().await;
    let written = async |hub: &Hub| converge(&hub.controller, key, &hub.planes.servers()).await;
    for _ in 0..12 {
        hub.renew();
        sleep(BEAT_INTERVAL).await;
        assert_eq!(written(&hub).await, [""; 0]);
    }
    assert!(hub.planes.hub_caches.lower_hubs.heartbeats.are_seen());
    // The process has ended. The last heartbeat counts when it is seen.
    for expected in [&[][..], &[STATUS]] {
        sleep(GRACE).await;
        assert_eq!(written(&hub).await, expected);
    }
    // While it is silent, the Lease is not read again.
    hub.planes.hub.clear_log();
    assert_eq!(written(&hub).await, [""; 0]);
    assert!(hub.planes.hub.log().is_empty());
}
