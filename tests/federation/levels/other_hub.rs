//! A lower hub whose process has the kubeconfig of another hub.

use anyhow::{Context, ensure};
use api::annotations::UPPER_HUB_UID;
use api::reasons::lower_hub::{PROCESS_REPORTS, PROCESS_SILENT};
use api::{DEFAULT_NAMESPACE, Instance, LowerHub, LowerHubStatus, WorkloadDeployment};
use harness::audit::{AuditPosition, Write};
use harness::{Federation, Plane, wait};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use super::silent_process::until_shown;
use super::{
    CITY, CLUSTERS_BELOW, LOWER, Layout, add_lower_hub, change_image, create_web, start_with,
};
use crate::fixture::{Space, WITHIN, has_image};

const LAYOUT: Layout = Layout {
    cities: &[CITY],
    cells: &["dfw.a1", "dfw.a2"],
};

/// The process of a lower hub is restarted with another upper hub, and then as that of another lower hub. It writes
/// nothing anywhere, and says why. Nothing ends, and changes still reach the cells. With the right hubs, it reports again.
pub(crate) async fn a_process_with_another_hub() -> anyhow::Result<()> {
    let (mut federation, config) = start_with("other-levels", Vec::new()).await?;
    add_lower_hub(&mut federation, &config, LOWER, &CLUSTERS_BELOW).await?;
    let other = federation.start_other_lower_hub(&config, LOWER).await?;
    let directory = federation.directory().to_owned();
    let tested = run(&federation, &other).await;
    tested.with_context(|| format!("in {}", directory.display()))?;
    federation.stop().await;
    Ok(())
}

async fn run(federation: &Federation, other: &Plane) -> anyhow::Result<()> {
    let space = Space::create(federation, "astray").await?;
    create_web(&space, &LAYOUT).await?;
    let (lower, upper) = (federation.lower_hub(LOWER)?, federation.hub());
    for (hubs, flag, image) in [
        ([lower, other], "--federation-kubeconfig", "app:2"),
        ([other, upper], "--kubeconfig", "app:3"),
    ] {
        is_held(&space, other, hubs, flag).await?;
        a_change_arrives(&space, image).await?;
        federation.report_with(LOWER, [lower, upper]).await?;
        reports_again(federation).await?;
    }
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// Restarts the process with these hubs. `flag` has the wrong one.
async fn is_held(
    space: &Space<'_>,
    other: &Plane,
    hubs: [&Plane; 2],
    flag: &str,
) -> anyhow::Result<()> {
    let federation = space.federation;
    let (lower, upper) = (federation.lower_hub(LOWER)?, federation.hub());
    let lower_hubs: Api<LowerHub> = Api::all(upper.client());
    let before = Known::of(space, other).await?;
    let position = AuditPosition::now([lower, upper, other])?;
    federation.report_with(LOWER, hubs).await?;
    let begin = Instant::now();
    let manager = federation.lower_hub_manager(LOWER)?;
    wait::eventually(
        "the process says why it reports nothing",
        WITHIN,
        || async {
            let (code, body) = manager.lock().await.readiness().await?;
            let is_said = body.contains("the cells are not reported") && body.contains(flag);
            ensure!(code == 200 && is_said, "{code} {body}");
            let metrics = manager.lock().await.metrics().await?;
            let line = "compute_federation_hub_contradictions 1";
            ensure!(metrics.lines().any(|it| it == line), "{metrics}");
            Ok(())
        },
    )
    .await?;
    until_shown(&lower_hubs, LOWER, PROCESS_SILENT).await?;
    eprintln!("{flag}: shown after {:.1?}", begin.elapsed());

    ensure!(
        Known::of(space, other).await? == before,
        "something changed"
    );
    let writes = position.writes()?.into_iter();
    let is_by_process =
        |it: &Write| it.is_ours() && it.field_manager != "compute-federation-heartbeat";
    let writes: Vec<_> = writes
        .filter(is_by_process)
        .map(|it| it.to_string())
        .collect();
    ensure!(writes.is_empty(), "{writes:#?}");
    Ok(())
}

/// The state that a process with a wrong hub could change.
#[derive(Debug, PartialEq)]
struct Known {
    /// The status of the LowerHub on the right hub, without conditions, and on the other one.
    reported: [Option<LowerHubStatus>; 2],
    /// The time of the last heartbeat on the other hub.
    beat: bool,
    /// The upper hubs that the lower hub and the other hub have recorded.
    recorded: [Option<String>; 2],
    ca_bundles: [Vec<u8>; 2],
    /// The UIDs of everything that runs, on each plane.
    running: Vec<Vec<String>>,
}

impl Known {
    async fn of(space: &Space<'_>, other: &Plane) -> anyhow::Result<Self> {
        let federation = space.federation;
        let (lower, upper) = (federation.lower_hub(LOWER)?, federation.hub());
        let leases: Api<Lease> = Api::namespaced(other.client(), api::rights::NAMESPACE);
        let lease = leases.get(&api::lower_hub::lease_of(LOWER)).await?;
        let mut running = Vec::new();
        let below = LAYOUT.cells.iter().map(|cell| federation.cell(cell));
        for plane in [Ok(federation.project()), Ok(upper), Ok(lower)]
            .into_iter()
            .chain(below)
        {
            let plane = plane?;
            let namespace = match plane.kind() {
                "project" => &space.name,
                _ => &space.hub_name,
            };
            running.push(living(plane.client(), namespace).await?);
        }
        Ok(Self {
            reported: [reported(upper).await?, reported(other).await?],
            beat: lease.spec.is_some_and(|it| it.renew_time.is_some()),
            recorded: [recorded(lower).await?, recorded(other).await?],
            ca_bundles: [
                Federation::ca_bundle_of(lower).await?,
                Federation::ca_bundle_of(other).await?,
            ],
            running,
        })
    }
}

/// Returns the UIDs of the WorkloadDeployments and of the Instances that are not being deleted.
async fn living(client: Client, namespace: &str) -> anyhow::Result<Vec<String>> {
    let deployments: Api<WorkloadDeployment> = Api::namespaced(client.clone(), namespace);
    let instances: Api<Instance> = Api::namespaced(client, namespace);
    let all = ListParams::default();
    let deployments = deployments.list_metadata(&all).await?.items.into_iter();
    let instances = instances.list_metadata(&all).await?.items.into_iter();
    let uids = deployments
        .map(|it| it.metadata)
        .chain(instances.map(|it| it.metadata));
    let living = uids.filter(|it| it.deletion_timestamp.is_none());
    Ok(living.filter_map(|it| it.uid).collect())
}

async fn reported(upper: &Plane) -> anyhow::Result<Option<LowerHubStatus>> {
    let lower_hubs: Api<LowerHub> = Api::all(upper.client());
    let status = lower_hubs.get(LOWER).await?.status;
    Ok(status.map(|mut status| {
        status.conditions.clear();
        status
    }))
}

/// Returns the UID of the upper hub that a lower hub has recorded.
async fn recorded(lower: &Plane) -> anyhow::Result<Option<String>> {
    let namespaces: Api<Namespace> = Api::all(lower.client());
    let default = namespaces.get(DEFAULT_NAMESPACE).await?;
    Ok(default.annotations().get(UPPER_HUB_UID).cloned())
}

/// A change of the Workload reaches the cells, and the project shows it.
async fn a_change_arrives(space: &Space<'_>, image: &str) -> anyhow::Result<()> {
    change_image(space, &LAYOUT, image).await?;
    LAYOUT.until_shown(space, |it| has_image(it, image)).await?;
    Ok(())
}

/// The process reports as before.
async fn reports_again(federation: &Federation) -> anyhow::Result<()> {
    let lower_hubs: Api<LowerHub> = Api::all(federation.hub().client());
    until_shown(&lower_hubs, LOWER, PROCESS_REPORTS).await?;
    let metrics = federation
        .lower_hub_manager(LOWER)?
        .lock()
        .await
        .metrics()
        .await?;
    let line = "compute_federation_hub_contradictions 0";
    ensure!(metrics.lines().any(|it| it == line), "{metrics}");
    Ok(())
}
