//! `cargo xtask bench interpreter`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::bodies::{self, Body, CELLS, CELLS_BELOW, aggregate, aggregate_levels};
use super::servers::{MeasuredServer, ServerKind, lines};
use super::{BenchSetup, Bound, Row, agreement, wire};

/// Nanoseconds and heap allocations of one call, for one body.
#[derive(Clone, Deserialize)]
struct Measured {
    body: String,
    #[serde(default)]
    p50: f64,
    #[serde(default)]
    p99: f64,
    /// The median of the calls without the JSON fast path.
    #[serde(default)]
    general: f64,
    /// The median of the calls that only parse the body as JSON and drop the result.
    #[serde(default)]
    scan: f64,
    #[serde(default)]
    allocations: f64,
    #[serde(default)]
    bytes: f64,
}

/// The minimum gain that justifies a fast path for an operation.
const FAST_PATH_GAIN: f64 = 1.3;

type ByBody = BTreeMap<String, Measured>;

pub(crate) async fn run(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    agreement::check(bench, bodies::checked(), agreement::interpretation).await?;
    let program = |name: &str| bench.programs.join(name);
    let directory = bench.directory.join("instances");
    let instances = bodies::write(&directory, bodies::instances(), wire::interpretation)?;
    let directory = bench.directory.join("levels");
    let levels = bodies::write(&directory, bodies::levels(), wire::interpretation)?;
    let in_process: Vec<_> = bench
        .bodies
        .iter()
        .chain(&instances)
        .chain(&levels)
        .collect();
    let allocations = by_body(&in_process, program("allocations"), vec![]).await?;
    let measured: Vec<_> = bench.bodies.iter().collect();
    let (mut compute, mut lua) = (ByBody::new(), ByBody::new());
    let (mut ours, mut go) = (ByBody::new(), ByBody::new());
    for round in 1..=bench.rounds {
        eprintln!("round {round} of {}", bench.rounds);
        keep_best(
            &mut compute,
            by_body(&in_process, program("compute"), vec![]).await?,
        );
        keep_best(
            &mut lua,
            by_body(&measured, bench.rivals.karmada(), vec!["-way=lua".into()]).await?,
        );
        keep_best(&mut ours, end_to_end(bench, ServerKind::Ours).await?);
        keep_best(&mut go, end_to_end(bench, ServerKind::Go).await?);
    }
    let mut rows = alone(&compute, &allocations);
    for body in &bench.bodies {
        let name = &body.name;
        let (Some(ours), Some(go)) = (ours.get(name), go.get(name)) else {
            continue;
        };
        rows.push(micros(name, "Karmada's client and ours, p50", ours.p50));
        rows.push(micros(name, "Karmada's client and Go, p50", go.p50));
        // The replaced Lua customization has no script for the other operations.
        let Some(lua) = lua.get(name) else {
            continue;
        };
        rows.push(micros(name, "Karmada's Lua in process, p50", lua.p50));
        let measure = format!("{name}: Karmada's Lua in process, allocations");
        rows.push(Row::new(measure, lua.allocations, ""));
        let measure = format!("{name}: Lua in process / ours end to end");
        let row = Row::new(measure, lua.p50 / ours.p50, "x");
        let many = |cells: &usize| *cells >= 10 && *name == aggregate(*cells);
        rows.push(match CELLS.iter().any(many) {
            true => row.target(Bound::AtLeast(1.0)),
            false => row,
        });
    }
    Ok(rows)
}

fn micros(body: &str, what: &str, nanos: f64) -> Row {
    Row::new(format!("{body}: {what}"), nanos / 1e3, "us")
}

/// Returns rows about interpretation without a server: as shipped, and without the fast path.
fn alone(compute: &ByBody, allocations: &ByBody) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, measured) in compute {
        let row = micros(name, "alone, p50", measured.p50);
        rows.push(match *name == aggregate(1000) {
            true => row.target(Bound::AtMost(1000.0)),
            false => row,
        });
        rows.push(micros(name, "alone, p99", measured.p99));
        rows.push(micros(
            name,
            "alone without fast path, p50",
            measured.general,
        ));
        let measure = format!("{name}: alone without fast path / alone");
        let row = Row::new(measure, measured.general / measured.p50, "x");
        rows.push(row.target(Bound::AtLeast(FAST_PATH_GAIN)));
        rows.push(micros(name, "only read as JSON, p50", measured.scan));
        if let Some(counted) = allocations.get(name) {
            let measure = format!("{name}: alone, allocations");
            rows.push(Row::new(measure, counted.allocations, ""));
            let measure = format!("{name}: alone, allocated");
            rows.push(Row::new(measure, counted.bytes / 1024.0, "KiB"));
        }
    }
    let per_cell = |few: usize, many: usize| {
        let time = |cells| compute.get(&aggregate(cells)).map(|measured| measured.p50);
        #[expect(clippy::cast_precision_loss, reason = "these are small")]
        let cells = (many - few) as f64;
        Some((time(many)? - time(few)?) / cells)
    };
    if let (Some(few), Some(many)) = (per_cell(10, 100), per_cell(100, 1000)) {
        // With linear cost, each additional cell costs the same.
        let measure = "time per cell from 100 to 1000 cells / from 10 to 100";
        rows.push(Row::new(measure, many / few, "x").target(Bound::AtMost(1.25)));
    }
    for lower_hubs in [1, 10] {
        let (levels, flat) = (
            aggregate_levels(lower_hubs),
            aggregate(lower_hubs * CELLS_BELOW),
        );
        let time = |name: &str| compute.get(name).map(|measured| measured.p50);
        if let (Some(below), Some(direct)) = (time(&levels), time(&flat)) {
            let measure = format!("{levels}: alone / {flat}: alone");
            rows.push(Row::new(measure, below / direct, "x").target(Bound::AtMost(1.5)));
        }
    }
    rows
}

/// Measures calls to a server by Karmada's own client.
async fn end_to_end(bench: &BenchSetup, kind: ServerKind) -> anyhow::Result<ByBody> {
    let server = MeasuredServer::start(bench, kind, Path::new("")).await?;
    let args = vec![
        "-way=webhook".into(),
        format!("-url=https://127.0.0.1:{}/interpret", server.port).into(),
        "-ca".into(),
        bench.ca().into(),
    ];
    let bodies: Vec<_> = bench.bodies.iter().collect();
    let measured = by_body(&bodies, bench.rivals.karmada(), args).await;
    server.stop().await;
    measured
}

/// Runs a program with these bodies.
async fn by_body(
    bodies: &[&Body],
    path: PathBuf,
    mut args: Vec<OsString>,
) -> anyhow::Result<ByBody> {
    args.extend(bodies.iter().map(|body| body.file.clone().into()));
    let measured: Vec<Measured> = lines(path, args).await?;
    Ok(measured
        .into_iter()
        .map(|measured| (measured.body.clone(), measured))
        .collect())
}

fn keep_best(best: &mut ByBody, round: ByBody) {
    for (name, measured) in round {
        if best.get(&name).is_none_or(|other| measured.p50 < other.p50) {
            best.insert(name, measured);
        }
    }
}
