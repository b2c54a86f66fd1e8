//! Tests with API servers that accept connections but do not answer for some time.

use std::time::Duration;

use anyhow::ensure;
use api::annotations::OUTDATED_COPIES;
use api::condition::{self, Condition};
use api::instance::READY;
use api::{Instance, WorkloadDeployment};
use harness::{Federation, PausedPlane, provider, wait};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase};
use crate::fixture::{DFW, Space, WITHIN, patch};

/// Duration of a pause. The pause is longer than each of these times: the request timeout, the idle time of watches,
/// and the time after which Karmada marks a cell as lost.
const PAUSE: Duration = Duration::from_mins(2);
/// Additional time limit. In this time, Karmada detects that a cell is back and corrects the objects in the cell.
const BACK: Duration = Duration::from_mins(2);
/// Time of a wait that is shorter than the request timeout, so that a request is still without an answer.
const UNANSWERED: Duration = Duration::from_secs(15);

/// Time limit until an Instance is replaced while the hub does not answer: a request must time out first.
const REPLACED: Duration = Duration::from_mins(2);

/// Suspends the API server of the project, the hub and a cell, each in the middle of each phase.
pub(crate) async fn long_pauses(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = pauses(&fixture).await;
    fixture.end(result).await
}

/// While the hub does not answer, changes in a cell still reach the status in this cell, and the process in the cell
/// ends before its requests to the hub time out. When the hub answers again, the changes reach the hub.
pub(crate) async fn a_cell_beside_a_hub_that_hangs(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "beside").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let (name, in_cell) = ("web-us-dfw-0", space.in_cell::<Instance>(DFW));
    let is_stopped = |instance: &Instance| {
        ready(instance).is_some_and(|ready| !ready.is_true() && ready.reason == "Stopped")
    };
    let paused = PausedPlane::new(federation.hub())?;
    // A changed annotation makes the write-back controller call the hub.
    let stops = json!({"metadata": {"annotations": {provider::BEHAVIOUR: provider::STOPS}}});
    patch::<Instance>(&in_cell, name, stops).await?;
    wait::until(&in_cell, name, "stopped", UNANSWERED, is_stopped).await?;
    let mut manager = federation.cell_manager(DFW)?.lock().await;
    let ended = timeout(UNANSWERED, manager.terminate()).await;
    ensure!(ended == Ok(Some(0)), "the process ended with {ended:?}");
    drop(paused);
    manager.restart().await?;
    wait::until(&space.on_hub(), name, "stopped", WITHIN, is_stopped).await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// While the hub does not answer, an Instance is deleted by hand. The cell replaces it, also after its process was
/// killed. When the hub answers again, it gets the new Instance.
pub(crate) async fn an_instance_is_replaced_beside_a_hub_that_hangs(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "replaced").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let (web, name) = ("web-us-dfw", "web-us-dfw-0");
    let in_cell = space.in_cell::<Instance>(DFW);
    let deployments = space.in_cell::<WorkloadDeployment>(DFW);
    let former = in_cell.get(name).await?.uid();
    let record = |it: &WorkloadDeployment| it.annotations().get(OUTDATED_COPIES).cloned();
    let recorded = Some(json!([name]).to_string());
    let paused = PausedPlane::new(federation.hub())?;
    in_cell.delete(name, &DeleteParams::default()).await?;
    let is_next = |it: &Instance| it.uid() != former && is_ready(it);
    wait::until(&in_cell, name, "replaced", REPLACED, is_next).await?;
    let deployment = deployments.get(web).await?;
    ensure!(record(&deployment) == recorded, "{deployment:?}");
    let mut manager = federation.cell_manager(DFW)?.lock().await;
    manager.kill().await;
    manager.restart().await?;
    drop(paused);
    let is_empty = |it: &WorkloadDeployment| record(it).is_none();
    wait::until(&deployments, web, "without a record", WITHIN, is_empty).await?;
    let next = in_cell.get(name).await?;
    let is_copied = |copy: &Instance| ready_since(copy) == ready_since(&next);
    wait::until(&space.on_hub(), name, "copied", WITHIN, is_copied).await?;
    let projections = space.in_project();
    wait::until(&projections, name, "projected", WITHIN, is_copied).await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

fn ready(instance: &Instance) -> Option<&Condition> {
    let conditions = instance.status.as_ref().map(|status| &status.conditions);
    conditions.and_then(|conditions| condition::find(conditions, READY))
}

fn is_ready(instance: &Instance) -> bool {
    ready(instance).is_some_and(Condition::is_true)
}

fn ready_since(instance: &Instance) -> Option<Timestamp> {
    ready(instance).map(|ready| ready.last_transition_time.0)
}

async fn pauses(fixture: &FaultFixture<'_>) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    let federation = fixture.federation;
    for (plane, more) in [
        (federation.project(), Duration::ZERO),
        (federation.hub(), Duration::ZERO),
        (federation.cell(DFW)?, BACK),
    ] {
        let space = Space::create(federation, "pauses").await?;
        for phase in LifecyclePhase::ALL {
            let step = FaultyPhase::new(&space, phase, undisturbed)?.extended_by(more);
            fixture.until_midst(&step, undisturbed).await?;
            let paused = PausedPlane::new(plane)?;
            // This sleep is the duration of the pause.
            sleep(PAUSE).await;
            drop(paused);
            step.finish(&format!("the {} paused", plane.name())).await?;
        }
    }
    Ok(())
}
