//! A Workload passes through all planes, and the Pods are as the manifests say.

use std::fs;

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, condition};
use harness::installation::refuses;
use harness::workloads::is_settled;
use harness::{Installation, Node, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::objects::{bindings, workload};
use super::replicas::{self, Replicas};
use super::{CELL, CITY, WITHIN};

const WEB: &str = "web";
const DEPLOYMENT: &str = "web-us-dfw";
/// User and group of the image.
const USER: &str = "65532";

pub(crate) async fn a_workload_goes_all_the_way_and_back(
    installation: &Installation,
) -> anyhow::Result<()> {
    let (_, customer) = installation.customer().await?;
    refuses(&customer).await?;
    create_settled(installation, 1).await?;
    for pod in replicas::of_management(installation).list().await? {
        let address = pod.status.and_then(|status| status.pod_ip);
        let checked = installation.check(&address.context("no address")?).await?;
        ensure!(
            checked.starts_with("ok") && checked.contains("subject="),
            "{checked}"
        );
        ensure!(checked.contains(DEPLOYMENT), "{checked}");
    }
    let workloads: Api<Workload> = Api::namespaced(customer.clone(), "default");

    let namespace = installation.hub_namespace("default").await?;
    let hub = installation.hub().plane().client();
    let on_hub: Api<WorkloadDeployment> = Api::namespaced(hub.clone(), &namespace);
    on_hub.get(DEPLOYMENT).await?;
    let in_cell: Api<Instance> = Api::namespaced(installation.cell(CELL)?.client(), &namespace);
    let instances = in_cell.list(&ListParams::default()).await?;
    let names: Vec<_> = instances.iter().map(ResourceExt::name_any).collect();
    ensure!(names == [format!("{DEPLOYMENT}-0")], "{names:?}");
    // The status of the Workload does not wait for the projections of its Instances.
    let projected: Api<Instance> = Api::namespaced(customer, "default");
    let is_ready = |instance: &Instance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, "Ready"))
    };
    let name = format!("{DEPLOYMENT}-0");
    wait::until(&projected, &name, "ready", WITHIN, is_ready).await?;

    // Karmada knows the number of replicas only from the interpreter.
    let binding = bindings(&hub, &namespace)
        .get(&format!("{DEPLOYMENT}-workloaddeployment"))
        .await?;
    ensure!(binding.data["spec"]["replicas"] == 1, "{}", binding.data);

    let more = json!({"spec": {"placements": [{
        "name": "us",
        "cityCodes": [CITY],
        "scaleSettings": {"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"},
    }]}});
    workloads
        .patch(WEB, &PatchParams::default(), &Patch::Merge(more))
        .await?;
    until_settled(&workloads, 2).await?;
    no_container_has_restarted(installation.management()).await?;
    no_container_has_restarted(installation.cell(CELL)?).await?;
    installation.check_rights().await
}

/// Creates a Workload with this many Instances, and waits until all of them are ready.
pub(super) async fn create_settled(
    installation: &Installation,
    instances: i32,
) -> anyhow::Result<()> {
    let (_, customer) = installation.customer().await?;
    let workloads: Api<Workload> = Api::namespaced(customer, "default");
    let web = serde_json::from_value(workload(WEB, &[CITY], instances))?;
    workloads.create(&PostParams::default(), &web).await?;
    until_settled(&workloads, instances).await
}

/// Waits until the status in the project counts this many Instances, all of them ready and current.
async fn until_settled(workloads: &Api<Workload>, instances: i32) -> anyhow::Result<()> {
    let settled = |workload: &Workload| is_settled(workload, instances);
    wait::until(workloads, WEB, "settled", WITHIN, settled)
        .await
        .map(drop)
}

/// Checks that all Pods are ready, and that their containers run since their start.
pub(super) async fn no_container_has_restarted(node: &Node) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::all(node.client());
    let pods = pods.list(&ListParams::default()).await?.items;
    ensure!(!pods.is_empty(), "{} has no Pods", node.name());
    for pod in pods {
        let status = pod.status.clone().unwrap_or_default();
        let containers = status.container_statuses.unwrap_or_default();
        let restarts: i32 = containers.iter().map(|it| it.restart_count).sum();
        let described = format!("{} {} on {}", pod.name_any(), restarts, node.name());
        let is_fine = replicas::is_ready(&pod) && restarts == 0;
        ensure!(is_fine, "{described}: {containers:#?}");
    }
    Ok(())
}

pub(crate) async fn containers_run_as_the_manifest_says(
    installation: &Installation,
) -> anyhow::Result<()> {
    for node in [installation.management(), installation.cell(CELL)?] {
        for pod in Replicas::of(&node.client()).list().await? {
            let process = format!("/proc/{}", replicas::process_of(&pod)?);
            let status = fs::read_to_string(format!("{process}/status"))?;
            let field = |name: &str| -> anyhow::Result<&str> {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                Ok(line.with_context(|| name.to_owned())?.trim())
            };
            let ids = [USER; 4].join("\t");
            for (name, expected) in [
                ("Uid:", ids.as_str()),
                ("Gid:", &ids),
                // No capability can be gained, and system calls are filtered.
                ("CapBnd:", "0000000000000000"),
                ("NoNewPrivs:", "1"),
                ("Seccomp:", "2"),
            ] {
                ensure!(field(name)? == expected, "{name} {}", field(name)?);
            }
            let mounts = fs::read_to_string(format!("{process}/mounts"))?;
            let root = mounts
                .lines()
                .find(|line| line.split(' ').nth(1) == Some("/"));
            let options = root.and_then(|line| line.split(' ').nth(3));
            let is_read_only = options.is_some_and(|it| it.split(',').any(|it| it == "ro"));
            ensure!(is_read_only, "{root:?}");
        }
    }
    Ok(())
}
