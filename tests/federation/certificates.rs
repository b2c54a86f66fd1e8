//! Renews the certificate of the webhook server and its CA while the server is called. Karmada's callers trust only
//! the `caBundle` on the hub, and no call may fail.

#[path = "certificates/admission.rs"]
mod admission;
#[path = "certificates/callers.rs"]
mod callers;
#[path = "certificates/soak.rs"]
mod soak;
#[path = "certificates/subject.rs"]
mod subject;

use std::time::Duration;

use anyhow::ensure;
use harness::audit::{Mark, Write};
use multicluster::lease::{LeaderElector, Leadership};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) use admission::an_authority_is_renewed_for_admission_too;
pub(crate) use soak::rotations;

use crate::fixture::Space;
use callers::Callers;
use subject::{Authorities, Subject};

/// Rotation time in seconds. It is longer than callers need to learn of a bundle, and than a watch may be late.
const FLAGS: [&str; 4] = [
    "--ca-bundle-delay=3s",
    "--ca-bundle-retirement=3s",
    "--certificate-poll=100ms",
    // A connection that is closed shows up as a failed call.
    "--max-connection-age=1h",
];
/// How long a bundle must stay unchanged: several times the polling interval.
const SILENCE: Duration = Duration::from_secs(11);
/// Name of the managers' Lease.
const LEASE: &str = "e98b06c6.datumapis.com";

pub(crate) async fn rotation_without_a_failed_call() -> anyhow::Result<()> {
    let federation = subject::start("certificates", &FLAGS).await?;
    let subject = Subject::new(&federation).await?;
    let mark = Mark::now([federation.hub()])?;
    let mut callers = Callers::start(&subject).await?;

    subject.renew().await?;
    subject.until_served().await?;
    callers.go_on().await?;

    let old = subject.authority().await;
    let old_leaf = subject.served().await?;
    subject.renew_authority().await?;
    let new = subject.authority().await;
    let both: Authorities = old.union(&new).cloned().collect();
    subject.until_bundle(&both).await?;
    ensure!(
        subject.served().await? == old_leaf,
        "a leaf is served whose authority no one can know yet"
    );
    subject.until_served().await?;
    callers.go_on().await?;
    subject.until_karmada_asks().await?;
    subject.until_bundle(&new).await?;
    callers.go_on().await?;
    subject.until_karmada_asks().await?;

    let figures = callers.stop().await?;
    eprintln!("a leaf and an authority were renewed: {figures}");
    let bundles = subject.bundles();
    ensure!(
        bundles == [old, both, new.clone()],
        "the hub has had other bundles than old, both, new"
    );
    let writes = ours(&mark)?;
    ensure!(writes.len() == 2, "{writes:#?}");

    let stranger = rcgen::generate_simple_self_signed(["stranger".to_owned()])?;
    let stranger = stranger.cert.pem();
    for edited in [Some(stranger.as_str()), Some("no bundle"), None] {
        subject.edit(edited).await?;
        subject.until_bundle(&new).await?;
    }
    subject.until_karmada_asks().await?;
    let mark = Mark::now([federation.hub()])?;
    // Not a wait for an event: nothing may happen during this time.
    sleep(SILENCE).await;
    let writes = ours(&mark)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(
        subject::failed_calls(&federation)?.is_empty(),
        "Karmada's calls failed"
    );
    federation.stop().await;
    Ok(())
}

pub(crate) async fn a_replica_that_does_not_lead_waits_for_who_does() -> anyhow::Result<()> {
    let federation = subject::start("replica", &FLAGS).await?;
    let subject = Subject::new(&federation).await?;
    let space = Space::create(&federation, "replica").await?;
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
    subject::restart(&federation, &["--leader-elect", &namespace]).await?;

    let mark = Mark::now([federation.hub()])?;
    let old = subject.authority().await;
    let old_leaf = subject.served().await?;
    subject.renew_authority().await?;
    subject
        .until_metric("certificate_waits_for_trust 1")
        .await?;
    // Not a wait for an event: nothing may happen during this time.
    sleep(SILENCE).await;
    let writes = ours(&mark)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(subject.bundle().await? == old, "the bundle has changed");
    ensure!(subject.served().await? == old_leaf, "the leaf has changed");

    release.cancel();
    leader.await??;
    subject.until_served().await?;
    subject
        .until_metric("certificate_waits_for_trust 0")
        .await?;
    subject.until_bundle(&subject.authority().await).await?;

    // A process that starts with a CA that callers do not trust yet becomes ready once they do.
    federation.management()?.lock().await.terminate().await;
    subject.renew_authority().await?;
    federation.management()?.lock().await.restart().await?;
    let trusted = subject.bundle().await?;
    ensure!(
        trusted.is_superset(&subject.authority().await),
        "ready, but callers do not trust what is served"
    );
    federation.stop().await;
    Ok(())
}

/// Returns our writes to the registration on the hub.
fn ours(mark: &Mark) -> anyhow::Result<Vec<Write>> {
    let writes = mark.writes()?.into_iter();
    let resource = "resourceinterpreterwebhookconfigurations";
    Ok(writes
        .filter(|write| write.is_ours() && write.resource == resource)
        .collect())
}
