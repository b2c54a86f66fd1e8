//! Tests of deleted projects.

use anyhow::ensure;
use api::WorkloadDeployment;
use api::karmada::PropagationPolicy;
use harness::manager::Manager;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;

use super::{Fleet, until_shown};
use crate::fixture::{DFW, WITHIN};

/// I-12: after a project is deleted, running Instances stay until an operator ends them. Empty hub namespaces are
/// deleted.
pub(crate) async fn a_deleted_project_is_cleaned_up(federation: &Federation) -> anyhow::Result<()> {
    let mut fleet = Fleet::start(federation, "deleted", &["empty", "full", "beside"]).await?;
    // Another management process on the same hub. Its Milo has none of these projects.
    let other = Fleet::start(federation, "another", &["another"]).await?;
    let (empty, full) = (fleet.project("empty").await?, fleet.project("full").await?);
    let beside = fleet.project("beside").await?;
    for project in [&empty, &full, &beside] {
        project.create().await?;
        project.until_settled(1).await?;
    }
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());

    // Milo deletes a Project after its control plane is empty.
    empty.delete().await?;
    beside.delete().await?;
    fleet.milo.delete_project("empty").await?;
    wait::gone(&namespaces, &empty.hub_namespace, WITHIN).await?;

    // The test deletes a Project with running Instances while no manager runs.
    fleet.management.terminate().await;
    fleet.milo.delete_project("full").await?;
    fleet.management.restart().await?;
    until_shown(&fleet.management, "projects_engaged 1").await?;
    beside.create().await?;
    beside.until_settled(1).await?;
    wait::eventually("the log names the namespace that stays", WITHIN, || async {
        let log = std::fs::read_to_string(fleet.management.log())?;
        let is_named = |line: &str| line.contains("stays") && line.contains(&full.hub_namespace);
        ensure!(log.lines().any(is_named), "the log does not name it");
        Ok(())
    })
    .await?;
    let copies: Api<WorkloadDeployment> = full.on_hub();
    let policies: Api<PropagationPolicy> = full.on_hub();
    let copy = copies.get("web-us-dfw").await?;
    assert_eq!(copy.metadata.deletion_timestamp, None);
    let policy = policies.get("city-dfw").await?;
    assert_eq!(policy.metadata.deletion_timestamp, None);
    let in_cell =
        Api::<WorkloadDeployment>::namespaced(federation.cell(DFW)?.client(), &full.hub_namespace);
    in_cell.get("web-us-dfw").await?;

    // After an operator has deleted the objects, nothing is left.
    copies
        .delete("web-us-dfw", &DeleteParams::default())
        .await?;
    wait::gone(&namespaces, &full.hub_namespace, 2 * WITHIN).await?;
    let cell: Api<Namespace> = Api::all(federation.cell(DFW)?.client());
    wait::gone(&cell, &full.hub_namespace, WITHIN).await?;

    // An existing project keeps its hub namespace, even if the namespace is empty.
    beside.delete().await?;
    let policies: Api<PropagationPolicy> = beside.on_hub();
    wait::gone(&policies, "city-dfw", WITHIN).await?;
    fleet.milo.set_ready("beside", false).await?;
    until_shown(&fleet.management, "projects_engaged 0").await?;
    until_looked_at(&fleet.management).await?;
    until_looked_at(&other.management).await?;
    let kept = namespaces.get(&beside.hub_namespace).await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);

    let metrics = other.management.metrics().await?;
    let is_a_write = |line: &&str| line.starts_with("compute_federation_writes_total{");
    let writes: Vec<_> = metrics.lines().filter(is_a_write).collect();
    ensure!(writes.is_empty(), "the other root's management: {writes:?}");
    let log = std::fs::read_to_string(other.management.log())?;
    ensure!(
        !log.contains("stays"),
        "it names a namespace of the other management"
    );
    other.stop().await;
    fleet.stop().await;
    Ok(())
}

/// Waits until a management process has checked the hub namespaces of unserved projects and has an empty queue.
async fn until_looked_at(management: &Manager) -> anyhow::Result<()> {
    wait::eventually("hub namespaces are checked", WITHIN, || async {
        let metrics = management.metrics().await?;
        let value = |metric: &str| {
            let found = metrics.lines().find_map(|line| line.strip_prefix(metric));
            found.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let looked =
            value("compute_federation_reconciles_total{controller=\"namespace\",result=\"gone\"}");
        let depth = value("compute_federation_queue_depth{controller=\"namespace\"}");
        ensure!(looked > Some(0) && depth == Some(0), "{looked:?} {depth:?}");
        Ok(())
    })
    .await
}
