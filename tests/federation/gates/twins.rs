//! Two cells of one city have the same namespace, deployment and Instance.

use anyhow::{Context, ensure};
use api::Instance;
use api::quota::ResourceClaim;
use harness::wait;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::fixture::{CONVERGED, GatedFederation, TWIN, claimant};
use crate::fixture::{ORD, Space};

const INSTANCE: &str = "web-us-ord-0";

/// I-31: each cell has its own claim, and ends only its own.
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

    // The Instance of one cell ends, and is made anew.
    let instances = space.in_cell::<Instance>(ORD);
    instances.delete(INSTANCE, &DeleteParams::default()).await?;
    wait::eventually("another claim", CONVERGED, || async {
        let claim = claim_of(gated, &space, ORD).await?;
        ensure!(claim.uid() != first.uid(), "the claim has not ended");
        Ok(())
    })
    .await?;
    gated.until_all_run(&space, &[ORD, TWIN], 1).await?;
    let other = claim_of(gated, &space, TWIN).await?;
    ensure!(
        other.uid() == second.uid(),
        "the claim of the other cell has ended"
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
