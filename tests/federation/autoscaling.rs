//! Tests of autoscaling: Kubernetes' own autoscaler in two cells of one city, with a double for the metrics API.

#[path = "autoscaling/metrics_double.rs"]
mod metrics_double;

use std::time::Duration;

use anyhow::{Context, ensure};
use api::workload_deployment::AUTOSCALING_READY;
use api::{Workload, WorkloadDeployment, condition};
use harness::audit::{AuditPosition, Write};
use harness::{CellConfig, Config, Federation, wait};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::{self, Space, WITHIN, create, patch, workload};
use crate::kubectl::kubectl;
use crate::settled::quiet;
use metrics_double::MetricsDouble;

const DFW1: &str = "dfw1";
const DFW2: &str = "dfw2";
const WEB: &str = "web-us-dfw";
/// Time limit until a cell has the template of the hub. Karmada can write an older template last when two of its
/// reconciliations overlap. After a minute, the federator makes Karmada apply the object again.
const CORRECTED: Duration = Duration::from_mins(3);
/// Time during which a settled federation must not write.
const SILENCE: Duration = Duration::from_secs(10);

pub(crate) async fn kubernetes_scales_and_nobody_fights() -> anyhow::Result<()> {
    let config = Config {
        cells: vec![CellConfig::new(DFW1, "DFW"), CellConfig::new(DFW2, "DFW")],
        ..fixture::config("autoscaling")?
    };
    let federation = fixture::start_from(&config).await?;
    let tested = tokio::select! {
        tested = run(&federation) => tested,
        death = federation.death() => Err(death),
    };
    tested.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn run(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "autoscaling").await?;
    let cells = [DFW1, DFW2].map(|cell| federation.cell(cell).map(|plane| (cell, plane.client())));
    let cells = cells.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let double = MetricsDouble::start(&cells, &space.hub_name).await?;
    let scaling = Scaling {
        space: &space,
        double: &double,
    };
    tokio::select! {
        result = scaling.run() => result,
        failed = double.run() => failed,
    }
}

struct Scaling<'s> {
    space: &'s Space<'s>,
    double: &'s MetricsDouble,
}

impl Scaling<'_> {
    async fn run(&self) -> anyhow::Result<()> {
        let space = self.space;
        let all = AuditPosition::now(space.federation.planes())?;
        self.double.set_load(DFW1, 1500);
        self.double.set_load(DFW2, 100);
        let begin = Instant::now();
        let mut web = workload("web", &[("us", &["DFW"], 1)]);
        let target = json!({"averageUtilization": 50});
        let settings = &mut web["spec"]["placements"][0]["scaleSettings"];
        settings["maxReplicas"] = json!(4);
        settings["metrics"] = json!([{"resource": {"name": "cpu", "target": target}}]);
        create::<Workload>(&space.in_project(), web.clone()).await?;

        // 1500m over three Pods is the target of 500m each. The other cell stays at its minimum.
        self.until_numbers("raised", [Some(3), Some(1)]).await?;
        self.until_settled(4).await?;
        eprintln!("raised in {:.1} s", begin.elapsed().as_secs_f64());
        self.until_condition(Some("AutoscalerReady")).await?;
        let on_hub: WorkloadDeployment = space.on_hub().get(WEB).await?;
        // The number of an autoscaler is no assigned share, and no number of the hub.
        assert_eq!(on_hub.spec.replicas, None);
        let status = on_hub.status.context("the hub has no status")?;
        assert_eq!(status.selector, None);
        let counts = status.cells.iter();
        let counts: Vec<_> = counts
            .map(|cell| (cell.assigned_replicas, cell.updated_replicas))
            .collect();
        assert_eq!(counts, [(Some(1), Some(3)), (Some(1), Some(1))]);
        self.is_silent("scaled").await?;

        // The settings follow the Workload, and the number follows the settings.
        web["spec"]["placements"][0]["scaleSettings"]["maxReplicas"] = json!(2);
        self.update(&web).await?;
        self.until_numbers("limited", [Some(2), Some(1)]).await?;
        self.until_settled(3).await?;
        let lowered = Instant::now();
        self.double.set_load(DFW1, 100);
        self.until_numbers("lowered", [Some(1), Some(1)]).await?;
        self.until_settled(2).await?;
        eprintln!("lowered in {:.1} s", lowered.elapsed().as_secs_f64());
        self.is_silent("lowered").await?;

        // A number in the project is a share of Karmada, which no autoscaler changes.
        self.double.set_load(DFW1, 1900);
        self.until_settled(3).await?;
        self.scale_in_project(3).await?;
        self.until_numbers("assigned", [Some(3), Some(3)]).await?;
        self.until_autoscalers(0).await?;
        self.until_settled(6).await?;
        self.is_silent("assigned").await?;
        self.until_numbers("assigned", [Some(3), Some(3)]).await?;

        // For 0 replicas, Karmada does not ask the interpreter. The number is a share, too.
        self.scale_in_project(0).await?;
        self.until_numbers("assigned", [Some(0), Some(0)]).await?;
        self.until_settled(0).await?;
        self.is_silent("scaled to 0").await?;
        self.until_numbers("assigned", [Some(0), Some(0)]).await?;

        // Without the number in the project, the settings count again.
        let none = json!({"spec": {"replicas": null}});
        patch::<WorkloadDeployment>(&space.in_project(), WEB, none).await?;
        self.until_numbers("scaled again", [Some(2), Some(1)])
            .await?;
        self.until_settled(3).await?;

        // Without settings, there is no autoscaler and no number.
        let settings = web["spec"]["placements"][0]["scaleSettings"].as_object_mut();
        let settings = settings.context("no settings")?;
        settings.remove("metrics");
        settings.remove("maxReplicas");
        self.update(&web).await?;
        self.until_numbers("without settings", [None, None]).await?;
        self.until_autoscalers(0).await?;
        self.until_settled(2).await?;
        self.until_condition(None).await?;
        self.is_silent("without settings").await?;

        space.delete_workload("web").await?;
        space.until_empty().await?;
        self.until_autoscalers(0).await?;
        let numbers = all.writes()?.into_iter();
        let numbers = numbers.filter(|write| write.is_ours() && is_of_deployment(write));
        eprintln!(
            "{} writes of ours to the cells' deployments",
            numbers.count()
        );
        Ok(())
    }

    async fn update(&self, web: &serde_json::Value) -> anyhow::Result<()> {
        // A merge patch replaces the list of placements.
        let change = json!({"spec": {"placements": web["spec"]["placements"]}});
        patch::<Workload>(&self.space.in_project(), "web", change)
            .await
            .map(drop)
    }

    /// Runs `kubectl scale` in the project.
    async fn scale_in_project(&self, replicas: i32) -> anyhow::Result<()> {
        let project = self.space.federation.project();
        let namespace = format!("--namespace={}", self.space.name);
        let (object, replicas) = (
            format!("workloaddeployment/{WEB}"),
            format!("--replicas={replicas}"),
        );
        let args = ["scale", &namespace, &object, &replicas];
        let output = kubectl(project.kubeconfig(), &args, None).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{error}");
        Ok(())
    }

    /// Waits until `spec.replicas` of the cells have these values.
    async fn until_numbers(&self, what: &str, numbers: [Option<i32>; 2]) -> anyhow::Result<()> {
        for (cell, number) in [DFW1, DFW2].into_iter().zip(numbers) {
            let is_so = |it: &WorkloadDeployment| it.spec.replicas == number;
            let in_cell = self.space.in_cell(cell);
            let what = format!("{what} to {number:?} in {cell}");
            wait::until(&in_cell, WEB, &what, CORRECTED, is_so).await?;
        }
        Ok(())
    }

    /// Waits until the project's deployment has this many Instances of the current generation, all of them ready.
    async fn until_settled(&self, instances: i32) -> anyhow::Result<()> {
        self.space.until_settled("web", instances).await?;
        let is_settled = |it: &WorkloadDeployment| {
            let updated = it.status.as_ref().and_then(|it| it.updated_replicas);
            fixture::is_settled(it, instances) && updated == Some(instances)
        };
        let deployments = self.space.in_project();
        wait::until(&deployments, WEB, "settled", WITHIN, is_settled).await?;
        Ok(())
    }

    /// Waits until `AutoscalingReady` of the project's deployment has this reason, or is absent.
    async fn until_condition(&self, reason: Option<&str>) -> anyhow::Result<()> {
        let is_so = |it: &WorkloadDeployment| {
            let conditions = it.status.as_ref().map_or(&[][..], |it| &it.conditions);
            let found = condition::find(conditions, AUTOSCALING_READY);
            found.map(|found| found.reason.as_str()) == reason
        };
        let what = format!("with {AUTOSCALING_READY} {reason:?}");
        let deployments = self.space.in_project();
        wait::until(&deployments, WEB, &what, WITHIN, is_so).await?;
        Ok(())
    }

    /// Waits until each cell has this many autoscalers.
    async fn until_autoscalers(&self, count: usize) -> anyhow::Result<()> {
        for cell in [DFW1, DFW2] {
            let autoscalers = self.space.in_cell::<HorizontalPodAutoscaler>(cell);
            wait::eventually(
                &format!("{count} autoscalers in {cell}"),
                WITHIN,
                || async {
                    let found = autoscalers.list(&ListParams::default()).await?.items.len();
                    ensure!(found == count, "{found}");
                    Ok(())
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Checks that nobody writes to a deployment of a cell for a while, and that we write nothing at all.
    async fn is_silent(&self, what: &str) -> anyhow::Result<()> {
        let federation = self.space.federation;
        quiet(federation).await?;
        let position = AuditPosition::now(federation.planes())?;
        // This sleep does not wait for an event. No write may happen during this time.
        sleep(SILENCE).await;
        let writes = position.writes()?.into_iter();
        let writes: Vec<_> = writes
            .filter(|it| !it.is_lease() && (it.is_ours() || is_of_deployment(it)))
            .map(|write| write.to_string())
            .collect();
        ensure!(writes.is_empty(), "{what}: {}", writes.join("\n"));
        Ok(())
    }
}

/// Returns whether the write is to a WorkloadDeployment of a cell.
fn is_of_deployment(write: &Write) -> bool {
    let resource = write.resource.split('/').next();
    [DFW1, DFW2].contains(&write.plane.as_str()) && resource == Some("workloaddeployments")
}
