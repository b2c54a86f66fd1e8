//! Measures the cost of idle projects, and the memory and tasks that remain after the projects are disengaged.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::processes::{Built, SimulatedPlanes, Watcher};
use super::{Bound, KINDS, QUIET, Row, Sizes, WITHIN, number, progress, target_if, until};

/// Measures memory and CPU time with idle projects.
pub(super) async fn run(sizes: &Sizes, built: &Built) -> anyhow::Result<Vec<Row>> {
    let most = sizes.projects;
    let mut counts = vec![10, 100, most, 3 * most];
    counts.sort_unstable();
    counts.dedup();
    let planes = SimulatedPlanes::start(built, 1).await?;
    let mut rows = Vec::new();
    let mut least = None;
    for count in counts {
        let asked = json!({"count": count});
        planes.ask::<serde_json::Value>("projects", asked).await?;
        let watches = planes.state().await?.watches + KINDS * u64::try_from(count)?;
        let begin = Instant::now();
        let ours = Watcher::ours(built, &planes).await?;
        until("watches", async || {
            Ok(planes.state().await?.watches >= watches
                && ours
                    .metric("compute_federation_projects_engaged", "")
                    .await?
                    >= number(count))
        })
        .await?;
        let engaged = begin.elapsed().as_secs_f64();
        sleep(QUIET).await;
        let what = format!("{count} projects at rest");
        let known = rows.len();
        rows.push(Row::new(format!("{what}: engaged after"), engaged, "s"));
        let is_measured = count == most;
        let (cpu, seconds) = (ours.cpu()?, sizes.seconds);
        if count >= most {
            sleep(Duration::from_secs_f64(seconds)).await;
        }
        let cpu = (ours.cpu()? - cpu) / seconds * 100.0;
        let (resident, highest) = ours.memory()?;
        let tasks = ours.metric("process_tasks", "").await?;
        let left = match count == 3 * most {
            true => Some(leave(&planes, &ours, count).await?),
            false => None,
        };
        ours.stop().await;
        let row = Row::new(format!("{what}: memory"), resident, "MiB");
        rows.push(target_if(row, is_measured, Bound::AtMost(256.0)));
        rows.push(Row::new(format!("{what}: most memory"), highest, "MiB"));
        let (first, first_resident, first_tasks) = *least.get_or_insert((count, resident, tasks));
        if count > first {
            let each = (resident - first_resident) / number(count - first);
            let row = Row::new(format!("{what}: memory for each"), each, "MiB");
            rows.push(target_if(row, is_measured, Bound::AtMost(0.25)));
        }
        if count >= most {
            let row = Row::new(format!("{what}: processor"), cpu, "% of a core");
            rows.push(target_if(row, is_measured, Bound::AtMost(1.0)));
        }
        if let Some((tasks_left, resident_left)) = left {
            let what = format!("{count} projects, not ready any more");
            rows.push(Row::new(format!("{what}: tasks before"), tasks, ""));
            // The bound is the number of tasks with the smallest number of projects.
            let row = Row::new(format!("{what}: tasks"), tasks_left, "");
            rows.push(row.target(Bound::AtMost(first_tasks)));
            let row = Row::new(format!("{what}: memory"), resident_left, "MiB");
            rows.push(row.target(Bound::AtMost(2.0 * first_resident)));
        }
        progress(rows.get(known..).unwrap_or_default());
        if is_measured {
            rows.extend(go_at_rest(sizes, built, &planes).await?);
        }
    }
    planes.stop().await;
    Ok(rows)
}

/// Wait between the disengagement of the projects and the measurement. In this time, unused connections are closed and
/// memory is returned to the kernel.
const LEFT: Duration = Duration::from_secs(90);

/// Makes all projects unready and then ready again. Returns the number of tasks and the resident memory while no
/// project is ready.
async fn leave(
    planes: &SimulatedPlanes,
    ours: &Watcher,
    count: usize,
) -> anyhow::Result<(f64, f64)> {
    let engaged = async || ours.metric("compute_federation_projects_engaged", "").await;
    planes
        .ask::<serde_json::Value>("ready", json!({"ready": false}))
        .await?;
    until("none engaged", async || Ok(engaged().await? == 0.0)).await?;
    sleep(LEFT).await;
    let tasks = ours.metric("process_tasks", "").await?;
    let (resident, _) = ours.memory()?;
    planes
        .ask::<serde_json::Value>("ready", json!({"ready": true}))
        .await?;
    until("all engaged again", async || {
        Ok(engaged().await? >= number(count))
    })
    .await?;
    Ok((tasks, resident))
}

/// Measures memory and CPU time of the Go informers with idle projects.
async fn go_at_rest(
    sizes: &Sizes,
    built: &Built,
    planes: &SimulatedPlanes,
) -> anyhow::Result<Vec<Row>> {
    let count = sizes.projects;
    let go = Watcher::go(built, planes).await?;
    go.until_logged("synced", WITHIN).await?;
    sleep(QUIET).await;
    let cpu = go.cpu()?;
    sleep(Duration::from_secs_f64(sizes.seconds)).await;
    let cpu = (go.cpu()? - cpu) / sizes.seconds * 100.0;
    let (resident, _) = go.memory()?;
    go.stop().await;
    let what = format!("{count} projects at rest, Go informers");
    let each = resident / number(count);
    let rows = vec![
        Row::new(format!("{what}: memory"), resident, "MiB"),
        Row::new(format!("{what}: memory for each"), each, "MiB"),
        Row::new(format!("{what}: processor"), cpu, "% of a core"),
    ];
    progress(&rows);
    Ok(rows)
}
