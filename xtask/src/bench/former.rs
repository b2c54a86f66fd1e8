//! Compares the binary of the checkout with that of a former commit. Both servers run at the same time, on the same CPU,
//! and have short turns. The noise between seconds is larger than 3 %.

use serde::Deserialize;

use super::measure::answer;
use super::percentile::median;
use super::servers::{MeasuredServer, ServerKind, compare};
use super::{BenchSetup, Bound, Row};

/// Minimum ratio of the new throughput to the former one: a change must not lose more than 3 %.
const KEPT: f64 = 0.97;
/// Number of blocks of four turns in a round: 10 s. More rounds say more than longer ones, because two processes of one
/// binary differ too.
const BLOCKS: usize = 50;

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
    for name in bodies.iter().map(AsRef::as_ref) {
        let body = bench.body(name)?;
        let mut medians = Vec::new();
        for round in 0..bench.rounds {
            let constant = answer(bench, body);
            let start = |kind| MeasuredServer::start(bench, kind, &constant);
            // The order of the starts decides which memory a process gets.
            let (ours, former) = match round.is_multiple_of(2) {
                true => {
                    let ours = start(ServerKind::Ours).await?;
                    (ours, start(ServerKind::Former).await?)
                }
                false => {
                    let former = start(ServerKind::Former).await?;
                    (start(ServerKind::Ours).await?, former)
                }
            };
            let turns: Turns = compare(bench, body, [&ours, &former], BLOCKS).await?;
            ours.stop().await;
            former.stop().await;
            let median = median(turns.ratios);
            eprintln!(
                "{name} {}/{}: ours / former {median:.3}",
                round + 1,
                bench.rounds
            );
            medians.push(median);
        }
        rows.extend(rows_of(name, medians));
    }
    Ok(rows)
}

/// Returns the median of the rounds of one body, and the lowest and the highest round.
fn rows_of(body: &str, rounds: Vec<f64>) -> Vec<Row> {
    let lowest = rounds.iter().copied().fold(f64::NAN, f64::min);
    let highest = rounds.iter().copied().fold(f64::NAN, f64::max);
    let row = |which: &str, value| {
        let measure = format!("{body}: requests per CPU time, ours / former, {which}");
        Row::new(measure, value, "x")
    };
    vec![
        row("median of the rounds", median(rounds)).target(Bound::AtLeast(KEPT)),
        row("lowest round", lowest),
        row("highest round", highest),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_rounds_decides() {
        let of = |rounds: &[f64]| {
            let rows = rows_of("x", rounds.to_vec());
            let values = rows.iter().map(|row| row.value).collect::<Vec<_>>();
            (values, rows[0].met)
        };
        assert_eq!(of(&[0.99, 0.5, 1.2]), (vec![0.99, 0.5, 1.2], Some(true)));
        assert_eq!(of(&[0.96, 0.9, 1.0]), (vec![0.96, 0.9, 1.0], Some(false)));
    }
}
