//! Pods end and start, and certificates are renewed, under constant calls.

use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt;
use kube::api::DeleteParams;
use tokio::time::Instant;

use super::load::Load;
use super::platform::Platform;
use super::replicas::{self, Replicas};

/// Number of replicas in the overlay `management-plane`.
const REPLICAS: usize = 2;
/// Renews the certificate of each Pod every 20 s. The driver renews at this time before the end of the certificate.
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
/// Number of renewed certificates under calls.
const RENEWALS: usize = 3;
const RENEWED: Duration = Duration::from_mins(2);
/// Time until another replica leads: after the end of a leader that was stopped in order, and after a kill.
const AFTER_END: Duration = Duration::from_secs(2);
const AFTER_KILL: Duration = Duration::from_secs(15);

pub(crate) async fn no_call_fails_during_planned_changes(
    platform: &Platform,
) -> anyhow::Result<()> {
    let replicas = replicas::of_management(platform);
    let load = Load::start(platform).await?;
    let begin = Instant::now();
    let report = |what: &str| {
        eprintln!("{:.1} s: {what}; {}", begin.elapsed().as_secs_f64(), load.figures());
        load.expect_no_failure(what)
    };

    platform.operator.write("renewing/kustomization.yaml", RENEWING)?;
    platform.operator.run(ROLLOUT).await?;
    replicas.until_ready(REPLICAS).await?;
    report("rolling update")?;

    for _ in 0..REPLICAS {
        let taken = delete_leader(&replicas).await?;
        replicas.until_ready(REPLICAS).await?;
        report(&format!("the leader deleted, {taken}"))?;
    }

    for _ in 0..REPLICAS {
        let [first, second] = <[_; REPLICAS]>::try_from(replicas.list().await?)
            .map_err(|pods| anyhow::anyhow!("{} Pods", pods.len()))?;
        ensure!(replicas.evict(&first.name_any()).await?, "the first eviction is refused");
        let refused = !replicas.evict(&second.name_any()).await?;
        ensure!(refused, "both replicas were evicted at the same time");
        replicas.until_gone(&first.name_any()).await?;
        replicas.until_ready(REPLICAS).await?;
        report("eviction")?;
    }

    load.until_renewals(RENEWALS, RENEWED).await?;
    load.until_more_calls().await?;
    report("renewals")
}

/// Deletes the leader, and waits until another replica leads and the process has ended.
async fn delete_leader(replicas: &Replicas) -> anyhow::Result<String> {
    let (leader, holder) = (replicas.leader().await?, replicas.holder().await?);
    let pid = replicas::process_of(&leader)?;
    let deleted = Instant::now();
    replicas
        .pods
        .delete(&leader.name_any(), &DeleteParams::default())
        .await?;
    let (taken, ended) =
        tokio::try_join!(replicas.until_taken_over(&holder), replicas::until_ended(pid))?;
    let late = taken.saturating_duration_since(ended);
    ensure!(late <= AFTER_END, "another replica leads {late:?} after the end");
    replicas.until_gone(&leader.name_any()).await?;
    Ok(format!(
        "its process ended after {:.1} s, another replica leads after {:.1} s",
        (ended - deleted).as_secs_f64(),
        (taken - deleted).as_secs_f64()
    ))
}

/// The API server and Karmada cannot know that a killed process does not answer, until the kubelet has told. So the
/// calls in flight fail, and those that meet the killed replica until its address is removed from the Service.
pub(crate) async fn a_killed_leader_costs_only_the_calls_in_flight(
    platform: &Platform,
) -> anyhow::Result<()> {
    let replicas = replicas::of_management(platform);
    replicas.until_ready(REPLICAS).await?;
    let load = Load::start(platform).await?;
    let (leader, holder) = (replicas.leader().await?, replicas.holder().await?);
    load.expect_no_failure("before the kill")?;
    let killed = Instant::now();
    replicas::kill(&leader)?;
    let taken = replicas.until_taken_over(&holder).await? - killed;
    let restarted = replicas.until_ready(REPLICAS).await?;
    load.until_more_calls().await?;
    let failures = load.failures()?;
    let last = failures.iter().map(|failure| failure.at).max();
    let lasted = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(killed));
    eprintln!(
        "killed: another replica leads after {:.1} s; {} calls failed within {:.1} s; {}\n{failures:#?}",
        taken.as_secs_f64(),
        failures.len(),
        lasted.as_secs_f64(),
        load.figures()
    );
    let same = restarted.iter().any(|pod| pod.uid() == leader.uid());
    ensure!(same, "the Pod was replaced, not its container");
    ensure!(taken <= AFTER_KILL, "another replica leads only after {taken:?}");
    load.figures().calls.len().checked_sub(1).context("no calls")?;
    Ok(())
}
