//! Tests of features that depend on the cluster in which the process runs: leader election, and access to metrics.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::objects::token;
use harness::process::{ChildProcess, Program};
use harness::rights::{PlaneUser, allow_leader_election};
use harness::{Federation, ports, wait};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use multicluster::connect;
use multicluster::lease::{LeaderElector, Leadership};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Space, WITHIN, create};

const LEASE: &str = "test";
/// Lease duration of the elector.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A running candidate.
struct RunningCandidate {
    leading: Leadership,
    release: CancellationToken,
    task: JoinHandle<Result<(), multicluster::lease::Lost>>,
}

impl RunningCandidate {
    async fn start(space: &Space<'_>, identity: &str) -> anyhow::Result<Self> {
        let kubeconfig = space
            .federation
            .project()
            .kubeconfig_of(&PlaneUser::manager())?;
        let config = connect::kubeconfig(&kubeconfig, None).await?;
        let client = connect::client(config, "test")?;
        let metrics = multicluster::Metrics::default();
        let candidate =
            LeaderElector::new(client, &space.name, LEASE, identity.to_owned(), &metrics);
        let (leading, release) = (Leadership::default(), CancellationToken::new());
        let task = tokio::spawn(candidate.run(leading.clone(), release.clone()));
        Ok(Self {
            leading,
            release,
            task,
        })
    }

    async fn until_leading(&self) -> anyhow::Result<()> {
        timeout(WITHIN, self.leading.gained().cancelled())
            .await
            .context("the candidate does not lead")
    }
}

async fn lease(space: &Space<'_>) -> anyhow::Result<(String, i32)> {
    let leases: Api<Lease> = space.in_project();
    let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
    Ok((
        spec.holder_identity.unwrap_or_default(),
        spec.lease_transitions.unwrap_or_default(),
    ))
}

pub(crate) async fn one_candidate_leads_at_a_time(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "lease").await?;
    allow_leader_election(&federation.project().client(), &space.name).await?;
    let first = RunningCandidate::start(&space, "first").await?;
    first.until_leading().await?;
    let second = RunningCandidate::start(&space, "second").await?;
    let renewed = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.renew_time > spec.acquire_time)
    };
    wait::until(&space.in_project(), LEASE, "renewed", WITHIN, renewed).await?;
    ensure!(second.leading.deadline().is_err(), "two candidates lead");

    // The leader releases its lease. The next candidate leads at once.
    first.release.cancel();
    first.task.await??;
    second.until_leading().await?;
    assert_eq!(lease(&space).await?, ("second".to_owned(), 1));

    // The leader crashes. The next candidate leads when the lease has expired.
    let died = Instant::now();
    second.task.abort();
    let third = RunningCandidate::start(&space, "third").await?;
    third.until_leading().await?;
    ensure!(
        died.elapsed() >= LEASE_DURATION,
        "the lease was taken before it expired"
    );
    assert_eq!(lease(&space).await?, ("third".to_owned(), 2));

    // A leading candidate must stop when another candidate has taken its lease.
    let leases: Api<Lease> = space.in_project();
    wait::eventually("the lease is taken", WITHIN, || async {
        let mut lease = leases.get(LEASE).await?;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some("thief".into());
        leases
            .replace(LEASE, &PostParams::default(), &lease)
            .await?;
        Ok(())
    })
    .await?;
    let end = timeout(WITHIN, third.task)
        .await
        .context("the candidate keeps running")??;
    ensure!(end.is_err(), "a lease that was lost was released");
    assert_eq!(lease(&space).await?.0, "thief");
    Ok(())
}

pub(crate) async fn metrics_require_permission(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "metrics").await?;
    let port = ports::reserve()?;
    let config = federation.directory().join(format!("{}.yaml", space.name));
    let metrics = json!({"bindAddress": format!("127.0.0.1:{port}"), "secureServing": true});
    let file = json!({
        "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
        "kind": "WorkloadOperator",
        "metricsServer": metrics,
    });
    fs::write(&config, file.to_string())?;
    let kubeconfig = federation.project().kubeconfig_of(&PlaneUser::manager())?;
    let kubeconfig = kubeconfig.display();
    let process = ChildProcess::start(Program {
        name: &space.name,
        path: env!("CARGO_BIN_EXE_compute-federation").into(),
        args: vec![
            format!("--kubeconfig={kubeconfig}").into(),
            format!("--server-config={}", config.display()).into(),
            "--health-probe-bind-address=0".into(),
        ],
        logs: &federation.directory().join("logs"),
        remove: None,
    })
    .await?;
    let client = federation.project().client();
    let scraper = token(&client, &space.name, "scraper").await?;
    let stranger = token(&client, &space.name, "stranger").await?;
    let project = federation.project().client();
    let name = format!("{}-reader", space.name);
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "compute-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": space.name, "name": "scraper"}],
    });
    create::<ClusterRoleBinding>(&Api::all(project), binding).await?;

    let text = wait::eventually("the scraper reads metrics", WITHIN, || async {
        Ok(get(port, Some(&scraper)).await?)
    })
    .await?;
    ensure!(text.contains("compute_federation_"), "{text}");
    for (token, expected) in [
        (None, 401),
        (Some("of no one"), 401),
        (Some(stranger.as_str()), 403),
    ] {
        let Err(kube::Error::Api(refusal)) = get(port, token).await else {
            anyhow::bail!("not refused with {expected}");
        };
        assert_eq!(refusal.code, expected);
    }
    assert_eq!(process.terminate().await, 0);
    Ok(())
}

/// Reads metrics like a scraper that does not verify the certificate.
async fn get(port: u16, token: Option<&str>) -> kube::Result<String> {
    let url = format!("https://127.0.0.1:{port}");
    let mut config = Config::new(url.parse().expect("a URL"));
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client: Client = connect::client(config, "test").expect("a client");
    let request = http::Request::get("/metrics")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}
