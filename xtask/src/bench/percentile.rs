//! Percentiles of measured times. The crate `benches` has the same function. xtask does not depend on `benches`, so
//! that xtask builds without the crates under test.

/// Returns the nearest-rank percentile of sorted values: the smallest value `v` for which at least `percent` % of the
/// values are less than or equal to `v`. Returns `None` if there are no values.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the median: NaN if there are no values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, 50).unwrap_or(f64::NAN)
}
