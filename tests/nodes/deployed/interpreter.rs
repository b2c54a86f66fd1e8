//! The interpreter as a Deployment of its own.

use anyhow::Context;
use harness::Installation;
use harness::installation::NAMESPACE;
use harness::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use super::WITHIN;
use super::changes::REPLICAS;
use super::{load, objects, replicas};

/// Heading of the commands.
const APART: &str = "Run the interpreter apart";
const MANAGER: &str = "compute-manager";

/// Karmada is answered while no management process runs.
pub(crate) async fn the_interpreter_answers_without_the_management_process(
    installation: &Installation,
) -> anyhow::Result<()> {
    let operator = installation.operator();
    for file in ["kustomization.yaml", "certificate.yaml"] {
        let name = format!("interpreter/{file}");
        operator.write(&name, installation.deploy_file(&name)?)?;
    }
    operator.run(installation.deploy_step(APART, 0)?).await?;
    let address = installation.service_address("compute-interpreter").await?;
    let register = installation.deploy_step(APART, 1)?;
    operator.run(&register.replace("ADDRESS", &address)).await?;
    let answered = answers_alone(installation).await;

    scale_management(installation, REPLICAS).await?;
    operator.run(installation.deploy_step(APART, 2)?).await?;
    let interpreters = ListParams::default().labels("control-plane=compute-interpreter");
    let pods: Api<Pod> = Api::namespaced(installation.management().client(), NAMESPACE);
    wait::eventually("the Pods of the interpreter are gone", WITHIN, || async {
        let left = pods.list(&interpreters).await?.items.len();
        anyhow::ensure!(left == 0, "{left} Pods");
        Ok(())
    })
    .await?;
    replicas::of_management(installation)
        .until_ready(REPLICAS)
        .await?;
    answered.context("without the management process")?;
    load::asked(&installation.hub().plane().client(), 3)
        .await
        .context("after the interpreter of its own")
}

async fn answers_alone(installation: &Installation) -> anyhow::Result<()> {
    let hub = installation.hub().plane().client();
    objects::create_interpreted(&hub).await?;
    scale_management(installation, 0).await?;
    let pods: Api<Pod> = Api::namespaced(installation.management().client(), NAMESPACE);
    let managers = ListParams::default().labels("control-plane=compute");
    wait::eventually("the management processes have ended", WITHIN, || async {
        let left = pods.list(&managers).await?.items.len();
        anyhow::ensure!(left == 0, "{left} Pods");
        Ok(())
    })
    .await?;
    for replicas in [7, 8] {
        load::asked(&hub, replicas).await?;
    }
    Ok(())
}

async fn scale_management(installation: &Installation, replicas: usize) -> anyhow::Result<()> {
    let scale = format!(
        "management --namespace={NAMESPACE} scale deployment/{MANAGER} --replicas={replicas}"
    );
    installation.operator().run(&scale).await.map(drop)
}
