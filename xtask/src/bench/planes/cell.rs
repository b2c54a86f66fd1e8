//! Measures a cell that runs an Instance for each of many projects, with quota.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::processes::{Built, SimulatedPlanes, Watcher};
use super::{Bound, Row, Sizes, number, progress, until, until_quiet};

/// Wait before the measurement at rest. In this time, the work that the start has caused ends: repeated reads, timers,
/// and memory that is returned.
const AFTER_START: Duration = Duration::from_secs(30);

/// Measures the time until all Instances have their quota, and memory and CPU time at rest.
pub(in crate::bench) async fn run(sizes: &Sizes, built: &Built) -> anyhow::Result<Vec<Row>> {
    let count = sizes.projects;
    let planes = SimulatedPlanes::start(built, count).await?;
    planes.ask::<serde_json::Value>("cell", json!({})).await?;
    let begin = Instant::now();
    let cell = Watcher::cell(built, &planes).await?;
    until("open gates", async || {
        Ok(planes.state().await?.open_instances >= count)
    })
    .await?;
    let open = begin.elapsed().as_secs_f64();
    until_quiet(&planes).await?;
    sleep(AFTER_START).await;
    let written = planes.state().await?.writes;
    let cpu = cell.cpu()?;
    sleep(Duration::from_secs_f64(sizes.seconds)).await;
    let cpu = (cell.cpu()? - cpu) / sizes.seconds * 100.0;
    let state = planes.state().await?;
    let (resident, highest) = cell.memory()?;
    cell.stop().await;
    planes.stop().await;
    let what = format!("cell with {count} projects");
    let count = number(count);
    let at_rest = f64::from(u32::try_from(state.writes - written)?);
    let each = f64::from(u32::try_from(written)?) / count;
    let rows = vec![
        Row::new(format!("{what}: all gates open after"), open, "s"),
        Row::new(format!("{what}: writes for each Instance"), each, ""),
        Row::new(
            format!("{what}: watches"),
            f64::from(u32::try_from(state.watches)?),
            "",
        ),
        Row::new(format!("{what}: memory"), resident, "MiB").target(Bound::AtMost(256.0)),
        Row::new(format!("{what}: most memory"), highest, "MiB"),
        Row::new(format!("{what}: processor at rest"), cpu, "% of a core")
            .target(Bound::AtMost(1.0)),
        Row::new(format!("{what}: writes at rest"), at_rest, "").target(Bound::AtMost(0.0)),
    ];
    progress(&rows);
    Ok(rows)
}
