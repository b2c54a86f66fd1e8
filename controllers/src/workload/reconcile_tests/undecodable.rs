//! Tests of a Workload with a WorkloadDeployment that cannot be decoded.

use super::*;

const OTHER: &str = "web-us-ord";

/// Starts a project with the Workload `web` and its WorkloadDeployments in DFW and ORD. The one in DFW cannot be
/// decoded.
async fn start_undecodable() -> (FakePlanes, WorkloadController) {
    let in_project = vec![
        objects::location_binding("ord", "ORD", "True"),
        json!(workload(&[("us", &["DFW", "ORD"])])),
    ];
    let planes = FakePlanes::start(in_project, Vec::new()).await;
    let controller = controller(&planes);
    converge(&controller, || project_key("web"), &planes.servers()).await;
    for name in [DEPLOYMENT, OTHER] {
        planes
            .project
            .modify::<WorkloadDeployment>("default", name, |deployment| {
                deployment["metadata"]["finalizers"] = json!(["example.com/held"]);
            });
    }
    planes
        .project
        .modify::<WorkloadDeployment>("default", DEPLOYMENT, |deployment| {
            deployment["spec"]["template"] = json!(7);
        });
    settle().await;
    (planes, controller)
}

fn available(planes: &FakePlanes) -> Condition {
    let workload = planes.project.get::<Workload>("default", "web").unwrap();
    let conditions = workload.status.unwrap().conditions;
    condition::find(&conditions, AVAILABLE).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_deployment_costs_itself_only() {
    let (planes, controller) = start_undecodable().await;
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["metadata"]["generation"] = json!(9);
            workload["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(5);
        });
    settle().await;
    let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
    let expected = [
        "apply workloaddeployments default/web-us-ord",
        "patch workloads/status default/web",
    ];
    assert_eq!(writes, expected);
    let message = available(&planes).message;
    let says_so = "WorkloadDeployment web-us-dfw cannot be decoded: ";
    assert!(message.contains(says_so), "{message}");
    // The observed generation stays, because the other WorkloadDeployment does not have the new template.
    assert_ne!(available(&planes).observed_generation, Some(9));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_deployment_of_a_former_city_stays_and_is_named() {
    let (planes, controller) = start_undecodable().await;
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["metadata"]["generation"] = json!(9);
            workload["spec"]["placements"][0]["cityCodes"] = json!(["ORD"]);
        });
    settle().await;
    let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
    assert_eq!(writes, ["patch workloads/status default/web"]);
    let message = available(&planes).message;
    assert!(
        message.contains("web-us-dfw cannot be decoded"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_deployment_is_deleted_with_its_workload() {
    let (planes, controller) = start_undecodable().await;
    planes
        .project
        .modify::<Workload>("default", "web", |workload| {
            workload["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        });
    settle().await;
    let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
    let expected = [
        "delete workloaddeployments default/web-us-ord",
        "delete workloaddeployments default/web-us-dfw",
    ];
    assert_eq!(writes, expected);
    planes
        .project
        .remove::<WorkloadDeployment>("default", OTHER);
    settle().await;
    // The Workload stays until both are gone.
    converge(&controller, || project_key("web"), &planes.servers()).await;
    assert!(finalizers_of_workload(&planes).is_some());
    planes
        .project
        .remove::<WorkloadDeployment>("default", DEPLOYMENT);
    settle().await;
    converge(&controller, || project_key("web"), &planes.servers()).await;
    assert!(planes.project.get::<Workload>("default", "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_workload_ends_with_its_deployments() {
    let (planes, controller) = start_undecodable().await;
    let spoil = |terminating: bool| {
        planes
            .project
            .modify::<Workload>("default", "web", |workload| {
                workload["spec"]["placements"] = json!(7);
                if terminating {
                    workload["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
                }
            });
    };
    spoil(false);
    settle().await;
    let error = reconcile(&controller, project_key("web")).await.unwrap();
    assert!(error.is_err());
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    spoil(true);
    settle().await;
    let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
    let expected = [
        "delete workloaddeployments default/web-us-ord",
        "delete workloaddeployments default/web-us-dfw",
    ];
    assert_eq!(writes, expected);
    for name in [DEPLOYMENT, OTHER] {
        planes.project.remove::<WorkloadDeployment>("default", name);
    }
    settle().await;
    let writes = converge(&controller, || project_key("web"), &planes.servers()).await;
    assert_eq!(writes, ["patch workloads default/web"]);
}
