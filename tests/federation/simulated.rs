//! Runs one scenario twice: on real planes, and on the planes that `cargo xtask bench planes` simulates.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::karmada::{PropagationPolicy, ResourceBinding};
use api::{
    DEFAULT_NAMESPACE, Workload, WorkloadDeployment, annotations, condition, finalizers, labels,
};
use harness::process::{ChildProcess, Program};
use harness::{Federation, networking, ports, wait};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use multicluster::{clock, connect};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::time::sleep;

use crate::fixture::{NETWORK, Space, WITHIN, create, patch, patch_status, target, workload};

/// Interval at which the simulated cells check their copies.
const POLL: Duration = Duration::from_millis(50);
/// Time that the federator waits before it re-applies a copy that is missing in a cell.
const PATIENCE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);
/// The project that exists from the start.
const PROJECT: &str = "p00000";

/// A namespace of a project, and its hub namespace.
struct ProjectAndHub {
    project: Client,
    hub: Client,
    namespace: String,
    hub_namespace: String,
}

impl ProjectAndHub {
    fn in_project<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.project.clone(), &self.namespace)
    }

    fn on_hub<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.hub.clone(), &self.hub_namespace)
    }

    /// Waits until the status of the Workload has this number of ready and current instances.
    async fn until_settled(&self, instances: i32) -> anyhow::Result<()> {
        let settled = |workload: &Workload| {
            let status = workload.status.clone().unwrap_or_default();
            let available = condition::find(&status.conditions, "Available");
            let counters = [status.replicas, status.ready_replicas];
            counters == [instances; 2]
                && available.is_some_and(|available| {
                    available.is_true()
                        && available.observed_generation == workload.metadata.generation
                })
        };
        let workloads = self.in_project();
        wait::until(&workloads, "web", "settled", WITHIN, settled).await?;
        Ok(())
    }
}

/// Runs the life of a Workload in two cities, from its creation to its deletion.
async fn life_of_a_workload(planes: &ProjectAndHub) -> anyhow::Result<()> {
    let (workloads, deployments) = (
        planes.in_project::<Workload>(),
        planes.in_project::<WorkloadDeployment>(),
    );
    let copies = planes.on_hub::<WorkloadDeployment>();
    let body = workload("web", &[("us", &["DFW", "ORD"], 1)]);
    create::<Workload>(&workloads, body).await?;
    planes.until_settled(2).await?;

    let name = "web-us-dfw";
    let (deployment, copy) = (deployments.get(name).await?, copies.get(name).await?);
    let recorded = deployment
        .annotations()
        .get(annotations::FEDERATION_NAMESPACE);
    ensure!(recorded == Some(&planes.hub_namespace), "{deployment:?}");
    let held = [finalizers::FEDERATOR.to_owned()];
    ensure!(deployment.finalizers() == held, "{deployment:?}");
    ensure!(copy.spec == deployment.spec, "{copy:?}");
    let namespaces: Api<Namespace> = Api::all(planes.hub.clone());
    let namespace = namespaces.get(&planes.hub_namespace).await?;
    let of = namespace.labels().get(labels::UPSTREAM_NAMESPACE);
    ensure!(of == Some(&planes.namespace), "{namespace:?}");
    let policies = planes.on_hub::<PropagationPolicy>();
    for city in ["city-dfw", "city-ord"] {
        policies.get(city).await?;
    }

    // A change of the Workload reaches the cells, and the new status reaches the Workload.
    let scale = json!({"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"});
    let placement = json!({"name": "us", "cityCodes": ["DFW", "ORD"], "scaleSettings": scale});
    patch::<Workload>(
        &workloads,
        "web",
        json!({"spec": {"placements": [placement]}}),
    )
    .await?;
    planes.until_settled(4).await?;

    // The controllers repair manual edits and deletions on the hub.
    let edit = json!({"spec": {"scaleSettings": {"minReplicas": 7}}});
    patch::<WorkloadDeployment>(&copies, name, edit).await?;
    let repaired = |copy: &WorkloadDeployment| copy.spec.scale_settings.min_replicas == 2;
    wait::until(&copies, name, "repaired", WITHIN, repaired).await?;
    copies.delete(name, &DeleteParams::default()).await?;
    let uid = copy.uid();
    let made_anew = |copy: &WorkloadDeployment| copy.uid() != uid;
    wait::until(&copies, name, "made anew", WITHIN, made_anew).await?;
    planes.until_settled(4).await?;

    workloads.delete("web", &DeleteParams::default()).await?;
    wait::gone(&workloads, "web", WITHIN).await?;
    for name in ["web-us-dfw", "web-us-ord"] {
        wait::gone(&deployments, name, WITHIN).await?;
        wait::gone(&copies, name, WITHIN).await?;
    }
    for city in ["city-dfw", "city-ord"] {
        wait::gone(&policies, city, WITHIN).await?;
    }
    Ok(())
}

pub(crate) async fn a_workload_on_real_planes(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "life").await?;
    life_of_a_workload(&ProjectAndHub {
        project: federation.project().client(),
        hub: federation.hub().client(),
        namespace: space.name.clone(),
        hub_namespace: space.hub_name.clone(),
    })
    .await
}

pub(crate) async fn a_workload_on_simulated_planes() -> anyhow::Result<()> {
    on_simulated_planes(life_of_a_workload).await
}

/// When a cell does not answer in time, Karmada counts the Work as applied. Karmada applies the Work again only after a
/// change of the Work. So the federator must change the copy.
pub(crate) async fn what_a_cell_has_lost_is_applied_again() -> anyhow::Result<()> {
    on_simulated_planes(applied_again).await
}

async fn applied_again(planes: &ProjectAndHub) -> anyhow::Result<()> {
    let name = "web-us-dfw";
    let copies = planes.on_hub::<WorkloadDeployment>();
    let body = workload("web", &[("us", &["DFW"], 1)]);
    create::<Workload>(&planes.in_project(), body).await?;
    planes.until_settled(1).await?;

    // Karmada reports the copy as applied, but the cell does not have it.
    let bindings = planes.on_hub::<ResourceBinding>();
    let lost = json!({"aggregatedStatus": [{"clusterName": "dfw1", "applied": true}]});
    let lost_at = clock::now();
    patch_status(&bindings, &format!("{name}-workloaddeployment"), lost).await?;
    let reapplied_at = |metadata: &ObjectMeta| -> Option<Timestamp> {
        let annotations = metadata.annotations.as_ref()?;
        annotations.get(annotations::REAPPLIED_AT)?.parse().ok()
    };
    let is_touched = |copy: &WorkloadDeployment| reapplied_at(&copy.metadata).is_some();
    let copy = wait::until(&copies, name, "applied again", PATIENCE * 3 / 2, is_touched).await?;
    let at = reapplied_at(&copy.metadata).context("no time")?;
    // The time in the annotation is in whole seconds, so the measured wait can be up to one second too short.
    let left_alone = at.duration_since(lost_at).unsigned_abs() + SECOND;
    ensure!(
        at > lost_at && left_alone >= PATIENCE,
        "after {left_alone:?}"
    );
    let namespaces: Api<Namespace> = Api::all(planes.hub.clone());
    let touched = async || {
        let copy = copies.get(name).await?;
        let namespace = namespaces.get(&planes.hub_namespace).await?;
        let at = [&copy.metadata, &namespace.metadata].map(reapplied_at);
        anyhow::Ok((at, namespace.resource_version()))
    };
    let before = touched().await?;
    ensure!(before.0.iter().all(Option::is_some), "{before:?}");

    // The federator re-applies the copy once, although it reconciles the copy often. Each further re-application would
    // change the annotation.
    while clock::now() < at + 3 * SECOND {
        let looks = json!({"metadata": {"annotations": {"looks": clock::now().to_string()}}});
        patch::<WorkloadDeployment>(&copies, name, looks).await?;
        sleep(POLL).await;
    }
    let after = touched().await?;
    ensure!(before == after, "{before:?} and {after:?}");

    // After another change of the copy, the annotation stays. The new version has been missing for less than a minute.
    let scale = json!({"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"});
    let placement = json!({"name": "us", "cityCodes": ["DFW"], "scaleSettings": scale});
    let change = json!({"spec": {"placements": [placement]}});
    patch::<Workload>(&planes.in_project(), "web", change).await?;
    planes.until_settled(2).await?;
    let after = touched().await?;
    ensure!(before == after, "{before:?} and {after:?}");
    Ok(())
}

async fn on_simulated_planes(
    scenario: impl AsyncFnOnce(&ProjectAndHub) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let directory = tempfile::tempdir_in(target())?;
    let directory = directory.path();
    let port = ports::reserve()?;
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
    fs::write(directory.join("tls.crt"), cert.pem())?;
    fs::write(directory.join("tls.key"), signing_key.serialize_pem())?;
    let cert_dir = directory.to_owned();
    let served = tokio::spawn(async move { benches::serve_planes(port, &cert_dir, 1).await });

    let project =
        format!("/apis/resourcemanager.miloapis.com/v1alpha1/projects/{PROJECT}/control-plane");
    let (root, hub) = (kubeconfig(directory, port, "root", "")?, "/hub");
    let hub = kubeconfig(directory, port, "hub", hub)?;
    let project = kubeconfig(directory, port, "project", &project)?;
    let client = async |kubeconfig: &Path| {
        let config = connect::kubeconfig(kubeconfig, None).await?;
        anyhow::Ok(connect::client(config, "test")?)
    };
    let (project, hub_client) = (client(&project).await?, client(&hub).await?);
    let manager = start_manager(directory, &root, &hub).await?;

    let namespaces: Api<Namespace> = Api::all(project.clone());
    let namespace = wait::until(&namespaces, DEFAULT_NAMESPACE, "there", WITHIN, |_| true).await?;
    let uid = namespace.uid().context("the namespace has no UID")?;
    networking::create_network(&project, DEFAULT_NAMESPACE, NETWORK).await?;
    let planes = ProjectAndHub {
        project,
        hub: hub_client,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        hub_namespace: format!("ns-{uid}"),
    };
    let lived = tokio::select! {
        lived = scenario(&planes) => lived,
        served = served => Err(served?.err().context("the planes are no longer served")?),
        error = run_cells(&planes) => Err(error),
    };
    let log = fs::read_to_string(manager.log()).unwrap_or_default();
    manager.terminate().await;
    lived.with_context(|| log)
}

/// Simulates the cells, and Karmada's collection of the statuses in the cells. Every copy gets its desired number of
/// instances.
async fn run_cells(planes: &ProjectAndHub) -> anyhow::Error {
    let copies = planes.on_hub::<WorkloadDeployment>();
    loop {
        if let Err(error) = report(&copies).await {
            return error;
        }
        sleep(POLL).await;
    }
}

async fn report(copies: &Api<WorkloadDeployment>) -> anyhow::Result<()> {
    for copy in copies.list(&ListParams::default()).await?.items {
        let wanted = copy.spec.scale_settings.min_replicas;
        let generation = copy.metadata.generation;
        let status = copy.status.clone().unwrap_or_default();
        if status.replicas == wanted && status.observed_generation == generation {
            continue;
        }
        let available = json!({
            "type": "Available", "status": "True", "reason": "StableInstanceFound", "message": "",
            "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": generation,
        });
        let status = json!({
            "conditions": [available],
            "currentReplicas": wanted,
            "desiredReplicas": wanted,
            "observedGeneration": generation,
            "readyReplicas": wanted,
            "replicas": wanted,
        });
        let name = copy.name_any();
        if let Err(error) = patch_status(copies, &name, status).await {
            // The copy may have been deleted and created again since the read.
            let api = error.downcast_ref::<kube::Error>();
            let is_gone = matches!(api, Some(kube::Error::Api(status)) if status.code == 404);
            ensure!(is_gone, "{error:#}");
        }
    }
    Ok(())
}

/// Starts the management controllers for the projects of these planes.
async fn start_manager(directory: &Path, root: &Path, hub: &Path) -> anyhow::Result<ChildProcess> {
    let config = json!({
        "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
        "kind": "WorkloadOperator",
        "metricsServer": {"bindAddress": "0"},
        "discovery": {
            "mode": "milo",
            "discoveryKubeconfigPath": root,
            "projectKubeconfigPath": root,
        },
    });
    let file = directory.join("manager.yaml");
    fs::write(&file, config.to_string())?;
    ChildProcess::start(Program {
        name: "manager",
        path: env!("CARGO_BIN_EXE_compute-federation").into(),
        args: vec![
            format!("--server-config={}", file.display()).into(),
            format!("--federation-kubeconfig={}", hub.display()).into(),
            "--enable-management-controllers=true".into(),
            "--health-probe-bind-address=0".into(),
        ],
        logs: directory,
        remove: None,
    })
    .await
}

fn kubeconfig(
    directory: &Path,
    port: u16,
    name: &str,
    path: &str,
) -> anyhow::Result<std::path::PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "certificate-authority": directory.join("tls.crt"),
            "server": format!("https://127.0.0.1:{port}{path}"),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        "users": [{"name": name, "user": {"token": name}}],
    });
    let file = directory.join(format!("{name}.kubeconfig"));
    fs::write(&file, config.to_string())?;
    Ok(file)
}
