//! A histogram of durations with buckets that double.

use std::time::Duration;

/// Buckets from one microsecond, doubling: the last one starts at about 76 hours.
const BUCKETS: usize = 40;

/// How long things took: counts in buckets that double from one microsecond.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::metrics::Histogram;
/// use std::time::Duration;
///
/// let mut histogram = Histogram::default();
/// for millis in [1, 2, 2, 900] {
///     histogram.observe(Duration::from_millis(millis));
/// }
/// assert_eq!(histogram.count(), 4);
/// assert_eq!(histogram.max(), Duration::from_millis(900));
/// // A quantile is the upper bound of its bucket: within a factor of two above the true value.
/// assert!(histogram.quantile(0.5) >= Duration::from_millis(2));
/// assert!(histogram.quantile(0.5) <= Duration::from_millis(4));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket `n` counts what took less than `2^n` microseconds and did not fit the bucket before.
    buckets: [u64; BUCKETS],
    sum: Duration,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [0; BUCKETS], sum: Duration::ZERO, max: Duration::ZERO }
    }
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn observe(&mut self, took: Duration) {
        let micros = took.as_secs().saturating_mul(1_000_000).saturating_add(took.subsec_micros().into());
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        if let Some(count) = self.buckets.get_mut(bucket.min(BUCKETS - 1)) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(took);
        self.max = self.max.max(took);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long they took in all.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The upper bound of the bucket in which this share of the observations ends, but at most the longest.
    /// Zero without observations. Shares outside `0.0..=1.0` are clamped to it.
    pub fn quantile(&self, share: f64) -> Duration {
        let count = self.count();
        let wanted = (share.clamp(0.0, 1.0) * count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (upper, in_bucket) in self.buckets() {
            seen += in_bucket;
            if seen >= wanted {
                return upper.min(self.max);
            }
        }
        self.max
    }

    /// The buckets: upper bound (exclusive) and count, smallest first.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(power, count)| (Duration::from_micros(1 << power), *count))
    }
}
