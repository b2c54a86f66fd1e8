//! Tests in which API servers crash and are restarted.

use std::time::Duration;

use harness::{Crashing, Federation};
use tokio::time::sleep;

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase};
use crate::fixture::{self, DFW, Space};

/// Downtime of an API server. During this time, requests and new watches fail.
const DOWN: Duration = Duration::from_secs(10);

/// Crashes the API server of the project, the hub and a cell, each in the middle of each phase.
pub(crate) async fn restarts() -> anyhow::Result<()> {
    let federation = fixture::start("restarts").await?;
    let fixture = FaultFixture::start(&federation).await?;
    // Restarted API servers run until the end of the test.
    let mut back = Vec::new();
    let result = each(&fixture, &mut back).await;
    fixture.end(result).await?;
    drop(back);
    federation.stop().await;
    Ok(())
}

async fn each<'f>(fixture: &FaultFixture<'f>, back: &mut Vec<Crashing<'f>>) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    let federation: &'f Federation = fixture.federation;
    for plane in [
        federation.project(),
        federation.hub(),
        federation.cell(DFW)?,
    ] {
        let space = Space::create(federation, "restarts").await?;
        let mut apiserver = Crashing::new(plane);
        for phase in LifecyclePhase::ALL {
            let step = FaultyPhase::new(&space, phase, undisturbed)?;
            fixture.until_midst(&step, undisturbed).await?;
            apiserver.crash().await?;
            // This sleep is the downtime.
            sleep(DOWN).await;
            apiserver.come_back().await?;
            step.finish(&format!("the {} restarted", plane.name()))
                .await?;
        }
        back.push(apiserver);
    }
    Ok(())
}
