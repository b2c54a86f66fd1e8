//! kill -9 after a write that was made and not answered.

use harness::Federation;

use super::subject::{Phase, Step, Subject};
use crate::fixture::Space;

/// After which writes in the ordinary tests: every so-manieth.
const SOME: usize = 7;

pub(crate) async fn a_kill_after_some_writes(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = kills(&subject, SOME).await;
    subject.end(result).await
}

pub(crate) async fn a_kill_after_each_write(federation: &Federation) -> anyhow::Result<()> {
    let subject = Subject::start(federation).await?;
    let result = kills(&subject, 1).await;
    subject.end(result).await
}

/// One Workload has a kill in each phase. Another one is deleted while no one runs, killed on the way up.
async fn kills(subject: &Subject<'_>, every: usize) -> anyhow::Result<()> {
    let undisturbed = subject.undisturbed().await?;
    let most = Phase::ALL.map(|phase| undisturbed.writes(phase));
    for n in (1..=most.into_iter().max().unwrap_or_default()).step_by(every) {
        let space = Space::create(subject.federation, "killed").await?;
        for phase in Phase::ALL {
            let step = Step::new(&space, phase, undisturbed)?;
            let killed = kill_after(subject, &step, n).await?;
            if killed {
                restart(subject).await?;
            }
            step.over(&format!("write {n}, killed: {killed}")).await?;
        }
        let space = Space::create(subject.federation, "abandoned").await?;
        let up = Step::new(&space, Phase::Create, undisturbed)?;
        if kill_after(subject, &up, n).await? {
            let down = Step::new(&space, Phase::Delete, undisturbed)?;
            down.begin().await?;
            restart(subject).await?;
            down.over(&format!("after a kill at write {n} of Create"))
                .await?;
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
