//! Tests of the wiring from watches to work queues, with in-memory API servers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use api::karmada::{Cluster, PropagationPolicy, ResourceBinding};
use api::networking::LocationBinding;
use api::{Instance, ProjectName, Workload, WorkloadDeployment, annotations, labels};
use apiserver::{ApiServer, Fault, Verb, objects};
use multicluster::Queue;
use multicluster::projects::{EngagedProject, ProjectHandler, RegistryContext};
use multicluster::queue::{Key, Limits, Workers};
use multicluster::{Outcome, ProjectRegistry};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

mod cells_below;
mod ended_keys;
mod late_kinds;
mod summaries;

use super::*;
use crate::fixtures::servers::{HUB_NAMESPACE, copy, hub_namespace, recorded, settle};
use crate::fixtures::{now, workload};
use crate::objects::{Namespace, Network, controller_reference};
use crate::runtime::ReconcileError;
use crate::runtime::keys::ProjectKey;
use crate::runtime::triggers::fakes::binding;

/// The keys that were added to the queues. Each key has the name of its controller.
#[derive(Clone, Default)]
struct Keys(Arc<Mutex<BTreeSet<String>>>);

impl Keys {
    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a queue. No controller runs: the keys of the queue are only recorded.
    fn queue<K: Key>(&self, controller: &'static str) -> Queue<K> {
        let (queue, workers) = Queue::new(controller, &Metrics::default());
        tokio::spawn(self.clone().note(controller, workers));
        queue
    }

    async fn note<K: Key>(self, controller: &'static str, workers: Workers<K>) {
        let (may_write, stop) = (CancellationToken::new(), CancellationToken::new());
        may_write.cancel();
        let note = |key, _| {
            let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            keys.insert(format!("{controller} {key:?}"));
            async { Ok::<_, ReconcileError>(Outcome::Gone) }
        };
        let ran = workers.run(Limits::DEFAULT, now, may_write, stop, note);
        ran.await.unwrap();
    }
}

/// A project `p` and a hub. The watches of the management plane run, but no controllers.
struct WiredPlanes {
    project: ApiServer,
    hub: ApiServer,
    engaged: Arc<EngagedProject>,
    management: Management,
    /// Serves the project until it is aborted.
    serving: JoinHandle<()>,
    keys: Keys,
    _tasks: Tasks,
}

fn project_name() -> ProjectName {
    ProjectName::new("p").unwrap()
}

fn instance(namespace: &str) -> Value {
    let mut instance = objects::instance(namespace, "web-0");
    instance["metadata"]["uid"] = json!("web-0-uid");
    instance["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_NAME: "web"});
    instance
}

/// Sets an annotation that no controller reads.
fn annotate(object: &mut Value) {
    object["metadata"]["annotations"]["note"] = json!("changed");
}

impl WiredPlanes {
    /// Starts with two Workloads, a WorkloadDeployment and an Instance. The Workload `web` uses the Network `default`.
    /// The Workload `other` uses another Network. The WorkloadDeployment `web` has a copy. The Instance is on both
    /// planes.
    async fn start() -> Self {
        Self::start_with(|_, _| {}).await
    }

    /// Starts like [`Self::start`], after this change of the API servers of the project and the hub.
    async fn start_with(change: impl FnOnce(&ApiServer, &ApiServer)) -> Self {
        let (project, hub) = (ApiServer::new(), ApiServer::new());
        change(&project, &hub);
        project.put(objects::namespace("default", "1"));
        project.put(objects::network("default", "default"));
        project.put(objects::location_binding("dfw", "DFW", "True"));
        let web = workload(&[]);
        project.put(json!(web));
        let mut other = objects::workload("default", "other", &[]);
        other["spec"]["template"]["spec"]["networkInterfaces"] =
            json!([{"network": {"name": "blue"}}]);
        project.put(other);
        let mut deployment = recorded("web");
        deployment["metadata"]["ownerReferences"] = json!([controller_reference(&web)]);
        project.put(deployment);
        project.put(instance("default"));
        hub.put(hub_namespace());
        hub.put(copy("web"));
        hub.put(instance(HUB_NAMESPACE));
        let (tasks, metrics) = (Tasks::default(), Metrics::default());
        let context = RegistryContext {
            tasks: &tasks,
            metrics: &metrics,
        };
        let registry = ProjectRegistry::single(&context, project_name(), project.client());
        let registry = registry.begin(None);
        settle().await;
        let engaged = registry.get(&project_name()).unwrap();

        let keys = Keys::default();
        let queues = ManagementQueues {
            workload: keys.queue("workload"),
            federator: keys.queue("federator"),
            policy: keys.queue("policy"),
            projector: keys.queue("projector"),
            namespace: keys.queue("namespace"),
            referenced_data: keys.queue("referenced-data"),
            companion: keys.queue("companion"),
            summary: keys.queue("summary"),
            cell_rules: keys.queue("cell-rules"),
            heartbeat: keys.queue("heartbeat"),
            customizations: keys.queue("customizations"),
        };
        let mut reflectors = HubReflectors::new(&metrics);
        let stale_cells = Arc::default();
        reflectors.forget_deleted_cells(&stale_cells);
        let hub_caches = Arc::new(reflectors.hub(hub.client()));
        let projects = SyncedProjects::new(registry, hub_caches.namespaces.clone());
        let projects = Arc::new(projects);
        let view = HubView {
            hub: hub_caches,
            projects: Arc::clone(&projects),
        };
        let quarantined = Quarantined::new(&metrics);
        let mut wiring = Wiring::new(&tasks, now);
        reflectors.watch(&mut wiring, &view, &queues, &metrics, &quarantined);
        settle().await;
        let ready = CancellationToken::new();
        ready.cancel();
        let writer = Writer::new("companion", &metrics);
        let companions = Companions::new(Arc::clone(&view.hub), writer);
        let management = Management {
            hub_in_use: HubInUse::new(Arc::clone(&projects), Arc::clone(&view.hub)),
            projects,
            hub: view,
            companions: Arc::new(companions),
            queues,
            ready,
            stale_cells,
            held_by_hub: HeldByHub::default(),
            metrics,
        };
        let serving = tokio::spawn(management.run(Arc::clone(&engaged)));
        Self {
            engaged,
            project,
            hub,
            management,
            serving,
            keys,
            _tasks: tasks,
        }
    }

    /// Asserts that exactly these keys were added since the last call.
    async fn expect(&self, change: &str, keys: &[&str]) {
        settle().await;
        let keys = keys.iter().map(|&key| key.to_owned());
        assert_eq!(self.keys.take(), keys.collect(), "{change}");
    }
}

const WEB: &str = "federator p/default/web";
const DATA: &str = "referenced-data p/default/web";
const CELL_RULES: &str = "cell-rules /compute-cell-rules";

#[tokio::test(start_paused = true)]
async fn a_change_in_a_project_adds_keys_to_the_queues_of_its_controllers() {
    let planes = WiredPlanes::start().await;
    let project = &planes.project;
    let (web, other) = ("workload p/default/web", "workload p/default/other");
    let (projection, policy, namespace) =
        ("projector p/default/web-0", "policy ns-1", "namespace ns-1");
    let all = [
        web, other, WEB, DATA, projection, policy, namespace, CELL_RULES,
    ];
    planes.expect("the project is served", &all).await;

    project.modify::<Workload>("default", "web", annotate);
    planes.expect("Workload", &[web]).await;
    project.modify::<Instance>("default", "web-0", annotate);
    planes.expect("Instance", &[projection]).await;
    project.modify::<Namespace>("", "default", annotate);
    planes.expect("Namespace", &[WEB]).await;
    project.modify::<WorkloadDeployment>("default", "web", annotate);
    planes.expect("WorkloadDeployment", &[web, WEB, DATA]).await;
    project.modify::<WorkloadDeployment>("default", "web", |it| it["metadata"]["uid"] = json!("2"));
    let keys = [web, WEB, DATA, policy, projection];
    planes.expect("another WorkloadDeployment", &keys).await;
    project.put(recorded("new"));
    let (new, data) = ("federator p/default/new", "referenced-data p/default/new");
    let keys = [new, data, policy];
    planes.expect("new WorkloadDeployment", &keys).await;
    project.remove::<WorkloadDeployment>("default", "new");
    let keys = [new, data, policy, namespace];
    planes.expect("deleted WorkloadDeployment", &keys).await;
    project.put(objects::network("default", "red"));
    planes.expect("a Network that is not used", &[]).await;
    project.put(objects::network("default", "blue"));
    planes.expect("Network", &[other]).await;
    project.put(objects::location_binding("ord", "ORD", "True"));
    planes
        .expect("another city is offered", &[web, other])
        .await;
    project.remove::<Network>("default", "default");
    planes.expect("deleted Network", &[web]).await;
    project.modify::<Namespace>("", "default", |it| it["metadata"]["uid"] = json!("2"));
    let keys = [WEB, projection, namespace];
    planes.expect("replaced Namespace", &keys).await;

    planes.management.on_removed(&project_name());
    planes
        .expect("the project is removed", &[policy, namespace])
        .await;
    planes.serving.abort();
    let keys = [policy, namespace];
    planes
        .expect("the project is no longer served", &keys)
        .await;
    project.modify::<Workload>("default", "web", |it| {
        it["metadata"]["annotations"] = json!({});
    });
    planes
        .expect("a change in a project that is not served", &[])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_on_the_hub_adds_keys_to_the_queues_of_its_controllers() {
    let planes = WiredPlanes::start().await;
    settle().await;
    planes.keys.take();
    let hub = &planes.hub;
    let (projection, policy, namespace) =
        ("projector p/default/web-0", "policy ns-1", "namespace ns-1");

    hub.modify::<Namespace>("", HUB_NAMESPACE, annotate);
    let keys = [WEB, policy, namespace];
    planes.expect("Namespace", &keys).await;
    hub.modify::<Namespace>("", HUB_NAMESPACE, |it| it["metadata"]["labels"] = json!({}));
    let on_hub = "projector hub/ns-1/web-0";
    let keys = [WEB, policy, namespace, on_hub, projection];
    planes.expect("Namespace without identity", &keys).await;
    hub.put(hub_namespace());
    let keys = [WEB, policy, namespace, on_hub, projection];
    planes.expect("Namespace with its identity", &keys).await;

    hub.modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", annotate);
    planes.expect("copy", &[WEB]).await;
    hub.put(copy("new"));
    let new = "federator p/default/new";
    planes.expect("new copy", &[new, policy]).await;
    hub.remove::<WorkloadDeployment>(HUB_NAMESPACE, "new");
    planes
        .expect("deleted copy", &[new, policy, namespace])
        .await;

    hub.modify::<Instance>(HUB_NAMESPACE, "web-0", annotate);
    planes.expect("Instance", &[projection]).await;
    hub.remove::<Instance>(HUB_NAMESPACE, "web-0");
    planes
        .expect("deleted Instance", &[projection, namespace])
        .await;

    hub.put(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": HUB_NAMESPACE, "name": "city-dfw"},
        "spec": {"resourceSelectors": [], "placement": {}},
    }));
    planes.expect("policy", &[WEB, policy]).await;
    hub.remove::<PropagationPolicy>(HUB_NAMESPACE, "city-dfw");
    planes
        .expect("deleted policy", &[WEB, policy, namespace])
        .await;

    let of_web = json!(binding(HUB_NAMESPACE, "web", "WorkloadDeployment", "dfw1"));
    hub.put(of_web);
    planes.expect("binding", &[WEB]).await;
    hub.modify::<ResourceBinding>(HUB_NAMESPACE, "web", |it| {
        it["metadata"]["annotations"] = json!({annotations::POLICY_NAME: "city-dfw"});
    });
    planes.expect("claimed binding", &[WEB, policy]).await;
    hub.put(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw1"},
    }));
    planes.expect("unreachable cell", &[WEB, CELL_RULES]).await;
    hub.modify::<Cluster>("", "dfw1", annotate);
    planes.expect("heartbeat of a cell", &[]).await;
    let rule = json!({"cells": {}, "rules": {}});
    hub.put(json!({
        "apiVersion": api::API_VERSION, "kind": "CellRule", "metadata": {"name": "all"}, "spec": rule,
    }));
    planes.expect("rule of cells", &[CELL_RULES]).await;
    hub.remove::<ResourceBinding>(HUB_NAMESPACE, "web");
    planes.expect("deleted binding", &[policy, namespace]).await;

    hub.put(json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "shadows"},
        "spec": {"target": {"apiVersion": api::API_VERSION, "kind": "Instance"}},
    }));
    let keys = ["customizations /shadows"];
    planes.expect("shadowing customization", &keys).await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_requeue_nothing_and_their_recovery_requeues_workloads_once() {
    let planes = WiredPlanes::start().await;
    sleep(Duration::from_secs(10)).await;
    planes.keys.take();
    for fault in [Fault::refuse(503), Fault::refuse(500), Fault::disconnect()] {
        planes.project.fail(fault.clone().of::<Network>());
        planes.project.fail(fault.of::<LocationBinding>());
        planes.project.interrupt();
        sleep(Duration::from_mins(10)).await;
        planes.expect("lists fail", &[]).await;
        planes.project.heal();
        sleep(Duration::from_mins(2)).await;
        let both = ["workload p/default/web", "workload p/default/other"];
        planes.expect("both kinds are listed again", &both).await;
    }
    // A list that is refused shows in the conditions of the Workloads.
    planes.project.fail(Fault::refuse(403).of::<Network>());
    planes.project.interrupt();
    sleep(Duration::from_mins(2)).await;
    let both = ["workload p/default/web", "workload p/default/other"];
    planes.expect("the list is forbidden", &both).await;
    sleep(Duration::from_mins(10)).await;
    planes.expect("the list is still forbidden", &[]).await;
}

/// Counts the reconciliations of a project whose API server hangs for writes and whose lists fail.
#[tokio::test(start_paused = true)]
async fn lists_that_fail_do_not_reset_the_circuit_breaker() {
    let mut planes = WiredPlanes::start().await;
    let (queue, workers) = Queue::<ProjectKey>::new("workload", &Metrics::default());
    let tried = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tried);
    let may_write = CancellationToken::new();
    may_write.cancel();
    let reconcile = move |_, _| {
        *count.lock().unwrap() += 1;
        async {
            sleep(Duration::from_secs(30)).await;
            let source = kube::Error::Service("deadline has elapsed".into());
            Err(ReconcileError::api("apply", source))
        }
    };
    tokio::spawn(workers.run(
        Limits::DEFAULT,
        now,
        may_write,
        CancellationToken::new(),
        reconcile,
    ));
    planes.serving.abort();
    planes.management.queues.workload = queue;
    let engaged = Arc::clone(&planes.engaged);
    planes.serving = tokio::spawn(planes.management.run(engaged));
    settle().await;
    for kind in [Verb::List, Verb::Watch] {
        planes.project.fail(Fault::refuse(503).on(&[kind]));
    }
    planes.project.interrupt();
    // Until the breaker opens, both Workloads are tried. Afterwards one of them is tried at a time.
    sleep(Duration::from_mins(10)).await;
    let tried = *tried.lock().unwrap();
    assert!((10..=20).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn events_that_follow_the_deletion_of_their_hub_namespace_add_keys() {
    let planes = WiredPlanes::start().await;
    let hub = &planes.hub;
    hub.remove::<Namespace>("", HUB_NAMESPACE);
    settle().await;
    planes.keys.take();
    hub.remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
    planes.expect("deleted copy", &[WEB]).await;
    hub.remove::<Instance>(HUB_NAMESPACE, "web-0");
    let projection = "projector p/default/web-0";
    planes.expect("deleted Instance", &[projection]).await;
    // A namespace of the same name without an identity belongs to no project.
    hub.put(objects::namespace(HUB_NAMESPACE, "another"));
    settle().await;
    planes.keys.take();
    hub.put(copy("web"));
    planes
        .expect("copy without project", &["policy ns-1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_activity_of_a_cell_is_forgotten_with_its_cluster() {
    let planes = WiredPlanes::start().await;
    let stale_cells = &planes.management.stale_cells;
    let cluster = |name: &str| json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}});
    for name in ["dfw1", "ord1"] {
        planes.hub.put(cluster(name));
        stale_cells.note_activity(name, now());
    }
    settle().await;
    assert_eq!(stale_cells.active(), ["dfw1", "ord1"]);
    planes.hub.remove::<Cluster>("", "dfw1");
    settle().await;
    assert_eq!(stale_cells.active(), ["ord1"]);
}
