//! Tests of the workload controller, with an in-memory API server.

use api::condition::{self, Condition, ConditionStatus};
use api::workload::KINDS_LISTED;
use api::{Instance, annotations, labels};
use apiserver::{ApiServer, Fault, Verb, objects};
use tokio::time::{Duration, sleep};

use super::*;
use crate::fixtures::servers::{
    FakePlanes, context, converge, project_key, reconcile, settle, take_writes,
};
use crate::fixtures::workload;

mod many_cities;
mod undecodable;

const DEPLOYMENT: &str = "web-us-dfw";

fn controller(planes: &FakePlanes) -> WorkloadController {
    WorkloadController {
        projects: Arc::clone(&planes.projects),
        writer: planes.writer::<WorkloadController>(),
        publisher: planes.publisher.clone(),
    }
}

/// Starts a project with the Workload `web` in DFW.
async fn start() -> (FakePlanes, WorkloadController) {
    let planes = FakePlanes::start(vec![json!(workload(&[("us", &["DFW"])]))], Vec::new()).await;
    let controller = controller(&planes);
    (planes, controller)
}

/// Starts a project with a terminating Workload. The deployment of the Workload exists already.
async fn start_terminating() -> (FakePlanes, WorkloadController) {
    let (planes, controller) = start().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    planes
        .project
        .modify::<WorkloadDeployment>("default", DEPLOYMENT, |deployment| {
            deployment["metadata"]["finalizers"] = json!(["example.com/held"]);
        });
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        });
    settle().await;
    (planes, controller)
}

fn finalizers_of_workload(planes: &FakePlanes) -> Option<Vec<String>> {
    let workload = planes.project.get::<Workload>("default", "web")?;
    workload.metadata.finalizers
}

#[tokio::test(start_paused = true)]
async fn deployments_are_created_and_a_settled_workload_is_not_written() {
    let (planes, controller) = start().await;
    reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap();
    let writes = take_writes(&planes.servers());
    let expected = [
        "create workloaddeployments default/web-us-dfw",
        "patch workloads/status default/web",
    ];
    assert_eq!(writes, expected);
    converge(&controller, || project_key("web"), &planes.servers()).await;
    reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// I-1: the service catalogue finds the deployments of the service by their label, and annotates them.
#[tokio::test(start_paused = true)]
async fn the_annotation_of_a_suspension_stays() {
    let (planes, controller) = start().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    let deployment = || planes.project.get("default", DEPLOYMENT);
    let created: WorkloadDeployment = deployment().unwrap();
    assert_eq!(created.labels()[labels::SERVICE_NAME], api::GROUP);
    let key = annotations::SUSPENDED;
    planes
        .project
        .modify::<WorkloadDeployment>("default", DEPLOYMENT, |deployment| {
            deployment["metadata"]["annotations"] = json!({key: "true"});
            // Former versions did not set the label.
            let labels = deployment["metadata"]["labels"].as_object_mut();
            labels.unwrap().remove(labels::SERVICE_NAME);
        });
    for image in ["app:2", "app:3"] {
        planes
            .project
            .modify::<Workload>("default", "web", |workload| {
                let runtime = &mut workload["spec"]["template"]["spec"]["runtime"];
                runtime["sandbox"]["containers"][0]["image"] = json!(image);
            });
        settle().await;
        converge(&controller, || project_key("web"), &planes.servers()).await;
        let written: WorkloadDeployment = deployment().unwrap();
        let runtime = &written.spec.template.spec.runtime;
        assert_eq!(runtime.sandbox.as_ref().unwrap().containers[0].image, image);
        assert_eq!(written.annotations()[key], "true");
        assert_eq!(written.labels()[labels::SERVICE_NAME], api::GROUP);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_deployment_is_an_error_that_the_status_shows() {
    let (planes, controller) = start().await;
    planes.project.fail(Fault::refuse(403).on(&[Verb::Create]));
    let error = reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.refusal().is_some(), "{error}");
    let workload = planes.project.get::<Workload>("default", "web").unwrap();
    let conditions = json!(workload.status.unwrap().conditions).to_string();
    assert!(conditions.contains("not now"), "{conditions}");
    assert!(
        planes
            .project
            .get::<WorkloadDeployment>("default", DEPLOYMENT)
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_or_fails_changes_nothing() {
    let (planes, controller) = start().await;
    planes.project.fail(Fault::hang().on_writes());
    assert!(reconcile(&controller, project_key("web")).await.is_none());
    planes.project.heal();
    planes.project.fail(Fault::refuse(503).on_writes());
    let error = reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, ReconcileError::Api { .. }) && error.refusal().is_none(),
        "{error}"
    );
    let workload = planes.project.get::<Workload>("default", "web").unwrap();
    assert!(workload.status.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_api_server_lists_no_deployment() {
    let (planes, controller) = start_terminating().await;
    reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert!(finalizers_of_workload(&planes).is_some());
    let child = planes
        .project
        .get::<WorkloadDeployment>("default", DEPLOYMENT);
    let child = json!(child.unwrap());
    let writes = take_writes(&planes.servers());
    assert!(
        writes.contains(&"delete workloaddeployments default/web-us-dfw".to_owned()),
        "{writes:?}"
    );
    planes
        .project
        .remove::<WorkloadDeployment>("default", DEPLOYMENT);
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
    ] {
        planes
            .project
            .fail(fault.on(&[Verb::List]).of::<WorkloadDeployment>());
        let error = reconcile(&controller, project_key("web"))
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            error.to_string().contains("list workloaddeployments"),
            "{error}"
        );
        assert!(finalizers_of_workload(&planes).is_some());
        planes.project.heal();
    }
    // The API server has a deployment that is missing in the cache.
    planes.project.fail(Fault::hang().on(&[Verb::Watch]));
    planes.project.interrupt();
    settle().await;
    planes.project.put(child.clone());
    let error = reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    assert!(finalizers_of_workload(&planes).is_some());
    planes
        .project
        .remove::<WorkloadDeployment>("default", DEPLOYMENT);
    reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert!(planes.project.get::<Workload>("default", "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_template_travels_with_fields_that_the_types_do_not_know() {
    let (planes, controller) = start().await;
    let template = objects::later_template();
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["spec"]["template"] = template.clone();
        });
    settle().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    let written = planes
        .project
        .get::<WorkloadDeployment>("default", DEPLOYMENT);
    assert_eq!(json!(written.unwrap().spec.template), template);
}

/// A change of a Workload, which then has this generation.
type Change = fn(&mut Value, i64);

/// Reconciles before the watch can report the last change of the Workload.
async fn reconcile_stale(controller: &WorkloadController) -> Result<(), ReconcileError> {
    let context = context();
    let reconciled = controller.reconcile(&context, project_key("web")).await;
    settle().await;
    reconciled.map(drop)
}

#[tokio::test(start_paused = true)]
async fn deployments_change_only_when_the_project_confirms_the_workload() {
    fn replicas(workload: &mut Value, generation: i64, replicas: i32) {
        workload["metadata"]["generation"] = json!(generation);
        workload["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(replicas);
    }
    let shrunk = |workload: &mut Value, generation: i64| replicas(workload, generation, 1);
    let grown = |workload: &mut Value, generation: i64| replicas(workload, generation, 9);
    let withdrawn = |workload: &mut Value, generation: i64| {
        workload["metadata"]["generation"] = json!(generation);
        workload["spec"]["placements"] = json!([]);
    };
    let added = |workload: &mut Value, generation: i64| {
        workload["metadata"]["generation"] = json!(generation);
        let mut placement = workload["spec"]["placements"][0].clone();
        placement["name"] = json!("more");
        let placements = workload["spec"]["placements"].as_array_mut();
        placements.unwrap().push(placement);
    };
    let changes: [(Change, _); 4] = [
        (shrunk, DEPLOYMENT),
        (grown, DEPLOYMENT),
        (withdrawn, DEPLOYMENT),
        (added, "web-more-dfw"),
    ];
    for (stale, changed) in changes {
        let (planes, controller) = start().await;
        let change = |to: &dyn Fn(&mut Value)| {
            planes.project.modify::<Workload>("default", "web", to);
        };
        change(&|workload| replicas(workload, 4, 3));
        settle().await;
        converge(&controller, || project_key("web"), &planes.servers()).await;
        let current = json!(planes.project.get::<Workload>("default", "web").unwrap());
        change(&|workload| stale(workload, 5));
        settle().await;
        // Another change follows. The cache does not have it yet.
        let mut current = current;
        replicas(&mut current, 6, 3);
        planes.project.put(current);
        let error = reconcile_stale(&controller)
            .await
            .expect_err("the cache is stale");
        assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
        change(&|workload| stale(workload, 7));
        settle().await;
        let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
        assert!(writes[0].contains(changed), "{writes:?}");
    }
}

fn listed(planes: &FakePlanes) -> Option<Condition> {
    let workload = planes.project.get::<Workload>("default", "web").unwrap();
    let conditions = workload.status.unwrap_or_default().conditions;
    condition::find(&conditions, KINDS_LISTED).cloned()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_is_named_and_blocks_only_what_needs_it() {
    let web = || vec![json!(workload(&[("us", &["DFW"])]))];
    let reconciled = async |controller: &WorkloadController| {
        reconcile(controller, project_key("web")).await.unwrap()
    };
    // Without Instances, the Workload is placed.
    let stop = ApiServer::stop_serving::<Instance>;
    let planes = FakePlanes::start_with(web(), Vec::new(), stop).await;
    let without_instances = controller(&planes);
    converge(&without_instances, || project_key("web"), &planes.servers()).await;
    assert!(
        planes
            .project
            .get::<WorkloadDeployment>("default", DEPLOYMENT)
            .is_some()
    );
    let named = listed(&planes).unwrap();
    assert_eq!(
        (named.status, named.reason.as_str()),
        (ConditionStatus::False, "KindNotListed")
    );
    assert!(
        named.message.starts_with("instances cannot be listed"),
        "{named:?}"
    );

    // Without WorkloadDeployments, it is unknown which ones exist.
    let stop = ApiServer::stop_serving::<WorkloadDeployment>;
    let planes = FakePlanes::start_with(web(), Vec::new(), stop).await;
    let controller = controller(&planes);
    for _ in 0..2 {
        let result = reconciled(&controller).await;
        assert!(matches!(result, Err(ReconcileError::NotListed { .. })));
    }
    let writes = take_writes(&planes.servers());
    assert_eq!(writes, ["patch workloads/status default/web"]);
    let message = listed(&planes).unwrap().message;
    assert!(
        message.starts_with("workloaddeployments cannot be listed"),
        "{message}"
    );
    // The kind is served.
    planes.project.serve_again::<WorkloadDeployment>();
    sleep(Duration::from_mins(2)).await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    assert!(
        planes
            .project
            .get::<WorkloadDeployment>("default", DEPLOYMENT)
            .is_some()
    );
    assert_eq!(listed(&planes), None);
}

#[tokio::test(start_paused = true)]
async fn the_sums_of_a_stale_cache_are_not_written() {
    let (planes, controller) = start().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    // The process loses the watch. Meanwhile, the leader writes what its own cache says.
    let refused = Fault::refuse(503).on(&[Verb::List, Verb::Watch]);
    planes.project.fail(refused.of::<WorkloadDeployment>());
    planes.project.interrupt();
    sleep(Duration::from_mins(1)).await;
    let ready =
        json!({"replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1});
    planes
        .project
        .modify::<WorkloadDeployment>("default", DEPLOYMENT, |deployment| {
            deployment["status"] = ready.clone();
        });
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["status"]["readyReplicas"] = json!(1);
        });
    settle().await;
    take_writes(&planes.servers());
    let error = reconcile(&controller, project_key("web"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    planes.project.heal();
    sleep(Duration::from_mins(2)).await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    let status = planes
        .project
        .get::<Workload>("default", "web")
        .unwrap()
        .status;
    assert_eq!(status.unwrap().ready_replicas, 1);
}
