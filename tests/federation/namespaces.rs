//! Tests of the deletion of hub namespaces. A hub namespace represents a namespace of a project. The controller deletes
//! the hub namespace only when the namespace of the project is deleted.

use anyhow::Context;
use api::WorkloadDeployment;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::fixture::{DFW, Space, WITHIN, create, deployment, patch};

fn namespaces(client: Client) -> Api<Namespace> {
    Api::all(client)
}

/// Deletes the namespace of the project. Waits until this namespace and its objects on the other planes are gone.
async fn end(space: &Space<'_>) -> anyhow::Result<()> {
    let project = namespaces(space.federation.project().client());
    project
        .delete(&space.name, &DeleteParams::default())
        .await?;
    wait::gone(&project, &space.name, 2 * WITHIN).await?;
    space.until_empty().await
}

async fn until_gone_on_hub(space: &Space<'_>) -> anyhow::Result<()> {
    let hub = namespaces(space.federation.hub().client());
    wait::gone(&hub, &space.hub_name, WITHIN).await
}

/// I-9: deployments are finalized while their Namespace terminates.
pub(crate) async fn a_deleted_project_namespace_is_deleted_on_every_plane(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "ends").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    end(&space).await?;
    until_gone_on_hub(&space).await?;
    let cell = namespaces(federation.cell(DFW)?.client());
    wait::gone(&cell, &space.hub_name, WITHIN).await
}

pub(crate) async fn foreign_objects_keep_a_hub_namespace(
    federation: &Federation,
) -> anyhow::Result<()> {
    let kept = Space::create(federation, "kept").await?;
    let bystander = Space::create(federation, "bystander").await?;
    for space in [&kept, &bystander] {
        create::<WorkloadDeployment>(&space.in_project(), deployment("wd", "DFW")).await?;
        let copies = space.on_hub::<WorkloadDeployment>();
        wait::until(&copies, "wd", "there", WITHIN, |_| true).await?;
    }
    let foreign: Api<ConfigMap> = kept.on_hub();
    create(&foreign, json!({"metadata": {"name": "of-someone-else"}})).await?;
    end(&kept).await?;
    // A second namespace is deleted later than the first one. When the second namespace is gone, the controller has
    // processed the first namespace too.
    end(&bystander).await?;
    until_gone_on_hub(&bystander).await?;
    let hub = namespaces(federation.hub().client());
    let namespace = hub.get(&kept.hub_name).await?;
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    foreign.get("of-someone-else").await?;

    foreign
        .delete("of-someone-else", &DeleteParams::default())
        .await?;
    let note = json!({"metadata": {"annotations": {"example.com/note": "looked at anew"}}});
    patch(&hub, &kept.hub_name, note).await?;
    until_gone_on_hub(&kept).await
}

pub(crate) async fn a_recreated_namespace_gets_a_new_hub_namespace(
    federation: &Federation,
) -> anyhow::Result<()> {
    let former = Space::create(federation, "anew").await?;
    create::<WorkloadDeployment>(&former.in_project(), deployment("wd", "DFW")).await?;
    let copies = former.on_hub::<WorkloadDeployment>();
    wait::until(&copies, "wd", "there", WITHIN, |_| true).await?;
    let project = namespaces(federation.project().client());
    project
        .delete(&former.name, &DeleteParams::default())
        .await?;
    wait::gone(&project, &former.name, 2 * WITHIN).await?;

    let namespace = json!({"metadata": {"name": former.name}});
    let namespace = create(&project, namespace).await?;
    let current = Space {
        federation,
        name: former.name.clone(),
        hub_name: format!(
            "ns-{}",
            namespace.uid().context("the namespace has no UID")?
        ),
    };
    create::<WorkloadDeployment>(&current.in_project(), deployment("wd", "DFW")).await?;
    until_gone_on_hub(&former).await?;
    let copies = current.on_hub::<WorkloadDeployment>();
    wait::until(&copies, "wd", "there", WITHIN, |_| true).await?;
    let hub = namespaces(federation.hub().client());
    let namespace = hub.get(&current.hub_name).await?;
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    Ok(())
}
