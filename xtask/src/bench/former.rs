//! Compares the binary of the checkout with that of a former commit. Both servers run at the same time, on the same CPU,
//! and have turns of some milliseconds. Each pair of turns gives a ratio: the machine differs by more between seconds
//! than a change may cost.

use serde::Deserialize;

use super::measure::answer;
use super::percentile::percentile;
use super::servers::{MeasuredServer, ServerKind, compare};
use super::{BenchSetup, Bound, Row};

/// The least part of the former speed that a change must leave: it must not lose more than 3 %.
const KEPT: f64 = 0.97;
/// Number of pairs of turns in each round.
const TURNS: usize = 200;

/// The result of the program `turns`.
#[derive(Deserialize)]
pub(crate) struct Turns {
    ratios: Vec<f64>,
}

/// Compares the requests per CPU time of both binaries, with each of these bodies.
pub(crate) async fn throughput(
    bench: &BenchSetup,
    bodies: &[impl AsRef<str>],
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in bodies {
        let body = bench.body(name.as_ref())?;
        let mut ratios = Vec::new();
        for round in 0..bench.rounds {
            let ours = MeasuredServer::start(bench, ServerKind::Ours, &answer(bench, body)).await?;
            let former =
                MeasuredServer::start(bench, ServerKind::Former, &answer(bench, body)).await?;
            let turns: Turns = compare(bench, body, [&ours, &former], TURNS).await?;
            ours.stop().await;
            former.stop().await;
            let found = rows_of(name.as_ref(), turns.ratios.clone());
            if let Some(median) = found.first() {
                eprintln!(
                    "{name} {}/{}: {:.3}",
                    round + 1,
                    bench.rounds,
                    median.value,
                    name = name.as_ref()
                );
            }
            ratios.extend(turns.ratios);
        }
        rows.extend(rows_of(name.as_ref(), ratios));
    }
    Ok(rows)
}

/// Returns the median of the ratios of one body, and a range that contains the true median with a probability of 95 %.
fn rows_of(body: &str, mut ratios: Vec<f64>) -> Vec<Row> {
    ratios.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "these are small")]
    let count = ratios.len() as f64;
    // The distribution of the rank of the true median has a standard deviation of half the root of the count.
    let spread = 0.98 * count.sqrt();
    let at = |rank: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank is small and not negative"
        )]
        let rank = rank.max(0.0) as usize;
        ratios.get(rank).or_else(|| ratios.last()).copied()
    };
    let what = "requests per CPU time, ours / former";
    let median = percentile(&ratios, 50).map(|median| {
        Row::new(format!("{body}: {what}, median"), median, "x").target(Bound::AtLeast(KEPT))
    });
    let range = [
        ("at least", at(count / 2.0 - spread)),
        ("at most", at(count / 2.0 + spread)),
    ];
    let range = range.into_iter().filter_map(|(which, value)| {
        Some(Row::new(format!("{body}: {what}, {which}"), value?, "x"))
    });
    median.into_iter().chain(range).collect()
}
