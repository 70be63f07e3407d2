//! What happens to a key after a run: the outcome table, as one pure function.
//!
//! Promise: the same run, signals, settings and random bits give the same answer; nothing else is looked at.
//!
//! Not here: carrying it out; that is the [`machine`](super::machine)'s.

use std::time::Duration;

use reconcile_core::Retry;

use crate::environment::Time;

use super::{BackoffSignals, QueueConfig, budget::Budget, ended::Ended};

/// Between two runs that new inputs cause while a key fails, and between a failed run and a retry that a
/// foreign change brings forward. One second is short for a person who watches, and bounds what a noisy
/// neighbour can do to a failing key.
pub(crate) const RETRY_ON_CHANGE: Duration = Duration::from_secs(1);

/// The longest pause of a key that spins.
pub(crate) const SPIN_PAUSE: Duration = Duration::from_secs(1);

/// The first retry after a conflict comes within this time: long enough that two writers do not meet again,
/// short enough to be "at once".
pub(crate) const CONFLICT_JITTER: Duration = Duration::from_millis(10);

/// Why a key is on a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// The last run asked to look again.
    Poll,
    /// The last run named an instant.
    Deadline,
    /// The last run waits for something, and looks again anyway.
    Recheck,
    /// The last run failed.
    Backoff,
    /// The last run failed, and the other side said when to come back.
    RetryAfter,
    /// Somebody else was quicker.
    Conflict,
    /// Failed for good, but something else changed meanwhile.
    Permanent,
    /// It runs again and again without effect.
    Spin,
    /// It is signalled, but ran less than the minimum interval ago.
    Interval,
}

/// Why a key is parked, without a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Park {
    /// It waits for something that the last run named.
    Waiting,
    /// The last run failed for good.
    Permanent,
    /// It, or its controller, is paused.
    Paused,
}

/// The signals that came while a key ran, judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// A new input that the run did not write itself, or the deletion of the primary.
    pub(crate) input: bool,
    /// Another change that the run did not write itself.
    pub(crate) observed: bool,
    /// A resync.
    pub(crate) resync: bool,
    /// A change that the run wrote itself.
    pub(crate) own: bool,
    /// All of `own` were status writes.
    pub(crate) own_status_only: bool,
}

impl Arrived {
    fn any(self) -> bool {
        self.input || self.observed || self.resync || self.own
    }

    fn foreign(self) -> bool {
        self.input || self.observed
    }

    /// The next run would be caused by nothing but the key's own status writes.
    fn only_own_status(self) -> bool {
        self.own && self.own_status_only && !self.foreign() && !self.resync
    }
}

/// What is counted about a key from run to run. All zero for a healthy key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Conflicts in a row.
    pub(crate) conflicts: u32,
    /// Requests for another run at once, in a row, without an effective write.
    pub(crate) idle_turns: u32,
    /// Runs in a row whose only cause was the key's own status write.
    pub(crate) own_rounds: u32,
    /// While the key fails: before this, no further input runs it at once.
    pub(crate) next_input: Time,
}

/// Where a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Idle,
    Ready,
    Delayed(Delay, Time),
    Parked(Park),
}

/// What [`after_run`] looks at, besides the run itself.
pub(crate) struct Circumstances<'a> {
    pub(crate) config: &'a QueueConfig,
    pub(crate) now: Time,
    /// 64 random bits.
    pub(crate) random: u64,
    /// Whether the key's next poll is the first one since the queue started, and comes soon enough after the
    /// start that all keys would poll together.
    pub(crate) first_poll_after_start: Option<Time>,
}

/// Where the key goes, and what is counted about it from now on.
pub(crate) fn after_run(
    ended: &Ended,
    effective: bool,
    arrived: Arrived,
    mut tally: Tally,
    budget: &mut Option<Budget>,
    on: &Circumstances<'_>,
) -> (Next, Tally) {
    let limit = on.config.spin_limit;
    tally.own_rounds = if arrived.only_own_status() { tally.own_rounds.saturating_add(1) } else { 0 };
    let again_at_once = matches!(ended, Ended::RequeueNow)
        || matches!(ended, Ended::RequeueAt(at) if *at <= on.now)
        || matches!(ended, Ended::RequeueAfter(delay) if delay.is_zero());
    tally.idle_turns = if again_at_once && !effective { tally.idle_turns.saturating_add(1) } else { 0 };
    if let Some(error) = ended.error() {
        let (next, tally) = match ended {
            Ended::Failed(_) => after_error(error.retry(), arrived, tally, budget, on),
            _ => after_failure(arrived, tally, budget, on),
        };
        return (next, tally);
    }
    // Every outcome but an error resets what failing counted.
    tally = Tally { failures: 0, conflicts: 0, next_input: Time::ZERO, ..tally };
    let spinning = tally.idle_turns.max(tally.own_rounds);
    if spinning > limit && !arrived.foreign() && (again_at_once || arrived.only_own_status()) {
        let pause = on.config.backoff.delay(spinning - limit, on.random).min(SPIN_PAUSE);
        return (Next::Delayed(Delay::Spin, on.now.saturating_add(pause)), tally);
    }
    if again_at_once || arrived.any() {
        return (Next::Ready, tally);
    }
    let next = match ended {
        Ended::RequeueAfter(delay) => Next::Delayed(Delay::Poll, on.now.saturating_add(spread(*delay, on))),
        Ended::RequeueAt(at) => Next::Delayed(Delay::Deadline, *at),
        Ended::WaitFor { recheck: Some(delay), .. } => {
            Next::Delayed(Delay::Recheck, on.now.saturating_add(*delay))
        }
        Ended::WaitFor { recheck: None, .. } => Next::Parked(Park::Waiting),
        _ => Next::Idle,
    };
    (next, tally)
}

/// After an error that carries a class.
fn after_error(
    class: Retry,
    arrived: Arrived,
    mut tally: Tally,
    budget: &mut Option<Budget>,
    on: &Circumstances<'_>,
) -> (Next, Tally) {
    match class {
        Retry::After(delay) => {
            tally.failures = tally.failures.saturating_add(1);
            let due = on.now.saturating_add(delay.max(on.config.backoff.base()));
            let due = reserve(budget, on.now, due);
            on_input(Delay::RetryAfter, due, arrived.input, tally, on)
        }
        Retry::Never => {
            tally = Tally { failures: 0, conflicts: 0, next_input: Time::ZERO, ..tally };
            let next = if arrived.input || arrived.resync {
                Next::Ready
            } else if arrived.observed {
                Next::Delayed(Delay::Permanent, on.now.saturating_add(RETRY_ON_CHANGE))
            } else {
                Next::Parked(Park::Permanent)
            };
            (next, tally)
        }
        Retry::Conflict => {
            tally.conflicts = tally.conflicts.saturating_add(1);
            let delay = match tally.conflicts {
                1 => part_of(CONFLICT_JITTER, on.random),
                repeated => on.config.backoff.delay(repeated - 1, on.random),
            };
            shortened(Delay::Conflict, on.now.saturating_add(delay), arrived, tally, on)
        }
        // The signal that cancelled it runs it again; its failures stay as they were.
        Retry::Cancelled if arrived.input => (Next::Ready, tally),
        Retry::NextTerm => (Next::Parked(Park::Waiting), tally),
        // `Cancelled` without a cause is an error like any other, or it would be a hot loop.
        _ => after_failure(arrived, tally, budget, on),
    }
}

/// After an error without a class, a panic, or a run over the limit.
fn after_failure(
    arrived: Arrived,
    mut tally: Tally,
    budget: &mut Option<Budget>,
    on: &Circumstances<'_>,
) -> (Next, Tally) {
    tally.failures = tally.failures.saturating_add(1);
    let due = on.now.saturating_add(on.config.backoff.delay(tally.failures, on.random));
    let due = reserve(budget, on.now, due);
    shortened(Delay::Backoff, due, arrived, tally, on)
}

/// What the signals that came during the run do to the wait after it.
fn shortened(
    delay: Delay,
    due: Time,
    arrived: Arrived,
    mut tally: Tally,
    on: &Circumstances<'_>,
) -> (Next, Tally) {
    match on.config.during_backoff {
        BackoffSignals::Never => (Next::Delayed(delay, due), tally),
        BackoffSignals::Always if arrived.foreign() => {
            if arrived.input {
                tally.input(on.now, Time::MAX); // a new input did not fail yet
            }
            (Next::Ready, tally)
        }
        BackoffSignals::Always => (Next::Delayed(delay, due), tally),
        BackoffSignals::OnChange => {
            let due = if arrived.observed { due.min(on.now.saturating_add(RETRY_ON_CHANGE)) } else { due };
            on_input(delay, due, arrived.input, tally, on)
        }
    }
}

/// What a new input does to a failing key: the first runs it at once, further ones once per second; both
/// clear the failures, since the new input did not fail yet.
fn on_input(delay: Delay, due: Time, input: bool, mut tally: Tally, on: &Circumstances<'_>) -> (Next, Tally) {
    if !input || on.config.during_backoff == BackoffSignals::Never {
        return (Next::Delayed(delay, due), tally);
    }
    let at = tally.input(on.now, due);
    (if at <= on.now { Next::Ready } else { Next::Delayed(delay, at) }, tally)
}

impl Tally {
    /// A new input came at `now` to a failing key that is due at `due`: when it runs instead.
    pub(crate) fn input(&mut self, now: Time, due: Time) -> Time {
        self.failures = 0;
        self.conflicts = 0;
        let at = self.next_input.max(now);
        if due <= at {
            return due; // it runs soon enough anyway
        }
        self.next_input = at.saturating_add(RETRY_ON_CHANGE);
        at
    }
}

/// A failing run that is put on a timer spends one retry of the budget; limits combine with the later one.
fn reserve(budget: &mut Option<Budget>, now: Time, due: Time) -> Time {
    match budget {
        Some(budget) => due.max(budget.reserve(now)),
        None => due,
    }
}

/// Spreads polls: over the last tenth of the delay, or over all of it for the first one after a start.
fn spread(delay: Duration, on: &Circumstances<'_>) -> Duration {
    let Some(parts) = on.config.requeue_spread else { return delay };
    let synchronised = on.first_poll_after_start.is_some_and(|start| on.now.since(start) <= delay);
    let early = if synchronised { delay } else { delay / parts.get() };
    delay.saturating_sub(part_of(early, on.random)).max(Duration::from_nanos(1))
}

/// A random part of a duration.
fn part_of(whole: Duration, random: u64) -> Duration {
    whole.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
}
