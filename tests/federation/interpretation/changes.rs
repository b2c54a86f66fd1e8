//! Tests of changes while the cells are at different stages.

use anyhow::ensure;
use api::WorkloadDeployment;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING};
use harness::{Federation, wait};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::deployment_fixture::{
    DeploymentFixture, NAME, condition_of, counters, image_of, with_image,
};
use super::{DFW1, DFW2, in_dfw};
use crate::fixture::{WITHIN, patch, patch_status};

const BOTH: [(&str, i32); 2] = [(DFW1, 2), (DFW2, 2)];
/// Annotation that Karmada sets on an object in a cell: the UID of the object on the hub.
const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
const FINALIZER: &str = "test.datumapis.com/hold";

pub(crate) async fn a_new_image(federation: &Federation) -> anyhow::Result<()> {
    let mut fixture = DeploymentFixture::create(federation, "image", &in_dfw(), 2, &BOTH).await?;
    fixture.all_act().await?;

    // One cell has the new image, the other has the old one.
    fixture.set_image("app:2").await?;
    fixture.until_all_assigned().await?;
    fixture.act(DFW1, 1).await?;
    until_ready_at(&fixture, 3, 1).await?;
    fixture.act(DFW2, 0).await?;
    let known = |object: &WorkloadDeployment| counters(object)[3] == 1;
    let object = fixture.until_hub("that of both cells", known).await?;
    let status = object.status.unwrap();
    assert_eq!(status.observed_generation, object.metadata.generation);
    fixture.all_act().await?;

    // Both cells have the new image, but one still reports for the old image.
    fixture.set_image("app:3").await?;
    fixture.until_all_assigned().await?;
    let former = json!({"readyReplicas": 1});
    patch_status(&fixture.cells[DFW1], NAME, former).await?;
    fixture.act(DFW2, 2).await?;
    until_ready_at(&fixture, 3, 2).await?;
    // This cell now reports for the new image, but its condition is still for the old image.
    let generation = fixture.cells[DFW1].get(NAME).await?.metadata.generation;
    let observed = json!({"observedGeneration": generation, "readyReplicas": 2});
    patch_status(&fixture.cells[DFW1], NAME, observed).await?;
    let observed = |object: &WorkloadDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.observed_generation == object.metadata.generation
    };
    let object = fixture.until_hub("observed by both", observed).await?;
    let available = condition_of(&object, AVAILABLE).unwrap();
    assert_eq!(available.observed_generation, Some(2));
    fixture.all_act().await?;
    fixture.check().await
}

/// Waits until the hub shows this many ready instances, and checks that its observedGeneration is unchanged.
async fn until_ready_at(
    fixture: &DeploymentFixture,
    ready: i32,
    generation: i64,
) -> anyhow::Result<()> {
    let known = |object: &WorkloadDeployment| counters(object)[3] == ready;
    let object = fixture.until_hub(&format!("at {ready}"), known).await?;
    let available = condition_of(&object, AVAILABLE).unwrap();
    assert_eq!(available.observed_generation, Some(generation));
    assert_eq!(object.status.unwrap().observed_generation, Some(generation));
    Ok(())
}

pub(crate) async fn an_autoscaler_in_a_cell(federation: &Federation) -> anyhow::Result<()> {
    let mut fixture =
        DeploymentFixture::create(federation, "autoscaler", &in_dfw(), 2, &BOTH).await?;
    fixture.all_act().await?;
    let in_dfw1 = fixture.cells[DFW1].clone();
    patch(&in_dfw1, NAME, json!({"spec": {"replicas": 5}})).await?;
    fixture.act(DFW1, 5).await?;
    let scaled = |object: &WorkloadDeployment| counters(object) == [7; 4];
    fixture.until_hub("scaled by the cell", scaled).await?;
    // Karmada writes to the cell after each of these changes: an annotation on the hub, an edit by hand in the cell,
    // a new template, and a new number of replicas.
    let annotation = json!({"metadata": {"annotations": {"test.datumapis.com/sync": "1"}}});
    patch(&fixture.hub, NAME, annotation).await?;
    let annotated =
        |object: &WorkloadDeployment| object.annotations().contains_key("test.datumapis.com/sync");
    until_scaled_by_cell(&in_dfw1, "annotated", annotated).await?;
    patch(&in_dfw1, NAME, json!({"spec": with_image("app:by-hand")})).await?;
    let repaired = |object: &WorkloadDeployment| image_of(object).as_deref() == Some("app:1");
    until_scaled_by_cell(&in_dfw1, "repaired", repaired).await?;
    fixture.act(DFW1, 5).await?;
    fixture.set_image("app:2").await?;
    fixture.all_act().await?;
    let updated = |object: &WorkloadDeployment| image_of(object).as_deref() == Some("app:2");
    until_scaled_by_cell(&in_dfw1, "updated", updated).await?;
    fixture.until_current(7).await?;
    fixture.scale(3, &[(DFW1, 3), (DFW2, 3)]).await?;
    fixture.all_act().await?;
    until_scaled_by_cell(&in_dfw1, "scaled", |object| {
        object.spec.scale_settings.min_replicas == 3
    })
    .await?;
    fixture.until_current(8).await?;
    fixture.check().await
}

/// Waits until the cell's object satisfies `predicate`, and checks that it keeps the replicas that the cell has set.
async fn until_scaled_by_cell(
    cell: &Api<WorkloadDeployment>,
    what: &str,
    predicate: impl Fn(&WorkloadDeployment) -> bool,
) -> anyhow::Result<()> {
    let object = wait::until(cell, NAME, what, WITHIN, predicate).await?;
    let replicas = object.spec.replicas;
    ensure!(replicas == Some(5), "spec.replicas is {replicas:?}");
    Ok(())
}

pub(crate) async fn recreated_while_the_old_object_terminates(
    federation: &Federation,
) -> anyhow::Result<()> {
    let mut fixture =
        DeploymentFixture::create(federation, "successor", &in_dfw(), 2, &BOTH).await?;
    fixture.all_act().await?;
    let in_dfw1 = fixture.cells[DFW1].clone();
    let finalizers = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    patch(&in_dfw1, NAME, finalizers(json!([FINALIZER]))).await?;
    fixture.hub.delete(NAME, &DeleteParams::default()).await?;
    wait::gone(&fixture.hub, NAME, WITHIN).await?;
    wait::gone(&fixture.cells[DFW2], NAME, WITHIN).await?;

    // Karmada adopts the terminating object for its successor.
    let shares = [(DFW1, 3), (DFW2, 3)];
    fixture.create_again(3, &shares).await?;
    let uid = fixture.hub.get(NAME).await?.uid();
    let adopted = |object: &WorkloadDeployment| {
        object.annotations().get(TEMPLATE_UID) == uid.as_ref()
            && object.metadata.deletion_timestamp.is_some()
    };
    wait::until(&in_dfw1, NAME, "adopted", WITHIN, adopted).await?;
    // The cell finishes the deletion.
    for ready in [1, 2] {
        fixture.act(DFW1, ready).await?;
    }
    fixture.until_assigned(DFW2).await?;
    for ready in [1, 3] {
        fixture.act(DFW2, ready).await?;
        let of_dfw2 = |object: &WorkloadDeployment| {
            counters(object) == [3, 3, 3, ready]
                && condition_of(object, CELLS_REPORTING)
                    .is_some_and(|reporting| reporting.message.contains(DFW1))
        };
        fixture
            .until_hub("that of the second cell", of_dfw2)
            .await?;
    }

    patch(&in_dfw1, NAME, finalizers(json!(null))).await?;
    let fresh = |object: &WorkloadDeployment| object.metadata.deletion_timestamp.is_none();
    wait::until(&in_dfw1, NAME, "there", WITHIN, fresh).await?;
    fixture.all_act().await?;
    fixture.check().await
}
