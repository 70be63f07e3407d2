//! What can be set about a queue.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use reconcile_core::Backoff;

/// What a signal does to a key that waits for its backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BackoffSignals {
    /// A new input runs the key at once and clears its failures, at most once per second while it fails; any
    /// other foreign change brings the retry forward to one second after the last run. Own writes and resync
    /// change nothing.
    #[default]
    OnChange,
    /// Every signal but a resync runs the key at once; a new input also clears its failures. After an error
    /// that says when to come back, only inputs count, as with `OnChange`.
    Always,
    /// No signal shortens the backoff.
    Never,
}

/// A limit on the retries of a whole controller: so many at once, then one per interval.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::RetryBudget;
/// use std::time::Duration;
///
/// // A burst of 100 retries, then ten per second.
/// let budget = RetryBudget::new(100, Duration::from_millis(100));
/// assert_eq!(budget.burst(), 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    burst: u32,
    interval: Duration,
}

impl RetryBudget {
    /// `burst` retries at once, then one per `interval`. A burst of zero counts as one.
    pub fn new(burst: u32, interval: Duration) -> Self {
        RetryBudget { burst: burst.max(1), interval }
    }

    /// How many at once.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// One more per this long.
    pub fn interval(&self) -> Duration {
        self.interval
    }
}

/// Settings of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueConfig {
    /// The controller's name.
    pub(crate) name: Arc<str>,
    pub(crate) backoff: Backoff,
    pub(crate) during_backoff: BackoffSignals,
    /// The shortest time between two starts of one key.
    pub(crate) min_interval: Duration,
    pub(crate) retry_budget: Option<RetryBudget>,
    /// Over which last part of its delay a poll is spread: one tenth is 10; none turns spreading off.
    pub(crate) requeue_spread: Option<NonZeroU32>,
    /// How many idle turns in a row before a key is slowed down.
    pub(crate) spin_limit: u32,
}

impl QueueConfig {
    /// Polls are spread over the last tenth of their delay: wide enough that ten thousand keys do not poll in
    /// one second, narrow enough that a poll is not noticeably early.
    pub(crate) const DEFAULT_SPREAD: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
    /// Sixteen turns at once are what an honest multi-step run needs; beyond that, something spins.
    pub(crate) const DEFAULT_SPIN_LIMIT: u32 = 16;

    pub(crate) fn new(name: impl Into<Arc<str>>) -> Self {
        QueueConfig {
            name: name.into(),
            backoff: Backoff::default(),
            during_backoff: BackoffSignals::default(),
            min_interval: Duration::ZERO,
            retry_budget: None,
            requeue_spread: Some(Self::DEFAULT_SPREAD),
            spin_limit: Self::DEFAULT_SPIN_LIMIT,
        }
    }
}
