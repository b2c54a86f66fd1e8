//! Tests that the keys of deleted objects leave the queues. All controllers of the management plane run.

use api::{WorkloadSummary, finalizers};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;
use tokio::runtime::Handle;

use super::summaries::summary;
use super::*;

const CONTROLLERS: [&str; 10] = [
    WorkloadController::NAME,
    Federator::NAME,
    PolicyController::NAME,
    Projector::NAME,
    NamespaceController::NAME,
    ReferencedDataController::NAME,
    CompanionController::NAME,
    SummaryController::NAME,
    CellRuleController::NAME,
    CustomizationController::NAME,
];

/// A project `p` and a hub, and the controllers of the management plane.
struct RunningPlanes {
    project: ApiServer,
    hub: ApiServer,
    metrics: Metrics,
    _tasks: Tasks,
}

impl RunningPlanes {
    async fn start() -> Self {
        let [project, hub] = ["1", "hub-default"].map(|uid| {
            let server = ApiServer::new().with_garbage_collection();
            server.put(objects::namespace("default", uid));
            server
        });
        project.put(objects::location_binding("dfw", "DFW", "True"));
        let (tasks, metrics) = (Tasks::default(), Metrics::default());
        let context = RegistryContext {
            tasks: &tasks,
            metrics: &metrics,
        };
        let registry = ProjectRegistry::single(&context, project_name(), project.client());
        let may_write = CancellationToken::new();
        may_write.cancel();
        let config = Config {
            hub: hub.client(),
            projects: registry.projects(),
            metrics: metrics.clone(),
            may_write,
            clock: now,
        };
        let (_, management) = start(&tasks, config);
        registry.begin(Some(Arc::new(management)));
        sleep(Duration::from_secs(30)).await;
        Self {
            project,
            hub,
            metrics,
            _tasks: tasks,
        }
    }

    /// Returns the number of keys of each controller, and the number of tasks of the process.
    fn sizes(&self) -> ([i64; CONTROLLERS.len()], usize) {
        let keys = CONTROLLERS.map(|controller| self.metrics.queued_keys(controller));
        (keys, Handle::current().metrics().num_alive_tasks())
    }

    /// Creates a Workload in a new namespace until its Instance is projected. Then deletes everything.
    async fn create_and_delete(&self, round: usize) {
        let (project, hub) = (&self.project, &self.hub);
        let namespace = format!("n-{round}");
        project.put(objects::namespace(&namespace, &format!("uid-{round}")));
        project.put(objects::network(&namespace, "default"));
        let client = project.client();
        let workloads: Api<Workload> = Api::namespaced(client.clone(), &namespace);
        for (kind, name) in [("ConfigMap", "settings"), ("Secret", "keys")] {
            project.put(json!({
                "apiVersion": "v1", "kind": kind,
                "metadata": {"namespace": namespace, "name": name}, "data": {"key": "YQ=="},
            }));
        }
        let mut workload = objects::workload(&namespace, "web", &[("us", &["DFW"])]);
        workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
            json!([{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]);
        project.put(workload);
        project.put(summary(&namespace));
        let hub_namespace = format!("ns-uid-{round}");
        let copy = || hub.get::<WorkloadDeployment>(&hub_namespace, "web-us-dfw");
        until(|| copy().is_some()).await;
        let companion = || hub.get::<Secret>(&hub_namespace, "keys");
        until(|| companion().is_some()).await;
        let mut instance = objects::instance(&hub_namespace, "web-us-dfw-0");
        instance["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_NAME: "web-us-dfw"});
        instance["metadata"]["ownerReferences"] = json!([controller_reference(&copy().unwrap())]);
        hub.put(instance);
        let projection = || project.get::<Instance>(&namespace, "web-us-dfw-0");
        until(|| projection().is_some()).await;

        // In every second round, the Namespace goes first.
        let goes_first = round % 2 == 1;
        if goes_first {
            project.remove::<Namespace>("", &namespace);
        }
        let deleted = workloads.delete("web", &DeleteParams::default()).await;
        assert_eq!(
            deleted
                .unwrap()
                .left()
                .unwrap()
                .metadata
                .finalizers
                .unwrap(),
            [finalizers::WORKLOAD_CONTROLLER]
        );
        until(|| project.get::<Workload>(&namespace, "web").is_none()).await;
        until(|| copy().is_none() && projection().is_none()).await;
        until(|| companion().is_none()).await;
        project.remove::<WorkloadSummary>(&namespace, "by-cell");
        project.remove::<ConfigMap>(&namespace, "settings");
        project.remove::<Secret>(&namespace, "keys");
        project.remove::<Network>(&namespace, "default");
        if !goes_first {
            project.remove::<Namespace>("", &namespace);
        }
        until(|| hub.get::<Namespace>("", &hub_namespace).is_none()).await;
    }
}

async fn until(holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("not reached within ten minutes");
}

#[tokio::test(start_paused = true)]
async fn keys_of_deleted_objects_leave_the_queues() {
    let planes = RunningPlanes::start().await;
    let before = planes.sizes();
    for round in 0..100 {
        planes.create_and_delete(round).await;
    }
    // A key whose last event was lost leaves with the resync.
    sleep(Duration::from_mins(20)).await;
    assert_eq!(planes.sizes(), before);
}
