//! A real Prometheus scrapes a healthy federation and evaluates the alerts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use harness::objects::token;
use harness::process::{ChildProcess, Program};
use harness::prometheus::{
    Monitor, Prometheus, PrometheusPrograms, check_target, groups, write_rules,
};
use harness::rights::{PlaneUser, allow_leader_election};
use harness::{Federation, checkout, ports, wait};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use serde_json::{Value, json};

use crate::fixture::{self, DFW, ORD, Space, WITHIN, create};

/// Namespace of the management process in the labels of its metrics.
const NAMESPACE: &str = "compute-system";
/// The metrics of dashboards and alerts that a healthy federation does not have, because they exist only during the
/// trouble that they describe.
const ONLY_IN_TROUBLE: [&str; 2] = [
    "compute_federation_certificate_problem",
    "compute_federation_quarantined_objects",
];
/// A customization of a kind that is not native.
const CUSTOMIZATION: &str = "
    apiVersion: config.karmada.io/v1alpha1
    kind: ResourceInterpreterCustomization
    metadata: {name: pods}
    spec:
      target: {apiVersion: v1, kind: Pod}
      customizations: {healthInterpretation: {luaScript: 'function InterpretHealth(pod) return true end'}}";
/// The objects in the caches of processes that do not lead.
const OBJECTS_OF_STANDBYS: &str = "query?query=sum(compute_federation_cached_objects%20unless%20\
    on(namespace,job,instance)%20compute_federation_leader==1)";

/// Prometheus reads the metrics as the ServiceMonitor says, with the token of a user who has the shipped role. All
/// rules are evaluated, and no alert is active. The management process has two replicas.
pub(crate) async fn a_healthy_federation_raises_no_alert() -> anyhow::Result<()> {
    let federation = fixture::start("scrape").await?;
    let result = is_scraped(&federation).await;
    federation.stop().await;
    result
}

async fn is_scraped(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "scrape").await?;
    let directory = federation.directory().join("scrape");
    fs::create_dir_all(&directory)?;
    let election = [
        "--leader-elect",
        &format!("--leader-elect-namespace={}", space.name),
    ];
    allow_leader_election(&federation.project().client(), &space.name).await?;
    let customizations = directory.join("customizations");
    fs::create_dir(&customizations)?;
    fs::write(customizations.join("pods.yaml"), CUSTOMIZATION)?;
    serve_metrics_over_tls(federation, &election, &customizations).await?;
    let standby = Standby::start(federation, &directory, &election).await?;
    federation.register_admission().await?;
    for account in ["scraper", "stranger"] {
        fs::write(
            directory.join(account),
            token(&federation.project().client(), &space.name, account).await?,
        )?;
    }
    let binding = json!({
        "metadata": {"name": format!("{}-reader", space.name)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "compute-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": space.name, "name": "scraper"}],
    });
    create::<ClusterRoleBinding>(&Api::all(federation.project().client()), binding).await?;

    let programs = PrometheusPrograms::find_or_build(|progress| eprintln!("{progress}"))?;
    let port = ports::reserve()?;
    let config = config(federation, &directory, standby.metrics).await?;
    let name = "prometheus";
    let prometheus =
        Prometheus::start(&programs, federation.directory(), name, port, &config).await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 1)])
        .await?;
    space.until_settled("web", 2).await?;

    prometheus
        .until_scraped(7, WITHIN, |target| check_target(target).map(drop))
        .await?;
    until_standby_is_filled(&prometheus).await?;
    prometheus.until_silent(WITHIN).await?;
    every_metric_exists(&prometheus).await?;
    prometheus.stop().await;
    standby.process.kill().await;
    Ok(())
}

/// Returns the config file of the management process.
fn config_file(federation: &Federation) -> PathBuf {
    let name = format!("{}-manager.yaml", federation.project().name());
    federation.directory().join(name)
}

/// A second replica of the management process.
struct Standby {
    process: ChildProcess,
    /// The port of its metrics.
    metrics: u16,
}

impl Standby {
    async fn start(
        federation: &Federation,
        directory: &Path,
        election: &[&str],
    ) -> anyhow::Result<Self> {
        let metrics = ports::reserve()?;
        let mut config: Value =
            serde_json::from_str(&fs::read_to_string(config_file(federation))?)?;
        config["metricsServer"] =
            json!({"secureServing": false, "bindAddress": format!("127.0.0.1:{metrics}")});
        config["webhookServer"] = Value::Null;
        config["interpreterCustomizations"] = Value::Null;
        let file = directory.join("standby.yaml");
        fs::write(&file, config.to_string())?;
        let manager = PlaneUser::manager();
        let project = federation.project().kubeconfig_of(&manager)?;
        let hub = federation.hub().kubeconfig_of(&manager)?;
        let mut args: Vec<OsString> = vec![
            format!("--kubeconfig={}", project.display()).into(),
            format!("--federation-kubeconfig={}", hub.display()).into(),
            format!("--server-config={}", file.display()).into(),
            "--health-probe-bind-address=0".into(),
            "--enable-management-controllers=true".into(),
        ];
        args.extend(election.iter().map(Into::into));
        let process = ChildProcess::start(Program {
            name: "standby",
            path: env!("CARGO_BIN_EXE_compute-federation").into(),
            args,
            logs: &federation.directory().join("logs"),
            remove: None,
        })
        .await?;
        Ok(Self { process, metrics })
    }
}

/// Restarts the management process with leader election, a secure metrics server and these customizations. The
/// certificate of the metrics server is the one of the webhook server.
async fn serve_metrics_over_tls(
    federation: &Federation,
    election: &[&str],
    customizations: &Path,
) -> anyhow::Result<()> {
    let mut manager = federation.management()?.lock().await;
    manager.add_flags(election);
    manager.set_customizations(Some(customizations))?;
    let file = config_file(federation);
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let certificates = config["webhookServer"]["tls"].clone();
    config["metricsServer"]["secureServing"] = true.into();
    config["metricsServer"]["tls"] = certificates;
    fs::write(&file, config.to_string())?;
    manager.terminate().await;
    manager.restart().await
}

/// Returns the configuration of Prometheus, which the operator would make from the ServiceMonitor.
async fn config(federation: &Federation, directory: &Path, standby: u16) -> anyhow::Result<Value> {
    let monitor = Monitor::read()?;
    let targets = |port: u16, labels: Value| json!([{"targets": [format!("127.0.0.1:{port}")], "labels": labels}]);
    let ours = |namespace: &str| json!({"job": monitor.service, "namespace": namespace});
    let management = federation.management()?.lock().await.metrics_port();
    let secure = |name: &str, account: Option<&str>, labels: Value| -> anyhow::Result<Value> {
        let token = account.map(|account| directory.join(account));
        let mut scrape = monitor.scrape(name, token.as_deref())?;
        scrape["static_configs"] = targets(management, labels);
        Ok(scrape)
    };
    let mut scrapes = vec![
        secure("management", Some("scraper"), ours(NAMESPACE))?,
        secure("anonymous", None, json!({}))?,
        secure("stranger", Some("stranger"), json!({}))?,
    ];
    // A consumer who gives the metrics server a certificate can let Prometheus verify it.
    let mut verified = secure("verified", Some("scraper"), json!({}))?;
    let certificates = federation.webhook_certificate().lock().await;
    verified["tls_config"] = json!({"ca_file": certificates.directory().join("ca.crt")});
    scrapes.push(verified);
    let mut plain = vec![("standby", standby, NAMESPACE)];
    for cell in [DFW, ORD] {
        let port = federation.cell_manager(cell)?.lock().await.metrics_port();
        plain.push((cell, port, cell));
    }
    scrapes.extend(plain.into_iter().map(|(name, port, namespace)| {
        json!({"job_name": name, "static_configs": targets(port, ours(namespace))})
    }));
    Ok(json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [write_rules(directory)?],
        "scrape_configs": scrapes,
    }))
}

/// Waits until the caches of the standby are filled. Alerts must not fire because it does not lead.
async fn until_standby_is_filled(prometheus: &Prometheus) -> anyhow::Result<()> {
    wait::eventually("objects in the caches of the standby", WITHIN, || async {
        let answer = prometheus.api(OBJECTS_OF_STANDBYS).await?;
        let objects = answer["result"][0]["value"][1]
            .as_str()
            .context("no value")?;
        ensure!(objects.parse::<u64>()? > 0, "none");
        Ok(())
    })
    .await
}

/// Each metric of the alerts, the recording rules and the dashboards is in the database of Prometheus.
async fn every_metric_exists(prometheus: &Prometheus) -> anyhow::Result<()> {
    let answer = prometheus.api("label/__name__/values").await?;
    let names = answer.as_array().context("no names")?.iter();
    let scraped: BTreeSet<_> = names.filter_map(Value::as_str).collect();
    let mut text = groups()?.to_string();
    for dashboard in ["federation.json", "webhooks.json"] {
        let file = format!("deploy/components/dashboards/{dashboard}");
        text += &fs::read_to_string(checkout::root().join(file))?;
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    let used: BTreeSet<_> = text
        .split(|letter| !is_part(letter))
        .filter(|word| word.contains("compute_federation_") || word.starts_with("process_"))
        .collect();
    ensure!(used.len() > 40, "{used:?}");
    let missing: BTreeSet<_> = used.difference(&scraped).copied().collect();
    ensure!(missing == BTreeSet::from(ONLY_IN_TROUBLE), "{missing:?}");
    Ok(())
}
