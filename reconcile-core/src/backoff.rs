//! How long a failing key waits before its next try. Pure: the random draw is an argument.

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
    base: Duration,
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
        // 2^doublings leaves u32 long before it could matter: the cap is reached, or the product saturates.
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.checked_mul(factor).unwrap_or(self.cap).min(self.cap)
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

/// `random / 2^64` of `whole`, with the largest draw giving all of it.
fn fraction(whole: Duration, random: u64) -> Duration {
    let nanos = whole.as_nanos();
    let part = (nanos >> 32) * u128::from(random >> 32)
        + (((nanos & u128::from(u32::MAX)) * u128::from(random >> 32)) >> 32);
    let rest = u128::from(random == u64::MAX);
    let part = if rest == 1 { nanos } else { part };
    Duration::new(
        u64::try_from(part / 1_000_000_000).unwrap_or(u64::MAX),
        u32::try_from(part % 1_000_000_000).unwrap_or(0),
    )
}
