//! `cargo xtask bench planes`: measures the management controllers with thousands of projects and a hundred thousand
//! WorkloadDeployments, and a cell with Instances of a thousand projects.

mod at_rest;
mod cell;
mod levels;
mod processes;
mod storm;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use harness::rivals::Rivals;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Bound, Programs, Row};
use processes::{Built, SimulatedPlanes, Watcher};

/// Time limit of every wait.
const WITHIN: Duration = Duration::from_mins(30);
/// Poll interval of every wait.
const POLL: Duration = Duration::from_millis(250);
/// Number of kinds that are watched in each project.
const KINDS: u64 = 6;
/// If no write happens in this time, the benchmark assumes that all writes are done.
const QUIET: Duration = Duration::from_secs(5);

/// Sizes of the benchmark.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// For `planes`: number of projects. Memory growth is also measured with three times as many.
    #[arg(long, default_value_t = 1000)]
    projects: usize,
    /// For `planes`: number of WorkloadDeployments on the hub.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// For `planes`: status changes per second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// For `planes`: number of Workloads that one project creates at once.
    #[arg(long, default_value_t = 10_000)]
    storm: usize,
    /// For `planes`, `cell` and `levels`: seconds of each measurement of idle CPU time, and of status latencies.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// For `levels`: number of lower hubs, with 100 cells each. It is also measured with a tenth and with three tenths.
    #[arg(long, default_value_t = 100)]
    lower_hubs: usize,
}

/// Latencies in milliseconds, as the simulated planes report them.
#[derive(Debug, Deserialize)]
struct ArrivalLatencies {
    arrived: f64,
    missing: f64,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
    /// Delay of the last change in seconds, compared with its planned time.
    #[serde(default)]
    late: f64,
}

pub(super) async fn run(
    programs: Programs,
    sizes: &Sizes,
    directory: &Path,
) -> anyhow::Result<Vec<Row>> {
    let built = prepare(programs, directory)?;
    let mut rows = cell::run(sizes, &built).await?;
    rows.extend(at_rest::run(sizes, &built).await?);
    let planes = SimulatedPlanes::start(&built, sizes.projects).await?;
    rows.extend(restart(sizes, &built, &planes).await?);
    planes.stop().await;
    Ok(rows)
}

/// Measures only the cell.
pub(super) async fn run_cell(
    programs: Programs,
    sizes: &Sizes,
    directory: &Path,
) -> anyhow::Result<Vec<Row>> {
    cell::run(sizes, &prepare(programs, directory)?).await
}

/// Measures only lower hubs with cells.
pub(super) async fn run_levels(
    programs: Programs,
    sizes: &Sizes,
    directory: &Path,
) -> anyhow::Result<Vec<Row>> {
    levels::run(sizes, &prepare(programs, directory)?).await
}

fn prepare(programs: Programs, directory: &Path) -> anyhow::Result<Built> {
    let rivals = Rivals::find_or_build(|progress| eprintln!("{progress}"))?;
    Ok(Built {
        binary: programs.binary,
        programs: programs.directory,
        informers: rivals.informers(),
        directory: directory.to_owned(),
        certificates: super::write_certificates(directory)?,
    })
}

/// Measures with all objects on the hub: first a restart, then changing statuses, then many Workloads in one project.
async fn restart(
    sizes: &Sizes,
    built: &Built,
    planes: &SimulatedPlanes,
) -> anyhow::Result<Vec<Row>> {
    let objects = sizes.objects;
    let ours = Watcher::ours(built, planes).await?;
    let begin = Instant::now();
    let asked = json!({"count": objects});
    planes
        .ask::<serde_json::Value>("deployments", asked)
        .await?;
    until("copies", async || {
        let state = planes.state().await?;
        Ok(state.copies >= objects && state.bindings >= objects)
    })
    .await?;
    let created = begin.elapsed().as_secs_f64();
    until_quiet(planes).await?;
    let (resident, highest) = ours.memory()?;
    let what = format!("{objects} new deployments");
    let mut rows = vec![
        Row::new(format!("{what}: on the hub after"), created, "s"),
        Row::new(
            format!("{what}: writes for each"),
            {
                let writes = u32::try_from(planes.state().await?.writes)?;
                f64::from(writes) / number(objects)
            },
            "",
        ),
        Row::new(format!("{what}: memory"), resident, "MiB"),
        Row::new(format!("{what}: most memory"), highest, "MiB"),
    ];
    ours.stop().await;
    progress(&rows);

    let list = planes.list(built, sizes.projects).await?;
    let writes = planes.state().await?.writes;
    let begin = Instant::now();
    let ours = Watcher::ours(built, planes).await?;
    until("settled", async || is_settled(sizes, &ours).await).await?;
    let settled = begin.elapsed().as_secs_f64();
    let cpu = ours.cpu()?;
    let (resident, highest) = ours.memory()?;
    until_quiet(planes).await?;
    let written = planes.state().await?.writes - writes;
    let what = format!("restart with {objects} deployments");
    let settled_rows = vec![
        Row::new(format!("{what}: to list everything"), list, "s"),
        Row::new(format!("{what}: settled after"), settled, "s"),
        Row::new(format!("{what}: beyond the lists"), settled - list, "s")
            .target(Bound::AtMost(30.0)),
        Row::new(format!("{what}: processor time"), cpu, "s"),
        Row::new(
            format!("{what}: writes"),
            f64::from(u32::try_from(written)?),
            "",
        )
        .target(Bound::AtMost(0.0)),
        Row::new(format!("{what}: memory"), resident, "MiB"),
        Row::new(format!("{what}: most memory"), highest, "MiB"),
    ];
    progress(&settled_rows);
    rows.extend(settled_rows);
    rows.extend(statuses(sizes, planes, &ours).await?);
    rows.extend(storm::run(sizes, planes, &ours).await?);
    ours.stop().await;
    Ok(rows)
}

/// Measures the latencies of status changes on the hub.
async fn statuses(
    sizes: &Sizes,
    planes: &SimulatedPlanes,
    ours: &Watcher,
) -> anyhow::Result<Vec<Row>> {
    let (before, _) = ours.memory()?;
    let (cpu, planes_cpu) = (ours.cpu()?, processes::cpu(planes.pid())?);
    let asked = json!({"rate": sizes.rate, "seconds": sizes.seconds});
    let (latencies, depth) = beside(
        planes.ask::<ArrivalLatencies>("statuses", asked),
        deepest_queue(ours),
    )
    .await?;
    let cpu = (ours.cpu()? - cpu) / sizes.seconds * 100.0;
    let planes_cpu = (processes::cpu(planes.pid())? - planes_cpu) / sizes.seconds * 100.0;
    let (after, highest) = ours.memory()?;
    let what = format!("{} statuses per second", sizes.rate);
    let mut rows = latencies.rows(&what, Some(Bound::AtMost(1000.0)))?;
    rows.extend([
        Row::new(format!("{what}: last change late by"), latencies.late, "s"),
        Row::new(format!("{what}: longest queue"), depth, "").target(Bound::AtMost(sizes.rate)),
        Row::new(format!("{what}: processor"), cpu, "% of a core"),
        Row::new(
            format!("{what}: processor of the planes"),
            planes_cpu,
            "% of a core",
        ),
        Row::new(format!("{what}: memory before"), before, "MiB"),
        Row::new(format!("{what}: memory after"), after, "MiB"),
        Row::new(format!("{what}: most memory"), highest, "MiB"),
    ]);
    progress(&rows);
    Ok(rows)
}

impl ArrivalLatencies {
    fn rows(&self, what: &str, target: Option<Bound>) -> anyhow::Result<Vec<Row>> {
        ensure!(
            self.arrived > 0.0,
            "{what}: none of {} changes arrived",
            self.missing
        );
        let row = |name: &str, value: Option<f64>| {
            let value = value.unwrap_or(f64::INFINITY);
            Row::new(format!("{what}: {name}"), value, "ms")
        };
        let p99 = row("p99", self.p99);
        let missing = Row::new(format!("{what}: missing"), self.missing, "");
        Ok(vec![
            row("p50", self.p50),
            match target {
                Some(target) => p99.target(target),
                None => p99,
            },
            row("longest", self.max),
            missing.target(Bound::AtMost(0.0)),
        ])
    }
}

/// Returns whether every project is engaged, every object is reconciled, and the queue is empty.
async fn is_settled(sizes: &Sizes, ours: &Watcher) -> anyhow::Result<bool> {
    let engaged = ours.metric("compute_federation_projects_engaged", "").await;
    // The metrics endpoint may not listen yet.
    let Ok(engaged) = engaged else {
        return Ok(false);
    };
    let done = ours
        .metric(
            "compute_federation_reconciles_total",
            r#"controller="federator",result="settled""#,
        )
        .await?;
    let depth = ours.metric("compute_federation_queue_depth", "").await?;
    Ok(engaged >= number(sizes.projects) && done >= number(sizes.objects) && depth < 1.0)
}

/// Waits until no more writes happen.
async fn until_quiet(planes: &SimulatedPlanes) -> anyhow::Result<()> {
    let mut writes = planes.state().await?.writes;
    loop {
        sleep(QUIET).await;
        let now = planes.state().await?.writes;
        if now == writes {
            return Ok(());
        }
        writes = now;
    }
}

/// Runs `work`. At the same time runs `most`, which records a maximum.
async fn beside<T>(
    work: impl Future<Output = anyhow::Result<T>>,
    most: impl AsyncFn(&mut f64) -> anyhow::Error,
) -> anyhow::Result<(T, f64)> {
    let mut found = 0.0;
    let done = tokio::select! {
        done = work => done?,
        error = most(&mut found) => return Err(error),
    };
    Ok((done, found))
}

/// Returns a function that records the longest queue.
fn deepest_queue(ours: &Watcher) -> impl AsyncFn(&mut f64) -> anyhow::Error {
    async move |most| loop {
        match ours.metric("compute_federation_queue_depth", "").await {
            Ok(depth) => *most = most.max(depth),
            Err(error) => return error,
        }
        sleep(POLL).await;
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so().await.unwrap_or(false) {
        ensure!(
            begin.elapsed() < WITHIN,
            "{what}: not reached within {} s",
            WITHIN.as_secs()
        );
        sleep(POLL).await;
    }
    Ok(())
}

fn target_if(row: Row, is_measured: bool, target: Bound) -> Row {
    match is_measured {
        true => row.target(target),
        false => row,
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Prints the rows as soon as they are known, because the whole benchmark takes many minutes.
fn progress(rows: &[Row]) {
    for row in rows {
        eprintln!("{}: {:.2} {}", row.measure, row.value, row.unit);
    }
}
