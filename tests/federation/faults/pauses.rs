//! API servers take connections and do not answer for a while.

use std::time::Duration;

use api::{Instance, WorkloadDeployment};
use harness::{Federation, Plane, wait};
use serde_json::json;
use tokio::time::sleep;

use super::subject::{Phase, Step, Subject};
use crate::fixture::{DFW, Space, WITHIN, is_ready, patch};

/// For how long: longer than a request may take, than watches are silent, and than Karmada trusts a cell.
const PAUSE: Duration = Duration::from_mins(2);
/// What Karmada needs to see that a cell is back, and how long it is left to itself with what it takes for applied there.
const BACK: Duration = Duration::from_mins(2);
/// Less than a request that is not answered takes.
const UNANSWERED: Duration = Duration::from_secs(15);

/// Pauses the API server of the project, the hub and a cell, each in the midst of each phase.
pub(crate) async fn long_pauses(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = pauses(&subject).await;
    subject.end(result).await
}

/// What happens in a cell is told there while the hub does not answer, and on the hub once it does.
pub(crate) async fn a_cell_beside_a_hub_that_hangs(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "beside").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let (deployments, instances) = (
        space.in_cell::<WorkloadDeployment>(DFW),
        space.in_cell::<Instance>(DFW),
    );
    let first = "web-us-dfw-0";
    let paused = Paused::new(federation.hub())?;
    // Whoever asks the hub about the first one waits; nothing is to wait for him.
    patch::<Instance>(
        &instances,
        first,
        json!({"metadata": {"labels": {"looks": "1"}}}),
    )
    .await?;
    let more = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    patch::<WorkloadDeployment>(&deployments, "web-us-dfw", more).await?;
    wait::until(&instances, "web-us-dfw-1", "ready", UNANSWERED, is_ready).await?;
    drop(paused);
    // Karmada takes back what only the cell has.
    wait::gone(&instances, "web-us-dfw-1", WITHIN).await?;
    space.until_settled("web", 1).await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

async fn pauses(subject: &Subject<'_>) -> anyhow::Result<()> {
    let undisturbed = subject.undisturbed().await?;
    let federation = subject.federation;
    for (plane, more) in [
        (federation.project(), Duration::ZERO),
        (federation.hub(), Duration::ZERO),
        (federation.cell(DFW)?, BACK),
    ] {
        let space = Space::create(federation, "pauses").await?;
        for phase in Phase::ALL {
            let step = Step::new(&space, phase, undisturbed)?.and(more);
            subject.until_midst(&step, undisturbed).await?;
            let paused = Paused::new(plane)?;
            // The span of the pause.
            sleep(PAUSE).await;
            drop(paused);
            step.over(&format!("the {} paused", plane.name())).await?;
        }
    }
    Ok(())
}

/// An API server that goes on when this is dropped.
struct Paused<'p>(&'p Plane);

impl<'p> Paused<'p> {
    fn new(plane: &'p Plane) -> anyhow::Result<Self> {
        plane.pause_apiserver()?;
        Ok(Self(plane))
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.resume_apiserver() {
            eprintln!(
                "the API server of {} stays paused: {error:#}",
                self.0.name()
            );
        }
    }
}
