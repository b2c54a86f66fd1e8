//! Tests of a project that refuses requests. Such a project must not affect another project.

use std::time::Duration;

use api::{DEFAULT_NAMESPACE, Workload};
use harness::{Federation, networking, wait};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::{Fleet, FleetProject, until_shown};
use crate::fixture::{NETWORK, WITHIN, create, workload};
use crate::needs;

/// Time limit to detect that a project serves a new kind. The manager checks the kinds every 30 to 60 seconds.
const NOTICED: Duration = Duration::from_secs(90);

/// Checks the writes that a suspended project refuses. The manager does not retry them before the reinstatement of the
/// project. They happen after the reinstatement. They delay no other project.
pub(crate) async fn a_suspended_project_is_not_retried(
    federation: &Federation,
) -> anyhow::Result<()> {
    let fleet = Fleet::start(federation, "suspended", &["held", "active"]).await?;
    let (a, b) = (fleet.project("held").await?, fleet.project("active").await?);
    for project in [&a, &b] {
        project.create().await?;
        project.until_settled(1).await?;
    }

    fleet.milo.set_suspended("held", true).await?;
    until_shown(&fleet.management, "projects_suspended 1").await?;
    // The change bypasses the front, because the front would refuse it.
    a.scale(2).await?;
    let parked = "queue_groups_in_trouble{controller=\"workload\",trouble=\"suspended\"} 1";
    until_shown(&fleet.management, parked).await?;
    let attempts = async || {
        let metrics = fleet.management.metrics().await?;
        let errors =
            "compute_federation_reconciles_total{controller=\"workload\",result=\"error\"}";
        let line = metrics.lines().find_map(|line| line.strip_prefix(errors));
        anyhow::Ok(line.unwrap_or_default().trim().to_owned())
    };
    let refused = attempts().await?;
    for replicas in [2, 1, 2] {
        b.scale(replicas).await?;
        b.until_settled(replicas).await?;
    }
    assert_eq!(attempts().await?, refused, "the refused write is retried");

    fleet.milo.set_suspended("held", false).await?;
    a.until_settled(2).await?;
    until_shown(&fleet.management, "projects_suspended 0").await?;
    for project in [&a, &b] {
        project.delete().await?;
    }
    fleet.stop().await;
    Ok(())
}

/// I-20: a kind that a project does not serve blocks only objects that need the kind. The manager detects the kind when
/// the project begins to serve it.
pub(crate) async fn a_kind_that_a_project_does_not_serve(
    federation: &Federation,
) -> anyhow::Result<()> {
    let fleet = Fleet::start(federation, "unserved", &["bare", "full"]).await?;
    let (a, b) = (fleet.project("bare").await?, fleet.project("full").await?);
    b.create().await?;
    b.until_settled(1).await?;
    for kind in ["networks", "locationbindings"] {
        let definition = stop_serving(&a, kind).await?;
        create::<Workload>(&a.api(), workload("web", &[("us", &["DFW"], 1)])).await?;
        let is_unserved = |workload: &Workload| {
            let message = needs::of_placement(workload, "us").message;
            message.contains("cannot be listed")
        };
        wait::until(&a.api(), "web", "unserved", WITHIN, is_unserved).await?;
        for replicas in [2, 1] {
            b.scale(replicas).await?;
            b.until_settled(replicas).await?;
        }
        serve_again(&a, kind, definition).await?;
        let noticed = |workload: &Workload| {
            let status = workload.status.clone().unwrap_or_default();
            status.deployments == 1
        };
        wait::until(&a.api(), "web", "placed", NOTICED, noticed).await?;
        a.until_settled(1).await?;
        a.delete().await?;
    }
    b.delete().await?;
    fleet.stop().await;
    Ok(())
}

/// Makes a project stop serving a kind.
async fn stop_serving(
    project: &FleetProject<'_>,
    kind: &str,
) -> anyhow::Result<CustomResourceDefinition> {
    let definitions: Api<CustomResourceDefinition> = Api::all(project.plane.client());
    let name = format!("{kind}.networking.datumapis.com");
    let definition = definitions.get(&name).await?;
    definitions.delete(&name, &DeleteParams::default()).await?;
    wait::gone(&definitions, &name, WITHIN).await?;
    Ok(definition)
}

/// Makes a project serve a kind again, and creates the object that a Workload needs.
async fn serve_again(
    project: &FleetProject<'_>,
    kind: &str,
    definition: CustomResourceDefinition,
) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(project.plane.client());
    let metadata = ObjectMeta {
        name: definition.metadata.name,
        ..ObjectMeta::default()
    };
    let definition = CustomResourceDefinition {
        metadata,
        spec: definition.spec,
        status: None,
    };
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    wait::eventually("the kind is served", WITHIN, || async {
        match kind {
            "networks" => {
                networking::create_network(&project.plane.client(), DEFAULT_NAMESPACE, NETWORK)
                    .await
            }
            _ => project.offer_dfw().await,
        }
    })
    .await
}
