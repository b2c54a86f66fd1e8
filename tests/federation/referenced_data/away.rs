//! A cell is away while a source changes, and while the last Workload that uses it ends.

use std::time::Duration;

use api::Workload;
use harness::{Federation, PausedPlane, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::config_map;
use crate::fixture::{DFW, Space, WITHIN, create, patch, workload};

/// Time for which the cell does not answer. Karmada marks a cell as lost sooner: the test shortens its thresholds.
const AWAY: Duration = Duration::from_secs(20);
/// Longer than the request timeouts of Karmada and of compute-federation.
const LONG_AWAY: Duration = Duration::from_mins(5);

pub(crate) async fn a_cell_is_away_for_a_moment(federation: &Federation) -> anyhow::Result<()> {
    away(federation, AWAY).await
}

pub(crate) async fn a_cell_is_away_for_long(federation: &Federation) -> anyhow::Result<()> {
    away(federation, LONG_AWAY).await
}

async fn away(federation: &Federation, time: Duration) -> anyhow::Result<()> {
    let space = Space::create(federation, "data-away").await?;
    let (sources, in_cell) = (
        space.in_project::<ConfigMap>(),
        space.in_cell::<ConfigMap>(DFW),
    );
    create(&sources, config_map(&json!({"url": "a"}))).await?;
    create::<Workload>(&space.in_project(), using_settings()).await?;
    space.until_settled("web", 1).await?;
    let has = |value: &'static str| {
        move |it: &ConfigMap| it.data.as_ref().is_some_and(|data| data["url"] == value)
    };
    wait::until(&in_cell, "settings", "copied", WITHIN, has("a")).await?;
    let on_hub = space.on_hub::<ConfigMap>();

    let paused = PausedPlane::new(federation.cell(DFW)?)?;
    patch(&sources, "settings", json!({"data": {"url": "b"}})).await?;
    wait::until(&on_hub, "settings", "changed", WITHIN, has("b")).await?;
    sleep(time).await;
    drop(paused);
    let back = WITHIN + time;
    wait::until(&in_cell, "settings", "changed", back, has("b")).await?;
    space.until_settled("web", 1).await?;

    let paused = PausedPlane::new(federation.cell(DFW)?)?;
    let workloads = space.in_project::<Workload>();
    workloads.delete("web", &DeleteParams::default()).await?;
    sleep(time).await;
    drop(paused);
    wait::gone(&workloads, "web", back).await?;
    wait::gone(&on_hub, "settings", back).await?;
    wait::gone(&in_cell, "settings", back).await?;
    space.until_empty().await
}

/// Returns a Workload in Dallas that uses the ConfigMap.
fn using_settings() -> Value {
    let mut workload = workload("web", &[("us", &["DFW"], 1)]);
    let all = json!([{"configMapRef": {"name": "settings"}}]);
    workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    workload
}
