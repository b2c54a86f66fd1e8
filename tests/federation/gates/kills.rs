//! Kills compute-federation in a cell after a write. The API server has executed this write, but has not answered it.

use anyhow::ensure;
use api::Workload;
use harness::network_operator::Generation;
use harness::wait;
use kube::api::DeleteParams;
use tokio::time::Instant;

use super::fixture::{CONVERGED, GatedFederation};
use crate::fixture::{DFW, Space};

/// Number of kills in the ordinary tests. They are spread evenly over the writes.
const SOME: usize = 4;
const NAME: &str = "web";

pub(crate) async fn a_kill_after_some_writes(gated: &GatedFederation) -> anyhow::Result<()> {
    kills(gated, Some(SOME)).await
}

pub(crate) async fn a_kill_after_each_write(gated: &GatedFederation) -> anyhow::Result<()> {
    kills(gated, None).await
}

pub(crate) async fn a_kill_after_each_write_with_bindings() -> anyhow::Result<()> {
    let gated = GatedFederation::start("gates-bindings", Generation::Bindings).await?;
    kills(&gated, None).await?;
    gated.stop().await;
    Ok(())
}

/// Kills the process during the creation and during the deletion of a Workload. Another Workload is deleted while the
/// process that has begun with it is down. `some` limits the number of kills. With `None`, the test kills after every
/// write.
async fn kills(gated: &GatedFederation, some: Option<usize>) -> anyhow::Result<()> {
    let (created, deleted) = undisturbed(gated).await?;
    eprintln!("the cell makes {created} writes for an Instance, and {deleted} at its end");
    let kills = some.unwrap_or_else(|| created.max(deleted));
    for kill in 0..kills {
        let nth = |writes: usize| 1 + kill * writes / kills;
        let begin = Instant::now();
        let space = gated.space("killed").await?;
        let up = killed_after(
            gated,
            nth(created),
            create(gated, &space),
            runs(gated, &space),
        )
        .await?;
        runs(gated, &space).await?;
        let down = killed_after(gated, nth(deleted), delete(&space), gone(gated, &space)).await?;
        gone(gated, &space).await?;
        let dropped = abandoned(gated, nth(created)).await?;
        // The first write is always made.
        ensure!(
            kill > 0 || up && down && dropped,
            "killed at the first write: {up}, {down}, {dropped}"
        );
        eprintln!(
            "killed after write {} of the creation: {up}, {} of the deletion: {down}; over after {:.1} s",
            nth(created),
            nth(deleted),
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Returns the number of writes of the cell for the creation and for the deletion of a Workload.
async fn undisturbed(gated: &GatedFederation) -> anyhow::Result<(usize, usize)> {
    let (space, writes) = (gated.space("undisturbed").await?, &gated.proxies.writes);
    let before = writes.made();
    create(gated, &space).await?;
    runs(gated, &space).await?;
    let between = writes.made();
    delete(&space).await?;
    gone(gated, &space).await?;
    let (created, deleted) = (between - before, writes.made() - between);
    ensure!(
        created > SOME && deleted > 1,
        "{created} and {deleted} writes"
    );
    Ok((created, deleted))
}

/// Deletes a Workload after the process of its cell was killed at this write of the creation. Returns whether it was
/// killed.
async fn abandoned(gated: &GatedFederation, write: usize) -> anyhow::Result<bool> {
    let space = gated.space("abandoned").await?;
    let writes = &gated.proxies.writes;
    writes.stop_after(write);
    create(gated, &space).await?;
    let is_stopped = tokio::select! {
        biased;
        () = writes.stopped() => true,
        over = runs(gated, &space) => over.map(|()| false)?,
    };
    let mut manager = gated.federation.cell_manager(DFW)?.lock().await;
    if is_stopped {
        manager.kill().await;
    }
    writes.resume();
    delete(&space).await?;
    if is_stopped {
        manager.restart().await?;
    }
    gone(gated, &space).await?;
    Ok(is_stopped)
}

/// Begins a change, kills the process after this write, and restarts it. Returns whether there were so many writes
/// before the change was over. Their number varies.
async fn killed_after(
    gated: &GatedFederation,
    write: usize,
    begin: impl Future<Output = anyhow::Result<()>>,
    over: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<bool> {
    let writes = &gated.proxies.writes;
    writes.stop_after(write);
    begin.await?;
    let is_stopped = tokio::select! {
        biased;
        () = writes.stopped() => true,
        over = over => over.map(|()| false)?,
    };
    let mut manager = gated.federation.cell_manager(DFW)?.lock().await;
    if is_stopped {
        manager.kill().await;
    }
    writes.resume();
    if is_stopped {
        manager.restart().await?;
    }
    Ok(is_stopped)
}

async fn create(gated: &GatedFederation, space: &Space<'_>) -> anyhow::Result<()> {
    let placements: &[(&str, &[&str], i32)] = &[("us", &["DFW"], 1)];
    space.create_workload(NAME, placements).await?;
    gated.create_network(space).await
}

async fn runs(gated: &GatedFederation, space: &Space<'_>) -> anyhow::Result<()> {
    space.until_settled(NAME, 1).await?;
    gated.until_all_run(space, &[DFW], 1).await
}

async fn delete(space: &Space<'_>) -> anyhow::Result<()> {
    let params = DeleteParams::default();
    space.in_project::<Workload>().delete(NAME, &params).await?;
    Ok(())
}

async fn gone(gated: &GatedFederation, space: &Space<'_>) -> anyhow::Result<()> {
    wait::gone(&space.in_project::<Workload>(), NAME, CONVERGED).await?;
    gated.until_nothing_is_left(space).await
}
