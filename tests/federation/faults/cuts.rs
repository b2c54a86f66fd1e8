//! Requests or answers are lost for a while.

use std::time::Duration;

use anyhow::ensure;
use harness::Federation;
use harness::proxy::{Direction, Proxy};
use tokio::time::sleep;

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase, Undisturbed};
use crate::fixture::Space;

/// Long enough to lose all messages in transit, and no longer: the retries after the cut must suffice.
const SHORT: Duration = Duration::from_secs(1);
/// Longer than the request timeout, so that compute-federation gives up its requests.
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

/// Cuts a direction in the middle of a phase until something is lost, and then for this long. Returns whether
/// anything was lost: after its last write a phase may need no more requests to an API server.
async fn cut(
    fixture: &FaultFixture<'_>,
    step: &FaultyPhase<'_>,
    proxy: &Proxy,
    direction: Direction,
    undisturbed: &Undisturbed,
    within: Duration,
) -> anyhow::Result<bool> {
    let writes = &fixture.proxies.writes;
    // The hub is written first.
    let midst = writes.made() + undisturbed.writes(step.phase) / 4;
    step.begin().await?;
    let cut = async {
        writes.reached(midst).await;
        let cut = proxy.cut(direction);
        cut.lost(1).await;
        // The duration of the cut.
        sleep(within).await;
    };
    tokio::select! {
        biased;
        () = cut => Ok(true),
        over = step.until_as_undisturbed() => over.map(|()| false),
    }
}
