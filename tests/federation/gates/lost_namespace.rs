//! The namespace of a cell is deleted under its Instances.

use std::time::Duration;

use anyhow::ensure;
use api::{Instance, WorkloadDeployment};
use harness::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::fixture::GatedFederation;
use crate::fixture::{DFW, ORD, Space};

/// Time limit for Karmada to make the namespace and its content again.
const AGAIN: Duration = Duration::from_mins(3);

/// The claims are returned with the namespace. Karmada makes everything again, and it claims anew.
pub(crate) async fn the_namespace_of_a_cell_is_deleted(
    gated: &GatedFederation,
) -> anyhow::Result<()> {
    let space = gated.space("lost").await?;
    space.create_workload("web", &[("us", &["DFW"], 2)]).await?;
    space.until_settled("web", 2).await?;
    gated.until_all_run(&space, &[DFW], 2).await?;
    let former = gated.claims(&space).await?;

    let cell = gated.federation.cell(DFW)?.client();
    let namespaces: Api<Namespace> = Api::all(cell);
    let before = namespaces.get(&space.hub_name).await?.uid();
    let deleted = Instant::now();
    namespaces
        .delete(&space.hub_name, &DeleteParams::default())
        .await?;
    wait::eventually("the namespace is there again", AGAIN, || async {
        let uid = namespaces.get(&space.hub_name).await?.uid();
        ensure!(uid != before, "the namespace is not gone");
        space
            .in_cell::<WorkloadDeployment>(DFW)
            .get("web-us-dfw")
            .await?;
        Ok(())
    })
    .await?;
    eprintln!("there again after {:.1} s", deleted.elapsed().as_secs_f64());
    space.until_settled("web", 2).await?;
    gated.until_all_run(&space, &[DFW], 2).await?;
    eprintln!("runs again after {:.1} s", deleted.elapsed().as_secs_f64());
    let claims = gated.claims(&space).await?;
    for claim in &claims {
        let is_new = former.iter().all(|it| it.uid() != claim.uid());
        ensure!(is_new, "{} has not been returned", claim.name_any());
    }
    nothing_in(&space, ORD).await?;
    gated.delete(&space, "web").await
}

/// Checks that a cell has no Instance.
async fn nothing_in(space: &Space<'_>, cell: &str) -> anyhow::Result<()> {
    let instances = space.in_cell::<Instance>(cell);
    let left = instances.list(&ListParams::default()).await?;
    ensure!(left.items.is_empty(), "{cell} has Instances");
    Ok(())
}
