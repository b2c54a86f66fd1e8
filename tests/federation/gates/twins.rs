//! Two cells of one city have the same namespace, deployment and Instance.

use anyhow::{Context, ensure};
use api::Instance;
use api::annotations::INSTANCE_UID;
use api::quota::ResourceClaim;
use harness::wait;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::fixture::{CONVERGED, GatedFederation, TWIN, claimant};
use crate::fixture::{ORD, Space};

const INSTANCE: &str = "web-us-ord-0";

/// I-31: each cell has its own claim, and changes only its own.
pub(crate) async fn two_cells_with_equal_names(gated: &GatedFederation) -> anyhow::Result<()> {
    let space = gated.space("twins").await?;
    space.create_workload("web", &[("us", &["ORD"], 1)]).await?;
    gated.until_all_run(&space, &[ORD, TWIN], 1).await?;
    let (first, second) = (
        claim_of(gated, &space, ORD).await?,
        claim_of(gated, &space, TWIN).await?,
    );
    ensure!(
        first.name_any() != second.name_any(),
        "{}",
        first.name_any()
    );

    // The Instance of one cell ends, and its claim passes to the next one.
    let instances = space.in_cell::<Instance>(ORD);
    instances.delete(INSTANCE, &DeleteParams::default()).await?;
    wait::eventually("the claim of the next Instance", CONVERGED, || async {
        let claim = claim_of(gated, &space, ORD).await?;
        let next = instances.get(INSTANCE).await?;
        let of = claim.annotations().get(INSTANCE_UID);
        ensure!(of == next.uid().as_ref(), "the claim is for {of:?}");
        ensure!(
            of != first.annotations().get(INSTANCE_UID),
            "the Instance has not ended"
        );
        Ok(())
    })
    .await?;
    gated.until_all_run(&space, &[ORD, TWIN], 1).await?;
    let other = claim_of(gated, &space, TWIN).await?;
    ensure!(
        (other.uid(), other.annotations()) == (second.uid(), second.annotations()),
        "the claim of the other cell has changed"
    );
    gated.delete(&space, "web").await
}

/// Returns the claim of a cell for the Instance.
async fn claim_of(
    gated: &GatedFederation,
    space: &Space<'_>,
    cell: &str,
) -> anyhow::Result<ResourceClaim> {
    let expected = format!("{cell} {INSTANCE}");
    let mut claims = gated.claims(space).await?.into_iter();
    let found = claims.find(|claim| claimant(claim) == expected);
    found.with_context(|| format!("{cell} has no claim"))
}
