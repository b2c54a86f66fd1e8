//! API servers take connections and do not answer for a while.

use std::time::Duration;

use harness::{Federation, Plane};
use tokio::time::sleep;

use super::subject::{Phase, Step, Subject};
use crate::fixture::{DFW, Space};

/// For how long: longer than a request may take, than watches are silent, and than Karmada trusts a cell.
const PAUSE: Duration = Duration::from_mins(2);
/// What Karmada needs to see that a cell is back, and how long it is left to itself with what it takes for applied there.
const BACK: Duration = Duration::from_mins(2);

/// Pauses the API server of the project, the hub and a cell, each in the midst of each phase.
pub(crate) async fn long_pauses(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = pauses(&subject).await;
    subject.end(result).await
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
