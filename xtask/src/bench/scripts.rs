//! `cargo xtask bench scripts`: the scripts of Karmada's own customizations, and native calls beside hostile scripts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use harness::lua_suite::{self, LuaCase, LuaSuite};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bodies::HEALTH;
use super::percentile::median;
use super::servers::{MeasuredServer, ServerKind, lines};
use super::{BenchSetup, Bound, Row};

/// CPU time for each case and round.
const BUDGET: Duration = Duration::from_millis(10);
/// Cases whose answer through a webhook differs from that of Karmada's engine (docs/concepts/lua.md).
const EXPLAINED: usize = 2;
/// Shortest time of a call of the script that does not end, in milliseconds. Its limit is 1 second.
const ENDLESS_MIN: f64 = 900.0;
/// Callers of a script that does not end.
const CALLERS: usize = 64;
/// Native calls per second, and the time in seconds for which they are measured.
const RATE: f64 = 200.0;
const SECONDS: f64 = 10.0;

/// The time of one call.
#[derive(Deserialize)]
struct Timed {
    name: String,
    nanoseconds: f64,
}

/// A hostile call.
#[derive(Deserialize)]
struct SentOnce {
    status: u16,
    milliseconds: f64,
}

/// The best time of each case, in nanoseconds, in the order of the cases.
#[derive(Default)]
struct Best(Vec<f64>);

impl Best {
    fn keep(&mut self, cases: &[LuaCase], timed: &[Timed]) -> anyhow::Result<()> {
        let same = cases.iter().map(|case| &case.name);
        ensure!(
            same.eq(timed.iter().map(|it| &it.name)),
            "other cases were measured"
        );
        self.0.resize(timed.len(), f64::INFINITY);
        for (best, timed) in self.0.iter_mut().zip(timed) {
            *best = best.min(timed.nanoseconds);
        }
        Ok(())
    }
}

pub(super) async fn run(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    let suite = LuaSuite::find_or_build(|progress| eprintln!("{progress}"))?;
    let cases = suite.cases()?;
    let file = bench.directory.join("cases.jsonl");
    write_cases(&file, &cases)?;
    let directory = bench.customizations();
    write_customizations(&directory, &cases)?;
    let budget = format!("--milliseconds={}", BUDGET.as_millis());
    let (mut ours, mut engine) = (Best::default(), Best::default());
    for round in 1..=bench.rounds {
        eprintln!("round {round} of {}", bench.rounds);
        let args = vec![budget.clone().into(), file.clone().into()];
        ours.keep(&cases, &lines(bench.programs.join("scripts"), args).await?)?;
        let (path, args) = suite.timer(BUDGET, None);
        engine.keep(&cases, &lines(path, args).await?)?;
    }
    let mut rows = in_process(&cases, &ours.0, &engine.0);
    let server = MeasuredServer::start(bench, ServerKind::Scripts, Path::new("")).await?;
    let measured = of_server(bench, &suite, &cases, &server).await;
    server.stop().await;
    rows.extend(measured?);
    Ok(rows)
}

fn write_cases(file: &Path, cases: &[LuaCase]) -> anyhow::Result<()> {
    let lines = cases.iter().map(serde_json::to_string);
    let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
    let text = lines.join("\n");
    Ok(fs::write(file, text)?)
}

/// Writes the customizations of the cases, and one whose script does not end.
fn write_customizations(directory: &Path, cases: &[LuaCase]) -> anyhow::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir(directory)?;
    lua_suite::write_customizations(cases, directory)?;
    let endless = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "endless"},
        "spec": {
            "target": {"apiVersion": "example.com/v1", "kind": "Endless"},
            "customizations": {
                // Errors are slow, so the time ends before the instructions.
                "healthInterpretation": {"luaScript": "function InterpretHealth() while true do pcall(string.rep) end end"},
            },
        },
    });
    Ok(fs::write(
        directory.join("endless.json"),
        endless.to_string(),
    )?)
}

/// Returns the request to the script that does not end.
fn endless_call() -> Value {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Endless", "metadata": {"name": "a", "namespace": "a"},
    });
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
        "request": {
            "uid": "a", "kind": {"group": "example.com", "version": "v1", "kind": "Endless"},
            "name": "a", "namespace": "a", "operation": "InterpretHealth", "object": object,
        },
    })
}

/// Returns how much more CPU time Karmada's engine needs, for each script.
fn in_process(cases: &[LuaCase], ours: &[f64], engine: &[f64]) -> Vec<Row> {
    let mut scripts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ((case, ours), engine) in cases.iter().zip(ours).zip(engine) {
        let words: Vec<_> = case.name.split(' ').take(2).collect();
        scripts
            .entry(words.join(" "))
            .or_default()
            .push(engine / ours);
    }
    let mut ratios: Vec<_> = scripts
        .into_iter()
        .map(|(script, ratios)| (median(ratios), script))
        .collect();
    ratios.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let all = ratios.iter().map(|(ratio, _)| *ratio).collect();
    let mut rows = vec![
        micros(
            "ours in process, median of the cases",
            median(ours.to_vec()),
        ),
        micros(
            "Karmada's engine in process, median of the cases",
            median(engine.to_vec()),
        ),
        Row::new(
            format!("engine / ours, median of {} scripts", ratios.len()),
            median(all),
            "x",
        )
        .target(Bound::AtLeast(3.0)),
    ];
    for (place, pair) in [("least", ratios.first()), ("most", ratios.last())] {
        let Some((ratio, script)) = pair else {
            continue;
        };
        let row = Row::new(format!("engine / ours, {place}: {script}"), *ratio, "x");
        rows.push(match place {
            "least" => row.target(Bound::AtLeast(0.8)),
            _ => row,
        });
    }
    rows
}

fn micros(measure: &str, nanoseconds: f64) -> Row {
    Row::new(measure, nanoseconds / 1e3, "us")
}

async fn of_server(
    bench: &BenchSetup,
    suite: &LuaSuite,
    cases: &[LuaCase],
    server: &MeasuredServer,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![Row::new(
        "resident memory with the scripts, idle",
        server.memory()?.0,
        "MiB",
    )];
    let url = format!("https://127.0.0.1:{}/interpret", server.port);
    let ca = bench.ca();
    let verdicts = suite.call(&url, &ca)?;
    let different = verdicts.iter().filter(|verdict| !verdict.engine.is_empty());
    let different = different.count();
    ensure!(
        different <= EXPLAINED,
        "{different} answers differ from those of Karmada's engine"
    );
    let (path, args) = suite.timer(BUDGET, Some((&url, &ca)));
    let mut best = Best::default();
    best.keep(cases, &lines(path, args).await?)?;
    rows.push(micros(
        "Karmada's client and ours, median of the cases",
        median(best.0),
    ));
    let row = Row::new(
        "resident memory after calls of all scripts",
        server.memory()?.0,
        "MiB",
    );
    rows.push(row.target(Bound::AtMost(48.0)));
    let health = bench.body(HEALTH)?;
    let body = bench.directory.join("endless.json");
    fs::write(&body, endless_call().to_string())?;
    let once: Vec<SentOnce> = hostile(bench, server.port, &[], &body).await?;
    let is_endless = |sent: &SentOnce| sent.status == 200 && sent.milliseconds >= ENDLESS_MIN;
    ensure!(once.iter().all(is_endless), "the script ends at once");
    let (mut idle, mut beside) = (f64::INFINITY, f64::INFINITY);
    let mut answers: BTreeMap<String, f64> = BTreeMap::new();
    let args = [
        format!("--callers={CALLERS}"),
        format!("--seconds={}", SECONDS + 1.0),
    ];
    for _ in 0..bench.rounds {
        idle = idle.min(server.at_rate(bench, health, RATE, SECONDS).await?.p99);
        let sent = hostile::<BTreeMap<String, f64>>(bench, server.port, &args, &body);
        let native = server.at_rate(bench, health, RATE, SECONDS);
        let (sent, measured) = tokio::try_join!(sent, native)?;
        for (status, count) in sent.into_iter().flatten() {
            *answers.entry(status).or_default() += count;
        }
        beside = beside.min(measured.p99);
    }
    for (status, count) in answers {
        rows.push(Row::new(
            format!("hostile calls with status {status}"),
            count,
            "",
        ));
    }
    rows.push(micros("p99 of native calls, idle", idle));
    rows.push(micros(
        &format!("p99 of native calls beside {CALLERS} callers of an endless script"),
        beside,
    ));
    rows.push(Row::new("p99 beside them / idle", beside / idle, "x").target(Bound::AtMost(2.0)));
    Ok(rows)
}

/// Calls the script that does not end, with the lowest priority: once, or as these arguments say.
async fn hostile<T: DeserializeOwned>(
    bench: &BenchSetup,
    port: u16,
    args: &[String],
    body: &Path,
) -> anyhow::Result<Vec<T>> {
    let mut all: Vec<OsString> = vec![
        "-n".into(),
        "19".into(),
        bench.programs.join("overload").into(),
        format!("--port={port}").into(),
        "--ca".into(),
        bench.ca().into(),
        "--path=/interpret?timeout=10s".into(),
    ];
    all.extend(args.iter().map(Into::into));
    all.push(body.into());
    lines("nice".into(), all).await
}
