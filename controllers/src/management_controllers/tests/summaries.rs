//! Tests of the wiring of summaries.

use api::WorkloadSummary;
use api::karmada::{Cluster, ResourceBinding};

use super::*;

/// Returns a summary of all cells of a namespace.
pub(super) fn summary(namespace: &str) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadSummary",
        "metadata": {"namespace": namespace, "name": "by-cell"}, "spec": {"selector": {}, "rows": "Cells"},
    })
}

const SUMMARY: &str = "summary p/default/by-cell";

#[tokio::test(start_paused = true)]
async fn what_a_summary_shows_adds_its_key() {
    let planes = WiredPlanes::start().await;
    settle().await;
    planes.keys.take();
    let (project, hub) = (&planes.project, &planes.hub);
    project.put(summary("default"));
    planes.expect("summary", &[SUMMARY]).await;

    let [web, projection] = ["workload p/default/web", "projector p/default/web-0"];
    project.modify::<Workload>("default", "web", annotate);
    planes.expect("Workload", &[web, SUMMARY]).await;
    project.modify::<WorkloadDeployment>("default", "web", annotate);
    let keys = [web, WEB, DATA, SUMMARY];
    planes.expect("WorkloadDeployment", &keys).await;
    project.modify::<Instance>("default", "web-0", annotate);
    planes.expect("Instance", &[projection, SUMMARY]).await;

    hub.modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", annotate);
    planes.expect("copy", &[WEB, SUMMARY]).await;
    let of_web = json!(binding(HUB_NAMESPACE, "web", "WorkloadDeployment", "dfw1"));
    hub.put(of_web);
    planes.expect("binding", &[WEB, SUMMARY]).await;
    hub.put(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw1"},
    }));
    let keys = [WEB, CELL_RULES, SUMMARY];
    planes.expect("unreachable cell", &keys).await;

    project.remove::<WorkloadSummary>("default", "by-cell");
    planes.expect("deleted summary", &[SUMMARY]).await;
    project.modify::<Workload>("default", "web", annotate);
    planes.expect("Workload without summary", &[web]).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_of_the_hub_that_are_listed_again_add_the_keys_of_all_summaries() {
    let planes = WiredPlanes::start().await;
    planes.project.put(summary("default"));
    settle().await;
    for (kind, stop, serve) in [
        (
            "ResourceBindings",
            ApiServer::stop_serving::<ResourceBinding> as fn(&ApiServer),
            ApiServer::serve_again::<ResourceBinding> as fn(&ApiServer),
        ),
        (
            "Clusters",
            ApiServer::stop_serving::<Cluster>,
            ApiServer::serve_again::<Cluster>,
        ),
    ] {
        stop(&planes.hub);
        planes.hub.interrupt();
        sleep(Duration::from_mins(2)).await;
        planes.keys.take();
        serve(&planes.hub);
        sleep(Duration::from_mins(2)).await;
        let keys = planes.keys.take();
        assert!(keys.iter().any(|key| key == SUMMARY), "{kind}: {keys:?}");
    }
}

/// The kind is optional: a project without it is served at once, and does not count as failing.
#[tokio::test(start_paused = true)]
async fn summaries_that_are_served_later_add_their_keys() {
    let stop = |project: &ApiServer, _: &ApiServer| project.stop_serving::<WorkloadSummary>();
    let planes = WiredPlanes::start_with(stop).await;
    settle().await;
    assert!(planes.management.projects.get(&project_name()).is_ok());
    assert_eq!(planes.management.metrics.failing_projects(), 0);
    planes.project.put(summary("default"));
    settle().await;
    planes.keys.take();
    sleep(Duration::from_mins(2)).await;
    planes.expect("not served", &[]).await;
    planes.project.serve_again::<WorkloadSummary>();
    sleep(Duration::from_mins(2)).await;
    planes.expect("served", &[SUMMARY]).await;
}
