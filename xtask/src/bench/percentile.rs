//! Percentiles of measured times. The programs of `benches` have the same function; xtask does not depend on them, so that
//! it builds without the crates under test.

/// Returns the nearest-rank percentile of sorted values: the smallest value that at least `percent` % of the values do
/// not exceed. Returns `None` if there are no values.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}
