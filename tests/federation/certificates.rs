//! Renews the certificate and the CA of the webhook server while Karmada calls this server. Karmada's callers trust
//! only the `caBundle` on the hub. No call may fail.

#[path = "certificates/admission.rs"]
mod admission;
#[path = "certificates/callers.rs"]
mod callers;
#[path = "certificates/fixture.rs"]
mod fixture;
#[path = "certificates/soak.rs"]
mod soak;

use std::time::Duration;

use anyhow::ensure;
use harness::audit::{AuditPosition, Write};
use harness::rights::allow_leader_election;
use multicluster::lease::{LeaderElector, Leadership};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) use admission::an_authority_is_renewed_for_admission;
pub(crate) use fixture::{CaCertificates, KARMADA_LOG, failed_calls, served_at};
pub(crate) use soak::rotations;

use crate::fixture::Space;
use callers::KarmadaCallers;
use fixture::CertificateFixture;

/// Flags for rotations within seconds. The delays are longer than the time in which callers receive a new bundle, and
/// longer than the delay of a watch.
const FLAGS: [&str; 4] = [
    "--ca-bundle-delay=3s",
    "--ca-bundle-retirement=3s",
    "--certificate-poll=100ms",
    // The server must not close a connection during a test. A caller would report the closed connection as a failed
    // call.
    "--max-connection-age=1h",
];
/// Time during which a bundle must stay unchanged. Managers check the bundle several times during this time.
const SILENCE: Duration = Duration::from_secs(11);
/// Name of the managers' Lease.
const LEASE: &str = "e98b06c6.datumapis.com";

pub(crate) async fn rotation_without_a_failed_call() -> anyhow::Result<()> {
    let federation = fixture::start("certificates", &FLAGS).await?;
    let fixture = CertificateFixture::new(&federation).await?;
    let position = AuditPosition::now([federation.hub()])?;
    let mut callers = KarmadaCallers::start(&fixture).await?;

    fixture.renew().await?;
    fixture.until_served().await?;
    callers.until_more_calls().await?;

    let old = fixture.authority().await;
    let old_leaf = fixture.served().await?;
    fixture.renew_authority().await?;
    let new = fixture.authority().await;
    let both: CaCertificates = old.union(&new).cloned().collect();
    fixture.until_bundle(&both).await?;
    ensure!(
        fixture.served().await? == old_leaf,
        "the server presents a leaf whose CA callers cannot know yet"
    );
    fixture.until_served().await?;
    callers.until_more_calls().await?;
    fixture.until_karmada_asks().await?;
    fixture.until_bundle(&new).await?;
    callers.until_more_calls().await?;
    fixture.until_karmada_asks().await?;

    let figures = callers.stop().await?;
    eprintln!("a leaf and an authority were renewed: {figures}");
    let bundles = fixture.bundles();
    ensure!(
        bundles == [old, both, new.clone()],
        "the hub has had other bundles than old, both, new"
    );
    let writes = ours(&position)?;
    ensure!(writes.len() == 2, "{writes:#?}");

    let stranger = rcgen::generate_simple_self_signed(["stranger".to_owned()])?;
    let stranger = stranger.cert.pem();
    for edited in [Some(stranger.as_str()), Some("no bundle"), None] {
        fixture.edit(edited).await?;
        fixture.until_bundle(&new).await?;
    }
    fixture.until_karmada_asks().await?;
    let position = AuditPosition::now([federation.hub()])?;
    // This sleep does not wait for an event. Nothing may happen during this time.
    sleep(SILENCE).await;
    let writes = ours(&position)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(
        failed_calls(&federation, KARMADA_LOG)?.is_empty(),
        "Karmada's calls failed"
    );
    federation.stop().await;
    Ok(())
}

pub(crate) async fn a_follower_waits_for_the_leader() -> anyhow::Result<()> {
    let federation = fixture::start("replica", &FLAGS).await?;
    let fixture = CertificateFixture::new(&federation).await?;
    let space = Space::create(&federation, "replica").await?;
    allow_leader_election(&federation.project().client(), &space.name).await?;
    let (leading, release) = (Leadership::default(), CancellationToken::new());
    let leader = LeaderElector::new(
        federation.project().client(),
        &space.name,
        LEASE,
        "leader".to_owned(),
        &multicluster::Metrics::default(),
    );
    let leader = tokio::spawn(leader.run(leading.clone(), release.clone()));
    leading.gained().cancelled().await;
    let namespace = format!("--leader-elect-namespace={}", space.name);
    fixture::restart(&federation, &["--leader-elect", &namespace]).await?;

    let position = AuditPosition::now([federation.hub()])?;
    let old = fixture.authority().await;
    let old_leaf = fixture.served().await?;
    fixture.renew_authority().await?;
    fixture
        .until_metric("certificate_waits_for_trust 1")
        .await?;
    // This sleep does not wait for an event. Nothing may happen during this time.
    sleep(SILENCE).await;
    let writes = ours(&position)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(fixture.bundle().await? == old, "the bundle has changed");
    ensure!(fixture.served().await? == old_leaf, "the leaf has changed");

    release.cancel();
    leader.await??;
    fixture.until_served().await?;
    fixture
        .until_metric("certificate_waits_for_trust 0")
        .await?;
    fixture.until_bundle(&fixture.authority().await).await?;

    // A process starts with a new CA, and the callers do not trust this CA yet. The process becomes ready when the
    // callers trust the CA.
    federation.management()?.lock().await.terminate().await;
    fixture.renew_authority().await?;
    federation.management()?.lock().await.restart().await?;
    let trusted = fixture.bundle().await?;
    ensure!(
        trusted.is_superset(&fixture.authority().await),
        "ready, but callers do not trust the served certificate"
    );
    federation.stop().await;
    Ok(())
}

/// Returns the writes of compute-federation to the registration on the hub.
fn ours(position: &AuditPosition) -> anyhow::Result<Vec<Write>> {
    let writes = position.writes()?.into_iter();
    let resource = "resourceinterpreterwebhookconfigurations";
    Ok(writes
        .filter(|write| write.is_ours() && write.resource == resource)
        .collect())
}
