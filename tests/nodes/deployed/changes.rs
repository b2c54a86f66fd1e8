//! Pods end and start, and certificates are renewed, under constant calls.

use std::time::Duration;

use anyhow::{Context, ensure};
use harness::Installation;
use harness::node::ISSUER_NAME;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::load::{FailedCall, Load};
use super::replicas::{self, Replicas};
use super::webhooks::expect_authority;

/// Number of replicas in the overlay `management-plane`.
pub(super) const REPLICAS: usize = 2;
/// Renews the certificate of each Pod every 20 s: the time between `duration` and `renew-before`.
const RENEWING: &str = "
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../management]
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: compute-manager, namespace: compute-system}
      spec:
        template:
          spec:
            volumes:
              - name: webhook-server-tls
                csi:
                  volumeAttributes:
                    csi.cert-manager.io/duration: 1h
                    csi.cert-manager.io/renew-before: 59m40s
";
const ROLLOUT: &str = "
management apply --server-side --kustomize=renewing
management --namespace=compute-system rollout status deployment/compute-manager --timeout=3m
";
/// Number of renewed certificates in the gate. In the soak test, the CA changes after `RENEWALS_OF_SOAK`, and as many
/// certificates are renewed afterwards.
const RENEWALS: usize = 3;
const RENEWALS_OF_SOAK: usize = 20;
/// Time until another replica leads, after the process of a leader that was stopped in order has ended.
const AFTER_END: Duration = Duration::from_secs(2);

pub(crate) async fn no_call_fails_during_planned_changes(
    installation: &Installation,
) -> anyhow::Result<()> {
    let replicas = replicas::of_management(installation);
    let load = Load::start(installation).await?;
    let report = Report::new(&load);

    roll_out(installation).await?;
    report.expect_no_failure("rolling update").await?;

    for _ in 0..REPLICAS {
        let took = delete_leader(&replicas).await?;
        replicas.until_ready(REPLICAS).await?;
        report
            .expect_no_failure(&format!("leader deleted; {took}"))
            .await?;
    }

    for _ in 0..REPLICAS {
        let pods = replicas.until_ready(REPLICAS).await?;
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        let (first, second) = (&names[0], &names[1]);
        ensure!(
            replicas.evict(first).await?,
            "the first eviction is refused"
        );
        ensure!(
            !replicas.evict(second).await?,
            "both replicas were evicted at once"
        );
        replicas.until_gone(first).await?;
        replicas.until_ready(REPLICAS).await?;
        report.expect_no_failure("eviction").await?;
    }

    load.until_renewals(RENEWALS).await?;
    report.expect_no_failure("renewals").await
}

/// Prints and checks the calls during a change.
pub(super) struct Report<'l> {
    load: &'l Load,
    begin: Instant,
}

impl<'l> Report<'l> {
    pub(super) fn new(load: &'l Load) -> Self {
        let begin = Instant::now();
        Self { load, begin }
    }

    pub(super) async fn expect_no_failure(&self, what: &str) -> anyhow::Result<()> {
        self.load.until_more_calls().await?;
        let after = self.begin.elapsed().as_secs_f64();
        eprintln!("{after:.1} s: {what}; {}", self.load.counts());
        let failed = self.load.failed();
        let count = failed.len();
        ensure!(
            count == 0,
            "{what}: {count} calls failed:\n{}",
            lines(&failed)
        );
        Ok(())
    }
}

pub(super) fn lines(calls: &[FailedCall]) -> String {
    let lines: Vec<_> = calls.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Updates the Pods: their certificates are then renewed often.
async fn roll_out(installation: &Installation) -> anyhow::Result<()> {
    let operator = installation.operator();
    operator.write("renewing/kustomization.yaml", RENEWING)?;
    operator.run(ROLLOUT).await?;
    let replicas = replicas::of_management(installation);
    replicas.until_ready(REPLICAS).await.map(drop)
}

/// Deletes the leader, and waits until another replica leads and the process has ended.
async fn delete_leader(replicas: &Replicas) -> anyhow::Result<String> {
    let (leader, holder) = (replicas.leader().await?, replicas.holder().await?);
    let pid = replicas::process_of(&leader)?;
    let deleted = Instant::now();
    let params = DeleteParams::default();
    replicas.pods.delete(&leader.name_any(), &params).await?;
    let (taken, ended) = tokio::try_join!(
        replicas.until_taken_over(&holder),
        replicas::until_ended(pid)
    )?;
    let late = taken.saturating_duration_since(ended);
    ensure!(
        late <= AFTER_END,
        "another replica leads {late:?} after the end"
    );
    replicas.until_gone(&leader.name_any()).await?;
    Ok(format!(
        "its process ended after {:.1} s, another replica leads after {:.1} s",
        (ended - deleted).as_secs_f64(),
        (taken - deleted).as_secs_f64()
    ))
}

/// Renews many certificates, and changes the CA in between.
pub(crate) async fn renewals_and_another_authority(
    installation: &Installation,
) -> anyhow::Result<()> {
    let load = Load::start(installation).await?;
    let report = Report::new(&load);
    roll_out(installation).await?;
    report.expect_no_failure("rolling update").await?;
    load.until_renewals(RENEWALS_OF_SOAK).await?;
    report.expect_no_failure("renewals of the first CA").await?;

    // cert-manager issues another CA, because the Secret is missing.
    let secrets: Api<Secret> = Api::namespaced(installation.management().client(), "cert-manager");
    secrets
        .delete(ISSUER_NAME, &DeleteParams::default())
        .await?;
    load.until_renewals(2 * RENEWALS_OF_SOAK).await?;
    report
        .expect_no_failure("renewals of the second CA")
        .await?;
    let secret = secrets.get(ISSUER_NAME).await?;
    let authority = secret.data.unwrap_or_default().remove("tls.crt");
    let authority = String::from_utf8(authority.context("no tls.crt")?.0)?;
    expect_authority(installation, &authority).await
}
