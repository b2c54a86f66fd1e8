//! Tests a replica that becomes the leader while it cannot reach a project.

use anyhow::{Context, ensure};
use api::{Workload, WorkloadDeployment, annotations};
use futures::future::try_join_all;
use harness::manager::Manager;
use harness::proxy::Direction;
use harness::{Federation, wait};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Fleet, FleetProject, until_leading, until_shown};
use crate::fixture::{WITHIN, create, patch, workload};
use crate::version_history::VersionHistory;

/// A Workload, and its replicas before the cut, during the cut and after the cut. With `None`, the Workload is deleted.
struct Changed {
    name: &'static str,
    replicas: [Option<i32>; 3],
}

/// An older spec of `shrunk` has more Instances, and an older spec of `grown` has fewer. An older spec of `gone` would
/// bring it back.
const CHANGED: [Changed; 3] = [
    Changed {
        name: "shrunk",
        replicas: [Some(3), Some(1), Some(2)],
    },
    Changed {
        name: "grown",
        replicas: [Some(1), Some(3), Some(4)],
    },
    Changed {
        name: "gone",
        replicas: [Some(1), None, None],
    },
];

/// I-23: a replica whose cache of a project is old becomes the leader. It writes no older spec to the hub, and makes no
/// copy again.
pub(crate) async fn a_leader_with_an_old_cache_rolls_nothing_back(
    federation: &Federation,
) -> anyhow::Result<()> {
    let (mut fleet, election) = Fleet::start_led(federation, "cut-off", "cut").await?;
    let project = fleet.project("cut").await?;
    try_join_all(CHANGED.iter().map(|it| it.begin(&project))).await?;
    let copies: Api<WorkloadDeployment> = project.on_hub();
    let histories = CHANGED
        .iter()
        .map(async |it| VersionHistory::begin(copies.clone(), &it.copy()).await);
    let histories = try_join_all(histories).await?;

    let milo = &fleet.milo;
    let (mut other, proxy) = milo
        .management_behind_proxy("other", federation.hub())
        .await?;
    election.join(&mut other);
    other.restart().await?;
    until_shown(&other, "projects_engaged 1").await?;
    until_counted(
        &other,
        r#"queue_keys{controller="federator"}"#,
        CHANGED.len(),
    )
    .await?;
    let cut = proxy.cut(Direction::Both);
    try_join_all(CHANGED.iter().map(|it| it.change(&project, 1))).await?;
    until_shown(&other, "leader 0").await?;

    fleet.management.kill().await;
    until_leading(&other).await?;
    // The new leader reads the project before it writes to the hub. These reads fail.
    let failed = r#"reconciles_total{controller="federator",result="error"}"#;
    until_counted(&other, failed, 1).await?;
    let check = async || {
        for (it, history) in CHANGED.iter().zip(&histories) {
            it.was_never_rolled_back(history, &copies).await?;
        }
        anyhow::Ok(())
    };
    check().await.context("during the cut")?;

    drop(cut);
    try_join_all(CHANGED.iter().map(|it| it.change(&project, 2))).await?;
    check().await.context("after the cut")?;
    for Changed { name, replicas } in &CHANGED {
        if replicas[2].is_some() {
            delete(&project, name).await?;
        }
    }
    other.terminate().await;
    fleet.stop().await;
    Ok(())
}

impl Changed {
    fn copy(&self) -> String {
        format!("{}-us-dfw", self.name)
    }

    async fn begin(&self, project: &FleetProject<'_>) -> anyhow::Result<()> {
        let replicas = self.replicas[0].context("no replicas")?;
        let body = workload(self.name, &[("us", &["DFW"], replicas)]);
        create::<Workload>(&project.api(), body).await?;
        project.until_available(self.name, replicas).await
    }

    /// Makes the customer's change and waits until it has arrived everywhere.
    async fn change(&self, project: &FleetProject<'_>, step: usize) -> anyhow::Result<()> {
        let Some(replicas) = self.replicas[step] else {
            return match self.replicas[step - 1] {
                Some(_) => delete(project, self.name).await,
                None => Ok(()),
            };
        };
        let wanted = workload(self.name, &[("us", &["DFW"], replicas)]);
        let change = json!({"spec": {"placements": wanted["spec"]["placements"]}});
        patch::<Workload>(&project.api(), self.name, change).await?;
        project.until_available(self.name, replicas).await
    }

    /// Checks all versions of the copy so far. The generation that the copy carries never falls, and its replicas are
    /// never those of an earlier step. A copy that is gone stays gone.
    async fn was_never_rolled_back(
        &self,
        history: &VersionHistory,
        copies: &Api<WorkloadDeployment>,
    ) -> anyhow::Result<()> {
        let seen = history.until_now(copies, &self.copy()).await?;
        ensure!(seen.lists == 1, "versions of {} may be missing", self.name);
        let mut before = (0, 0);
        let mut described = Vec::new();
        for version in &seen.versions {
            let carried = version.object.annotations();
            let carried = carried.get(annotations::UPSTREAM_GENERATION);
            let carried: i64 = carried.context("no upstream generation")?.parse()?;
            let replicas = version.object.spec.scale_settings.min_replicas;
            let step = self.replicas.iter().position(|it| *it == Some(replicas));
            let now = (carried, step.context("a spec that was never wanted")?);
            described.push(format!("{now:?} gone {}", version.gone));
            ensure!(
                now.0 >= before.0 && now.1 >= before.1,
                "{} was rolled back: {described:#?}",
                self.name
            );
            before = now;
        }
        let ends = seen.versions.iter().position(|version| version.gone);
        ensure!(
            ends.is_none_or(|end| end + 1 == seen.versions.len()),
            "{} was made again",
            self.name
        );
        Ok(())
    }
}

async fn delete(project: &FleetProject<'_>, name: &str) -> anyhow::Result<()> {
    let workloads: Api<Workload> = project.api();
    workloads.delete(name, &DeleteParams::default()).await?;
    wait::gone(&workloads, name, WITHIN).await?;
    let copies: Api<WorkloadDeployment> = project.on_hub();
    wait::gone(&copies, &format!("{name}-us-dfw"), WITHIN).await
}

/// Waits until a metric of the manager has at least this value.
async fn until_counted(manager: &Manager, metric: &str, least: usize) -> anyhow::Result<()> {
    let metric = format!("compute_federation_{metric} ");
    wait::eventually(&metric, WITHIN, || async {
        let metrics = manager.metrics().await?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(&metric));
        let value = value.and_then(|value| value.parse::<f64>().ok());
        let value = value.context("the metrics do not contain it")?;
        ensure!(value >= f64::from(u32::try_from(least)?), "{value}");
        Ok(())
    })
    .await
}
