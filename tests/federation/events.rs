//! Tests of the Events on the objects of a user.

use anyhow::ensure;
use api::Workload;
use harness::{Federation, networking, wait};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::fixture::{Space, WITHIN, create, patch, workload};

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
