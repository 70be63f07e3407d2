//! How long a failing key waits before its next try. Pure: the random draw is an argument.
//!
//! Promises: a delay is never zero, never above the cap, and never below half of its ceiling, at any count of
//! failures and for any draw; the ceilings rise with the count.
//!
//! Not here: the count of failures, the source of randomness, and the clock.

use std::time::Duration;

/// Exponential backoff with a cap and jitter.
///
/// The nth failure in a row waits a time drawn uniformly from `[d/2, d]`, where `d = min(cap, base · 2^(n-1))`.
/// It saturates at any count: never zero, never above the cap, monotone in its bounds. Half of the delay is
/// fixed so that a herd of keys spreads out without any one of them retrying at once ("equal jitter").
///
/// # Examples
///
/// ```
/// use reconcile_core::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
/// assert_eq!(backoff.ceiling(1), Duration::from_millis(100));
/// assert_eq!(backoff.ceiling(3), Duration::from_millis(400));
/// assert_eq!(backoff.ceiling(u32::MAX), Duration::from_secs(60));
/// // The draw is any 64 random bits: it picks a point of the upper half.
/// assert_eq!(backoff.delay(1, 0), Duration::from_millis(50));
/// assert_eq!(backoff.delay(1, u64::MAX), Duration::from_millis(100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// At least `MIN_BASE`.
    base: Duration,
    /// At least `base`.
    cap: Duration,
}

impl Backoff {
    /// The default first delay. Long enough that a failing key costs nothing to its neighbours, short enough
    /// that a person who watches sees the retry as immediate.
    pub const DEFAULT_BASE: Duration = Duration::from_millis(200);
    /// The default longest delay. Long enough for an outage of hours to be cheap, short enough that recovery
    /// is seen without a person's help.
    pub const DEFAULT_CAP: Duration = Duration::from_secs(300);
    /// The shortest base: a zero base would turn a failing key into a hot loop.
    pub const MIN_BASE: Duration = Duration::from_millis(1);

    /// A backoff from `base`, doubling up to `cap`.
    ///
    /// A base below [`MIN_BASE`](Self::MIN_BASE) is raised to it, and a cap below the base is raised to the base.
    pub fn new(base: Duration, cap: Duration) -> Self {
        let base = base.max(Self::MIN_BASE);
        Backoff { base, cap: cap.max(base) }
    }

    /// The first delay's upper bound.
    pub fn base(&self) -> Duration {
        self.base
    }

    /// The longest delay.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// The upper bound of the delay after `failures` failures in a row. Zero failures count as one.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        // From the base, the longest `Duration` is less than 94 doublings away (the base is at least a
        // millisecond), so the loop ends early or the cap is reached.
        let mut ceiling = self.base;
        for _ in 0..doublings {
            if ceiling >= self.cap {
                break;
            }
            ceiling = ceiling.saturating_mul(2);
        }
        ceiling.min(self.cap)
    }

    /// The delay after `failures` failures in a row; `random` is any 64 random bits.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let ceiling = self.ceiling(failures);
        let half = ceiling / 2;
        half + fraction(ceiling - half, random)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::new(Self::DEFAULT_BASE, Self::DEFAULT_CAP)
    }
}

/// `random / (2^64 - 1)` of `whole`, rounded down: nothing at zero, all of it at the largest draw.
fn fraction(whole: Duration, random: u64) -> Duration {
    // Seconds and nanoseconds apart: the nanoseconds of the longest `Duration` have 94 bits, and 64 more do
    // not fit. Each product here has at most 128, and the carried remainder less than 94.
    let (share, all) = (u128::from(random), u128::from(u64::MAX));
    let seconds = u128::from(whole.as_secs()) * share;
    let nanos = seconds % all * NANOS_PER_SEC + u128::from(whole.subsec_nanos()) * share;
    let whole_seconds = u64::try_from(seconds / all).unwrap_or(u64::MAX); // a share is at most the whole
    // Below two seconds, so the conversion does not clamp.
    let rest = Duration::from_nanos(u64::try_from(nanos / all).unwrap_or(u64::MAX));
    Duration::from_secs(whole_seconds).saturating_add(rest)
}

const NANOS_PER_SEC: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn durations() -> impl Strategy<Value = Duration> {
        let any = (any::<u64>(), 0u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n));
        let short = (0u64..1_000_000_000_000).prop_map(Duration::from_nanos);
        let edge = prop::sample::select(vec![
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_secs(u64::MAX),
            Duration::MAX,
        ]);
        prop_oneof![any, short, edge]
    }

    fn draws() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), Just(0), Just(1), Just(u64::MAX - 1), Just(u64::MAX)]
    }

    fn counts() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..70, any::<u32>(), Just(u32::MAX)]
    }

    #[test]
    fn b2_any_number_of_failures_waits_the_cap() {
        let backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1000));
        let mut last = Duration::ZERO;
        for failures in 0..=10_000 {
            let ceiling = backoff.ceiling(failures);
            assert!(last <= ceiling && ceiling >= Duration::from_millis(5), "{failures}");
            last = ceiling;
        }
        assert_eq!(last, backoff.cap());
        assert_eq!(backoff.delay(u32::MAX, 0), Duration::from_secs(500));
        assert_eq!(backoff.delay(u32::MAX, u64::MAX), Duration::from_secs(1000));
    }

    #[test]
    fn b2_the_ceiling_doubles_up_to_the_cap() {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let millis: Vec<u128> = (0..8).map(|failures| backoff.ceiling(failures).as_millis()).collect();
        assert_eq!(millis, [200, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn b2_the_longest_duration_is_a_cap_like_any_other() {
        let backoff = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(backoff.delay(1, u64::MAX), Duration::MAX);
        assert!(backoff.delay(u32::MAX, 0) >= Duration::MAX / 2);
        let backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert_eq!(backoff.ceiling(64), Duration::from_secs(1 << 63), "doubles past the range of a u32");
        assert_eq!(backoff.ceiling(65), Duration::MAX);
    }

    #[test]
    fn b2_a_base_of_zero_is_no_hot_loop() {
        let backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert_eq!((backoff.base(), backoff.cap()), (Backoff::MIN_BASE, Backoff::MIN_BASE));
        assert!(backoff.delay(0, 0) > Duration::ZERO);
        let backoff = Backoff::new(Duration::from_secs(9), Duration::from_secs(3));
        assert_eq!(backoff.cap(), Duration::from_secs(9), "a cap below the base is raised");
    }

    proptest! {
        #[test]
        fn b2_a_delay_is_in_the_upper_half_and_never_zero(
            base in durations(), cap in durations(), failures in counts(), random in draws()
        ) {
            let backoff = Backoff::new(base, cap);
            let (delay, ceiling) = (backoff.delay(failures, random), backoff.ceiling(failures));
            prop_assert!(delay <= ceiling && ceiling <= backoff.cap());
            prop_assert!(delay >= ceiling / 2 && !delay.is_zero());
            prop_assert_eq!(backoff.delay(failures, 0), ceiling / 2);
            prop_assert_eq!(backoff.delay(failures, u64::MAX), ceiling);
        }

        #[test]
        fn b2_ceilings_and_draws_are_monotone(
            base in durations(), cap in durations(), failures in counts(), one in draws(), two in draws()
        ) {
            let backoff = Backoff::new(base, cap);
            prop_assert!(backoff.ceiling(failures) <= backoff.ceiling(failures.saturating_add(1)));
            prop_assert!(backoff.delay(failures, one.min(two)) <= backoff.delay(failures, one.max(two)));
        }

        /// Against the definition in one division, where that fits into 128 bits.
        #[test]
        fn b2_the_fraction_is_exact(nanos in any::<u64>(), random in draws()) {
            let expected = u128::from(nanos) * u128::from(random) / u128::from(u64::MAX);
            prop_assert_eq!(fraction(Duration::from_nanos(nanos), random).as_nanos(), expected);
        }
    }
}
