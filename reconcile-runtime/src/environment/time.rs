//! Monotonic time as a number: pure machines take it as an argument.

use std::{fmt, time::Duration};

/// An instant of an environment's monotonic clock: nanoseconds since some start. Saturating everywhere.
///
/// The range is about 584 years; what would lie beyond is clamped to [`Time::MAX`], which never comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(0);
    /// The end of the range.
    pub const MAX: Time = Time(u64::MAX);

    /// So many nanoseconds after the start.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the start.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// So long after the start.
    #[inline]
    pub fn after_start(delay: Duration) -> Self {
        Time::ZERO.saturating_add(delay)
    }

    /// Later by `delay`.
    #[must_use]
    #[inline]
    pub fn saturating_add(self, delay: Duration) -> Self {
        let nanos = delay.as_secs().saturating_mul(1_000_000_000).saturating_add(delay.subsec_nanos().into());
        Time(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
