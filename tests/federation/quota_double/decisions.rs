//! What the controllers decide.

use anyhow::{Context, ensure};
use api::DEFAULT_NAMESPACE;
use harness::quota::{
    INSTANCES, MEMORY, QuotaBucket, QuotaClaim, QuotaDecision, SYSTEM_NAMESPACE, VCPUS,
};
use harness::wait;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{DENIED, Ledger, OTHER, PROJECT, claim, granted, told};
use crate::fixture::{WITHIN, create};

/// Returns the decision about a request: its status, reason, message and amount.
fn decision(claim: &QuotaClaim, resource_type: &str) -> (QuotaDecision, String, String, i64) {
    let allocation = claim.allocation(resource_type).expect("a decision").clone();
    let granted = allocation.status == QuotaDecision::Granted;
    assert_ne!(
        allocation.allocating_bucket.is_empty(),
        granted,
        "{allocation:?}"
    );
    (
        allocation.status,
        allocation.reason,
        allocation.message,
        allocation.allocated_amount,
    )
}

fn reserved(amount: i64) -> (QuotaDecision, String, String, i64) {
    let (reason, message) = ("QuotaAvailable", "Capacity reserved");
    (
        QuotaDecision::Granted,
        reason.to_owned(),
        message.to_owned(),
        amount,
    )
}

fn exceeded(requested: i64, available: i64) -> (QuotaDecision, String, String, i64) {
    let message = format!("Resource quota exceeded: requested {requested}, available {available}");
    (
        QuotaDecision::Denied,
        "QuotaExceeded".to_owned(),
        message,
        0,
    )
}

/// Checks that no controller has written the claim since. The bucket that is counted later proves that they have run.
async fn unchanged(ledger: &Ledger, since: &QuotaClaim) -> anyhow::Result<()> {
    let now = ledger.claims.get(&since.name_any()).await?;
    ensure!(now == *since, "{since:?} has become {now:?}");
    Ok(())
}

/// Without a grant, a claim makes a bucket with the limit 0 and is denied. A later grant does not change this.
pub(super) async fn without_a_grant_a_claim_is_denied(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.claim("early", &[(VCPUS, 1000)]).await?;
    let early = ledger.decided("early", "QuotaExceeded").await?;
    assert_eq!(told(&early), DENIED);
    assert!(granted(&early).is_false());
    assert_eq!(
        granted(&early).observed_generation,
        early.metadata.generation
    );
    assert_eq!(decision(&early, VCPUS), exceeded(1000, 0));
    let bucket = ledger.counted(VCPUS, (0, 0, 0)).await?;
    assert_eq!(bucket.grant_count, 0);

    ledger.system.set_limit(PROJECT, VCPUS, 4000).await?;
    let bucket = ledger.counted(VCPUS, (4000, 0, 0)).await?;
    assert_eq!(bucket.grant_count, 1);
    assert_eq!(bucket.contributing_grant_refs[0].amount, 4000);
    // A later claim is granted, so the controllers have seen the grant.
    ledger.claim("later", &[(VCPUS, 1000)]).await?;
    ledger.decided("later", "QuotaAvailable").await?;
    unchanged(ledger, &early).await?;
    // The same claim, made anew, is granted.
    ledger.delete("early").await?;
    ledger.claim("early", &[(VCPUS, 1000)]).await?;
    ledger.decided("early", "QuotaAvailable").await?;
    for name in ["early", "later"] {
        ledger.delete(name).await?;
    }
    ledger.counted(VCPUS, (4000, 0, 0)).await.map(drop)
}

/// A claim with three requests is granted by three buckets.
pub(super) async fn a_claim_is_granted(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.system.set_limit(PROJECT, INSTANCES, 2).await?;
    ledger.system.set_limit(PROJECT, MEMORY, 8192).await?;
    ledger.counted(INSTANCES, (2, 0, 0)).await?;
    ledger.counted(MEMORY, (8192, 0, 0)).await?;
    ledger
        .claim("whole", &[(INSTANCES, 1), (VCPUS, 1500), (MEMORY, 2048)])
        .await?;
    let whole = ledger.decided("whole", "QuotaAvailable").await?;
    assert!(granted(&whole).is_true());
    assert_eq!(
        granted(&whole).message,
        "All 3 resource requests have been granted"
    );
    for (resource_type, limit, amount) in
        [(INSTANCES, 2, 1), (VCPUS, 4000, 1500), (MEMORY, 8192, 2048)]
    {
        assert_eq!(decision(&whole, resource_type), reserved(amount));
        ledger.counted(resource_type, (limit, amount, 1)).await?;
        assert_eq!(
            ledger.system.allocated(PROJECT, resource_type).await?,
            amount
        );
    }
    let allocation = whole.allocation(INSTANCES).context("no decision")?;
    // printf 'compute.datumapis.com/instancesProjecta' | sha256sum
    let name = "bucket-a0b8c342d92dfcc6159ef8e4578c0d3bad38416e7775e0293850fe41cfd7e799";
    assert_eq!(allocation.allocating_bucket, name);
    let buckets: Api<QuotaBucket> =
        Api::namespaced(ledger.claims.clone().into_client(), SYSTEM_NAMESPACE);
    let bucket = buckets.get(name).await?;
    assert_eq!(bucket.spec.resource_type, INSTANCES);
    assert_eq!(
        bucket.labels()["quota.miloapis.com/consumer-kind"],
        "Project"
    );
    assert_eq!(bucket.labels()["quota.miloapis.com/consumer-name"], PROJECT);
    let selected =
        ListParams::default().fields("spec.consumerRef.name=a,spec.consumerRef.kind=Project");
    assert_eq!(buckets.list(&selected).await?.items.len(), 3);
    let selected = ListParams::default().fields(&format!("spec.resourceType={VCPUS}"));
    assert_eq!(buckets.list(&selected).await?.items.len(), 1);

    // More than what is left is denied. Deleting the claim frees the capacity.
    ledger.claim("too-much", &[(INSTANCES, 2)]).await?;
    let denied = ledger.decided("too-much", "QuotaExceeded").await?;
    assert_eq!(decision(&denied, INSTANCES), exceeded(2, 1));
    for name in ["whole", "too-much"] {
        ledger.delete(name).await?;
    }
    for (resource_type, limit) in [(INSTANCES, 2), (VCPUS, 4000), (MEMORY, 8192)] {
        ledger.counted(resource_type, (limit, 0, 0)).await?;
    }
    Ok(())
}

/// The requests of a claim are decided one by one. What a denied claim was granted is free only when it is deleted.
pub(super) async fn a_denied_claim_keeps_its_granted_part(ledger: &Ledger) -> anyhow::Result<()> {
    ledger
        .claim("partial", &[(INSTANCES, 2), (MEMORY, 9000)])
        .await?;
    let denied = ledger.decided("partial", "QuotaExceeded").await?;
    // The condition may be written before the other bucket has decided.
    ledger.counted(INSTANCES, (2, 2, 1)).await?;
    let decided = |claim: &QuotaClaim| claim.allocation(INSTANCES).is_some();
    let partial = wait::until(&ledger.claims, "partial", "decided", WITHIN, decided).await?;
    assert_eq!(told(&partial), DENIED);
    assert_eq!(decision(&partial, INSTANCES), reserved(2));
    assert_eq!(decision(&denied, MEMORY), exceeded(9000, 8192));

    ledger.system.set_limit(PROJECT, MEMORY, 16384).await?;
    ledger.counted(MEMORY, (16384, 0, 0)).await?;
    ledger
        .claim("other", &[(INSTANCES, 1), (MEMORY, 9000)])
        .await?;
    let other = ledger.decided("other", "QuotaExceeded").await?;
    assert_eq!(decision(&other, INSTANCES), exceeded(1, 0));
    unchanged(ledger, &partial).await?;
    for name in ["partial", "other"] {
        ledger.delete(name).await?;
    }
    ledger.counted(INSTANCES, (2, 0, 0)).await?;
    ledger.counted(MEMORY, (16384, 0, 0)).await.map(drop)
}

/// A limit below what is allocated denies later claims only.
pub(super) async fn a_lower_limit_changes_no_decision(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.claim("before", &[(INSTANCES, 2)]).await?;
    let before = ledger.decided("before", "QuotaAvailable").await?;
    ledger.system.set_limit(PROJECT, INSTANCES, 1).await?;
    ledger.counted(INSTANCES, (1, 2, 1)).await?;
    ledger.claim("after", &[(INSTANCES, 1)]).await?;
    let after = ledger.decided("after", "QuotaExceeded").await?;
    assert_eq!(decision(&after, INSTANCES), exceeded(1, 0));
    unchanged(ledger, &before).await?;
    for name in ["before", "after"] {
        ledger.delete(name).await?;
    }
    ledger.counted(INSTANCES, (1, 0, 0)).await.map(drop)
}

/// The name of a bucket ignores the namespace of the consumer, but the claim of another namespace is not the bucket's.
pub(super) async fn the_consumer_must_match_exactly(ledger: &Ledger) -> anyhow::Result<()> {
    let mut foreign = claim(PROJECT, "foreign", &[(INSTANCES, 1)]);
    foreign["spec"]["consumerRef"]["namespace"] = json!("default");
    create(&ledger.claims, foreign).await?;
    let message = "Awaiting capacity evaluation: 0 granted, 1 pending";
    let looked_at = |claim: &QuotaClaim| granted(claim).message == message;
    wait::until(&ledger.claims, "foreign", message, WITHIN, looked_at).await?;
    ledger.claim("own", &[(INSTANCES, 1)]).await?;
    ledger.decided("own", "QuotaAvailable").await?;
    let foreign = ledger.claims.get("foreign").await?;
    assert_eq!(told(&foreign), ("PendingEvaluation", message));
    for name in ["foreign", "own"] {
        ledger.delete(name).await?;
    }
    ledger.counted(INSTANCES, (1, 0, 0)).await.map(drop)
}

/// An administrator can take a grant away. The condition and the buckets follow.
pub(super) async fn a_revoked_claim_is_denied(ledger: &Ledger) -> anyhow::Result<()> {
    ledger
        .claim("revoked", &[(INSTANCES, 1), (VCPUS, 500)])
        .await?;
    ledger.decided("revoked", "QuotaAvailable").await?;
    ledger
        .system
        .revoke(PROJECT, DEFAULT_NAMESPACE, "revoked")
        .await?;
    let revoked = ledger.decided("revoked", "QuotaExceeded").await?;
    assert_eq!(told(&revoked), DENIED);
    ledger.counted(INSTANCES, (1, 0, 0)).await?;
    ledger.counted(VCPUS, (4000, 0, 0)).await?;
    ledger.delete("revoked").await
}

/// Grants, claims and buckets of one project do not count in another.
pub(super) async fn projects_are_separate(ledger: &Ledger) -> anyhow::Result<()> {
    assert_eq!(ledger.system.bucket(OTHER, INSTANCES).await?, None);
    ledger.system.set_limit(OTHER, INSTANCES, 7).await?;
    wait::eventually("the other project has a limit", WITHIN, || async {
        let bucket = ledger.system.bucket(OTHER, INSTANCES).await?;
        let limit = bucket.context("no bucket")?.limit;
        ensure!(limit == 7, "{limit}");
        Ok(())
    })
    .await?;
    ledger.claim("here", &[(INSTANCES, 1)]).await?;
    ledger.decided("here", "QuotaAvailable").await?;
    let names: Vec<_> = ledger.system.claims(PROJECT).await?;
    let names: Vec<_> = names.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["here"]);
    assert_eq!(ledger.system.claims(OTHER).await?, []);
    assert_eq!(ledger.system.allocated(OTHER, INSTANCES).await?, 0);
    ledger.counted(INSTANCES, (1, 1, 1)).await?;
    ledger.delete("here").await
}
