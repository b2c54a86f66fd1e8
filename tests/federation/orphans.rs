//! Tests of orphans: WorkloadDeployments on the hub without an original in their project.

use std::fs;

use anyhow::ensure;
use api::{WorkloadDeployment, annotations, labels};
use harness::milo::StatusError;
use harness::{Federation, wait};
use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{DFW, Space, WITHIN, create, deployment};
use crate::fleet::{Fleet, FleetProject};

/// UIDs of namespaces that do not exist.
const FORMER: &str = "11111111-0000-4000-8000-000000000001";
const UNKNOWN: &str = "11111111-0000-4000-8000-000000000002";
const GONE: &str = "11111111-0000-4000-8000-000000000003";
const OF_ANOTHER: &str = "11111111-0000-4000-8000-000000000004";

/// Returns a copy as the federator creates it.
fn copy(name: &str, city: &str) -> Value {
    let mut copy = deployment(name, city);
    copy["metadata"]["labels"] = json!({labels::CITY_CODE: city});
    copy
}

/// Creates a hub namespace for a project namespace with this UID. `cluster` is the UID of the Namespace `default` on
/// the project's API server.
async fn hub_namespace(
    federation: &Federation,
    uid: &str,
    project: &str,
    namespace: &str,
    cluster: Option<&str>,
) -> anyhow::Result<Api<WorkloadDeployment>> {
    let hub = federation.hub().client();
    let name = format!("ns-{uid}");
    let identity = json!({
        labels::UPSTREAM_CLUSTER_NAME: format!("cluster-{project}"),
        labels::UPSTREAM_NAMESPACE: namespace,
    });
    let known_by = cluster.map(|uid| json!({annotations::UPSTREAM_CLUSTER_UID: uid}));
    let body = json!({"metadata": {"name": name, "labels": identity, "annotations": known_by}});
    create(&Api::<Namespace>::all(hub.clone()), body).await?;
    Ok(Api::namespaced(hub, &name))
}

async fn stays(copies: &Api<WorkloadDeployment>, made: &WorkloadDeployment) -> anyhow::Result<()> {
    let kept = copies.get(&made.name_any()).await?;
    ensure!(kept.uid() == made.uid() && kept.metadata.deletion_timestamp.is_none());
    Ok(())
}

pub(crate) async fn copies_that_the_project_does_not_have_are_deleted(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "orphans").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let copies: Api<WorkloadDeployment> = space.on_hub();
    let own = copies.get("web-us-dfw").await?;
    // The manager does not serve this project, so the state of the project is unknown.
    let unknown = hub_namespace(federation, UNKNOWN, "nobody", &space.name, None).await?;
    let unproved = create(&unknown, copy("web-us-dfw", "DFW")).await?;

    create(&copies, copy("orphan", "DFW")).await?;
    wait::gone(&copies, "orphan", WITHIN).await?;
    let in_cell: Api<WorkloadDeployment> = space.in_cell(DFW);
    wait::gone(&in_cell, "orphan", WITHIN).await?;

    // The first hub namespace has no UID of an API server. The second one has the UID of another API server. Each may
    // belong to another installation or to a recreated namespace. So nothing proves that the objects in them are
    // orphans.
    let former = hub_namespace(federation, FORMER, "single", &space.name, None).await?;
    let unproved_either = create(&former, copy("orphan", "DFW")).await?;
    let other = hub_namespace(federation, OF_ANOTHER, "single", &space.name, Some(GONE)).await?;
    let of_another = create(&other, copy("orphan", "DFW")).await?;
    create(&copies, copy("orphan", "DFW")).await?;
    wait::gone(&copies, "orphan", WITHIN).await?;

    // The API server that had the object no longer has the object. The namespace on this API server may exist or not.
    let namespaces: Api<Namespace> = Api::all(federation.project().client());
    let known_by = namespaces.get("default").await?.uid();
    let hub: Api<Namespace> = Api::all(federation.hub().client());
    for namespace in [space.name.as_str(), "that-was-deleted"] {
        let gone =
            hub_namespace(federation, GONE, "single", namespace, known_by.as_deref()).await?;
        // The ConfigMap keeps the hub namespace non-empty until the test has created all objects.
        let lasting: Api<ConfigMap> =
            Api::namespaced(federation.hub().client(), &format!("ns-{GONE}"));
        create(&lasting, json!({"metadata": {"name": "lasting"}})).await?;
        for name in ["orphan", "web-us-dfw"] {
            create(&gone, copy(name, "DFW")).await?;
        }
        for name in ["orphan", "web-us-dfw"] {
            wait::gone(&gone, name, WITHIN).await?;
        }
        lasting.delete("lasting", &DeleteParams::default()).await?;
        // The controller deletes the hub namespace after its last object.
        wait::gone(&hub, &format!("ns-{GONE}"), WITHIN).await?;
    }

    stays(&copies, &own).await?;
    stays(&unknown, &unproved).await?;
    stays(&former, &unproved_either).await?;
    stays(&other, &of_another).await?;
    space.until_settled("web", 1).await?;
    for name in [UNKNOWN, FORMER, OF_ANOTHER].map(|uid| format!("ns-{uid}")) {
        hub.delete(&name, &DeleteParams::default()).await?;
        wait::gone(&hub, &name, WITHIN).await?;
    }
    Ok(())
}

/// I-12: without an authoritative answer from the project, no object is deleted.
pub(crate) async fn nothing_is_deleted_without_an_answer_of_the_project(
    federation: &Federation,
) -> anyhow::Result<()> {
    let fleet = Fleet::start(federation, "silent", &["silent"]).await?;
    let project = fleet.project("silent").await?;
    project.create().await?;
    project.until_settled(1).await?;

    // The front has no route to the project, but running watches continue.
    let unknown = StatusError::new(StatusCode::NOT_FOUND, "NotFound", "page not found");
    project.plane.refuse(unknown);
    let (copies, one) = until_check_has_failed(&fleet, &project, "one").await?;
    stays(&copies, &one).await?;
    project.plane.pass();
    wait::gone(&copies, "one", WITHIN).await?;

    project.plane.kill_apiserver().await;
    let (_, two) = until_check_has_failed(&fleet, &project, "two").await?;
    stays(&copies, &two).await?;
    project.plane.restart_apiserver().await?;
    // An API server that starts forbids everything until it has its roles. After a 403, a watch waits for up to a minute.
    wait::gone(&copies, "two", 2 * WITHIN).await?;

    project.until_settled(1).await?;
    project.delete().await?;
    fleet.stop().await;
    Ok(())
}

/// Creates a deployment only on the hub. Waits until the management process has tried to find the deployment in the
/// project and has failed.
async fn until_check_has_failed(
    fleet: &Fleet<'_>,
    project: &FleetProject<'_>,
    name: &str,
) -> anyhow::Result<(Api<WorkloadDeployment>, WorkloadDeployment)> {
    let copies: Api<WorkloadDeployment> = project.on_hub();
    let made = create(&copies, copy(name, "DFW")).await?;
    let key = format!("silent/default/{name}");
    let unreachable = "compute_federation_queue_groups_in_trouble{controller=\"federator\",trouble=\"unreachable\"} 1";
    wait::eventually("the check has failed", WITHIN, || async {
        let log = fs::read_to_string(fleet.management.log())?;
        let mut lines = log.lines().filter(|line| line.contains(&key));
        let is_reported = lines.any(|line| line.contains("reconciliation failed again"));
        let metrics = fleet.management.metrics().await?;
        let is_counted = metrics.lines().any(|line| line == unreachable);
        ensure!(
            is_reported || is_counted,
            "neither the log nor the metrics report it"
        );
        Ok(())
    })
    .await?;
    Ok((copies, made))
}
