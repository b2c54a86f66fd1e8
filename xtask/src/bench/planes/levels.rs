//! Measures the management controllers with many lower hubs, and with cells below each.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::processes::{Built, SimulatedPlanes, Watcher};
use super::{ArrivalLatencies, Bound, Row, Sizes, number, progress, until, until_quiet};

/// Number of cells below each lower hub.
const CELLS: usize = 100;
/// Number of times that a cell reports or dies.
const EVENTS: usize = 100;
/// Number of times that a lower hub dies.
const DEAD_HUBS: usize = 10;
/// Wait before the measurement at rest. In this time, the work that the start has caused ends: repeated reads, timers,
/// and memory that is returned.
const AFTER_START: Duration = Duration::from_secs(30);
/// The most by which the cost of a cell, or of an event, may grow with the number of lower hubs.
const MOST_MEMORY_GROWTH: f64 = 1.25;
const MOST_EVENT_GROWTH: f64 = 1.5;

/// An event, as the simulated planes know it, and as the rows call it.
const OF_EVENTS: [(&str, &str, usize); 3] = [
    ("status", "status of a cell", EVENTS),
    ("deadCell", "dead cell", EVENTS),
    ("deadHub", "dead lower hub", DEAD_HUBS),
];

/// The cost of an event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Happened {
    #[serde(flatten)]
    latencies: ArrivalLatencies,
    cpu_milliseconds: f64,
    seconds: f64,
}

/// The results with one number of lower hubs.
struct Measured {
    cells: f64,
    memory: f64,
    /// The median of the latencies in milliseconds and the CPU time in milliseconds, for each event.
    events: Vec<(f64, f64)>,
}

/// Measures with several numbers of lower hubs, and compares the results.
pub(super) async fn run(sizes: &Sizes, built: &Built) -> anyhow::Result<Vec<Row>> {
    let most = sizes.lower_hubs;
    let counts = [most / 10, most * 3 / 10, most];
    let (mut rows, mut measured) = (Vec::new(), Vec::new());
    for count in counts {
        let (of_count, it) = with(count.max(1), sizes, built).await?;
        progress(&of_count);
        rows.extend(of_count);
        measured.push(it);
    }
    if let [few, some, many] = measured.as_slice() {
        let growth = growth(few, some, many);
        progress(&growth);
        rows.extend(growth);
    }
    Ok(rows)
}

/// Returns the ratios of the costs. They are 1 where a cell or an event costs the same with every number of lower hubs.
fn growth(few: &Measured, some: &Measured, many: &Measured) -> Vec<Row> {
    let each = |from: &Measured, to: &Measured| (to.memory - from.memory) / (to.cells - from.cells);
    let (first, second) = (each(few, some), each(some, many));
    let cells = |it: &Measured| format!("{:.0}", it.cells);
    let [least, middle, highest] = [few, some, many].map(cells);
    let kibibytes = |from: &str, to: &str, each: f64| {
        let what = format!("{from} to {to} cells: memory for each");
        Row::new(what, each * 1024.0, "KiB")
    };
    let mut rows = vec![
        kibibytes(&least, &middle, first),
        kibibytes(&middle, &highest, second),
        Row::new("memory for each, ratio", second / first, "x")
            .target(Bound::AtMost(MOST_MEMORY_GROWTH)),
    ];
    let events = few.events.iter().zip(&many.events);
    for ((_, what, _), ((latency, cpu), (of_many, cpu_of_many))) in OF_EVENTS.iter().zip(events) {
        let ratio = |name: &str, ratio: f64| {
            let what = format!("{what}: {name}, {highest} cells / {least} cells");
            Row::new(what, ratio, "x").target(Bound::AtMost(MOST_EVENT_GROWTH))
        };
        rows.push(ratio("p50", of_many / latency));
        rows.push(ratio("processor time", cpu_of_many / cpu));
    }
    rows
}

/// Measures with this number of lower hubs.
async fn with(count: usize, sizes: &Sizes, built: &Built) -> anyhow::Result<(Vec<Row>, Measured)> {
    let cells = count * CELLS;
    let planes = SimulatedPlanes::start(built, 1).await?;
    let ours = Watcher::ours(built, &planes).await?;
    let begin = Instant::now();
    let asked = json!({"count": count, "cells": CELLS});
    planes.ask::<serde_json::Value>("lowerHubs", asked).await?;
    until("Instances in the project", async || {
        Ok(planes.state().await?.projections >= cells)
    })
    .await?;
    let created = begin.elapsed().as_secs_f64();
    until_quiet(&planes).await?;
    ours.stop().await;

    let written = planes.state().await?.writes;
    let begin = Instant::now();
    let ours = Watcher::ours(built, &planes).await?;
    until("settled", async || is_settled(count, cells, &ours).await).await?;
    let settled = begin.elapsed().as_secs_f64();
    sleep(AFTER_START).await;
    let cpu = ours.cpu()?;
    sleep(Duration::from_secs_f64(sizes.seconds)).await;
    // A part of a core.
    let at_rest = (ours.cpu()? - cpu) / sizes.seconds;
    let (memory, highest) = ours.memory()?;
    let written = planes.state().await?.writes - written;
    let what = format!("{count} lower hubs with {cells} cells");
    let mut rows = vec![
        Row::new(format!("{what}: in the project after"), created, "s"),
        Row::new(format!("{what}: settled after a restart"), settled, "s"),
        Row::new(
            format!("{what}: writes after a restart"),
            f64::from(u32::try_from(written)?),
            "",
        )
        .target(Bound::AtMost(0.0)),
        Row::new(format!("{what}: memory"), memory, "MiB"),
        Row::new(format!("{what}: most memory"), highest, "MiB"),
        Row::new(
            format!("{what}: processor at rest"),
            at_rest * 100.0,
            "% of a core",
        )
        .target(Bound::AtMost(1.0)),
    ];
    let mut events = Vec::new();
    for (event, name, times) in OF_EVENTS {
        let asked = json!({"event": event, "count": times, "process": ours.pid()});
        let happened: Happened = planes.ask("events", asked).await?;
        let what = format!("{what}: {name}");
        rows.extend(happened.latencies.rows(&what, None)?);
        let cpu = happened.cpu_milliseconds - happened.seconds * 1000.0 * at_rest;
        let cpu = cpu / happened.latencies.arrived;
        rows.push(Row::new(format!("{what}: processor time"), cpu, "ms"));
        events.push((happened.latencies.p50.unwrap_or(f64::INFINITY), cpu));
    }
    ours.stop().await;
    planes.stop().await;
    let measured = Measured {
        cells: number(cells),
        memory,
        events,
    };
    Ok((rows, measured))
}

/// Returns whether every WorkloadDeployment and every Instance is reconciled, and the queue is empty.
async fn is_settled(deployments: usize, cells: usize, ours: &Watcher) -> anyhow::Result<bool> {
    let settled = async |controller: &str| {
        let labels = format!(r#"controller="{controller}",result="settled""#);
        ours.metric("compute_federation_reconciles_total", &labels)
            .await
    };
    let depth = ours.metric("compute_federation_queue_depth", "").await?;
    Ok(settled("federator").await? >= number(deployments)
        && settled("projector").await? >= number(cells)
        && depth < 1.0)
}
