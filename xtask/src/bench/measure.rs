//! Measures the servers in turns: throughput, latency, and memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

use super::bodies::{Body, HEALTH, STATUS};
use super::servers::{Load, MeasuredServer, Rate, ServerKind, output};
use super::{BenchSetup, Bound, Row};

/// Number of connections for the memory measurement.
const MANY_CONNECTIONS: u16 = 1000;
/// Number of latency measurements per turn. Another process on the same CPU can disturb one measurement, but rarely all
/// of them.
const TIMES: usize = 3;
/// Number of requests for a 99th percentile, and the minimum and maximum time in seconds to send them.
const REQUESTS: f64 = 1000.0;
const SECONDS: [f64; 2] = [2.0, 12.0];

impl Load {
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.requests / self.server_cpu.max(0.01)
    }
}

/// Returns the file that contains the answer of compute-federation to a body.
pub(crate) fn answer(bench: &BenchSetup, body: &Body) -> PathBuf {
    let name = format!("{}.{}.json", body.name, ServerKind::Ours.as_str());
    bench.directory.join("answers").join(name)
}

/// Measures the throughput of each server. Then measures latencies at half of the throughput of the Go webhook.
pub(crate) async fn compare(bench: &BenchSetup, body: &Body) -> anyhow::Result<Vec<Row>> {
    let best = saturate(bench, body).await?;
    let mut rows = throughput(&body.name, &best);
    let saturation = best
        .get(&ServerKind::Go)
        .context("the Go webhook was not measured")?;
    rows.extend(latency(bench, body, saturation.per_cpu_second() / 2.0).await?);
    Ok(rows)
}

/// Keeps each server busy, in turns. Returns the best turn of each server.
async fn saturate(bench: &BenchSetup, body: &Body) -> anyhow::Result<BTreeMap<ServerKind, Load>> {
    let mut best: BTreeMap<ServerKind, Load> = BTreeMap::new();
    for round in 1..=bench.rounds {
        for kind in [ServerKind::Ours, ServerKind::Go, ServerKind::Floor] {
            let server = MeasuredServer::start(bench, kind, &answer(bench, body)).await?;
            let load = server
                .load(bench, body, bench.service.connections())
                .await?;
            server.stop().await;
            eprintln!(
                "{} {round}/{}: {}: {:.0} requests per CPU-second, {:.0} per second, {:.0} us of the client each",
                body.name,
                bench.rounds,
                kind.as_str(),
                load.per_cpu_second(),
                load.requests / load.seconds,
                load.client_cpu * 1e6 / load.requests,
            );
            let better = best
                .get(&kind)
                .is_none_or(|other| load.per_cpu_second() > other.per_cpu_second());
            if better {
                best.insert(kind, load);
            }
        }
    }
    Ok(best)
}

fn throughput(name: &str, best: &BTreeMap<ServerKind, Load>) -> Vec<Row> {
    let rate = |kind| best.get(&kind).map_or(0.0, Load::per_cpu_second);
    let mut rows: Vec<_> = best
        .keys()
        .map(|kind| {
            let measure = format!("{name}: requests per CPU-second, {}", kind.as_str());
            Row::new(measure, rate(*kind), "1/s")
        })
        .collect();
    let ratio = rate(ServerKind::Ours) / rate(ServerKind::Go);
    rows.push(Row::new(format!("{name}: ours / Go"), ratio, "x").target(Bound::AtLeast(3.0)));
    let ratio = rate(ServerKind::Ours) / rate(ServerKind::Floor);
    let row = Row::new(format!("{name}: ours / floor"), ratio, "x");
    rows.push(match name {
        HEALTH => row.target(Bound::AtLeast(0.9)),
        STATUS => row.target(Bound::AtLeast(0.6)),
        _ => row,
    });
    if let Some(floor) = best.get(&ServerKind::Floor) {
        let client = floor.client_cpu * 1e6 / floor.requests;
        rows.push(Row::new(
            format!("{name}: CPU time of the client per request"),
            client,
            "us",
        ));
        let floor = floor.server_cpu * 1e6 / floor.requests;
        rows.push(Row::new(
            format!("{name}: CPU time of the floor per request"),
            floor,
            "us",
        ));
    }
    rows
}

/// A load generator with a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LoadGenerator {
    /// The `load` program of `benches`. It needs about as much CPU time as the floor.
    Load,
    /// Vegeta. At a high rate, it needs a whole CPU, and its own work distorts the latencies.
    Vegeta,
}

impl LoadGenerator {
    fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Vegeta => "vegeta",
        }
    }

    async fn measure(
        self,
        bench: &BenchSetup,
        body: &Body,
        server: &MeasuredServer,
        rate: f64,
    ) -> anyhow::Result<RateLatencies> {
        let [least, most] = SECONDS;
        let seconds = (REQUESTS / rate).clamp(least, most);
        match self {
            Self::Load => Ok(server.at_rate(bench, body, rate, seconds).await?.into()),
            Self::Vegeta => attack(bench, body, server.port, rate, seconds).await,
        }
    }
}

/// Measures latencies at a constant rate. The best measurement of each server and load generator counts. The latencies
/// of the floor server show the share of the machine.
async fn latency(bench: &BenchSetup, body: &Body, rate: f64) -> anyhow::Result<Vec<Row>> {
    let kinds = [ServerKind::Ours, ServerKind::Go, ServerKind::Floor];
    let clients = [LoadGenerator::Load, LoadGenerator::Vegeta];
    let mut best: BTreeMap<(LoadGenerator, ServerKind), RateLatencies> = BTreeMap::new();
    for kind in kinds.repeat(bench.rounds) {
        let server = MeasuredServer::start(bench, kind, &answer(bench, body)).await?;
        for client in clients.repeat(TIMES) {
            let found = client.measure(bench, body, &server, rate).await?;
            eprintln!(
                "{}: {} at {rate:.0} per second by {}: p50 {:.2} ms, p99 {:.2} ms, {:.0} % lost",
                body.name,
                kind.as_str(),
                client.as_str(),
                found.p50,
                found.p99,
                found.lost * 100.0
            );
            let place = (client, kind);
            if best.get(&place).is_none_or(|other| found.better(other)) {
                best.insert(place, found);
            }
        }
        server.stop().await;
    }
    let mut rows = Vec::new();
    for client in clients {
        let at = format!("{} at {rate:.0}/s by {}", body.name, client.as_str());
        for kind in kinds {
            if let Some(found) = best.get(&(client, kind)) {
                let who = kind.as_str();
                rows.push(Row::new(format!("{at}: p50, {who}"), found.p50, "ms"));
                rows.push(Row::new(format!("{at}: p99, {who}"), found.p99, "ms"));
            }
        }
        let p99 = |kind| best.get(&(client, kind)).map(|found| found.p99);
        let both = p99(ServerKind::Ours).zip(p99(ServerKind::Go));
        let (ours, go) = both.context("a server has no latencies")?;
        let ratio = ours / go;
        let row = Row::new(format!("{at}: p99, ours / Go"), ratio, "x");
        rows.push(row.target(Bound::AtMost(0.5)));
        if let Some(waits) = bench.service.waits() {
            let measure = format!("{at}: p99 beyond the {waits} ms of a review, ours / Go");
            rows.push(Row::new(measure, (ours - waits) / (go - waits), "x"));
        }
    }
    Ok(rows)
}

/// Latencies at a constant rate, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct RateLatencies {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Fraction of the requests without an answer. A value above 0 means that the machine could not keep the rate.
    lost: f64,
}

impl From<Rate> for RateLatencies {
    fn from(rate: Rate) -> Self {
        Self {
            p50: rate.p50 / 1e6,
            p99: rate.p99 / 1e6,
            lost: 0.0,
        }
    }
}

impl RateLatencies {
    pub(crate) fn better(&self, other: &Self) -> bool {
        (self.lost, self.p99) < (other.lost, other.p99)
    }
}

/// Vegeta's report. Times are in nanoseconds.
#[derive(Deserialize)]
struct VegetaReport {
    latencies: Percentiles,
    success: f64,
}

#[derive(Deserialize)]
struct Percentiles {
    #[serde(rename = "50th")]
    p50: f64,
    #[serde(rename = "99th")]
    p99: f64,
}

async fn attack(
    bench: &BenchSetup,
    body: &Body,
    port: u16,
    rate: f64,
    seconds: f64,
) -> anyhow::Result<RateLatencies> {
    let targets = bench.directory.join("targets");
    fs::write(
        &targets,
        format!(
            "POST https://127.0.0.1:{port}{}\nContent-Type: application/json\n@{}\n",
            bench.service.path(),
            body.file.display()
        ),
    )?;
    let results = bench.directory.join("results");
    let mut attack: Vec<OsString> = ["attack", "-http2=false", "-max-workers=1000"]
        .map(OsString::from)
        .to_vec();
    attack.push(format!("-rate={:.0}/10s", rate * 10.0).into());
    attack.push(format!("-duration={seconds:.1}s").into());
    for (flag, file) in [
        ("-targets", &targets),
        ("-root-certs", &bench.ca()),
        ("-output", &results),
    ] {
        attack.extend([flag.into(), file.into()]);
    }
    output(bench.rivals.vegeta(), attack).await?;
    let mut report: Vec<OsString> = ["report", "-type=json"].map(OsString::from).to_vec();
    report.push(results.into());
    let report: VegetaReport =
        serde_json::from_slice(&output(bench.rivals.vegeta(), report).await?)?;
    Ok(RateLatencies {
        p50: report.latencies.p50 / 1e6,
        p99: report.latencies.p99 / 1e6,
        lost: 1.0 - report.success,
    })
}

/// Measures the resident memory of a server: idle, and the maximum with many busy connections.
pub(crate) async fn memory(bench: &BenchSetup, body: &Body) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, targets) in [
        (ServerKind::Ours, Some((16.0, 48.0))),
        (ServerKind::Go, None),
        (ServerKind::Floor, None),
    ] {
        let server = MeasuredServer::start(bench, kind, &answer(bench, body)).await?;
        let (idle, _) = server.memory()?;
        server.load(bench, body, MANY_CONNECTIONS).await?;
        let (_, most) = server.memory()?;
        server.stop().await;
        let who = kind.as_str();
        let idle = Row::new(format!("resident memory, idle, {who}"), idle, "MiB");
        let most = Row::new(
            format!("resident memory, at most with {MANY_CONNECTIONS} busy connections, {who}"),
            most,
            "MiB",
        );
        rows.extend(match targets {
            Some((of_idle, of_most)) => [
                idle.target(Bound::AtMost(of_idle)),
                most.target(Bound::AtMost(of_most)),
            ],
            None => [idle, most],
        });
    }
    Ok(rows)
}
