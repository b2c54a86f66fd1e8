//! A real Prometheus finds the Pod of compute-federation on a node, and scrapes it as the ServiceMonitor says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::objects::{apply, token};
use harness::prometheus::{
    Monitor, Prometheus, PrometheusPrograms, REFUSED, check_target, write_rules,
};
use harness::{Node, manifests, ports};
use serde_json::{Value, json};

use crate::fixture;

/// Time limit for one step, on a machine with other tests.
const WITHIN: Duration = Duration::from_mins(1);
/// The image of the base.
const IMAGE: &str = "ghcr.io/datum-cloud/compute:latest";
const NAMESPACE: &str = "compute-system";
/// The base without a role, and the components that its metrics need.
const KUSTOMIZATION: &str = "
namespace: compute-system
resources: ['{deploy}/base/manager']
components:
  - '{deploy}/components/leader_election'
  - '{deploy}/components/controller_rbac/metrics'
  - '{deploy}/components/prometheus'
configMapGenerator:
  - name: compute-config
    behavior: replace
    files: [config.yaml]
generatorOptions: {disableNameSuffixHash: true}
";
const CONFIG: &str = "
apiVersion: apiserver.config.datumapis.com/v1alpha1
kind: WorkloadOperator
metricsServer: {bindAddress: ':8443'}
";
/// The Pod has the shipped ServiceAccount and roles. Prometheus has a ServiceAccount with the role
/// `compute-metrics-reader`. The labels are those that alerts and dashboards expect, and no alert is active.
pub(crate) async fn a_deployed_process_is_scraped() -> anyhow::Result<()> {
    let node = fixture::start("scrape").await?;
    let result = tokio::select! {
        result = is_scraped(&node) => {
            result.with_context(|| format!("in {}", node.directory().display()))
        }
        death = node.death() => Err(death),
    };
    node.stop().await;
    result
}

async fn is_scraped(node: &Node) -> anyhow::Result<()> {
    let directory = node.directory().join("prometheus");
    fs::create_dir_all(&directory)?;
    deploy(node, &directory).await?;
    for account in ["scraper", "stranger"] {
        fs::write(
            directory.join(account),
            token(&node.client(), NAMESPACE, account).await?,
        )?;
    }
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "compute-metrics-reader"});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "scraper"},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "scraper"}],
    });
    apply(&node.client(), &binding).await?;

    let monitor = Monitor::read()?;
    let mut scrapes = Vec::new();
    for (name, account) in [
        ("pods", Some("scraper")),
        ("anonymous", None),
        ("stranger", Some("stranger")),
    ] {
        let token = account.map(|account| directory.join(account));
        let mut scrape = monitor.scrape(name, token.as_deref())?;
        scrape["kubernetes_sd_configs"] = json!([{
            "role": "endpointslice",
            "kubeconfig_file": node.directory().join("pki/admin.kubeconfig"),
            "namespaces": {"names": [NAMESPACE]},
        }]);
        scrape["relabel_configs"] = relabelings(&monitor, name);
        scrapes.push(scrape);
    }
    let config = json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [write_rules(&directory)?],
        "scrape_configs": scrapes,
    });
    let programs = PrometheusPrograms::find_or_build(|progress| eprintln!("{progress}"))?;
    let port = ports::reserve()?;
    let prometheus =
        Prometheus::start(&programs, node.directory(), "prometheus", port, &config).await?;
    prometheus.until_scraped(3, WITHIN, is_as_expected).await?;
    prometheus.until_silent(WITHIN).await?;
    prometheus.stop().await;
    Ok(())
}

/// Applies the base, and waits until the Pod is ready.
async fn deploy(node: &Node, directory: &Path) -> anyhow::Result<()> {
    let binary = fixture::binary();
    node.load_programs(IMAGE, &[binary]).await?;
    let client = node.client();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}});
    apply(&client, &namespace).await?;
    fs::write(directory.join("config.yaml"), CONFIG)?;
    for object in manifests::consumed(directory, KUSTOMIZATION).await? {
        // The operator would read the ServiceMonitors.
        if object["kind"] != "ServiceMonitor" {
            apply(&client, &object).await?;
        }
    }
    node.until_available(NAMESPACE, "compute-manager").await
}

/// Returns the relabelings that the operator makes from a ServiceMonitor. The jobs that are refused keep their name.
fn relabelings(monitor: &Monitor, name: &str) -> Value {
    let mut relabelings = Vec::new();
    for (label, value) in &monitor.selector {
        let label = label.replace(['.', '/', '-'], "_");
        let source = [
            format!("__meta_kubernetes_service_label_{label}"),
            format!("__meta_kubernetes_service_labelpresent_{label}"),
        ];
        let regex = format!("({});true", value.as_str().unwrap_or_default());
        relabelings.push(json!({"action": "keep", "source_labels": source, "regex": regex}));
    }
    relabelings.push(json!({
        "action": "keep",
        "source_labels": ["__meta_kubernetes_endpointslice_port_name"],
        "regex": monitor.endpoint["port"],
    }));
    let mut labels = vec![
        ("namespace", "namespace"),
        ("service", "service_name"),
        ("pod", "pod_name"),
        ("container", "pod_container_name"),
    ];
    if !REFUSED.iter().any(|(refused, _)| *refused == name) {
        labels.push(("job", "service_name"));
    }
    for (label, source) in labels {
        let source = format!("__meta_kubernetes_{source}");
        relabelings.push(json!({"source_labels": [source], "target_label": label}));
    }
    Value::Array(relabelings)
}

/// Returns an error if the target is not scraped with the expected labels, or not refused as expected.
fn is_as_expected(target: &Value) -> anyhow::Result<()> {
    if !check_target(target)? {
        return Ok(());
    }
    let labels = &target["labels"];
    ensure!(labels["job"] == "compute-metrics", "{labels}");
    ensure!(labels["namespace"] == NAMESPACE, "{labels}");
    let pod = labels["pod"].as_str().context("no pod")?;
    ensure!(pod.starts_with("compute-manager-"), "{labels}");
    Ok(())
}
