//! Why a key is running, waiting or not running: as data, and in one sentence.

use std::{borrow::Cow, fmt, time::Duration};

use reconcile_core::{Causes, Key, ReconcileError};

use super::{
    Lane,
    after_run::{Delay, Park},
    ended::OutcomeKind,
    machine::Machine,
    slot::{LastRun, State},
};
use crate::environment::Time;

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyState {
    /// Nothing to do.
    Idle,
    /// Due: it runs as soon as a worker is free.
    Ready,
    /// It looks again later, at a time that its last run named.
    Scheduled,
    /// Its last run failed, and it waits for the retry.
    BackingOff,
    /// It ran again and again without effect, and is slowed down.
    Spinning,
    /// It is signalled, but held by its minimum interval.
    HeldBack,
    /// A worker has it.
    Running,
    /// A worker has it, and it will run once more since it was signalled meanwhile.
    RunningDirty,
    /// It waits for something that its last run named.
    Waiting,
    /// It failed for good.
    Permanent,
    /// It, or its controller, is paused.
    Paused,
}

/// How the last run of a key ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LastOutcome {
    /// In one word.
    pub kind: OutcomeKind,
    /// The error, if it failed and the key is not idle since.
    pub error: Option<ReconcileError>,
    /// How long it took.
    pub took: Duration,
    /// How long ago it ended.
    pub ago: Duration,
}

/// Why a key is running, waiting or not running. `Display` says it in one sentence.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation<K> {
    /// The key.
    pub key: K,
    /// Where it is.
    pub state: KeyState,
    /// How urgent it is.
    pub lane: Lane,
    /// For how long it has been due, or running; zero otherwise.
    pub since: Duration,
    /// Why it is due, or runs once more.
    pub causes: Causes,
    /// Failures in a row, without the current run.
    pub failures: u32,
    /// Which attempt its current run is, or its next one will be.
    pub attempt: u32,
    /// How its last run ended; none if it never ran, or too long ago to be remembered.
    pub last: Option<LastOutcome>,
    /// In how long it runs again without a signal, if it does.
    pub next_run: Option<Duration>,
    /// What it waits for.
    pub waits_for: Option<Cow<'static, str>>,
}

impl<K: Key> Machine<K> {
    /// Explains a key. The key of the answer is filled in by the caller, who may clone it.
    pub(crate) fn explain(&self, hash: u32, key: &K, now: Time) -> Explanation<()> {
        let now = self.now.max(now);
        let mut told = Explanation {
            key: (),
            state: KeyState::Idle,
            lane: Lane::Normal,
            since: Duration::ZERO,
            causes: Causes::default(),
            failures: 0,
            attempt: 1,
            last: self.history.find(hash, key).map(|last| outcome(last, None, now)),
            next_run: None,
            waits_for: None,
        };
        let Some(id) = self.find(hash, key) else { return told };
        let slot = self.slot(id);
        told.lane = slot.lane;
        told.state = match slot.state {
            State::Ready if self.paused => KeyState::Paused,
            state => public_state(state),
        };
        let due = self.places.due(id);
        match slot.state {
            State::Ready | State::Running | State::RunningDirty => told.since = now.since(due),
            State::Delayed(_) => told.next_run = Some(due.since(now)),
            State::Idle | State::Parked(_) => {}
        }
        let record = slot.record.as_deref();
        if let Some(last) = slot.last {
            told.last = Some(outcome(last, record.and_then(|record| record.error().cloned()), now));
        }
        if let Some(record) = record {
            told.causes = if slot.state == State::RunningDirty {
                record.pending.as_ref().map_or_else(Causes::default, |pending| pending.causes.clone())
            } else {
                record.causes.clone()
            };
            if let (true, Some((_, control))) = (slot.state == State::Running, &record.run) {
                told.causes = control.run().causes().clone();
            }
            told.failures = record.tally.failures;
            told.attempt = record.tally.failures.saturating_add(1);
            told.waits_for = record.aside().and_then(|aside| aside.reason.clone());
        }
        told
    }
}

fn outcome(last: LastRun, error: Option<ReconcileError>, now: Time) -> LastOutcome {
    LastOutcome { kind: last.outcome, error, took: last.took(), ago: now.since(last.ended) }
}

fn public_state(state: State) -> KeyState {
    match state {
        State::Idle => KeyState::Idle,
        State::Ready => KeyState::Ready,
        State::Delayed(Delay::Poll | Delay::Deadline | Delay::Recheck) => KeyState::Scheduled,
        State::Delayed(Delay::Spin) => KeyState::Spinning,
        State::Delayed(Delay::Interval) => KeyState::HeldBack,
        State::Delayed(_) => KeyState::BackingOff,
        State::Running => KeyState::Running,
        State::RunningDirty => KeyState::RunningDirty,
        State::Parked(Park::Waiting) => KeyState::Waiting,
        State::Parked(Park::Permanent) => KeyState::Permanent,
        State::Parked(Park::Paused) => KeyState::Paused,
    }
}

impl<K> Explanation<K> {
    /// The same, about a key.
    pub(crate) fn about<L>(self, key: L) -> Explanation<L> {
        Explanation {
            key,
            state: self.state,
            lane: self.lane,
            since: self.since,
            causes: self.causes,
            failures: self.failures,
            attempt: self.attempt,
            last: self.last,
            next_run: self.next_run,
            waits_for: self.waits_for,
        }
    }
}

impl<K: fmt::Debug> fmt::Display for Explanation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.key)?;
        let causes = Because(&self.causes);
        match self.state {
            KeyState::Idle if self.last.is_none() => f.write_str("has nothing to do, no record of a run")?,
            KeyState::Idle => f.write_str("has nothing to do")?,
            KeyState::Ready => write!(f, "is due since {}{causes}", Short(self.since))?,
            KeyState::Running => {
                write!(f, "runs since {}, attempt {}{causes}", Short(self.since), self.attempt)?;
            }
            KeyState::RunningDirty => {
                write!(f, "runs since {}, and will run once more{causes}", Short(self.since))?;
            }
            KeyState::Scheduled if self.waits_for.is_some() => f.write_str("waits")?,
            KeyState::Scheduled => f.write_str("is as wanted and looks again")?,
            KeyState::BackingOff if self.failures > 0 => {
                write!(f, "backs off after {} failed run{}", self.failures, plural(self.failures))?;
            }
            KeyState::BackingOff => f.write_str("retries")?,
            KeyState::Spinning => f.write_str("is spinning (it runs again and again without effect)")?,
            KeyState::HeldBack => write!(f, "is held back by its minimum interval{causes}")?,
            KeyState::Waiting => f.write_str("waits")?,
            KeyState::Permanent => f.write_str("failed for good and waits for a new input")?,
            KeyState::Paused => write!(f, "is paused{causes}")?,
        }
        if let Some(reason) = &self.waits_for {
            write!(f, " for {reason}")?;
        }
        if let Some(next) = self.next_run {
            let which = if self.failures > 0 { format!(", attempt {}", self.attempt) } else { String::new() };
            write!(f, ", next run in {}{which}", Short(next))?;
        }
        if let Some(last) = &self.last {
            write!(f, "; last run: {}, {} ago, took {}", last.kind, Short(last.ago), Short(last.took))?;
            if let Some(error) = &last.error {
                write!(f, ": {error:#}")?;
            }
        }
        Ok(())
    }
}

struct Because<'a>(&'a Causes);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " because of {}", self.0) }
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A duration for people: three digits are enough.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Short(time) = *self;
        let precision = if time < Duration::from_secs(1) { 0 } else { 1 };
        write!(f, "{time:.precision$?}")
    }
}
