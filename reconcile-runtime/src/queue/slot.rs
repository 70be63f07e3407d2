//! What the queue knows of one key.
//!
//! A slot is small, since a million of them may stand in a queue: what most keys do not need is in a
//! [`Record`] behind one pointer, and records are reused.

use std::{any::Any, borrow::Cow, sync::Arc, time::Duration};

use reconcile_core::{Causes, ReconcileError, RunControl};

use crate::environment::Time;

use super::{
    Lane,
    after_run::{Delay, Park, Tally},
    ended::OutcomeKind,
    signal::{Signal, SignalKind},
};
use crate::change::Step;

/// Where a key is: the one enum of invariant 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing to do. Only kept while its minimum interval runs, on a timer that removes it.
    Idle,
    /// Due, in a lane.
    Ready,
    /// On a timer.
    Delayed(Delay),
    /// A worker has it.
    Running,
    /// A worker has it, and it was signalled since.
    RunningDirty,
    /// Not due, and without a timer.
    Parked(Park),
}

impl State {
    #[inline]
    pub(super) fn is_running(self) -> bool {
        matches!(self, State::Running | State::RunningDirty)
    }
}

/// A key in the queue.
#[derive(Debug)]
pub(super) struct Slot<K> {
    /// Shared with the worker that runs it, so that the key is never cloned or dropped under the lock.
    pub(super) key: Arc<K>,
    /// The key's hash, computed outside the lock.
    pub(super) hash: u32,
    pub(super) state: State,
    pub(super) lane: Lane,
    /// Whether it has been on a poll's timer, so that only its first poll is spread over the whole delay.
    pub(super) polled: bool,
    /// How its last run ended; none before the first.
    pub(super) last: Option<LastRun>,
    /// What most keys do not need.
    pub(super) record: Option<Box<Record>>,
}

/// How a run ended, compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) ended: Time,
    /// Saturating at 71 minutes, which is beyond every default.
    pub(super) took_micros: u32,
    pub(super) outcome: OutcomeKind,
}

impl LastRun {
    #[inline]
    pub(super) fn new(started: Time, ended: Time, outcome: OutcomeKind) -> Self {
        let micros = ended.as_nanos().saturating_sub(started.as_nanos()) / 1_000;
        let took_micros = u32::try_from(micros).unwrap_or(u32::MAX);
        LastRun { ended, took_micros, outcome }
    }

    pub(super) fn took(self) -> Duration {
        Duration::from_micros(self.took_micros.into())
    }
}

/// What a key needs while it is signalled, runs, fails or waits. Kept small, since after a first listing every
/// queued key has one; what only some of those need is behind further pointers.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Why it is due, or will run again.
    pub(super) causes: Causes,
    pub(super) tally: Tally,
    /// Whether the object is paused.
    pub(super) paused: bool,
    /// While it runs: the number of the run, and the handle that cancels it.
    pub(super) run: Option<(u64, RunControl)>,
    /// While it runs: what came meanwhile.
    pub(super) pending: Option<Box<Pending>>,
    aside: Option<Box<Aside>>,
}

/// What few keys need.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// What it waits for, if it is parked or rechecks.
    pub(super) reason: Option<Cow<'static, str>>,
    /// The error of its last run.
    pub(super) error: Option<ReconcileError>,
    /// What its last run left for the next one.
    pub(super) carry: Option<Box<dyn Any + Send + Sync>>,
    /// When its last run started, if there is a minimum interval.
    pub(super) last_start: Option<Time>,
    /// Who waits for it.
    pub(super) waiters: Vec<Waiter>,
}

impl Aside {
    #[inline]
    fn is_blank(&self) -> bool {
        self.reason.is_none()
            && self.error.is_none()
            && self.carry.is_none()
            && self.last_start.is_none()
            && self.waiters.is_empty()
    }
}

impl Record {
    pub(super) fn aside(&self) -> Option<&Aside> {
        self.aside.as_deref()
    }

    /// To be changed, if it is there.
    #[inline]
    pub(super) fn aside_mut(&mut self) -> Option<&mut Aside> {
        self.aside.as_deref_mut()
    }

    /// To be changed; made if it is not there.
    pub(super) fn make_aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    pub(super) fn error(&self) -> Option<&ReconcileError> {
        self.aside.as_ref()?.error.as_ref()
    }

    #[inline]
    pub(super) fn take_carry(&mut self) -> Option<Box<dyn Any + Send + Sync>> {
        self.aside.as_mut()?.carry.take()
    }

    #[inline]
    pub(super) fn take_waiters(&mut self) -> Vec<Waiter> {
        self.aside.as_mut().map_or_else(Vec::new, |aside| std::mem::take(&mut aside.waiters))
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_blank(&self) -> bool {
        self.causes.is_empty()
            && self.tally == Tally::default()
            && !self.paused
            && self.run.is_none()
            && self.aside.as_ref().is_none_or(|aside| aside.is_blank())
    }

    /// Makes a record new for another key, keeping its allocations. Field by field, since nearly all of them
    /// are as new already; whatever may hold user data was taken out by the caller.
    #[inline]
    pub(super) fn reset(&mut self) {
        if !self.causes.is_empty() {
            self.causes = Causes::default();
        }
        self.tally = Tally::default();
        self.paused = false;
        self.run = None;
        if let Some(pending) = &mut self.pending {
            pending.clear();
        }
        if let Some(aside) = &mut self.aside {
            aside.reason = None;
            aside.error = None;
            aside.carry = None;
            aside.last_start = None;
            aside.waiters.clear();
        }
    }
}

/// Who waits for a key, by a number that the driver gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) wants: Wants,
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// A run with at least this number that ends converged.
    Converged { run: u64 },
    /// The next run's end, whatever it is.
    Outcome,
}

/// How many changes are told apart while a key runs; beyond it, further ones count as foreign. A run rarely
/// writes more than this many objects whose events come back to its own key.
const TOLD_APART: usize = 32;

/// The signals that came while a key ran. They are judged when the run ends, because only then it is known
/// which of the changes the run wrote itself.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Changes that may turn out to be the run's own.
    pub(super) changes: Vec<(SignalKind, Step)>,
    pub(super) input: bool,
    pub(super) observed: bool,
    pub(super) resync: bool,
    pub(super) causes: Causes,
    /// The strongest lane of them.
    pub(super) lane: Option<Lane>,
}

impl Pending {
    pub(super) fn add(&mut self, signal: Signal) {
        self.lane = Some(self.lane.map_or(signal.lane, |lane| lane.min(signal.lane)));
        self.causes.add(signal.cause);
        match (signal.kind, signal.step) {
            (SignalKind::Deletion, _) => self.input = true,
            (SignalKind::Resync, _) => self.resync = true,
            (kind, Some(step)) if self.changes.len() < TOLD_APART => self.changes.push((kind, step)),
            (SignalKind::Input, _) => self.input = true,
            (SignalKind::Observed, _) => self.observed = true,
        }
    }

    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.input = false;
        self.observed = false;
        self.resync = false;
        if !self.causes.is_empty() {
            self.causes = Causes::default();
        }
        self.lane = None;
    }
}
