//! Tests in which requests or answers are lost for some time.

use std::time::Duration;

use anyhow::ensure;
use harness::Federation;
use harness::proxy::{Direction, Proxy};
use tokio::time::sleep;

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase, Undisturbed};
use crate::fixture::Space;

/// Duration of a short cut. The cut loses all messages in transit. The cut is no longer than that, because the retries
/// after the cut must suffice.
const SHORT: Duration = Duration::from_secs(1);
/// Duration of a long cut. The cut is longer than the request timeout, so the requests of compute-federation time out.
const LONG: Duration = Duration::from_secs(40);

pub(crate) async fn short_cuts(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = cuts(&fixture, SHORT).await;
    fixture.end(result).await
}

pub(crate) async fn long_cuts(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = cuts(&fixture, LONG).await;
    fixture.end(result).await
}

async fn cuts(fixture: &FaultFixture<'_>, within: Duration) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    let proxies = &fixture.proxies;
    for (plane, proxy) in [("project", &proxies.project), ("hub", &proxies.hub)] {
        for direction in [Direction::Requests, Direction::Answers] {
            let space = Space::create(fixture.federation, "cuts").await?;
            let mut cuts = 0;
            for phase in LifecyclePhase::ALL {
                let step = FaultyPhase::new(&space, phase, undisturbed)?;
                let lost = cut(fixture, &step, proxy, direction, undisturbed, within).await?;
                cuts += usize::from(lost);
                let what = format!("{direction:?} of the {plane} lost: {lost}");
                step.finish(&what).await?;
            }
            ensure!(cuts > 1, "{direction:?} of the {plane}: {cuts} cuts");
        }
    }
    Ok(())
}

/// Cuts a direction in the middle of a phase until a message is lost, and then for the duration `within`. Returns
/// whether any message was lost. There may be no loss: after its last write, a phase may send no more requests to an
/// API server.
async fn cut(
    fixture: &FaultFixture<'_>,
    step: &FaultyPhase<'_>,
    proxy: &Proxy,
    direction: Direction,
    undisturbed: &Undisturbed,
    within: Duration,
) -> anyhow::Result<bool> {
    let writes = &fixture.proxies.writes;
    // The first writes of a phase go to the hub.
    let midst = writes.made() + undisturbed.writes(step.phase) / 4;
    step.begin().await?;
    let cut = async {
        writes.reached(midst).await;
        let cut = proxy.cut(direction);
        cut.lost(1).await;
        // This sleep is the duration of the cut.
        sleep(within).await;
    };
    tokio::select! {
        biased;
        () = cut => Ok(true),
        over = step.until_as_undisturbed() => over.map(|()| false),
    }
}
