//! `cargo xtask bench webhook`.

use super::bodies::{self, CELLS, HEALTH, STATUS};
use super::{BenchSetup, Row, agreement, former, measure};

/// Checks that our webhook and the Go webhook give the same answers.
pub(crate) async fn check_answers(bench: &BenchSetup) -> anyhow::Result<()> {
    agreement::check(bench, bodies::checked(), agreement::interpretation).await
}

pub(crate) async fn run(bench: &BenchSetup) -> anyhow::Result<Vec<Row>> {
    check_answers(bench).await?;
    let mut names = vec![HEALTH.to_owned(), STATUS.to_owned()];
    names.extend(CELLS.map(bodies::aggregate));
    if bench.former.is_some() {
        return former::throughput(bench, &names).await;
    }
    let mut rows = Vec::new();
    for name in names {
        rows.extend(measure::compare(bench, bench.body(&name)?).await?);
    }
    rows.extend(measure::memory(bench, bench.body(STATUS)?).await?);
    Ok(rows)
}
