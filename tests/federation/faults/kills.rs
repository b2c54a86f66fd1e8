//! kill -9 after a write that was made and not answered.

use harness::Federation;

use super::subject::{Phase, Step, Subject};
use crate::fixture::Space;

/// After how many of the writes of each phase in the ordinary tests; they are spread evenly. It takes no more to delete a
/// Workload.
const SOME: usize = 8;

pub(crate) async fn a_kill_after_some_writes(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = kills(&subject, Some(SOME)).await;
    subject.end(result).await
}

pub(crate) async fn a_kill_after_each_write(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = kills(&subject, None).await;
    subject.end(result).await
}

/// One Workload has a kill in each phase. Another one is deleted while no one runs, killed on the way up. After so many of
/// the writes of each phase, or after all.
async fn kills(subject: &Subject<'_>, some: Option<usize>) -> anyhow::Result<()> {
    let undisturbed = subject.undisturbed().await?;
    let most = Phase::ALL.map(|phase| undisturbed.writes(phase));
    let kills = some.or_else(|| most.into_iter().max()).unwrap_or_default();
    for kill in 0..kills {
        let nth = |phase| 1 + kill * undisturbed.writes(phase) / kills;
        let space = Space::create(subject.federation, "killed").await?;
        for phase in Phase::ALL {
            let step = Step::new(&space, phase, undisturbed)?;
            let killed = kill_after(subject, &step, nth(phase)).await?;
            if killed {
                restart(subject).await?;
            }
            let what = format!("write {}, killed: {killed}", nth(phase));
            step.over(&what).await?;
        }
        let space = Space::create(subject.federation, "abandoned").await?;
        let up = Step::new(&space, Phase::Create, undisturbed)?;
        let last = nth(Phase::Create);
        if kill_after(subject, &up, last).await? {
            let down = Step::new(&space, Phase::Delete, undisturbed)?;
            down.begin().await?;
            restart(subject).await?;
            let what = format!("after a kill at write {last} of Create");
            down.over(&what).await?;
        }
    }
    Ok(())
}

/// Begins a step and kills the manager after a write, if there are so many: they differ in number, because one status may
/// say what otherwise two say one after the other.
async fn kill_after(subject: &Subject<'_>, step: &Step<'_>, n: usize) -> anyhow::Result<bool> {
    let writes = &subject.proxies.writes;
    writes.stop_after(n);
    step.begin().await?;
    let is_stopped = tokio::select! {
        biased;
        () = writes.stopped() => true,
        over = step.as_undisturbed() => over.map(|()| false)?,
    };
    if is_stopped {
        let management = subject.federation.management()?;
        management.lock().await.kill().await;
    }
    writes.go_on();
    Ok(is_stopped)
}

async fn restart(subject: &Subject<'_>) -> anyhow::Result<()> {
    let management = subject.federation.management()?;
    management.lock().await.restart().await
}
