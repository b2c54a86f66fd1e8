//! One project creates many Workloads. The benchmark measures the delay for another project.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::processes::{self, SimulatedPlanes, Watcher};
use super::{ArrivalLatencies, Sizes, beside, deepest_queue, number, progress, target_if, until};
use crate::bench::percentile::percentile;
use crate::bench::{Bound, Row};

/// Maximum number of Workloads in the other project. Their latencies are measured. `PROBE_MILLISECONDS` is the time
/// between two of them.
const PROBES: usize = 400;
const PROBE_MILLISECONDS: u64 = 25;
/// Number of sequential API calls until a Workload arrives on the hub.
const ANSWERS: usize = 4;
/// The name of the other project.
const PROBED: &str = "p00001";
/// Time between the start of the storm and the first Workload of the other project.
const STORM_BEGINS: Duration = Duration::from_secs(1);

/// Creates many Workloads in one project, and a few Workloads in another project at the same time.
pub(super) async fn run(
    sizes: &Sizes,
    planes: &SimulatedPlanes,
    ours: &Watcher,
) -> anyhow::Result<Vec<Row>> {
    let probe = |label: &str, count: usize| {
        let asked = json!({
            "project": PROBED, "label": label, "count": count, "every_milliseconds": PROBE_MILLISECONDS,
        });
        planes.ask::<ArrivalLatencies>("probe", asked)
    };
    // The calm run makes the same calls as the run during the storm.
    let calm = beside(probe("calm", PROBES), deepest_queue(ours));
    let ((calm, _), calm_answers) = tokio::try_join!(calm, answers(planes, PROBES))?;
    let before = planes.state().await?.copies;
    let (cpu, planes_cpu) = (ours.cpu()?, processes::cpu(planes.pid())?);
    let begin = Instant::now();
    let asked = json!({"project": "p00000", "count": sizes.storm, "rate": sizes.rate});
    let storm = async {
        planes.ask::<serde_json::Value>("storm", asked).await?;
        until("copies of the storm", async || {
            Ok(planes.state().await?.copies >= before + sizes.storm)
        })
        .await?;
        anyhow::Ok(begin.elapsed().as_secs_f64())
    };
    let probes = async {
        // The calls start after the storm has begun, and end before the storm is over.
        sleep(STORM_BEGINS).await;
        let lasts = Duration::from_secs_f64(number(sizes.storm) / sizes.rate);
        let meanwhile = lasts.saturating_sub(STORM_BEGINS).as_millis();
        let count = usize::try_from(meanwhile / u128::from(PROBE_MILLISECONDS))?;
        let count = count.clamp(1, PROBES);
        tokio::try_join!(probe("stormy", count), answers(planes, count))
    };
    let (((stormy, stormy_answers), took), depth) = beside(
        async { tokio::try_join!(probes, storm) },
        deepest_queue(ours),
    )
    .await?;
    let seconds = begin.elapsed().as_secs_f64();
    let share = |cpu: f64| cpu / seconds * 100.0;
    let cpu = share(ours.cpu()? - cpu);
    let planes_cpu = share(processes::cpu(planes.pid())? - planes_cpu);
    let what = format!("while another project creates {}", sizes.storm);
    let mut rows = Vec::new();
    for (whose, calm, stormy, is_ours) in [
        ("a Workload to the hub", calm, stormy, true),
        (
            "four answers of the API servers",
            calm_answers,
            stormy_answers,
            false,
        ),
    ] {
        rows.extend(calm.rows(whose, None)?);
        rows.extend(stormy.rows(&format!("{whose}, {what}"), None)?);
        for (percentile, calm, stormy) in
            [("p50", calm.p50, stormy.p50), ("p99", calm.p99, stormy.p99)]
        {
            let stormy = stormy.context("no latency was measured during the storm")?;
            let times = stormy / calm.context("no latency was measured before the storm")?;
            let row = Row::new(format!("{whose}, {what}: {percentile} / calm"), times, "x");
            rows.push(target_if(row, is_ours, Bound::AtMost(1.2)));
        }
    }
    let what = format!("a project creates {}", sizes.storm);
    let row = |name: &str, value, unit| Row::new(format!("{what}: {name}"), value, unit);
    let (resident, highest) = ours.memory()?;
    rows.extend([
        row("those are there after", took, "s"),
        row("longest queue", depth, ""),
        row("processor", cpu, "% of a core"),
        row("processor of the planes", planes_cpu, "% of a core"),
        row("memory", resident, "MiB"),
        row("most memory", highest, "MiB"),
    ]);
    progress(&rows);
    Ok(rows)
}

/// Measures the latency of the API servers and of the machine. This part of a Workload's latency is not caused by
/// compute-federation.
async fn answers(planes: &SimulatedPlanes, count: usize) -> anyhow::Result<ArrivalLatencies> {
    let mut took = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        for _ in 0..ANSWERS {
            planes.read_namespace(PROBED).await?;
        }
        took.push(begin.elapsed().as_secs_f64() * 1000.0);
        sleep(Duration::from_millis(PROBE_MILLISECONDS)).await;
    }
    took.sort_by(f64::total_cmp);
    Ok(ArrivalLatencies {
        arrived: number(took.len()),
        missing: 0.0,
        p50: percentile(&took, 50),
        p99: percentile(&took, 99),
        max: took.last().copied(),
        late: 0.0,
    })
}
