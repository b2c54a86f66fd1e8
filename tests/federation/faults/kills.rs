//! Tests that kill the manager after a write. The API server has executed this write, but has not answered it.

use harness::Federation;

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase};
use crate::fixture::Space;

/// Number of kills per phase in the ordinary tests. The kills are spread evenly over the writes. The deletion of a
/// Workload causes no more writes than this number.
const SOME: usize = 8;

pub(crate) async fn a_kill_after_some_writes(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = kills(&fixture, Some(SOME)).await;
    fixture.end(result).await
}

pub(crate) async fn a_kill_after_each_write(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = kills(&fixture, None).await;
    fixture.end(result).await
}

/// Kills the manager in each phase of one Workload, and during the creation of a second Workload. Then deletes the
/// second Workload while no manager runs. `some` limits the number of kills per phase. With `None`, the test kills
/// after every write.
async fn kills(fixture: &FaultFixture<'_>, some: Option<usize>) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    let most = LifecyclePhase::ALL.map(|phase| undisturbed.writes(phase));
    let kills = some.or_else(|| most.into_iter().max()).unwrap_or_default();
    for kill in 0..kills {
        let nth = |phase| 1 + kill * undisturbed.writes(phase) / kills;
        let space = Space::create(fixture.federation, "killed").await?;
        for phase in LifecyclePhase::ALL {
            let step = FaultyPhase::new(&space, phase, undisturbed)?;
            let killed = kill_after(fixture, &step, nth(phase)).await?;
            if killed {
                restart(fixture).await?;
            }
            let what = format!("write {}, killed: {killed}", nth(phase));
            step.finish(&what).await?;
        }
        let space = Space::create(fixture.federation, "abandoned").await?;
        let up = FaultyPhase::new(&space, LifecyclePhase::Create, undisturbed)?;
        let last = nth(LifecyclePhase::Create);
        if kill_after(fixture, &up, last).await? {
            let down = FaultyPhase::new(&space, LifecyclePhase::Delete, undisturbed)?;
            down.begin().await?;
            restart(fixture).await?;
            let what = format!("after a kill at write {last} of Create");
            down.finish(&what).await?;
        }
    }
    Ok(())
}

/// Begins a step and kills the manager after write `n`. Returns whether the step had that many writes. The number of
/// writes varies, because one write may contain two status changes.
async fn kill_after(
    fixture: &FaultFixture<'_>,
    step: &FaultyPhase<'_>,
    n: usize,
) -> anyhow::Result<bool> {
    let writes = &fixture.proxies.writes;
    writes.stop_after(n);
    step.begin().await?;
    let is_stopped = tokio::select! {
        biased;
        () = writes.stopped() => true,
        over = step.until_as_undisturbed() => over.map(|()| false)?,
    };
    if is_stopped {
        let management = fixture.federation.management()?;
        management.lock().await.kill().await;
    }
    writes.resume();
    Ok(is_stopped)
}

async fn restart(fixture: &FaultFixture<'_>) -> anyhow::Result<()> {
    let management = fixture.federation.management()?;
    management.lock().await.restart().await
}
