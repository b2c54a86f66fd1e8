//! When the controllers write, in which order, and as whom.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api::DEFAULT_NAMESPACE;
use futures::{StreamExt, TryStreamExt};
use harness::Milo;
use harness::milo::ControlPlane;
use harness::quota::{
    INSTANCES, QuotaBucket, QuotaClaim, QuotaDecision, QuotaDelays, QuotaSystem, SYSTEM_NAMESPACE,
    VCPUS,
};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{Ledger, PENDING, PROJECT, claim, told};
use crate::fixture::{WITHIN, create};

/// Time of a wait for a write that must not occur. The delays of the controllers are a twentieth of it.
const SILENCE: Duration = Duration::from_secs(1);
/// The project whose API server is stopped.
const LEDGER: &str = "ledger";

/// Returns the current version of a kind.
async fn now<K>(api: &Api<K>) -> anyhow::Result<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let listed = api.list(&ListParams::default()).await?;
    listed
        .metadata
        .resource_version
        .context("the list has no version")
}

/// Watches a kind from this version on, and returns what `matches` first returns.
async fn first<K, T>(
    api: &Api<K>,
    since: &str,
    matches: impl Fn(&K) -> Option<T>,
) -> anyhow::Result<T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut events = api.watch(&WatchParams::default(), since).await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
            && let Some(found) = matches(&object)
        {
            return Ok(found);
        }
    }
    bail!("the watch has ended")
}

/// The resource versions of one API server grow with every write.
fn version(object: &impl ResourceExt) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().expect("a number")
}

/// While the controllers are paused, a claim stays pending although there is room.
pub(super) async fn nothing_is_decided_while_paused(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.claim("waits", &[(INSTANCES, 1)]).await?;
    let since = now(&ledger.claims).await?;
    let written = first(&ledger.claims, &since, |claim| Some(claim.clone()));
    if let Ok(claim) = timeout(SILENCE, written).await {
        bail!("a claim is written: {:?}", claim?)
    }
    assert_eq!(told(&ledger.claims.get("waits").await?), PENDING);
    assert_eq!(ledger.system.bucket(PROJECT, INSTANCES).await?, None);
    ledger.delete("waits").await
}

/// The bucket reserves before the claim has the decision, and the condition follows the decision. Each has a field
/// manager of its own.
pub(super) async fn the_bucket_precedes_the_claim(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.counted(INSTANCES, (1, 0, 0)).await?;
    let client = ledger.claims.clone().into_client();
    let buckets: Api<QuotaBucket> = Api::namespaced(client, SYSTEM_NAMESPACE);
    ledger.system.pause().await;
    let (of_buckets, of_claims) = (now(&buckets).await?, now(&ledger.claims).await?);
    let reserved = first(&buckets, &of_buckets, |bucket: &QuotaBucket| {
        let status = bucket.status.as_ref()?;
        let of_instances = bucket.spec.resource_type == INSTANCES && status.allocated == 1;
        of_instances.then(|| version(bucket))
    });
    let decided = first(&ledger.claims, &of_claims, |claim: &QuotaClaim| {
        let allocation = claim.allocation(INSTANCES)?;
        assert_eq!(allocation.status, QuotaDecision::Granted);
        Some((version(claim), claim.granted()?.is_true()))
    });
    let shown = first(&ledger.claims, &of_claims, |claim: &QuotaClaim| {
        let is_true = claim.granted()?.is_true();
        is_true.then(|| (version(claim), claim.clone()))
    });
    let begin = async {
        ledger
            .claim("ordered", &[(INSTANCES, 1), (VCPUS, 100)])
            .await?;
        ledger.system.resume().await;
        anyhow::Ok(())
    };
    let all = async { tokio::try_join!(reserved, decided, shown, begin) };
    let (reserved, (decided, is_true), (shown, claim), ()) = timeout(WITHIN, all).await??;
    ensure!(
        reserved < decided && decided < shown && !is_true,
        "reserved at {reserved}, decided at {decided}, shown at {shown}"
    );
    let mut managers: Vec<_> = claim
        .managed_fields()
        .iter()
        .filter(|entry| entry.subresource.as_deref() == Some("status"))
        .map(|entry| {
            let operation = entry.operation.clone().unwrap_or_default();
            (entry.manager.clone().unwrap_or_default(), operation)
        })
        .collect();
    managers.sort();
    let bucket = |resource_type| {
        let allocation = claim.allocation(resource_type).expect("a decision");
        format!("allowance-bucket-{}", allocation.allocating_bucket)
    };
    let names = [
        bucket(INSTANCES),
        bucket(VCPUS),
        "resource-claim-controller".to_owned(),
    ];
    let mut expected = names.map(|name| (name, "Apply".to_owned()));
    expected.sort();
    assert_eq!(managers, expected);
    Ok(())
}

/// Nothing is written when nothing changes.
pub(super) async fn nothing_is_written_at_rest(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.counted(INSTANCES, (1, 1, 1)).await?;
    ledger.counted(VCPUS, (4000, 100, 1)).await?;
    let client = ledger.claims.clone().into_client();
    let buckets: Api<QuotaBucket> = Api::namespaced(client, SYSTEM_NAMESPACE);
    let (of_buckets, of_claims) = (now(&buckets).await?, now(&ledger.claims).await?);
    let of_claims = first(&ledger.claims, &of_claims, |claim| {
        Some(format!("{claim:?}"))
    });
    let of_buckets = first(&buckets, &of_buckets, |bucket| Some(format!("{bucket:?}")));
    tokio::select! {
        written = of_claims => bail!("written: {}", written?),
        written = of_buckets => bail!("written: {}", written?),
        () = tokio::time::sleep(SILENCE) => {}
    }
    ledger.delete("ordered").await?;
    ledger.counted(INSTANCES, (1, 0, 0)).await.map(drop)
}

/// The controllers continue after the API server has hung, and after it was down.
pub(super) async fn continues_after_outages(milo: &Milo) -> anyhow::Result<()> {
    let project = milo.add_project(LEDGER).await?;
    let client = project.client();
    let system = QuotaSystem::start(&[(LEDGER, client.clone())], QuotaDelays::default()).await?;
    let ledger = Ledger {
        system,
        claims: Api::namespaced(client, DEFAULT_NAMESPACE),
        project: LEDGER,
    };
    ledger.system.set_limit(LEDGER, INSTANCES, 2).await?;
    ledger.counted(INSTANCES, (2, 0, 0)).await?;

    while_it_hangs(&ledger, &project).await?;
    while_it_is_down(&ledger, &project).await?;
    ledger.counted(INSTANCES, (2, 2, 2)).await?;

    // The controllers end with the value.
    let Ledger { system, claims, .. } = ledger;
    drop(system);
    let claim = claim(LEDGER, "nobody", &[(INSTANCES, 1)]);
    create(&claims, claim).await?;
    let since = now(&claims).await?;
    let written = first(&claims, &since, |claim| Some(format!("{claim:?}")));
    if let Ok(claim) = timeout(SILENCE, written).await {
        bail!("written: {}", claim?)
    }
    milo.set_ready(LEDGER, false).await?;
    milo.delete_project(LEDGER).await?;
    milo.stop_project(LEDGER).await
}

async fn while_it_hangs(ledger: &Ledger, project: &ControlPlane) -> anyhow::Result<()> {
    project.plane().await.pause_apiserver()?;
    let created = ledger.claim("meanwhile", &[(INSTANCES, 1)]);
    let mut created = std::pin::pin!(created);
    if let Ok(created) = timeout(SILENCE, &mut created).await {
        bail!("the API server answered: {created:?}")
    }
    project.plane().await.resume_apiserver()?;
    timeout(WITHIN, created).await??;
    ledger.decided("meanwhile", "QuotaAvailable").await?;
    Ok(())
}

async fn while_it_is_down(ledger: &Ledger, project: &ControlPlane) -> anyhow::Result<()> {
    project.kill_apiserver().await;
    let refused = ledger.claim("down", &[(INSTANCES, 1)]).await;
    ensure!(refused.is_err(), "the API server answered: {refused:?}");
    project.restart_apiserver().await?;
    ledger.claim("afterwards", &[(INSTANCES, 1)]).await?;
    ledger.decided("afterwards", "QuotaAvailable").await?;
    Ok(())
}
