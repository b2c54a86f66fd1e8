//! Percentiles of measured times.

/// Returns the nearest-rank percentile of sorted values: the smallest value `v` for which at least `percent` % of the
/// values are less than or equal to `v`. Returns `None` if there are no values.
pub fn percentile<T>(sorted: &[T], percent: usize) -> Option<&T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn the_nearest_rank_is_taken() {
        let values: Vec<_> = (1..=200).collect();
        assert_eq!(percentile(&values, 50), Some(&100));
        assert_eq!(percentile(&values, 99), Some(&198));
        assert_eq!(percentile(&[7], 99), Some(&7));
        assert_eq!(percentile::<u64>(&[], 50), None);
    }
}
