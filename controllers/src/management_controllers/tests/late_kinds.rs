//! Tests of kinds that cannot be listed, and of kinds that can be listed only later.

use api::karmada::Cluster;

use super::*;

/// A change of an API server.
type Change = fn(&ApiServer);

#[tokio::test(start_paused = true)]
async fn clusters_that_are_listed_late_wake_the_deployments_of_missing_cells() {
    let stop = |_: &ApiServer, hub: &ApiServer| hub.stop_serving::<Cluster>();
    let planes = WiredPlanes::start_with(stop).await;
    let of_web = json!(binding(HUB_NAMESPACE, "web", "WorkloadDeployment", "dfw1"));
    planes.hub.put(of_web);
    settle().await;
    planes.keys.take();
    // The list shows that the hub has no Cluster of the cell.
    planes.hub.serve_again::<Cluster>();
    sleep(Duration::from_mins(2)).await;
    planes
        .expect("Clusters are listed", &[WEB, CELL_RULES])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_does_not_silence_its_project() {
    let [web, other] = ["workload p/default/web", "workload p/default/other"];
    let (projection, policy, namespace) =
        ("projector p/default/web-0", "policy ns-1", "namespace ns-1");
    let all = [web, other, WEB, DATA, projection, policy, namespace];
    // The federator also has the keys of the copies on the hub.
    let without_data = [web, other, WEB, projection, policy, namespace];
    let unserved: [(Change, Change, &[&str]); 3] = [
        (
            ApiServer::stop_serving::<Instance>,
            ApiServer::serve_again::<Instance>,
            &all,
        ),
        (
            ApiServer::stop_serving::<Namespace>,
            ApiServer::serve_again::<Namespace>,
            &all,
        ),
        (
            ApiServer::stop_serving::<WorkloadDeployment>,
            ApiServer::serve_again::<WorkloadDeployment>,
            &without_data,
        ),
    ];
    for (stop, serve_again, first) in unserved {
        let planes = WiredPlanes::start_with(|project, _| stop(project)).await;
        let first = [first, &[CELL_RULES]].concat();
        planes
            .expect("the project is served without a kind", &first)
            .await;
        assert!(planes.management.projects.get(&project_name()).is_ok());
        assert_eq!(planes.management.metrics.failing_projects(), 1);
        planes
            .project
            .modify::<Workload>("default", "web", annotate);
        planes.expect("Workload", &[web]).await;
        // When the kind can be listed, all objects of the project are reconciled.
        serve_again(&planes.project);
        sleep(Duration::from_mins(2)).await;
        planes.expect("the kind is listed", &all).await;
        assert_eq!(planes.management.metrics.failing_projects(), 0);
    }
}

/// A kind is refused after it has been listed. The conditions of the Workloads in the cache name it.
#[tokio::test(start_paused = true)]
async fn workloads_that_are_refused_later_wake_the_cached_ones() {
    let planes = WiredPlanes::start().await;
    sleep(Duration::from_mins(2)).await;
    planes.keys.take();
    // Watches that end and resume wake nothing.
    planes.project.end_watches();
    sleep(Duration::from_mins(2)).await;
    planes.expect("the watches have ended", &[]).await;
    let forbidden = Fault::refuse(403).on(&[Verb::List, Verb::Watch]);
    planes.project.fail(forbidden.of::<Workload>());
    planes.project.end_watches();
    sleep(Duration::from_mins(2)).await;
    let woken = ["workload p/default/web", "workload p/default/other"];
    planes.expect("Workloads are refused", &woken).await;
}

/// The project is served after a minute, while the list of a kind goes on. Only the failure of this list shows that the
/// conditions of the Workloads must name the kind.
#[tokio::test(start_paused = true)]
async fn a_first_list_that_fails_late_wakes_the_workloads_once() {
    let fail_late = |project: &ApiServer, _: &ApiServer| {
        for fault in [Fault::delay(Duration::from_secs(90)), Fault::refuse(503)] {
            project.fail(fault.of::<WorkloadDeployment>().on(&[Verb::List]));
        }
    };
    let planes = WiredPlanes::start_with(fail_late).await;
    sleep(Duration::from_secs(80)).await;
    assert!(planes.management.projects.get(&project_name()).is_ok());
    planes.keys.take();
    sleep(Duration::from_secs(20)).await;
    let woken = ["workload p/default/web", "workload p/default/other"];
    planes.expect("the first list has failed", &woken).await;
    sleep(Duration::from_mins(10)).await;
    planes.expect("later lists fail", &[]).await;
}
