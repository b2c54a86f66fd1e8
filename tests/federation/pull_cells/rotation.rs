//! The certificates of the interpreters change: that in the cell, and that beside the hub. Both have an authority of their
//! own, and the `caBundle` of the registration has both. No call may fail.

use std::net::Ipv4Addr;

use anyhow::ensure;
use api::WorkloadDeployment;
use harness::federation::PullCell;
use harness::{Federation, wait};
use kube::Api;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::{LATE, answers, settled};
use crate::certificates::{CaCertificates, KARMADA_LOG, failed_calls, served_at};
use crate::fixture::{Space, WITHIN, patch};

/// Log of the agent of the cell.
const AGENT_LOG: &str = "lax1-agent.log";
/// Flags of the management process: it removes an authority soon after it needs it no more.
const FLAGS: [&str; 3] = [
    "--ca-bundle-delay=3s",
    "--ca-bundle-retirement=5s",
    "--certificate-poll=100ms",
];

pub(super) async fn without_a_failed_call(
    federation: &Federation,
    space: &Space<'_>,
    pull: &mut PullCell,
) -> anyhow::Result<()> {
    {
        let mut manager = federation.management()?.lock().await;
        manager.terminate().await;
        manager.add_flags(&FLAGS);
        manager.restart().await?;
    }
    let former = pull.certificate().authority_pem();
    let next = pull.certificate().prepare_authority()?;
    let management = {
        let mut certificate = federation.webhook_certificate().lock().await;
        certificate.join_authorities(vec![former.clone(), next.clone()])?;
        certificate.authority_pem()
    };
    let joined = [management.clone(), former, next.clone()];
    federation.until_trusted(&joined).await?;
    pull.certificate().renew_authority()?;
    let leaf = pull.certificate().leaf().to_vec();
    until_served(pull.interpreter(), &joined, &leaf).await?;
    scaled(federation, space, pull, 3).await?;
    // The agent may have kept a connection. A new one has none.
    pull.restart_agent().await?;
    scaled(federation, space, pull, 4).await?;

    let (renewed, leaf) = {
        let mut certificate = federation.webhook_certificate().lock().await;
        certificate.join_authorities(vec![next.clone()])?;
        certificate.renew_authority()?;
        (certificate.authority_pem(), certificate.leaf().to_vec())
    };
    let joined = [management, renewed.clone(), next.clone()];
    let (_, port) = pull.interpreter();
    until_served((Ipv4Addr::LOCALHOST, port), &joined, &leaf).await?;
    scaled(federation, space, pull, 3).await?;
    // The former authorities of both are removed.
    federation.until_trusted(&[renewed, next]).await?;
    scaled(federation, space, pull, 4).await?;

    for log in [KARMADA_LOG, AGENT_LOG] {
        let failed = failed_calls(federation, log)?;
        ensure!(failed.is_empty(), "{log}: {failed:#?}");
    }
    Ok(())
}

/// Scales a deployment of the cell. Both interpreters are asked.
async fn scaled(
    federation: &Federation,
    space: &Space<'_>,
    pull: &PullCell,
    replicas: i32,
) -> anyhow::Result<()> {
    let asked = async || {
        let of_hub = federation.management()?.lock().await.metrics().await?;
        let of_cell = pull.interpreter_metrics().await?;
        anyhow::Ok([
            answers(&of_hub, "AggregateStatus"),
            answers(&of_cell, "InterpretStatus"),
        ])
    };
    let before = asked().await?;
    let in_project: Api<WorkloadDeployment> = space.in_project();
    let change = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
    patch(&in_project, LATE, change).await?;
    settled(&in_project, LATE, replicas, WITHIN).await?;
    let after = asked().await?;
    let mut pairs = before.iter().zip(&after);
    let are_asked = pairs.all(|(before, after)| after > before);
    ensure!(are_asked, "answers before {before:?}, after {after:?}");
    Ok(())
}

/// Waits until the server at this address presents this leaf certificate to new connections.
async fn until_served(
    address: (Ipv4Addr, u16),
    trusted: &[String],
    leaf: &[u8],
) -> anyhow::Result<()> {
    let trusted = trusted.iter().map(|pem| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())?;
        anyhow::Ok(der.to_vec())
    });
    let trusted: CaCertificates = trusted.collect::<anyhow::Result<_>>()?;
    wait::eventually("the new leaf is served", WITHIN, || async {
        let served = served_at(address, &trusted).await?;
        ensure!(served == leaf, "another leaf is served");
        Ok(())
    })
    .await
}
