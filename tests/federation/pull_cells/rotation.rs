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

pub(super) async fn without_a_failed_call(
    federation: &Federation,
    space: &Space<'_>,
    pull: &mut PullCell,
) -> anyhow::Result<()> {
    let former = pull.certificate().authority_pem();
    let next = pull.certificate().prepare_authority()?;
    let management = {
        let mut certificate = federation.webhook_certificate().lock().await;
        certificate.join_authorities(vec![former.clone(), next.clone()])?;
        certificate.authority_pem()
    };
    let joined = [management.clone(), former, next.clone()];
    let trusted = until_trusted(federation, &joined).await?;
    pull.certificate().renew_authority()?;
    let leaf = pull.certificate().leaf().to_vec();
    until_served(pull.interpreter(), &trusted, &leaf).await?;
    // The agent keeps its connections, so it starts anew.
    pull.restart_agent().await?;
    scaled(space, pull, 3).await?;

    // The former authority of the cell is not needed any more.
    let (renewed, leaf) = {
        let mut certificate = federation.webhook_certificate().lock().await;
        certificate.join_authorities(vec![next.clone()])?;
        certificate.renew_authority()?;
        (certificate.authority_pem(), certificate.leaf().to_vec())
    };
    let trusted = until_trusted(federation, &[management, renewed, next]).await?;
    let (_, port) = pull.interpreter();
    until_served((Ipv4Addr::LOCALHOST, port), &trusted, &leaf).await?;
    scaled(space, pull, 4).await?;

    for log in [KARMADA_LOG, AGENT_LOG] {
        let failed = failed_calls(federation, log)?;
        ensure!(failed.is_empty(), "{log}: {failed:#?}");
    }
    Ok(())
}

/// Scales a deployment of the cell. Both interpreters are asked.
async fn scaled(space: &Space<'_>, pull: &PullCell, replicas: i32) -> anyhow::Result<()> {
    let before = answers(pull, "InterpretStatus").await?;
    let in_project: Api<WorkloadDeployment> = space.in_project();
    let change = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
    patch(&in_project, LATE, change).await?;
    settled(&in_project, LATE, replicas, WITHIN).await?;
    let asked = answers(pull, "InterpretStatus").await? - before;
    ensure!(asked > 0.0, "the interpreter of the cell was not asked");
    Ok(())
}

/// Waits until the hub's registration has these authorities. Returns them in DER.
async fn until_trusted(
    federation: &Federation,
    authorities: &[String],
) -> anyhow::Result<CaCertificates> {
    let ders = authorities.iter().map(|pem| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())?;
        anyhow::Ok(der.to_vec())
    });
    let wanted: CaCertificates = ders.collect::<anyhow::Result<_>>()?;
    wait::eventually("the caBundle has the authorities", WITHIN, || async {
        let bundle = federation.interpreter_authorities().await?;
        ensure!(wanted.is_subset(&bundle), "an authority is missing");
        Ok(())
    })
    .await?;
    Ok(wanted)
}

/// Waits until the server at this address presents this leaf certificate to new connections.
async fn until_served(
    address: (Ipv4Addr, u16),
    trusted: &CaCertificates,
    leaf: &[u8],
) -> anyhow::Result<()> {
    wait::eventually("the new leaf is served", WITHIN, || async {
        let served = served_at(address, trusted).await?;
        ensure!(served == leaf, "another leaf is served");
        Ok(())
    })
    .await
}
