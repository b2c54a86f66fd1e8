//! Tests of networks: the cells of a federation ask a network operator for them.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition::{self, Condition};
use api::instance::{NETWORK_GATE, NETWORK_READY, READY};
use api::networking::{HOLDER_AVAILABLE, NetworkInterface, NetworkInterfaceClaim};
use api::{Instance, Workload, WorkloadDeployment};
use harness::audit::AuditPosition;
use harness::network_operator::{Generation, NetworkDelays};
use harness::quota::{INSTANCES, MEMORY, QuotaDelays, VCPUS};
use harness::{Config, Federation, NetworkOperator, QuotaSystem, networking, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::{self, DFW, NETWORK, ORD, Space, WITHIN, patch};

/// How long the network operator takes.
const PROVISION: Duration = Duration::from_secs(3);
/// Time during which a settled federation makes no write.
const SILENCE: Duration = Duration::from_secs(20);
/// A second network.
const OTHER: &str = "other-network";

async fn start(
    label: &str,
    strategy: &'static str,
    kinds: Option<Generation>,
) -> anyhow::Result<Federation> {
    let config = Config {
        networking: Some(strategy),
        network_kinds: kinds,
        ..fixture::config(label)?
    };
    fixture::start_from(&config).await
}

/// Starts a network operator in a cell.
async fn operate(
    federation: &Federation,
    cell: &str,
    generation: Generation,
) -> anyhow::Result<NetworkOperator> {
    let cell = federation.cell(cell).context("no such cell")?;
    let delays = NetworkDelays {
        provision: PROVISION,
        ..NetworkDelays::default()
    };
    NetworkOperator::start(&cell.client(), generation, delays).await
}

pub(crate) async fn interface_claims_open_the_gate() -> anyhow::Result<()> {
    let federation = start("interface-claims", "InterfaceClaims", None).await?;
    let tested = with_interface_claims(&federation).await;
    tested.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn with_interface_claims(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "claims").await?;
    // The kinds of the network operator are missing at first.
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    let (deployment, first) = ("web-us-dfw", "web-us-dfw-0");
    until_held(&space, DFW, deployment, first, "NetworkKindNotServed").await?;

    let dfw = operate(federation, DFW, Generation::InterfaceClaims).await?;
    let ord = operate(federation, ORD, Generation::InterfaceClaims).await?;
    until_held(&space, DFW, deployment, first, "NoMatchingLocation").await?;
    dfw.serve("dfw", "LHR").await?;
    until_held(&space, DFW, deployment, first, "LocationMismatch").await?;
    dfw.serve("another", "DFW").await?;
    until_held(&space, DFW, deployment, first, "AmbiguousServingLocation").await?;
    let claims = ["NetworkInterfaceClaim", "NetworkInterface"];
    assert_eq!(dfw.objects(&claims).await?, [""; 0]);
    ord.serve("ord", "ORD").await?;
    remove_location(federation, "dfw").await?;

    let located = Instant::now();
    space.until_settled("web", 1).await?;
    let took = located.elapsed();
    eprintln!(
        "runs {:.1} s after the location was right",
        took.as_secs_f64()
    );
    ensure!(took >= PROVISION, "it did not wait for its network");
    the_instance_has_its_interface(&space, first, "another").await?;

    // Two cities, with instances that start one after the other.
    let placements =
        json!({"spec": fixture::workload("web", &[("us", &["DFW", "ORD"], 2)])["spec"]});
    patch::<Workload>(&space.in_project(), "web", placements).await?;
    space.until_settled("web", 4).await?;
    assert_eq!(ord.objects(&["NetworkInterfaceClaim"]).await?.len(), 2);
    is_silent(federation).await?;

    // A refused claim says why, in every plane.
    dfw.refuse(NETWORK, "AddressPoolExhausted", "no address is left");
    space.create_workload("api", &[("us", &["DFW"], 1)]).await?;
    until_held(
        &space,
        DFW,
        "api-us-dfw",
        "api-us-dfw-0",
        "NetworkFailedToCreate",
    )
    .await?;
    let available = || async {
        let deployments = space.in_project::<WorkloadDeployment>();
        let status = deployments
            .get("api-us-dfw")
            .await?
            .status
            .unwrap_or_default();
        let available = condition::find(&status.conditions, "Available").context("none")?;
        ensure!(
            available.message.contains("no address is left"),
            "{available:?}"
        );
        Ok(())
    };
    wait::eventually("the words of the network operator", WITHIN, available).await?;
    dfw.accept(NETWORK);
    space.until_settled("api", 1).await?;

    for workload in ["web", "api"] {
        space.delete_workload(workload).await?;
    }
    space.until_empty().await?;
    until_none(&[&dfw, &ord], &claims).await
}

/// Deletes a ServingLocation of DFW.
async fn remove_location(federation: &Federation, name: &str) -> anyhow::Result<()> {
    let cell = federation.cell(DFW).context("no such cell")?;
    let locations: Api<api::networking::ServingLocation> = Api::all(cell.client());
    locations.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// The interface is in the status of the Instance on every plane, and the network operator knows that the Instance
/// runs.
async fn the_instance_has_its_interface(
    space: &Space<'_>,
    name: &str,
    location: &str,
) -> anyhow::Result<()> {
    let has_interface = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let located = instance.spec.location.as_ref();
        let interface = status.network_interfaces.first();
        located.is_some_and(|it| it.name == location)
            && interface.is_some_and(|it| {
                let address = it.assignments.network_ip.as_deref();
                it.name == "eth0"
                    && address.is_some_and(|address| address.starts_with("fd00::"))
                    && condition::is_true(&it.conditions, "Programmed")
            })
    };
    for instances in [space.in_cell(DFW), space.on_hub(), space.in_project()] {
        wait::until(&instances, name, "with an interface", WITHIN, has_interface).await?;
    }
    let claims: Api<NetworkInterfaceClaim> = space.in_cell(DFW);
    let claim = claims.get(&format!("{name}-eth0")).await?;
    assert_eq!(claim.spec.network.name, NETWORK);
    let interfaces: Api<NetworkInterface> = space.in_cell(DFW);
    let interface = interfaces.get(&format!("{name}-eth0")).await?;
    let conditions = interface.status.unwrap_or_default().conditions;
    ensure!(
        condition::is_true(&conditions, HOLDER_AVAILABLE),
        "{conditions:?}"
    );
    Ok(())
}

/// Networks come after three seconds, and quota for three of four Instances.
pub(crate) async fn networks_and_quota_open_their_gates() -> anyhow::Result<()> {
    let config = Config {
        networking: Some("InterfaceClaims"),
        network_kinds: Some(Generation::InterfaceClaims),
        quota: true,
        ..fixture::config("gates")?
    };
    let federation = fixture::start_from(&config).await?;
    let tested = with_quota(&federation).await;
    tested.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn with_quota(federation: &Federation) -> anyhow::Result<()> {
    let project = "single";
    let client = federation.project().client();
    let quota = QuotaSystem::start(&[(project, client)], QuotaDelays::default()).await?;
    for (resource, amount) in [(INSTANCES, 3), (VCPUS, 100_000), (MEMORY, 1_000_000)] {
        quota.set_limit(project, resource, amount).await?;
    }
    let dfw = operate(federation, DFW, Generation::InterfaceClaims).await?;
    let ord = operate(federation, ORD, Generation::InterfaceClaims).await?;
    dfw.serve("dfw", "DFW").await?;
    ord.serve("ord", "ORD").await?;
    let space = Space::create(federation, "gates").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2)])
        .await?;
    // The network of the denied Instance is ready, so only its quota is missing.
    let gates = |instance: &Instance| {
        let controller = instance.spec.controller.clone().unwrap_or_default();
        let gates = controller.scheduling_gates.into_iter();
        gates.map(|gate| gate.name).collect::<Vec<_>>()
    };
    let projections = space.in_project::<Instance>();
    wait::eventually("one is denied and three run", WITHIN, || async {
        let all = projections.list(&ListParams::default()).await?.items;
        let ready = all.iter().filter(|it| fixture::is_ready(it)).count();
        ensure!(
            (ready, all.len()) == (3, 4),
            "{ready} of {} are ready",
            all.len()
        );
        let denied = all.into_iter().find(|it| !fixture::is_ready(it));
        let denied = denied.context("all run")?;
        ensure!(gates(&denied) == ["Quota"], "{:?}", gates(&denied));
        let status = denied.status.unwrap_or_default();
        let ready = condition::find(&status.conditions, READY).context("no condition")?;
        ensure!(ready.reason == "PendingQuota", "{}", ready.reason);
        ensure!(
            condition::is_true(&status.conditions, NETWORK_READY),
            "no network"
        );
        Ok(())
    })
    .await?;

    quota.set_limit(project, INSTANCES, 4).await?;
    space.until_settled("web", 4).await?;
    space.delete_workload("web").await?;
    space.until_empty().await?;
    until_none(
        &[&dfw, &ord],
        &["NetworkInterfaceClaim", "NetworkInterface"],
    )
    .await?;
    wait::eventually("all quota is returned", WITHIN, || async {
        let claims = quota.claims(project).await?;
        ensure!(claims.is_empty(), "{} claims", claims.len());
        Ok(())
    })
    .await
}

pub(crate) async fn bindings_open_the_gate() -> anyhow::Result<()> {
    let federation = start("bindings", "Bindings", Some(Generation::Bindings)).await?;
    let tested = with_bindings(&federation).await;
    tested.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn with_bindings(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "bindings").await?;
    let dfw = operate(federation, DFW, Generation::Bindings).await?;
    let ord = operate(federation, ORD, Generation::Bindings).await?;
    dfw.locate("lhr", "LHR").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    let (deployment, first) = ("web-us-dfw", "web-us-dfw-0");
    until_held(&space, DFW, deployment, first, "NoMatchingLocation").await?;
    let all = ["NetworkBinding", "SubnetClaim"];
    assert_eq!(dfw.objects(&all).await?, [""; 0]);
    // The Networks of the project are in the namespace of the cell.
    for (cell, network) in [(DFW, NETWORK), (DFW, OTHER), (ORD, NETWORK)] {
        let cell = federation.cell(cell).context("no such cell")?.client();
        let namespaces: Api<Namespace> = Api::all(cell.clone());
        let exists = |_: &Namespace| true;
        if namespaces.get_opt(&space.hub_name).await?.is_none() {
            let namespace = json!({"metadata": {"name": space.hub_name}});
            fixture::create(&namespaces, namespace).await?;
        }
        wait::until(&namespaces, &space.hub_name, "there", WITHIN, exists).await?;
        networking::create_network(&cell, &space.hub_name, network).await?;
    }
    networking::create_network(&federation.project().client(), &space.name, OTHER).await?;

    dfw.locate("dfw", "DFW").await?;
    let located = Instant::now();
    space.until_settled("web", 1).await?;
    let took = located.elapsed();
    eprintln!(
        "runs {:.1} s after the location was there",
        took.as_secs_f64()
    );
    ensure!(took >= PROVISION, "it did not wait for its network");
    let namespace = &space.hub_name;
    let claim = format!("SubnetClaim {namespace}/{NETWORK}-default-dfw-0");
    let binding = |name: &str| format!("NetworkBinding {namespace}/{name}-net-0");
    assert_eq!(
        dfw.objects(&all).await?,
        [binding("web-us-dfw"), claim.clone()]
    );
    let instance = space.in_cell::<Instance>(DFW).get(first).await?;
    let location = instance.spec.location.context("no location")?;
    assert_eq!(
        (location.name.as_str(), location.namespace.as_deref()),
        ("dfw", Some("default"))
    );

    // Another deployment uses the same network, and so the same claim. It owns the claim too.
    space.create_workload("api", &[("us", &["DFW"], 2)]).await?;
    space.until_settled("api", 2).await?;
    let both = [binding("api-us-dfw"), binding("web-us-dfw"), claim.clone()];
    assert_eq!(dfw.objects(&all).await?, both);
    is_silent(federation).await?;
    space.delete_workload("web").await?;
    until_objects(&dfw, &all, &[binding("api-us-dfw"), claim.clone()]).await?;

    // Another network gets another binding. It is refused, so the rollout waits with the first Instance that it
    // replaces, and the other one runs on with its network.
    dfw.refuse(OTHER, "", "the cloud has no room");
    let mut changed = fixture::workload("api", &[("us", &["DFW"], 2)]);
    changed["spec"]["template"]["spec"]["networkInterfaces"] =
        json!([{"network": {"name": OTHER}}]);
    let template = json!({"spec": {"template": changed["spec"]["template"]}});
    patch::<Workload>(&space.in_project(), "api", template).await?;
    until_instance_held(&space, DFW, "api-us-dfw-1", "NetworkFailedToCreate").await?;
    let objects = dfw.objects(&all).await?;
    let [first, second, kept] = &objects[..] else {
        anyhow::bail!("{objects:?}");
    };
    assert_eq!((first, kept), (&binding("api-us-dfw"), &claim));
    let second = second.clone();
    let hashed = format!("{first}-");
    ensure!(second.starts_with(&hashed), "{second}");
    let running = space.in_cell::<Instance>(DFW).get("api-us-dfw-0").await?;
    ensure!(fixture::is_ready(&running), "{:?}", running.status);
    // What is not used any more ends with the rollout.
    dfw.accept(OTHER);
    space.until_settled("api", 2).await?;
    let claim = format!("SubnetClaim {namespace}/{OTHER}-default-dfw-0");
    until_objects(&dfw, &all, &[second, claim]).await?;
    is_silent(federation).await?;

    space.delete_workload("api").await?;
    space.until_empty().await?;
    until_none(&[&dfw, &ord], &all).await
}

/// Waits until an Instance in a cell is held back for this reason, and until the hub and the project say so too. The
/// gate is closed.
async fn until_held(
    space: &Space<'_>,
    cell: &str,
    deployment: &str,
    name: &str,
    reason: &str,
) -> anyhow::Result<()> {
    until_instance_held(space, cell, name, reason).await?;
    let is_unavailable = |deployment: &WorkloadDeployment| {
        let status = deployment.status.clone().unwrap_or_default();
        says(&status.conditions, "Available", reason)
    };
    for deployments in [space.in_cell(cell), space.on_hub(), space.in_project()] {
        wait::until(&deployments, deployment, reason, WITHIN, is_unavailable).await?;
    }
    Ok(())
}

/// Waits until an Instance in a cell is held back as for [`until_held`], whatever its WorkloadDeployment says.
async fn until_instance_held(
    space: &Space<'_>,
    cell: &str,
    name: &str,
    reason: &str,
) -> anyhow::Result<()> {
    let is_held = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let controller = instance.spec.controller.clone().unwrap_or_default();
        let mut gates = controller.scheduling_gates.iter();
        says(&status.conditions, NETWORK_READY, reason)
            && says(&status.conditions, READY, reason)
            && gates.any(|gate| gate.name == NETWORK_GATE)
    };
    for instances in [space.in_cell(cell), space.on_hub(), space.in_project()] {
        wait::until(&instances, name, reason, WITHIN, is_held).await?;
    }
    Ok(())
}

fn says(conditions: &[Condition], type_: &str, reason: &str) -> bool {
    let condition = condition::find(conditions, type_);
    condition.is_some_and(|it| it.is_false() && it.reason == reason)
}

/// I-3: compute-federation writes nothing while nothing changes.
async fn is_silent(federation: &Federation) -> anyhow::Result<()> {
    let ours = |position: &AuditPosition| -> anyhow::Result<Vec<String>> {
        let writes = position.writes()?.into_iter();
        let ours = writes.filter(|write| write.is_ours() && !write.is_lease());
        Ok(ours.map(|write| format!("{write:?}")).collect())
    };
    // The last writes of the status may still be on their way.
    wait::eventually("the federation is quiet", WITHIN, || async {
        let position = AuditPosition::now(federation.planes())?;
        sleep(Duration::from_secs(5)).await;
        let writes = ours(&position)?;
        ensure!(writes.is_empty(), "{writes:?}");
        Ok(())
    })
    .await?;
    let position = AuditPosition::now(federation.planes())?;
    sleep(SILENCE).await;
    assert_eq!(ours(&position)?, [""; 0]);
    Ok(())
}

async fn until_objects(
    operator: &NetworkOperator,
    kinds: &[&str],
    expected: &[String],
) -> anyhow::Result<()> {
    wait::eventually("the objects that are used are left", WITHIN, || async {
        let left = operator.objects(kinds).await?;
        ensure!(left == expected, "{left:?}");
        Ok(())
    })
    .await
}

/// Waits until no cell has an object of these kinds.
async fn until_none(operators: &[&NetworkOperator], kinds: &[&str]) -> anyhow::Result<()> {
    for operator in operators {
        until_objects(operator, kinds, &[]).await?;
    }
    Ok(())
}
