//! `cargo xtask bench admission`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, bail, ensure};
use harness::ports;
use harness::process::ChildProcess;
use serde_json::{Value, json};

use super::bodies::Body;
use super::measure::{self, RateLatencies};
use super::servers::{MeasuredServer, ServerKind, start_beside};
use super::workloads::{
    self, CONNECTED, DENIED_NETWORK, LARGE, MISTAKEN, MISTAKES, NETWORKS, SMALL,
};
use super::{BenchSetup, Bound, Row, Service, agreement, former};

/// Number of requests per second when a Workload with one network is compared with a Workload with many networks. The
/// rate is low, so no request waits for another one.
const CALM: f64 = 50.0;
/// Duration in seconds of the requests at the rate `CALM`.
const CALM_SECONDS: f64 = 6.0;

/// Starts the simulated API server of the project, and checks that our webhook and the Go webhook give the same
/// answers.
pub(crate) async fn check_answers(bench: &BenchSetup) -> anyhow::Result<ChildProcess> {
    let project = start_project(bench).await?;
    agreement::check(bench, workloads::checked(), agreement::decision).await?;
    for body in &bench.bodies {
        let (name, answer) = (&body.name, answer(bench, body)?);
        let mistakes = answer.pointer("/response/status/details/causes");
        let found = mistakes.and_then(Value::as_array).map_or(0, Vec::len);
        let expected = if name == MISTAKEN { MISTAKES } else { 0 };
        let allowed = answer.pointer("/response/allowed");
        ensure!(
            found == expected && allowed == Some(&json!(expected == 0)),
            "the answer to {name} must have allowed={} and {expected} causes: {answer}",
            expected == 0
        );
    }
    Ok(project)
}

pub(crate) async fn run(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    let project = check_answers(bench).await?;
    let rows = match bench.former {
        Some(_) => former::throughput(bench, &[SMALL, LARGE, MISTAKEN, CONNECTED]).await?,
        None => beside_go(bench).await?,
    };
    project.terminate().await;
    Ok(rows)
}

async fn beside_go(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in [SMALL, LARGE, MISTAKEN] {
        rows.extend(measure::compare(bench, bench.body(name)?).await?);
    }
    rows.extend(networks(bench).await?);
    rows.extend(measure::memory(bench, bench.body(SMALL)?).await?);
    Ok(rows)
}

/// Starts the simulated API server of the project.
async fn start_project(bench: &BenchSetup) -> anyhow::Result<ChildProcess> {
    let Service::Admission { kubeconfig } = &bench.service else {
        bail!("this benchmark needs Service::Admission");
    };
    let port = ports::reserve()?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "project", "cluster": {
            "certificate-authority": bench.ca(),
            "server": format!("https://127.0.0.1:{port}"),
        }}],
        "contexts": [{"name": "project", "context": {"cluster": "project", "user": "admission"}}],
        "current-context": "project",
        "users": [{"name": "admission", "user": {"token": "admission"}}],
    });
    fs::write(kubeconfig, config.to_string())?;
    let user = bench.directory.join("user.json");
    fs::write(&user, workloads::user().to_string())?;
    let args = vec![
        format!("--port={port}").into(),
        "--cert-dir".into(),
        bench.certificates.clone().into(),
        "--user".into(),
        user.into(),
        format!("--denied-network={DENIED_NETWORK}").into(),
    ];
    start_beside(bench, "project", args, port).await
}

/// Returns the answer of compute-federation to a body.
fn answer(bench: &BenchSetup, body: &Body) -> anyhow::Result<Value> {
    let answer = fs::read(measure::answer(bench, body))?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Compares, for each server, the latencies of a Workload with many networks and of a Workload with a single network.
/// For each server and Workload, only the turn with the lowest p99 is used.
async fn networks(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    let mut best: BTreeMap<(ServerKind, &str), RateLatencies> = BTreeMap::new();
    for kind in [ServerKind::Ours, ServerKind::Go].repeat(bench.rounds) {
        let server = MeasuredServer::start(bench, kind, &bench.ca()).await?;
        // The first requests cause access reviews, which open the connections to the project's API server. The
        // latencies of these requests are not used.
        let many = bench.body(CONNECTED)?;
        server.at_rate(bench, many, CALM, CALM_SECONDS).await?;
        for name in [SMALL, CONNECTED] {
            let body = bench.body(name)?;
            let found = server.at_rate(bench, body, CALM, CALM_SECONDS).await?;
            let found = RateLatencies::from(found);
            eprintln!(
                "{name}: {} at {CALM:.0} per second: p50 {:.2} ms, p99 {:.2} ms",
                kind.as_str(),
                found.p50,
                found.p99
            );
            let place = (kind, name);
            if best.get(&place).is_none_or(|other| found.better(other)) {
                best.insert(place, found);
            }
        }
        server.stop().await;
    }
    let mut rows = Vec::new();
    for kind in [ServerKind::Ours, ServerKind::Go] {
        let found = |name| {
            let found = best.get(&(kind, name));
            found.with_context(|| format!("no latencies of {} for {name}", kind.as_str()))
        };
        let (one, many) = (found(SMALL)?, found(CONNECTED)?);
        for (percentile, one, many) in [("p50", one.p50, many.p50), ("p99", one.p99, many.p99)] {
            let who = kind.as_str();
            let at = format!("at {CALM:.0}/s: {percentile}");
            rows.push(Row::new(format!("1 network {at}, {who}"), one, "ms"));
            rows.push(Row::new(
                format!("{NETWORKS} networks {at}, {who}"),
                many,
                "ms",
            ));
            let row = Row::new(
                format!("{NETWORKS} networks / 1 network {at}, {who}"),
                many / one,
                "x",
            );
            rows.push(match kind {
                ServerKind::Ours => row.target(Bound::AtMost(1.3)),
                _ => row,
            });
        }
    }
    Ok(rows)
}
