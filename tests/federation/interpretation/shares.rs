//! The shares of the cells, and the aggregation of the cells' statuses on the hub.

use api::WorkloadDeployment;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, REPLICAS_READY};
use harness::{Federation, wait};
use kube::Api;
use serde_json::{Value, json};

use super::deployment_fixture::{DeploymentFixture, NAME, condition_of, counters};
use super::{DFW1, DFW2, ORD1, divided_in_dfw, each, in_dfw};
use crate::fixture::WITHIN;

pub(crate) async fn duplicated(federation: &Federation) -> anyhow::Result<()> {
    let mut fixture =
        DeploymentFixture::create(federation, "duplicated", &in_dfw(), 2, &each(2)).await?;
    fixture.until_all_assigned().await?;

    // The status of the reporting cell counts. The condition contains the name of the other cell.
    fixture.act(DFW1, 2).await?;
    let of_one = |object: &WorkloadDeployment| {
        counters(object) == [2; 4]
            && condition_of(object, CELLS_REPORTING).is_some_and(|reporting| {
                reporting.reason == "CellNotReported"
                    && reporting.message.contains(DFW2)
                    && !reporting.message.contains(DFW1)
            })
    };
    let object = fixture.until_hub("that of one cell", of_one).await?;
    assert_eq!(object.status.unwrap().observed_generation, None);

    // The hub has the sums of the counters. `Available` needs only one available cell. `ReplicasReady` needs all cells.
    fixture.act(DFW2, 0).await?;
    let of_both = |object: &WorkloadDeployment| counters(object) == [4, 4, 4, 2];
    let object = fixture.until_hub("that of both cells", of_both).await?;
    let joined =
        |type_: &str| condition_of(&object, type_).map(|joined| (joined.is_true(), joined.message));
    let of_dfw1 = (true, "dfw1: 2 of 2 are ready".to_owned());
    let of_dfw2 = (false, "dfw2: 0 of 2 are ready".to_owned());
    assert_eq!(joined(AVAILABLE), Some(of_dfw1));
    assert_eq!(joined(REPLICAS_READY), Some(of_dfw2));
    assert_eq!(joined(CELLS_REPORTING), None);

    for replicas in [3, 0, 1] {
        fixture.scale(replicas, &each(replicas)).await?;
        fixture.until_all_assigned().await?;
        fixture.all_act().await?;
    }
    let in_ord = federation.cell(ORD1)?.client();
    let in_ord: Api<WorkloadDeployment> = Api::namespaced(in_ord, &fixture.namespace);
    assert_eq!(in_ord.get_opt(NAME).await?, None);
    fixture.check().await
}

pub(crate) async fn divided(federation: &Federation) -> anyhow::Result<()> {
    let shares = [(DFW1, 1), (DFW2, 2)];
    let placement = divided_in_dfw(1, 2);
    let mut fixture =
        DeploymentFixture::create(federation, "divided", &placement, 3, &shares).await?;
    fixture.all_act().await?;
    fixture.scale(9, &[(DFW1, 3), (DFW2, 6)]).await?;
    fixture.all_act().await?;

    // A cell with a share of 0 is removed and later added again.
    fixture.scale(1, &[(DFW2, 1)]).await?;
    fixture.all_act().await?;
    wait::gone(&fixture.cells[DFW1], NAME, WITHIN).await?;
    fixture.scale(0, &each(0)).await?;
    fixture.all_act().await?;
    fixture.scale(6, &[(DFW1, 2), (DFW2, 4)]).await?;
    fixture.all_act().await?;

    // The policy gets other weights. The generation of the deployment stays the same.
    let shares = [(DFW1, 4), (DFW2, 2)];
    fixture.place(&divided_in_dfw(2, 1), &shares).await?;
    fixture.all_act().await?;
    let divided = |object: &WorkloadDeployment| {
        let cells = object.status.clone().unwrap_or_default().cells;
        let cells = cells.iter().map(|cell| (cell.name.as_str(), cell.replicas));
        cells.eq(shares)
    };
    fixture
        .until_hub("divided by the new weights", divided)
        .await?;
    fixture.check().await
}

/// The status counts as current by the share that Karmada assigned, not by the number of the OverridePolicy.
pub(crate) async fn an_override_of_the_replicas(federation: &Federation) -> anyhow::Result<()> {
    let placement = divided_in_dfw(1, 1);
    let mut fixture =
        DeploymentFixture::create(federation, "overridden", &placement, 8, &each(4)).await?;
    fixture.all_act().await?;
    let shares = [(DFW1, 20), (DFW2, 4)];
    fixture.override_replicas(DFW1, Some(20), &shares).await?;
    fixture.all_act().await?;
    fixture.scale(12, &[(DFW1, 20), (DFW2, 6)]).await?;
    fixture.all_act().await?;
    fixture.set_image("app:2").await?;
    fixture.all_act().await?;
    fixture.override_replicas(DFW1, None, &each(6)).await?;
    fixture.all_act().await?;
    fixture.check().await
}

/// With one cell, the status is exactly that of the cell. The witness checks each version between.
pub(crate) async fn one_cell_or_two(federation: &Federation) -> anyhow::Result<()> {
    let mut fixture =
        DeploymentFixture::create(federation, "one-or-two", &in_dfw(), 2, &each(2)).await?;
    fixture.all_act().await?;
    // The policy is changed with a merge patch.
    let [only, both] = [json!([DFW1]), json!(null)]
        .map(|names| json!({"clusterAffinity": {"clusterNames": names}}));
    for (placement, shares) in [
        (&only, &[(DFW1, 2)][..]),
        (&both, &each(2)[..]),
        (&only, &[(DFW1, 2)][..]),
    ] {
        fixture.place(placement, shares).await?;
        fixture.all_act().await?;
        if let [(cell, _)] = shares {
            fixture
                .until_hub("exactly that of the cell", |object| {
                    let status = object.status.clone().unwrap_or_default();
                    status.reporting_cell.as_deref() == Some(cell) && status.cells.is_empty()
                })
                .await?;
            let in_cell = fixture.cells[cell].get(NAME).await?;
            let on_hub = fixture.hub.get(NAME).await?;
            assert_eq!(shown(&on_hub), shown(&in_cell));
            wait::gone(&fixture.cells[DFW2], NAME, WITHIN).await?;
        }
    }
    fixture.check().await
}

/// Returns the status without the generations, which each plane has of its own, and without the name of the cell.
fn shown(object: &WorkloadDeployment) -> Value {
    let mut status = json!(object.status);
    let fields = status.as_object_mut().into_iter().flatten();
    for (_, value) in fields {
        for condition in value.as_array_mut().into_iter().flatten() {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("observedGeneration");
            }
        }
    }
    if let Some(status) = status.as_object_mut() {
        status.remove("observedGeneration");
        status.remove("reportingCell");
    }
    status
}
