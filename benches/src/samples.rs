//! Medians and percentiles of repeated measurements.

/// The middle of the samples; of two middles their mean. `None` for no samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(*upper);
    }
    let lower = sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(*lower, *upper))
}

/// The smallest sample that at least `percent` percent of the samples do not exceed. `None` for no samples.
pub(crate) fn percentile(samples: &[f64], percent: u32) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * usize::try_from(percent).ok()?).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Median of one figure over repetitions. `None` for no repetitions.
pub(crate) fn median_of<T>(repetitions: &[T], figure: impl Fn(&T) -> f64) -> Option<f64> {
    median(&repetitions.iter().map(figure).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_takes_the_middle_of_unsorted_samples() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
    }

    #[test]
    fn percentile_takes_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&hundred, 100), Some(100.0));
        assert_eq!(percentile(&[3.0], 1), Some(3.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 50), Some(2.0), "half of three is more than one");
    }
}
