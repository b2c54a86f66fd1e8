//! Compares the binary of the checkout with that of a former commit. Both are measured in turns, and each pair of turns
//! gives a ratio: the machine differs between minutes, and little within a pair.

use anyhow::Context;

use super::measure::saturated;
use super::percentile::percentile;
use super::servers::ServerKind;
use super::{BenchSetup, Bound, Row};

/// The least part of the former speed that a change must leave: it must not lose more than 3 %.
const KEPT: f64 = 0.97;

/// Compares the requests per CPU-second of both binaries, with each of these bodies.
pub(crate) async fn throughput(
    bench: &BenchSetup,
    bodies: &[impl AsRef<str>],
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in bodies {
        let body = bench.body(name.as_ref())?;
        let mut ratios = Vec::new();
        for round in 0..bench.rounds {
            let [ours, former] =
                in_turns(round, |kind| saturated(bench, body, kind, round)).await?;
            ratios.push(ours.per_cpu_second() / former.per_cpu_second());
        }
        let what = "requests per CPU-second, ours / former";
        rows.extend(self::rows(name.as_ref(), what, ratios)?);
    }
    Ok(rows)
}

/// Measures both binaries, ours first in every other round. Returns our result and the former one.
pub(crate) async fn in_turns<T>(
    round: usize,
    mut measure: impl AsyncFnMut(ServerKind) -> anyhow::Result<T>,
) -> anyhow::Result<[T; 2]> {
    if round.is_multiple_of(2) {
        let ours = measure(ServerKind::Ours).await?;
        return Ok([ours, measure(ServerKind::Former).await?]);
    }
    let former = measure(ServerKind::Former).await?;
    Ok([measure(ServerKind::Ours).await?, former])
}

/// Returns the median of the ratios of one body, and the quartiles that show how sure it is.
pub(crate) fn rows(body: &str, what: &str, mut ratios: Vec<f64>) -> anyhow::Result<Vec<Row>> {
    ratios.sort_by(f64::total_cmp);
    let row = |percent, which: &str| {
        let value = percentile(&ratios, percent).context("there are no rounds")?;
        anyhow::Ok(Row::new(format!("{body}: {what}, {which}"), value, "x"))
    };
    Ok(vec![
        row(50, "median")?.target(Bound::AtLeast(KEPT)),
        row(25, "first quartile")?,
        row(75, "third quartile")?,
    ])
}
