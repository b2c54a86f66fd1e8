//! Tests of the manifests in `deploy`.

#[path = "deploy/process.rs"]
mod process;
#[path = "deploy/resource_metrics.rs"]
mod resource_metrics;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use harness::peers::Peers;
use harness::{Milo, checkout, manifests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubectl::kubectl;
use crate::milo;

pub(crate) use process::the_processes_start_as_deployed;

/// The CRDs of the registration in `base/federation` and of the policies in `lower-hub`. They come from Karmada.
const OF_KARMADA: [&str; 3] = [
    "config.karmada.io_resourceinterpreterwebhookconfigurations.yaml",
    "policy.karmada.io_clusteroverridepolicies.yaml",
    "policy.karmada.io_clusterpropagationpolicies.yaml",
];

/// Waits until every CRD is established.
const ESTABLISHED: [&str; 5] = [
    "wait",
    "crd",
    "--all",
    "--for=condition=Established",
    "--timeout=30s",
];

/// Every overlay is built and applied to an API server, with the CRDs of the foreign kinds. The API server refuses
/// unknown fields. A second apply changes nothing.
pub(crate) async fn every_overlay_is_accepted() -> anyhow::Result<()> {
    let milo = milo::start("deploy", &[]).await?;
    let result = all_are_accepted(&milo).await;
    milo.stop().await;
    result
}

async fn all_are_accepted(milo: &Milo) -> anyhow::Result<()> {
    let kubeconfig = milo.root().kubeconfig();
    let crds = checkout::root().join("tests/harness/crds");
    let peers = Peers::find_or_build(|_| ())?;
    let karmada = peers.directory().join("karmada/crds");
    let of_karmada = OF_KARMADA.map(|file| karmada.join(file));
    for file in [crds].into_iter().chain(of_karmada) {
        let file = file.display().to_string();
        run(kubeconfig, &["apply", "--filename", &file], None).await?;
    }
    run(kubeconfig, &ESTABLISHED, None).await?;
    run(kubeconfig, &["create", "namespace", "compute-system"], None).await?;

    let directory = TempDir::new()?;
    let mut kustomizations = vec![(
        "every component".to_owned(),
        manifests::consumed(directory.path(), &every_component()?).await?,
    )];
    for parent in ["overlays", "base", "lower-hub"] {
        for path in folders(parent)? {
            let objects = manifests::deployed(&path).await?;
            kustomizations.push((path, objects));
        }
    }
    for (path, objects) in &kustomizations {
        is_accepted(kubeconfig, objects)
            .await
            .with_context(|| path.clone())?;
    }
    let (_, components) = kustomizations.first().context("no kustomization")?;
    resource_metrics::labels_have_values(&milo.root().client(), components).await?;
    Ok(())
}

/// Returns a kustomization with every component, also with those that no overlay uses.
fn every_component() -> anyhow::Result<String> {
    let mut text =
        "namespace: compute-system\nresources: ['{deploy}/base/manager']\ncomponents:\n".to_owned();
    for component in folders("components")? {
        text.extend(["- '{deploy}/", &component, "'\n"]);
    }
    Ok(text)
}

/// Returns the paths of the folders of a folder in `deploy`.
fn folders(parent: &str) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(checkout::root().join("deploy").join(parent))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            paths.push(format!("{parent}/{}", entry.file_name().display()));
        }
    }
    paths.sort();
    ensure!(!paths.is_empty(), "deploy/{parent} is empty");
    Ok(paths)
}

/// Applies the objects: first without effect, then twice.
async fn is_accepted(kubeconfig: &Path, objects: &[Value]) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let apply = [
        "apply",
        "--server-side",
        // As Flux does. The harness has already applied some of the roles, as another field manager.
        "--force-conflicts",
        "--validate=strict",
        "--filename=-",
        "--output=json",
    ];
    let trial = [apply.as_slice(), &["--dry-run=server"]].concat();
    run(kubeconfig, &trial, Some(&list)).await?;
    run(kubeconfig, &apply, Some(&list)).await?;
    // The API server changes the status of a new CRD.
    run(kubeconfig, &ESTABLISHED, None).await?;
    let get = ["get", "--filename=-", "--output=json"];
    let first = versions(&run(kubeconfig, &get, Some(&list)).await?)?;
    let second = versions(&run(kubeconfig, &apply, Some(&list)).await?)?;
    ensure!(
        first.len() == objects.len(),
        "not all objects are applied: {first:?}"
    );
    ensure!(
        first == second,
        "the second apply changes objects: {first:?}, {second:?}"
    );
    Ok(())
}

/// Returns the resource version of each object in the output of `kubectl`.
fn versions(output: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let output: Value = serde_json::from_str(output)?;
    let single = [output.clone()];
    let items = output["items"]
        .as_array()
        .map_or(single.as_slice(), Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(items
        .iter()
        .map(|item| {
            let metadata = &item["metadata"];
            let name = format!("{} {}", text(&item["kind"]), text(&metadata["name"]));
            let group = text(&item["apiVersion"]);
            (
                format!("{group} {name}"),
                text(&metadata["resourceVersion"]),
            )
        })
        .collect())
}

/// Runs `kubectl` and returns its output. A warning of the API server is an error.
async fn run(kubeconfig: &Path, args: &[&str], object: Option<&Value>) -> anyhow::Result<String> {
    let args = [&["--warnings-as-errors"], args].concat();
    let output = kubectl(kubeconfig, &args, object).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {args:?}: {error}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The patches that consumers of the Go manager's overlays have: they name its objects, containers, variables and
/// paths.
const PATCHES: &str = "
namespace: compute-system
resources: ['{deploy}/overlays/management-plane']
images: [{name: ghcr.io/datum-cloud/compute, newName: registry.example.com/compute, newTag: v9}]
configMapGenerator:
- name: compute-config
  behavior: replace
  literals: ['config.yaml=replaced']
generatorOptions: {disableNameSuffixHash: true}
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: compute-manager}
    spec:
      replicas: 3
      template:
        spec:
          containers:
          - name: manager
            env:
            - {name: DOWNSTREAM_KUBECONFIG, value: /hub/kubeconfig}
            - {name: LEADER_ELECT, value: 'false'}
            resources: {limits: {memory: 1Gi}}
            volumeMounts: [{name: hub, mountPath: /hub}]
          volumes:
          - {name: hub, secret: {secretName: hub}}
          - name: webhook-server-tls
            csi: {volumeAttributes: {csi.cert-manager.io/issuer-name: ca, csi.cert-manager.io/issuer-kind: ClusterIssuer}}
- target: {kind: (Mutating|Validating)WebhookConfiguration}
  patch: |
    - {op: add, path: /metadata/annotations, value: {cert-manager.io/inject-ca-from-secret: cert-manager/ca}}
- target: {kind: Service, name: compute-webhook}
  patch: |
    - {op: add, path: /spec/type, value: NodePort}
";

pub(crate) async fn the_patches_of_a_consumer_take_effect() -> anyhow::Result<()> {
    let directory = TempDir::new()?;
    let objects = manifests::consumed(directory.path(), PATCHES).await?;
    let deployment = object(&objects, "Deployment", "compute-manager")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    ensure!(deployment["spec"]["replicas"] == 3, "{deployment}");
    ensure!(
        container["image"] == "registry.example.com/compute:v9",
        "{container}"
    );
    ensure!(
        container["resources"]["limits"]["memory"] == "1Gi",
        "{container}"
    );
    let args = process::arguments(container)?;
    for arg in [
        "--federation-kubeconfig=/hub/kubeconfig",
        "--leader-elect=false",
    ] {
        ensure!(
            args.iter().any(|given| given == arg),
            "{arg} is not in {args:?}"
        );
    }
    let volumes = pod["volumes"].as_array().context("no volumes")?;
    let named = |name: &str| volumes.iter().find(|volume| volume["name"] == name);
    let attributes =
        &named("webhook-server-tls").context("no certificate")?["csi"]["volumeAttributes"];
    ensure!(
        attributes["csi.cert-manager.io/issuer-name"] == "ca",
        "{attributes}"
    );
    ensure!(
        attributes["csi.cert-manager.io/fs-group"] == "65532",
        "{attributes}"
    );
    ensure!(named("webhook-cert").is_none(), "two volumes for one path");
    let config = object(&objects, "ConfigMap", "compute-config")?;
    ensure!(config["data"]["config.yaml"] == "replaced", "{config}");
    let registration = object(
        &objects,
        "ValidatingWebhookConfiguration",
        "compute-validating",
    )?;
    ensure!(
        registration["metadata"]["annotations"].is_object(),
        "{registration}"
    );
    let service = object(&objects, "Service", "compute-webhook")?;
    ensure!(service["spec"]["type"] == "NodePort", "{service}");
    Ok(())
}

/// Returns the object with this kind and name.
fn object<'o>(objects: &'o [Value], kind: &str, name: &str) -> anyhow::Result<&'o Value> {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .with_context(|| format!("no {kind} {name}"))
}
