//! A lower hub whose policy selects no cell.

use anyhow::ensure;
use api::condition;
use api::workload_deployment::CELLS_REPORTING;
use api::{Instance, WorkloadDeployment};
use harness::{Federation, wait};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::three_levels::leave_out;
use super::{CLUSTERS_BELOW, WEB};
use crate::fixture::{Space, WITHIN};

/// All cells are left out in the policy of the lower hub. The project has no Instances any more, and says why. Then the cells return.
pub(super) async fn has_no_instances(
    federation: &Federation,
    space: &Space<'_>,
) -> anyhow::Result<()> {
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let instances: Api<Instance> = space.in_project();
    let begin = Instant::now();
    leave_out(federation, &CLUSTERS_BELOW).await?;
    let has_no_report = |it: &WorkloadDeployment| {
        it.status.as_ref().is_some_and(|status| {
            let reporting = condition::find(&status.conditions, CELLS_REPORTING);
            reporting.is_some_and(|it| it.message.contains("no report of a cell"))
        })
    };
    wait::until(&deployments, WEB, "without a report", WITHIN, has_no_report).await?;
    wait::eventually("no Instances", WITHIN, || async {
        let left = instances.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} Instances");
        Ok(())
    })
    .await?;
    eprintln!("left all cells after {:.1?}", begin.elapsed());
    leave_out(federation, &[]).await?;
    space.until_settled("web", 2).await.map(drop)
}
