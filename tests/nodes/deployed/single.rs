//! compute-federation as Pods in a cluster that is its own project.

use anyhow::ensure;
use api::{Workload, WorkloadDeployment, condition};
use harness::installation::{SingleCluster, refuses};
use harness::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::flow::no_container_has_restarted;
use super::objects::workload;
use super::{CITY, WITHIN, config};

/// Also runs the binary on the host first, with the overlay `dev`. The overlay `single-cluster` then replaces it.
pub(crate) async fn a_single_cluster_is_its_own_project() -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut cluster = SingleCluster::start(&config()?).await?;
    let after = |what: &str| eprintln!("{what} after {:.1} s", begin.elapsed().as_secs_f64());
    after("single cluster");
    cluster.develop().await?;
    after("overlay dev");
    cluster.install().await?;
    after("overlay single-cluster");
    let result = tokio::select! {
        result = a_workload_gets_to_the_hub(&cluster) => result,
        death = cluster.node().death() => Err(death),
        death = cluster.hub().death() => Err(death),
    };
    cluster.stop().await;
    result
}

/// No cell runs the Workload, because there is none.
async fn a_workload_gets_to_the_hub(cluster: &SingleCluster) -> anyhow::Result<()> {
    let client = cluster.node().client();
    refuses(&client).await?;
    let namespace = api::DEFAULT_NAMESPACE;
    let workloads: Api<Workload> = Api::namespaced(client.clone(), namespace);
    let web = serde_json::from_value(workload("web", &[CITY], 1))?;
    workloads.create(&PostParams::default(), &web).await?;
    let deployments: Api<WorkloadDeployment> = Api::namespaced(client.clone(), namespace);
    let waits = |deployment: &WorkloadDeployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let available = condition::find(&status.conditions, "Available");
        available.is_some_and(|available| available.reason == "NoMatchingCell")
    };
    wait::until(&deployments, "web-us-dfw", "without a cell", WITHIN, waits).await?;
    let namespaces: Api<Namespace> = Api::all(client);
    let uid = namespaces.get(namespace).await?.uid().unwrap_or_default();
    let hub = cluster.hub().plane().client();
    let copies: Api<WorkloadDeployment> = Api::namespaced(hub, &format!("ns-{uid}"));
    let copy = copies.get("web-us-dfw").await?;
    ensure!(copy.spec.city_code == CITY, "{:?}", copy.spec);
    no_container_has_restarted(cluster.node()).await
}
