//! The API server of the project hangs, and with it the quota system.

use std::time::Duration;

use anyhow::ensure;
use api::annotations::LEFT_CLAIMS;
use api::condition;
use api::instance::{QUOTA_GATE, QUOTA_GRANTED};
use api::{DEFAULT_NAMESPACE, Instance, Workload, WorkloadDeployment};
use harness::audit::AuditPosition;
use harness::milo::StatusError;
use harness::proxy::{FaultRule, ProxyFault};
use harness::{PausedPlane, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep_until};

use super::claims::{claim_of, gates};
use super::fixture::{CONVERGED, GatedFederation};
use crate::fixture::{DFW, Space, WITHIN};

/// Longer than a request to a project waits for an answer.
const SHORT: Duration = Duration::from_secs(10);
/// Longer than an Instance that ends waits for the proof that it has no claim.
const LONG: Duration = Duration::from_mins(5);
/// The longest such wait (docs/concepts/flow.md#quota), and the time for the last write.
const ENDS_WITHIN: Duration = Duration::from_secs(120 + 10);
/// The Workloads, by what their Instance does when the project stops to answer.
const ENDS: &str = "ends";
const GRANTED: &str = "granted";
const PENDING: &str = "pending";
const FRESH: &str = "fresh";

pub(crate) async fn a_short_pause_of_the_ledger(gated: &GatedFederation) -> anyhow::Result<()> {
    pause(gated, SHORT).await
}

pub(crate) async fn a_long_pause_of_the_ledger(gated: &GatedFederation) -> anyhow::Result<()> {
    pause(gated, LONG).await
}

/// Suspends the project while one Instance has no claim, one waits for a decision, one has a granted claim and a closed
/// gate, and one ends. The gate of the granted one opens, and no other. If the pause is long enough, the Instance that
/// ends is gone.
async fn pause(gated: &GatedFederation, length: Duration) -> anyhow::Result<()> {
    let space = gated.space("paused").await?;
    create(&space, ENDS).await?;
    space.until_settled(ENDS, 1).await?;
    let gate_stays = gated.proxies.cell.inject(FaultRule::new(
        ProxyFault::Answer(StatusError::internal()),
        |request| request.is_write() && request.path.contains("/instances/granted-"),
    ));
    // The deletion of the claim is tried every second.
    let claim_stays = gated.proxies.quota.inject(FaultRule::new(
        ProxyFault::Answer(StatusError::conflict()),
        |request| request.method == "DELETE" && request.path.contains("-ends-"),
    ));
    create(&space, GRANTED).await?;
    wait::eventually("a granted claim", WITHIN, || async {
        let claim = claim_of(gated, &space, &instance(GRANTED)).await?;
        let status = claim.status.unwrap_or_default();
        ensure!(condition::is_true(&status.conditions, api::quota::GRANTED));
        Ok(())
    })
    .await?;
    gated.quota.pause().await;
    create(&space, PENDING).await?;
    claim_of(gated, &space, &instance(PENDING)).await?;
    let workloads = space.in_project::<Workload>();
    workloads.delete(ENDS, &DeleteParams::default()).await?;
    let is_ending = |it: &Instance| it.metadata.deletion_timestamp.is_some();
    wait::until(
        &space.in_cell(DFW),
        &instance(ENDS),
        "ending",
        WITHIN,
        is_ending,
    )
    .await?;
    // The claim is deleted after the other finalizers have gone.
    wait::eventually("the claim is to be deleted", WITHIN, || async {
        ensure!(claim_stays.hits() > 0, "no request");
        Ok(())
    })
    .await?;
    let project = gated.federation.project();
    let position = AuditPosition::now([project])?;
    create(&space, FRESH).await?;
    let is_there = |_: &WorkloadDeployment| true;
    wait::until(&space.on_hub(), "fresh-us-dfw", "there", WITHIN, is_there).await?;

    let (paused, begin) = (PausedPlane::new(project)?, Instant::now());
    ensure!(gate_stays.hits() > 0, "no fault was injected");
    drop((gate_stays, claim_stays));
    until_told(&space, FRESH).await?;
    let has_started = |it: &Instance| gates(it).is_empty();
    let granted = instance(GRANTED);
    wait::until(&space.in_cell(DFW), &granted, "open", WITHIN, has_started).await?;
    if length > ENDS_WITHIN {
        until_claim_is_left(gated, &space, begin).await?;
    }
    the_others_are_closed(&space).await?;
    // This sleep is the rest of the pause.
    sleep_until(begin + length).await;
    the_others_are_closed(&space).await?;
    drop(paused);
    gated.quota.resume().await;

    let back = Instant::now();
    for workload in [GRANTED, PENDING, FRESH] {
        space.until_settled(workload, 1).await?;
    }
    gated.until_all_run(&space, &[DFW], 3).await?;
    eprintln!(
        "all run {:.1} s after the project was back",
        back.elapsed().as_secs_f64()
    );
    let writes = position.writes()?;
    let made = writes.iter().filter(|write| {
        (write.verb.as_str(), write.resource.as_str()) == ("create", "resourceclaims")
    });
    ensure!(
        made.count() == 1,
        "not one claim was made after the pause: {writes:#?}"
    );
    wait::eventually("the record is gone", CONVERGED, || async {
        let left = left_claims(gated).await?;
        ensure!(left.is_none(), "recorded: {left:?}");
        Ok(())
    })
    .await?;
    for workload in [GRANTED, PENDING, FRESH] {
        workloads.delete(workload, &DeleteParams::default()).await?;
    }
    for workload in [ENDS, GRANTED, PENDING, FRESH] {
        wait::gone(&workloads, workload, CONVERGED).await?;
    }
    gated.until_nothing_is_left(&space).await
}

/// Waits until the Instance that ends is gone without its claim, and restarts the process of the cell. The next process
/// finds the claim. `begin` is the time at which the project stopped to answer.
async fn until_claim_is_left(
    gated: &GatedFederation,
    space: &Space<'_>,
    begin: Instant,
) -> anyhow::Result<()> {
    let instances = space.in_cell::<Instance>(DFW);
    wait::gone(&instances, &instance(ENDS), ENDS_WITHIN).await?;
    eprintln!(
        "the Instance has ended {:.1} s after the project stopped to answer",
        begin.elapsed().as_secs_f64()
    );
    let left = left_claims(gated).await?;
    ensure!(left.is_some(), "the claim that was left is not recorded");
    let mut manager = gated.federation.cell_manager(DFW)?.lock().await;
    manager.kill().await;
    manager.restart().await
}

/// Returns the record of the projects in which claims may be left.
pub(super) async fn left_claims(gated: &GatedFederation) -> anyhow::Result<Option<String>> {
    recorded(gated.federation.cell(DFW)?.client()).await
}

/// Waits until no cell has a record of projects in which claims may be left. It goes after a minute.
pub(super) async fn until_nothing_is_recorded(gated: &GatedFederation) -> anyhow::Result<()> {
    for cell in gated.federation.cells() {
        wait::eventually("the record is gone", CONVERGED, || async {
            let left = recorded(cell.client()).await?;
            ensure!(left.is_none(), "{} has recorded {left:?}", cell.name());
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn recorded(cell: Client) -> anyhow::Result<Option<String>> {
    let default = Api::<Namespace>::all(cell).get(DEFAULT_NAMESPACE).await?;
    Ok(default.annotations().get(LEFT_CLAIMS).cloned())
}

/// Waits until an Instance says that the project does not answer.
async fn until_told(space: &Space<'_>, workload: &str) -> anyhow::Result<()> {
    let is_told = |it: &Instance| {
        let status = it.status.clone().unwrap_or_default();
        let granted = condition::find(&status.conditions, QUOTA_GRANTED);
        granted.is_some_and(|it| it.reason == "QuotaBackendUnavailable")
    };
    let (instances, name) = (space.in_cell(DFW), instance(workload));
    wait::until(&instances, &name, "without an answer", WITHIN, is_told).await?;
    Ok(())
}

/// Checks that the gates of the Instances without a grant are closed.
async fn the_others_are_closed(space: &Space<'_>) -> anyhow::Result<()> {
    let instances = space.in_cell::<Instance>(DFW);
    for workload in [PENDING, FRESH] {
        let waiting = instances.get(&instance(workload)).await?;
        ensure!(
            gates(&waiting).contains(&QUOTA_GATE),
            "{} has no gate",
            waiting.name_any()
        );
    }
    Ok(())
}

async fn create(space: &Space<'_>, workload: &str) -> anyhow::Result<()> {
    let placements: &[(&str, &[&str], i32)] = &[("us", &["DFW"], 1)];
    space.create_workload(workload, placements).await.map(drop)
}

/// Returns the name of the only Instance of a Workload.
fn instance(workload: &str) -> String {
    format!("{workload}-us-dfw-0")
}
