//! Someone changes the claims of Instances that wait or run.

use anyhow::{Context, ensure};
use api::annotations::INSTANCE_UID;
use api::condition::{self, ConditionStatus};
use api::instance::{PROGRAMMED, QUOTA_GATE, QUOTA_GRANTED, READY, RUNNING};
use api::quota::{GRANTED, ResourceClaim};
use api::{Instance, Workload};
use harness::milo::StatusError;
use harness::proxy::{FaultRule, ProxyFault};
use harness::quota::{INSTANCES, MEMORY, VCPUS};
use harness::wait;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::fixture::{CONVERGED, GatedFederation, PROJECT, claimant};
use super::pauses::left_claims;
use crate::fixture::{DFW, Space, WITHIN, image_change, is_ready, patch};
use crate::settled::quiet;

/// A claim that is deleted by hand is made again: while it is not decided, while it is denied, and while its Instance
/// runs. The Instance that runs does not notice.
pub(crate) async fn a_claim_is_deleted_by_hand(gated: &GatedFederation) -> anyhow::Result<()> {
    let (space, name) = (gated.space("deleted").await?, "web-us-dfw-0");
    gated.quota.pause().await;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    delete_claim(gated, &space, name).await?;
    claim_of(gated, &space, name).await?;

    // A claim that holds nothing stays while its Instance is denied.
    for resource in [INSTANCES, VCPUS, MEMORY] {
        gated.quota.set_limit(PROJECT, resource, 0).await?;
    }
    gated.quota.resume().await;
    until_quota(&space, name, ConditionStatus::False, "QuotaExceeded").await?;
    delete_claim(gated, &space, name).await?;
    claim_of(gated, &space, name).await?;
    gated.allow_all().await?;
    space.until_settled("web", 1).await?;
    gated.until_all_run(&space, &[DFW], 1).await?;
    // The status of the interface comes after the start.
    quiet(&gated.federation).await?;

    let before = space.in_cell::<Instance>(DFW).get(name).await?;
    delete_claim(gated, &space, name).await?;
    wait::eventually("the new claim is granted", WITHIN, || async {
        let claim = claim_of(gated, &space, name).await?;
        let status = claim.status.unwrap_or_default();
        ensure!(
            condition::is_true(&status.conditions, GRANTED),
            "{status:?}"
        );
        Ok(())
    })
    .await?;
    quiet(&gated.federation).await?;
    gated.until_all_run(&space, &[DFW], 1).await?;
    let after = space.in_cell::<Instance>(DFW).get(name).await?;
    ensure!(
        (after.uid(), &after.spec, &after.status) == (before.uid(), &before.spec, &before.status),
        "the Instance has changed:\n{before:#?}\n{after:#?}"
    );
    gated.delete(&space, "web").await
}

/// The request for a claim has no answer, so the claim can come when its Instance has ended. Its project is recorded until
/// no claim has come for a minute.
pub(crate) async fn a_claim_can_come_late(gated: &GatedFederation) -> anyhow::Result<()> {
    let (space, name) = (gated.space("late"), "web-us-dfw-0");
    let space = space.await?;
    let unanswered = gated.proxies.quota.inject(FaultRule::new(
        ProxyFault::Answer(StatusError::internal()),
        |request| request.method == "POST" && request.path.contains("/resourceclaims"),
    ));
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    wait::eventually("a claim is requested", WITHIN, || async {
        ensure!(unanswered.hits() > 0, "no request");
        Ok(())
    })
    .await?;
    let workloads = space.in_project::<Workload>();
    workloads.delete("web", &DeleteParams::default()).await?;
    wait::gone(&space.in_cell::<Instance>(DFW), name, CONVERGED).await?;
    ensure!(left_claims(gated).await?.is_some(), "nothing is recorded");
    drop(unanswered);
    wait::eventually("the record is gone", CONVERGED, || async {
        let left = left_claims(gated).await?;
        ensure!(left.is_none(), "recorded: {left:?}");
        Ok(())
    })
    .await?;
    gated.until_nothing_is_left(&space).await
}

/// I-31: the claim of an Instance passes to the one that replaces it, so nobody else can get its quota in between.
pub(crate) async fn a_replacement_keeps_its_claim(gated: &GatedFederation) -> anyhow::Result<()> {
    let (space, name) = (gated.space("replaced").await?, "web-us-dfw-0");
    gated.allow(1).await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let before = space.in_cell::<Instance>(DFW).get(name).await?;
    let claim = claim_of(gated, &space, name).await?;
    // This one takes whatever becomes free.
    space
        .create_workload("greedy", &[("us", &["DFW"], 1)])
        .await?;
    let denied = "greedy-us-dfw-0";
    until_quota(&space, denied, ConditionStatus::False, "QuotaExceeded").await?;
    patch::<Workload>(&space.in_project(), "web", image_change("app:2")).await?;
    let is_next = |it: &Instance| it.uid() != before.uid() && is_ready(it);
    let next = wait::until(&space.in_cell(DFW), name, "replaced", CONVERGED, is_next).await?;
    let kept = claim_of(gated, &space, name).await?;
    ensure!(kept.uid() == claim.uid(), "the claim was made anew");
    let of = kept.annotations().get(INSTANCE_UID).cloned();
    ensure!(of == next.uid(), "the claim is for {of:?}");
    until_quota(&space, denied, ConditionStatus::False, "QuotaExceeded").await?;
    gated.allow_all().await?;
    for workload in ["web", "greedy"] {
        let params = DeleteParams::default();
        space
            .in_project::<Workload>()
            .delete(workload, &params)
            .await?;
    }
    gated.until_nothing_is_left(&space).await
}

/// A revoked grant stops no Instance that runs. It keeps a gate closed whose condition is stored already.
pub(crate) async fn a_grant_is_revoked(gated: &GatedFederation) -> anyhow::Result<()> {
    let space = gated.space("revoked").await?;
    revoked_while_running(gated, &space).await?;
    revoked_before_the_gate_opens(gated, &space).await?;
    for workload in ["runs", "held"] {
        let params = DeleteParams::default();
        space
            .in_project::<Workload>()
            .delete(workload, &params)
            .await?;
    }
    gated.until_nothing_is_left(&space).await
}

async fn revoked_while_running(gated: &GatedFederation, space: &Space<'_>) -> anyhow::Result<()> {
    let name = "runs-us-dfw-0";
    space
        .create_workload("runs", &[("us", &["DFW"], 1)])
        .await?;
    space.until_settled("runs", 1).await?;
    let before = space.in_cell::<Instance>(DFW).get(name).await?;
    gated.allow(0).await?;
    revoke(gated, space, name).await?;
    let denied = until_quota(space, name, ConditionStatus::False, "QuotaExceeded").await?;
    let status = denied.status.clone().unwrap_or_default();
    for type_ in [PROGRAMMED, RUNNING] {
        ensure!(
            condition::is_true(&status.conditions, type_),
            "{type_} is not True"
        );
    }
    ensure!(
        denied.uid() == before.uid() && denied.spec == before.spec,
        "the Instance that runs has changed: {denied:#?}"
    );
    let is_shown = |instance: &Instance| has_quota_reason(instance, "QuotaExceeded");
    wait::until(&space.in_project(), name, "denied", WITHIN, is_shown).await?;
    gated.allow_all().await?;
    until_quota(space, name, ConditionStatus::True, "QuotaAvailable").await?;
    space.until_settled("runs", 1).await.map(drop)
}

async fn revoked_before_the_gate_opens(
    gated: &GatedFederation,
    space: &Space<'_>,
) -> anyhow::Result<()> {
    let name = "held-us-dfw-0";
    // Conditions are written, but no gate is removed.
    let gate_stays = gated.proxies.cell.inject(FaultRule::new(
        ProxyFault::Answer(StatusError::internal()),
        |request| request.is_write() && request.path.ends_with("/instances/held-us-dfw-0"),
    ));
    space
        .create_workload("held", &[("us", &["DFW"], 1)])
        .await?;
    until_quota(space, name, ConditionStatus::True, "QuotaAvailable").await?;
    gated.allow(0).await?;
    revoke(gated, space, name).await?;
    until_quota(space, name, ConditionStatus::False, "QuotaExceeded").await?;
    ensure!(gate_stays.hits() > 0, "the gate was not tried");
    drop(gate_stays);
    // Only the gate of the network opens.
    let waits_for_quota = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let ready = condition::find(&status.conditions, READY);
        gates(instance) == [QUOTA_GATE] && ready.is_some_and(|it| it.reason == "PendingQuota")
    };
    let what = "without quota";
    for instances in [space.in_cell(DFW), space.in_project()] {
        wait::until(&instances, name, what, CONVERGED, waits_for_quota).await?;
    }
    gated.allow_all().await?;
    space.until_settled("held", 1).await.map(drop)
}

/// Milo refuses creates and updates in a suspended project. An Instance waits and says so. What runs can end.
pub(crate) async fn a_project_is_suspended(gated: &GatedFederation) -> anyhow::Result<()> {
    let space = gated.space("suspended").await?;
    space
        .create_workload("ends", &[("us", &["DFW"], 1)])
        .await?;
    space.until_settled("ends", 1).await?;
    // The management plane still has its access, because it must bring the Workload to the cell.
    let suspended = gated.proxies.quota.inject(FaultRule::new(
        ProxyFault::Answer(StatusError::suspended(PROJECT)),
        |request| request.is_write() && request.method != "DELETE",
    ));
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    let is_told = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let granted = condition::find(&status.conditions, QUOTA_GRANTED);
        granted.is_some_and(|it| {
            it.reason == "QuotaMisconfigured" && it.message.contains("is suspended")
        })
    };
    let name = "web-us-dfw-0";
    for instances in [space.in_cell(DFW), space.on_hub(), space.in_project()] {
        wait::until(&instances, name, "suspended", WITHIN, is_told).await?;
    }
    space.delete_workload("ends").await?;
    wait::eventually("the claim has ended", WITHIN, || async {
        let claims = gated.claims(&space).await?;
        ensure!(claims.is_empty(), "{} claims", claims.len());
        Ok(())
    })
    .await?;
    drop(suspended);
    space.until_settled("web", 1).await?;
    gated.until_all_run(&space, &[DFW], 1).await?;
    gated.delete(&space, "web").await
}

/// Waits until an Instance of DFW has a claim that is not being deleted.
pub(super) async fn claim_of(
    gated: &GatedFederation,
    space: &Space<'_>,
    instance: &str,
) -> anyhow::Result<ResourceClaim> {
    let expected = format!("{DFW} {instance}");
    wait::eventually("the Instance has a claim", WITHIN, || async {
        let mut claims = gated.claims(space).await?.into_iter();
        let found = claims.find(|claim| {
            claimant(claim) == expected && claim.metadata.deletion_timestamp.is_none()
        });
        found.with_context(|| format!("no claim of {instance}"))
    })
    .await
}

/// Deletes the claim of an Instance of DFW, and waits until it is gone.
async fn delete_claim(
    gated: &GatedFederation,
    space: &Space<'_>,
    instance: &str,
) -> anyhow::Result<()> {
    let claim = claim_of(gated, space, instance).await?;
    let claims = space.in_project::<ResourceClaim>();
    claims
        .delete(&claim.name_any(), &DeleteParams::default())
        .await?;
    wait::eventually("the claim is gone", WITHIN, || async {
        let claims = gated.claims(space).await?;
        let is_gone = claims.iter().all(|it| it.uid() != claim.uid());
        ensure!(is_gone, "the claim is there");
        Ok(())
    })
    .await
}

async fn revoke(gated: &GatedFederation, space: &Space<'_>, instance: &str) -> anyhow::Result<()> {
    let claim = claim_of(gated, space, instance).await?;
    gated
        .quota
        .revoke(PROJECT, &space.name, &claim.name_any())
        .await
}

/// Waits until an Instance of DFW has this condition, and returns it.
async fn until_quota(
    space: &Space<'_>,
    name: &str,
    status: ConditionStatus,
    reason: &str,
) -> anyhow::Result<Instance> {
    let is_so = |instance: &Instance| {
        let stored = instance.status.clone().unwrap_or_default();
        let granted = condition::find(&stored.conditions, QUOTA_GRANTED);
        granted.is_some_and(|it| it.status == status && it.reason == reason)
    };
    wait::until(&space.in_cell(DFW), name, reason, CONVERGED, is_so).await
}

fn has_quota_reason(instance: &Instance, reason: &str) -> bool {
    let status = instance.status.clone().unwrap_or_default();
    let granted = condition::find(&status.conditions, QUOTA_GRANTED);
    granted.is_some_and(|it| it.reason == reason)
}

pub(super) fn gates(instance: &Instance) -> Vec<&str> {
    let controller = instance.spec.controller.as_ref();
    let gates = controller.iter().flat_map(|it| &it.scheduling_gates);
    gates.map(|gate| gate.name.as_str()).collect()
}
