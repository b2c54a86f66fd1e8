//! Tests of lower hubs: Karmadas that are Clusters of the hub, or of another lower hub, and have cells of their own.

#[path = "levels/dead_cell.rs"]
mod dead_cell;
#[path = "levels/no_cell_selected.rs"]
mod no_cell_selected;
#[path = "levels/other_hub.rs"]
mod other_hub;
#[path = "levels/pull_cell.rs"]
mod pull_cell;
#[path = "levels/pull_mode.rs"]
mod pull_mode;
#[path = "levels/silent_process.rs"]
mod silent_process;
#[path = "levels/three_levels.rs"]
mod three_levels;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use api::annotations::REAPPLIED_AT;
use api::karmada::Cluster;
use api::labels::{CITY_CODE, LOWER_HUB, SOURCE_CLUSTER};
use api::{CellRule, Instance, Workload, WorkloadDeployment};
use harness::audit::{AuditPosition, Write};
use harness::{CellConfig, Config, Federation, Plane, networking, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::deletions;
use crate::fixture::{
    self, ORD, Space, WITHIN, create, has_image, is_ready, patch, until_none, workload,
};
use crate::{settled, summaries};
pub(crate) use dead_cell::a_dead_cell_below;
pub(crate) use other_hub::a_process_with_another_hub;
pub(crate) use pull_cell::a_pull_cell_below;
pub(crate) use pull_mode::a_lower_hub_in_pull_mode;
pub(crate) use three_levels::three_levels;

/// The Cluster of the lower hub, its city, and its cells.
const LOWER: &str = "dfw";
const CITY: &str = "DFW";
const CLUSTERS_BELOW: [&str; 2] = ["a1", "a2"];
const CELLS_BELOW: [&str; 2] = ["dfw.a1", "dfw.a2"];
/// The cells of the federation with an ordinary cell.
const TWO_LEVELS: Layout = Layout {
    cities: &[CITY, "ORD"],
    cells: &["dfw.a1", "dfw.a2", ORD],
};
/// The WorkloadDeployment of the lower hub.
const WEB: &str = "web-all-dfw";
/// The ConfigMap that the Workload uses.
const SETTINGS: &str = "settings";
/// The namespace of `deploy/base/hub-namespace`.
const NAMESPACE_OF_HUBS: &str = "compute-system";
/// Time without a write on any plane.
const SILENCE: Duration = Duration::from_secs(10);

/// The cells of a federation, sorted by name, and their cities.
#[derive(Clone, Copy)]
struct Layout {
    cities: &'static [&'static str],
    cells: &'static [&'static str],
}

impl Layout {
    /// Returns the Workload: two Instances in each cell. It uses a ConfigMap.
    fn web(&self, image: &str) -> Value {
        let mut web = workload("web", &[("all", self.cities, 2)]);
        let container = &mut web["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
        container["image"] = json!(image);
        container["envFrom"] = json!([{"configMapRef": {"name": SETTINGS}}]);
        web
    }

    /// Waits until all Instances of the Workload are ready and current.
    async fn until_settled(&self, space: &Space<'_>) -> anyhow::Result<()> {
        let instances = 2 * i32::try_from(self.cells.len())?;
        space.until_settled("web", instances).await.map(drop)
    }

    /// Waits until the project has two ready Instances of each cell, and this holds for all of them. Returns them.
    async fn until_shown(
        &self,
        space: &Space<'_>,
        holds: impl Fn(&Instance) -> bool,
    ) -> anyhow::Result<Vec<Instance>> {
        let instances = space.in_project::<Instance>();
        wait::eventually("two Instances of each cell", WITHIN, || async {
            let shown = instances.list(&ListParams::default()).await?.items;
            let cells = shown.iter().filter(|it| is_ready(it) && holds(it));
            let mut cells: Vec<_> = cells
                .filter_map(|it| it.labels().get(SOURCE_CLUSTER))
                .collect();
            cells.sort_unstable();
            let expected = self.cells.iter().flat_map(|cell| [cell, cell]);
            ensure!(expected.eq(cells.iter()), "{cells:?} of {}", shown.len());
            Ok(shown)
        })
        .await
    }
}

/// Starts a federation with these cells. The project offers the city of the lower hubs.
async fn start_with(label: &str, cells: Vec<CellConfig>) -> anyhow::Result<(Federation, Config)> {
    let config = Config {
        cells,
        ..fixture::config(label)?
    };
    let federation = fixture::start_from(&config).await?;
    networking::offer_city(&federation.project().client(), "dfw", CITY).await?;
    Ok((federation, config))
}

/// Starts a federation with an ordinary cell and a lower hub.
async fn start(label: &str) -> anyhow::Result<Federation> {
    let (mut federation, config) = start_with(label, vec![CellConfig::new(ORD, "ORD")]).await?;
    add_lower_hub(&mut federation, &config, LOWER, &CLUSTERS_BELOW).await?;
    Ok(federation)
}

/// Adds a lower hub with these cells, and prints how long this takes.
async fn add_lower_hub(
    federation: &mut Federation,
    config: &Config,
    name: &str,
    cells: &[&str],
) -> anyhow::Result<()> {
    let begin = Instant::now();
    federation.add_lower_hub(config, name, CITY, cells).await?;
    let started = begin.elapsed().as_secs_f64();
    eprintln!("lower hub {name} ready after {started:.1} s");
    Ok(())
}

/// A Workload runs in the cells below a lower hub and in an ordinary cell, is changed, and ends on every plane. Then the
/// lower hub is removed while another Workload runs there.
pub(crate) async fn cells_below_a_lower_hub() -> anyhow::Result<()> {
    let federation = start("levels").await?;
    let space = Space::create(&federation, "levels").await?;
    let staying = Space::create(&federation, "staying").await?;
    let tested = async {
        create_all(&space, &staying).await?;
        a_change_reaches_the_cells_below(&space, &TWO_LEVELS).await?;
        rules_change_all_cells_below(&space).await?;
        let clusters = Api::all(federation.hub().client());
        a_missing_label_is_repaired(&space, &clusters, LOWER).await?;
        nothing_is_written_at_rest(&federation, &TWO_LEVELS).await?;
        nothing_is_left(&space, CELLS_BELOW[1]).await?;
        tokio::try_join!(
            until_namespace_is_gone(&space),
            the_lower_hub_leaves_its_city(&staying)
        )?;
        the_lower_hub_is_removed(&staying).await
    };
    tokio::select! {
        result = tested => result?,
        death = federation.death() => return Err(death),
    }
    federation.stop().await;
    Ok(())
}

/// Creates the Workloads. The hub's status has the cells below, and the Instances of all cells appear in the project, each
/// with a name of its own.
async fn create_all(space: &Space<'_>, staying: &Space<'_>) -> anyhow::Result<()> {
    staying
        .create_workload("web", &[("all", &[CITY, "ORD"], 1)])
        .await?;
    create_web(space, &TWO_LEVELS).await?;
    staying.until_settled("web", 3).await?;
    the_namespace_of_the_hubs_is_in_no_cell(space.federation).await?;

    the_hub_names_the_cells(space, &CELLS_BELOW).await?;
    summaries::each_cell_has_a_row(space, TWO_LEVELS.cells).await?;
    let shown = TWO_LEVELS.until_shown(space, |_| true).await?;
    let names: BTreeSet<_> = shown.iter().map(ResourceExt::name_any).collect();
    for name in [
        "web-all-dfw-0",
        "web-all-dfw-1",
        "web-all-ord-0",
        "web-all-ord-1",
    ] {
        ensure!(names.contains(name), "{name} is not in {names:?}");
    }
    for cell in CELLS_BELOW {
        let in_cell = space.in_cell::<Instance>(cell);
        let in_cell = in_cell.list(&ListParams::default()).await?.items;
        let in_cell: Vec<_> = in_cell.iter().map(ResourceExt::name_any).collect();
        ensure!(
            in_cell == ["web-all-dfw-0", "web-all-dfw-1"],
            "{cell}: {in_cell:?}"
        );
    }
    Ok(())
}

/// Creates the Workload and its ConfigMap, and waits until it is settled.
async fn create_web(space: &Space<'_>, layout: &Layout) -> anyhow::Result<()> {
    let settings = json!({"metadata": {"name": SETTINGS}, "data": {"url": "a"}});
    create::<ConfigMap>(&space.in_project(), settings).await?;
    let begin = Instant::now();
    create::<Workload>(&space.in_project(), layout.web("app:1")).await?;
    layout.until_settled(space).await?;
    eprintln!("settled after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// The status on the hub has two ready Instances of each of these cells, and no other cell.
async fn the_hub_names_the_cells(space: &Space<'_>, expected: &[&str]) -> anyhow::Result<()> {
    let deployment: WorkloadDeployment = space.on_hub().get(WEB).await?;
    let cells = deployment.status.unwrap_or_default().cells;
    let cells = cells.iter().map(|it| (it.name.as_str(), it.ready_replicas));
    let cells: Vec<_> = cells.collect();
    let expected: Vec<_> = expected.iter().map(|cell| (*cell, 2)).collect();
    ensure!(cells == expected, "{cells:?}");
    Ok(())
}

/// The cells have the namespaces of the hubs, except the one of `deploy/base/hub-namespace`.
async fn the_namespace_of_the_hubs_is_in_no_cell(federation: &Federation) -> anyhow::Result<()> {
    for cell in TWO_LEVELS.cells {
        let namespaces: Api<Namespace> = Api::all(federation.cell(cell)?.client());
        let namespace = namespaces.get_opt(NAMESPACE_OF_HUBS).await?;
        ensure!(namespace.is_none(), "{cell} has {NAMESPACE_OF_HUBS}");
    }
    Ok(())
}

/// A new image, and a new value of the ConfigMap.
async fn a_change_reaches_the_cells_below(
    space: &Space<'_>,
    layout: &Layout,
) -> anyhow::Result<()> {
    let change = json!({"data": {"url": "b"}});
    patch::<ConfigMap>(&space.in_project(), SETTINGS, change).await?;
    for cell in layout.cells {
        let is_changed = |it: &ConfigMap| it.data.as_ref().is_some_and(|data| data["url"] == "b");
        wait::until(
            &space.in_cell(cell),
            SETTINGS,
            "changed",
            WITHIN,
            is_changed,
        )
        .await?;
    }
    let lower = space.federation.lower_hub(LOWER)?.client();
    let lower: Api<ConfigMap> = Api::namespaced(lower, &space.hub_name);
    ensure!(
        lower
            .get(SETTINGS)
            .await?
            .data
            .is_some_and(|data| data["url"] == "b")
    );

    change_image(space, layout, "app:2").await?;
    let begin = Instant::now();
    layout
        .until_shown(space, |it| has_image(it, "app:2"))
        .await?;
    layout.until_settled(space).await?;
    eprintln!("changed after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Gives the template of the Workload this image.
async fn change_image(space: &Space<'_>, layout: &Layout, image: &str) -> anyhow::Result<()> {
    let changed = layout.web(image);
    let change = json!({"spec": {"template": changed["spec"]["template"]}});
    patch::<Workload>(&space.in_project(), "web", change)
        .await
        .map(drop)
}

/// A CellRule that selects the lower hub changes the Instances of all cells below, until it is deleted.
async fn rules_change_all_cells_below(space: &Space<'_>) -> anyhow::Result<()> {
    let rules: Api<CellRule> = Api::all(space.federation.hub().client());
    let images = json!([{"prefix": "app", "replacement": "mirror/app"}]);
    let spec = json!({"cells": {"matchLabels": {LOWER_HUB: "true"}}, "rules": {"images": images}});
    create(&rules, json!({"metadata": {"name": "below"}, "spec": spec})).await?;
    let begin = Instant::now();
    TWO_LEVELS
        .until_shown(space, |instance| {
            let is_below = instance
                .labels()
                .get(SOURCE_CLUSTER)
                .is_some_and(|it| it != ORD);
            has_image(instance, if is_below { "mirror/app:2" } else { "app:2" })
        })
        .await?;
    let changed = begin.elapsed().as_secs_f64();
    eprintln!("changed by rules after {changed:.1} s");
    rules.delete("below", &DeleteParams::default()).await?;
    TWO_LEVELS
        .until_shown(space, |it| has_image(it, "app:2"))
        .await?;
    TWO_LEVELS.until_settled(space).await
}

/// The Cluster loses the label of a lower hub, and both hubs write the claim of the object without end. Karmada evaluates
/// its overrides again when the label is back and the object changes, as `docs/operate/lower-hub.md` says. After this test,
/// nothing may be written.
async fn a_missing_label_is_repaired(
    space: &Space<'_>,
    clusters: &Api<Cluster>,
    name: &str,
) -> anyhow::Result<()> {
    let labels = |label: Value| json!({"metadata": {"labels": {LOWER_HUB: label}}});
    patch(clusters, name, labels(Value::Null)).await?;
    touch(space, "2026-01-01T00:00:00Z").await?;
    wait::eventually("both hubs write without end", WITHIN, || async {
        let position = AuditPosition::now(space.federation.planes())?;
        // Writes are counted during this time. A change that is not undone needs only a few of them.
        sleep(Duration::from_secs(2)).await;
        let writes = position.writes()?;
        let deployments = writes
            .iter()
            .filter(|it| it.resource == "workloaddeployments");
        let count = deployments.count();
        ensure!(count > 20, "{count} writes");
        Ok(())
    })
    .await?;
    patch(clusters, name, labels(json!("true"))).await?;
    touch(space, "2026-01-01T00:01:00Z").await
}

/// Changes an annotation of the WorkloadDeployment on the hub.
async fn touch(space: &Space<'_>, at: &str) -> anyhow::Result<()> {
    let annotations = json!({"metadata": {"annotations": {REAPPLIED_AT: at}}});
    patch::<WorkloadDeployment>(&space.on_hub(), WEB, annotations)
        .await
        .map(drop)
}

/// Nobody writes anything on any plane, Karmada included, even if compute-federation is restarted meanwhile.
async fn nothing_is_written_at_rest(
    federation: &Federation,
    layout: &Layout,
) -> anyhow::Result<()> {
    // The last change may still be on its way through the levels.
    wait::eventually("nothing is written", WITHIN, || is_silent(federation)).await?;
    settled::is_silent_after_a_restart(federation, layout.cells, SILENCE).await
}

async fn is_silent(federation: &Federation) -> anyhow::Result<()> {
    let position = AuditPosition::now(federation.planes())?;
    // This sleep does not wait for an event. No write may happen during this time.
    sleep(SILENCE).await;
    let mut writes = position.writes()?;
    writes.retain(|write| !is_heartbeat(write));
    let (count, first) = (writes.len(), writes.iter().take(20));
    let first: Vec<_> = first.map(Write::to_string).collect();
    ensure!(count == 0, "{count} writes:\n{}", first.join("\n"));
    Ok(())
}

/// Returns whether this write only says that its writer lives, or asks for rights.
fn is_heartbeat(write: &Write) -> bool {
    write.is_lease() || ["clusters/status", "subjectaccessreviews"].contains(&&*write.resource)
}

/// Deletes the Workload. The project names this cell, which still has an Instance. Then nothing is left on any plane.
async fn nothing_is_left(space: &Space<'_>, cell: &str) -> anyhow::Result<()> {
    deletions::hold(space, cell, "web-all-dfw-1").await?;
    let workloads = space.in_project::<Workload>();
    workloads.delete("web", &DeleteParams::default()).await?;
    deletions::until_waiting(space, WEB, &format!("{cell} (1)")).await?;
    deletions::end(space, cell, "web-all-dfw-1").await?;
    let begin = Instant::now();
    wait::gone(&workloads, "web", WITHIN).await?;
    space.until_empty().await?;
    for client in space.federation.planes().skip(1).map(Plane::client) {
        let settings: Api<ConfigMap> = Api::namespaced(client, &space.hub_name);
        wait::gone(&settings, SETTINGS, WITHIN).await?;
    }
    eprintln!("gone after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Deletes the namespace of the project. Its copies are deleted on every plane.
async fn until_namespace_is_gone(space: &Space<'_>) -> anyhow::Result<()> {
    let begin = Instant::now();
    let namespaces: Api<Namespace> = Api::all(space.federation.project().client());
    namespaces
        .delete(&space.name, &DeleteParams::default())
        .await?;
    for client in space.federation.planes().skip(1).map(Plane::client) {
        wait::gone(&Api::<Namespace>::all(client), &space.hub_name, WITHIN).await?;
    }
    let gone = begin.elapsed().as_secs_f64();
    eprintln!("namespaces gone after {gone:.1} s");
    Ok(())
}

/// The Cluster of the lower hub loses its city. Nothing is left in the cells below, and the other cell goes on.
async fn the_lower_hub_leaves_its_city(space: &Space<'_>) -> anyhow::Result<()> {
    let begin = Instant::now();
    let clusters: Api<Cluster> = Api::all(space.federation.hub().client());
    let nowhere = json!({"metadata": {"labels": {CITY_CODE: null}}});
    patch(&clusters, LOWER, nowhere).await?;
    let lower = space.federation.lower_hub(LOWER)?;
    let below = CELLS_BELOW.map(|cell| space.federation.cell(cell));
    for plane in [Ok(lower)].into_iter().chain(below) {
        let client = plane?.client();
        until_none::<WorkloadDeployment>(&client, &space.hub_name).await?;
        until_none::<Instance>(&client, &space.hub_name).await?;
    }
    let ready = ["web-all-ord-0"];
    space.until_instances(space.in_project(), &ready).await?;
    eprintln!("left after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Deletes the Cluster of the lower hub. Karmada deletes the namespaces there, and in the cells below.
async fn the_lower_hub_is_removed(space: &Space<'_>) -> anyhow::Result<()> {
    let begin = Instant::now();
    let federation = space.federation;
    let clusters: Api<Cluster> = Api::all(federation.hub().client());
    clusters.delete(LOWER, &DeleteParams::default()).await?;
    wait::gone(&clusters, LOWER, WITHIN).await?;
    let lower = federation.lower_hub(LOWER)?;
    let below = CELLS_BELOW.map(|cell| federation.cell(cell));
    for plane in [Ok(lower)].into_iter().chain(below) {
        let namespaces: Api<Namespace> = Api::all(plane?.client());
        wait::gone(&namespaces, &space.hub_name, WITHIN).await?;
    }
    for kind in ["Work", "ResourceBinding"] {
        let left = of_karmada(lower.client(), kind);
        let left = left.list(&ListParams::default()).await?.items;
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "{kind}: {left:?}");
    }
    eprintln!("removed after {:.1} s", begin.elapsed().as_secs_f64());
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// Returns the API of a kind of `work.karmada.io`, in all namespaces.
fn of_karmada(client: Client, kind: &str) -> Api<DynamicObject> {
    let version = match kind {
        "Work" => "v1alpha1",
        _ => "v1alpha2",
    };
    let kind = GroupVersionKind::gvk("work.karmada.io", version, kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}
