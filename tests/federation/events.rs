//! Tests of the Events on the objects of a user.

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, annotations, condition};
use harness::{Federation, networking, wait};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{DFW, Space, WITHIN, create, patch, workload};

/// Returns the type, the reason and the count of each Event that controllers have published about an object. The Events
/// are in order of occurrence.
pub(crate) async fn of(
    events: &Api<Event>,
    kind: &str,
    name: &str,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut events = events.list(&ListParams::default()).await?.items;
    events.retain(|event| {
        let object = event.regarding.as_ref();
        object.is_some_and(|object| {
            (object.kind.as_deref(), object.name.as_deref()) == (Some(kind), Some(name))
        })
    });
    events.sort_by_key(|event| event.event_time.clone());
    let summaries = events.into_iter().map(|event| {
        let count = event.series.map_or(1, |series| series.count);
        let reason = event.reason.unwrap_or_default();
        let times = if count == 1 {
            reason
        } else {
            format!("{reason} x {count}")
        };
        (event.type_.unwrap_or_default(), times)
    });
    Ok(summaries.collect())
}

/// Waits until an object has exactly these Events.
pub(crate) async fn until(
    events: &Api<Event>,
    kind: &str,
    name: &str,
    expected: &[(&str, &str)],
) -> anyhow::Result<()> {
    let what = format!("{expected:?} on {kind} {name}");
    wait::eventually(&what, WITHIN, || async {
        let found = of(events, kind, name).await?;
        let found: Vec<_> = found
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await
}

/// The cell tells the life of an Instance once, also after a restart of its process.
pub(crate) async fn customers_learn_of_each_change_once(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "life").await?;
    let events: Api<Event> = space.in_cell(DFW);
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    let workload = space.until_settled("web", 1).await?;
    let (deployment, first, second) = ("web-us-dfw", "web-us-dfw-0", "web-us-dfw-1");
    let available = ("Normal", "Available");
    until(&events, "Instance", first, &[available]).await?;
    for event in events.list(&ListParams::default()).await? {
        let related = event.related.context("no related object")?;
        ensure!(related.uid == workload.uid(), "{related:?}");
        ensure!(
            related.namespace.as_ref() == Some(&space.name),
            "{related:?}"
        );
        let reporter = event.reporting_controller.as_deref();
        ensure!(
            reporter == Some("compute.datumapis.com/instance-controller"),
            "{reporter:?}"
        );
    }
    let more = crate::fixture::workload("web", &[("us", &["DFW"], 2)]);
    let placements = json!({"spec": {"placements": more["spec"]["placements"]}});
    patch::<Workload>(&space.in_project(), "web", placements).await?;
    space.until_settled("web", 2).await?;
    let scaled = ("Normal", "Scaled");
    until(&events, "WorkloadDeployment", deployment, &[scaled]).await?;
    until(&events, "Instance", second, &[available]).await?;

    let mut manager = federation.cell_manager(DFW)?.lock().await;
    manager.terminate().await;
    manager.restart().await?;
    drop(manager);
    let deployments = space.in_project::<WorkloadDeployment>();
    let suspend =
        |value: Option<&str>| json!({"metadata": {"annotations": {annotations::SUSPENDED: value}}});
    patch(&deployments, deployment, suspend(Some("true"))).await?;
    let paused = ("Normal", "ProjectPaused");
    until(&events, "WorkloadDeployment", deployment, &[scaled, paused]).await?;
    let is_told = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let running = condition::find(&status.conditions, "Running");
        running.is_some_and(|it| it.reason == "Suspended")
    };
    wait::until(&space.in_project(), second, "stopped", WITHIN, is_told).await?;
    until(&events, "Instance", second, &[available]).await?;
    patch(&deployments, deployment, suspend(None)).await?;
    let resumed = ("Normal", "ProjectResumed");
    let of_deployment = [scaled, paused, resumed];
    until(&events, "WorkloadDeployment", deployment, &of_deployment).await?;
    until(&events, "Instance", first, &[available, available]).await?;
    space.delete_workload("web").await?;
    let terminating = ("Normal", "Terminating");
    until(
        &events,
        "Instance",
        second,
        &[available, available, terminating],
    )
    .await
}

pub(crate) async fn each_transition_emits_one_event(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "events").await?;
    let events: Api<Event> = space.in_project();
    let mut web = workload("web", &[("us", &["DFW"], 1)]);
    web["spec"]["template"]["spec"]["networkInterfaces"] = json!([{"network": {"name": "later"}}]);
    create::<Workload>(&space.in_project(), web).await?;
    let missing = ("Warning", "NetworkNotFound");
    until(&events, "Workload", "web", &[missing]).await?;

    let project = federation.project().client();
    networking::create_network(&project, &space.name, "later").await?;
    space.until_settled("web", 1).await?;
    let found = ("Normal", "AvailablePlacementFound");
    until(&events, "Workload", "web", &[missing, found]).await?;
    let stable = ("Normal", "StableInstanceFound");
    until(&events, "WorkloadDeployment", "web-us-dfw", &[stable]).await?;

    // A change without a transition emits no Event.
    let labels = json!({"metadata": {"labels": {"changed": "true"}}});
    patch::<Workload>(&space.in_project(), "web", labels).await?;
    let more = workload("web", &[("us", &["DFW"], 2)]);
    let placements = json!({"spec": {"placements": more["spec"]["placements"]}});
    patch::<Workload>(&space.in_project(), "web", placements).await?;
    space.until_settled("web", 2).await?;
    until(&events, "Workload", "web", &[missing, found]).await?;
    until(&events, "WorkloadDeployment", "web-us-dfw", &[stable]).await?;
    space.delete_workload("web").await
}
