//! Tests of the events for customers.

use std::time::Duration;

use api::{annotations, labels};
use tokio::time::sleep;

use super::*;
use crate::instance::ReadinessController;

struct System {
    planes: CellPlanes,
    deployment: DeploymentController,
    instance: ReadinessController,
}

impl System {
    async fn start() -> Self {
        let (planes, deployment) = start().await;
        let system = Self {
            instance: ReadinessController {
                cell: Arc::clone(&planes.caches),
                writer: Writer::new(ReadinessController::NAME, &planes.metrics),
                lifecycle: planes.lifecycle.clone(),
            },
            planes,
            deployment,
        };
        let upstream = json!("default");
        system.modify(|it| it["metadata"]["labels"][labels::UPSTREAM_NAMESPACE] = upstream);
        system
    }

    fn modify(&self, change: impl FnOnce(&mut Value)) {
        let cell = &self.planes.cell;
        cell.modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
    }

    /// Sets whether the infrastructure provider runs this Instance.
    fn provide(&self, name: &str, running: &str, reason: &str) {
        let cell = &self.planes.cell;
        cell.modify::<Instance>(HUB_NAMESPACE, name, |instance| {
            let mut conditions = ["Programmed", "Running"].map(|it| objects::condition(it, "True"));
            conditions[1]["status"] = json!(running);
            conditions[1]["reason"] = json!(reason);
            let suspended = instance["status"]["suspended"].clone();
            instance["status"] = json!({"conditions": conditions, "suspended": suspended});
        });
    }

    /// Reconciles until nothing is written, and returns the new events: the object, the reason and the note.
    async fn events(&self) -> Vec<String> {
        settle().await;
        let servers = self.planes.servers();
        let mut writes = Vec::new();
        let mut bodies = Vec::new();
        for _ in 0..5 {
            let _ = reconcile(&self.deployment, object_key("web")).await;
            for name in ["web-0", "web-1"] {
                let _ = reconcile(&self.instance, object_key(name)).await;
            }
            // An event is published later than the status.
            sleep(Duration::from_secs(2)).await;
            let log = self.planes.cell.log();
            bodies.extend(
                log.iter()
                    .filter(|it| it.target.starts_with("events "))
                    .map(|it| it.body.clone()),
            );
            writes = take_writes(&servers);
        }
        assert_eq!(writes, [""; 0]);
        let shown = bodies.iter().map(|event| {
            assert_eq!(event["related"]["kind"], "Workload");
            assert_eq!(event["related"]["namespace"], "default");
            assert_eq!(event["related"]["name"], "web");
            let (object, reporter) = (&event["regarding"], &event["reportingController"]);
            let of = match object["kind"].as_str() {
                Some("Instance") => "compute.datumapis.com/instance-controller",
                _ => "compute.datumapis.com/workload-deployment-controller",
            };
            assert_eq!(reporter, of);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = text(&object["name"]);
            assert!(text(&event["metadata"]["name"]).starts_with(&format!("{name}.")));
            format!("{name} {}", text(&event["reason"]))
        });
        shown.collect()
    }
}

#[tokio::test(start_paused = true)]
async fn customers_learn_of_each_change_once() {
    let mut system = System::start().await;
    assert_eq!(system.events().await, [""; 0]);
    system.provide("web-0", "True", "Running");
    assert_eq!(system.events().await, ["web-0 Available"]);
    assert_eq!(system.events().await, [""; 0]);
    // Another process starts.
    system.deployment.writer = Writer::new(DeploymentController::NAME, &system.planes.metrics);
    assert_eq!(system.events().await, [""; 0]);
    system.modify(|it| it["spec"]["replicas"] = json!(2));
    assert_eq!(system.events().await, ["web Scaled"]);
    system.provide("web-1", "False", "ImageUnavailable");
    assert_eq!(system.events().await, ["web-1 ImageUnavailable"]);
    system.provide("web-1", "True", "Running");
    assert_eq!(system.events().await, ["web-1 Available"]);

    system.modify(|it| it["metadata"]["annotations"] = json!({annotations::SUSPENDED: "true"}));
    assert_eq!(system.events().await, ["web ProjectPaused"]);
    system.provide("web-0", "False", "InstanceCrashing");
    system.provide("web-1", "False", "Suspended");
    assert_eq!(system.events().await, [""; 0]);
    system.modify(|it| it["metadata"]["annotations"] = json!({}));
    system.provide("web-0", "False", "Suspended");
    assert_eq!(system.events().await, ["web ProjectResumed"]);
    for name in ["web-0", "web-1"] {
        system.provide(name, "True", "Running");
    }
    assert_eq!(
        system.events().await,
        ["web-0 Available", "web-1 Available"]
    );

    system.modify(|it| it["spec"]["replicas"] = json!(1));
    assert_eq!(system.events().await, ["web-1 Terminating", "web Scaled"]);
}

/// The customer finds an event by its Workload.
#[tokio::test(start_paused = true)]
async fn without_a_workload_nothing_is_published() {
    let system = System::start().await;
    system.modify(|it| it["metadata"]["labels"] = json!({}));
    system.events().await;
    system.provide("web-0", "True", "Running");
    assert_eq!(system.events().await, [""; 0]);
}
