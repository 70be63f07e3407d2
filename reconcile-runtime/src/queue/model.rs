//! The machine against a naive model, written from the text of the design: sorted maps, walks over all keys,
//! and no list, wheel, table or counter of its own.
//!
//! Random signals, runs, outcomes, pauses and steps of time go to both. After every step both must agree on
//! where each key is, why, in which lane, how often it failed and when it is due; every run must be of the key
//! that the model names; and the machine must keep its own invariants ([`Machine::check`]).
//!
//! Where the outcome table leaves a choice to jitter, the model knows the bounds and takes over the draw.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use proptest::prelude::*;
use reconcile_core::{Backoff, Cause, CauseKind, Causes, ReconcileError, Retry, Revision, Run, RunControl};

use super::{
    BackoffSignals, Depth, Ended, Explanation, Finished, KeyState, Lane, QueueConfig, RetryBudget, Signal,
    SignalKind,
    effects::Effects,
    machine::{Machine, Taken},
};
use crate::{api::scope::OwnWrite, change::Step as Change, environment::Time};

type K = u8;
/// Small, so that keys meet; and more than the lanes.
const KEYS: K = 7;
const LANES: [Lane; 3] = [Lane::High, Lane::Normal, Lane::Low];
/// Design, section 6: a lower lane goes first only when it has been passed over W times in a row.
const W: u32 = 16;
const SECOND: Duration = Duration::from_secs(1);

/// Why a key is on a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    Failed,
    ToldWhen,
    LostARace,
    Permanent,
    Spins,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing to do; kept while its minimum interval runs.
    Idle,
    Ready,
    /// In between these two instants.
    Delayed(Why, Time, Time),
    Running,
    Waiting,
    Permanent,
    Paused,
}

#[derive(Debug, Clone)]
struct Known {
    at: At,
    lane: Lane,
    /// Since when it is due.
    due: Time,
    arrival: u64,
    failures: u32,
    conflicts: u32,
    idle_turns: u32,
    own_rounds: u32,
    /// No input before this runs it at once, while it fails.
    next_input: Time,
    last_start: Option<Time>,
    last_end: Time,
    polled: bool,
    to_be_paused: bool,
    /// What came while it ran.
    came: Vec<Came>,
}

#[derive(Debug, Clone, Copy)]
struct Came {
    kind: SignalKind,
    lane: Lane,
    change: Option<Change>,
}

/// What a finished run says of itself, beside how it ended.
#[derive(Debug, Clone, Copy)]
struct Wrote {
    effective: bool,
    /// Which of the changes that came were its own, as bits.
    own: u32,
    status_only: bool,
}

struct Model {
    config: QueueConfig,
    now: Time,
    start: Time,
    keys: BTreeMap<K, Known>,
    arrivals: u64,
    passed_over: BTreeMap<Lane, u32>,
    /// Retries left, in nanoseconds of their interval; below zero they are owed.
    tokens: i128,
    tokens_at: Time,
    paused: bool,
    closed: bool,
}

impl Model {
    fn new(config: QueueConfig, start: Time) -> Self {
        let tokens = config.retry_budget.map_or(0, full);
        Model {
            config,
            now: start,
            start,
            keys: BTreeMap::new(),
            arrivals: 0,
            passed_over: BTreeMap::new(),
            tokens,
            tokens_at: start,
            paused: false,
            closed: false,
        }
    }

    fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Time passes: what is due becomes ready, and what is idle long enough is forgotten.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        let now = self.now;
        let interval = self.config.min_interval;
        self.keys.retain(|_, known| {
            known.at != At::Idle || known.last_start.is_some_and(|start| start.saturating_add(interval) > now)
        });
        for known in self.keys.values_mut() {
            // Of a draw that was not taken over yet, only the machine knows.
            if let At::Delayed(_, due, high) = known.at
                && due == high
                && due <= now
            {
                known.at = At::Ready;
                known.due = due;
            }
        }
        self.forget_patience();
    }

    /// Nothing waits in an empty lane.
    fn forget_patience(&mut self) {
        for lane in LANES {
            if !self.keys.values().any(|known| known.at == At::Ready && known.lane == lane) {
                self.passed_over.remove(&lane);
            }
        }
    }

    /// Due now, or when its minimum interval allows.
    fn make_ready(&mut self, key: K) {
        self.delay(key, Why::Interval, Time::ZERO, Time::ZERO);
    }

    fn delay(&mut self, key: K, why: Why, low: Time, high: Time) {
        let arrival = self.arrival();
        let (now, interval) = (self.now, self.config.min_interval);
        let known = self.keys.get_mut(&key).unwrap();
        let earliest = known.last_start.map_or(Time::ZERO, |start| start.saturating_add(interval));
        let (low, high) = (low.max(earliest), high.max(earliest));
        known.arrival = arrival;
        if high <= now {
            (known.at, known.due) = (At::Ready, now);
        } else {
            // A draw below now is due now; the machine tells which it was.
            known.at = At::Delayed(why, low, high);
        }
    }

    fn signal(&mut self, key: K, kind: SignalKind, lane: Lane, change: Option<Change>) {
        if self.closed {
            return;
        }
        let input = matches!(kind, SignalKind::Input | SignalKind::Deletion);
        let Some(known) = self.keys.get_mut(&key) else {
            self.keys.insert(
                key,
                Known {
                    at: At::Idle,
                    lane,
                    due: Time::ZERO,
                    arrival: 0,
                    failures: 0,
                    conflicts: 0,
                    idle_turns: 0,
                    own_rounds: 0,
                    next_input: Time::ZERO,
                    last_start: None,
                    last_end: Time::ZERO,
                    polled: false,
                    to_be_paused: false,
                    came: Vec::new(),
                },
            );
            return self.make_ready(key);
        };
        let at = known.at;
        if !matches!(at, At::Running | At::Ready | At::Idle) {
            known.lane = known.lane.min(lane); // a stronger signal lifts a queued key
        }
        match at {
            At::Running => {
                known.came.push(Came { kind, lane, change });
                if kind == SignalKind::Deletion {
                    known.to_be_paused = false;
                }
            }
            At::Idle => {
                known.lane = lane;
                self.make_ready(key);
            }
            At::Ready => {
                if lane < known.lane {
                    known.lane = lane;
                    (known.due, known.arrival) = (self.now, self.arrivals + 1);
                    self.arrivals += 1;
                }
                if input {
                    self.clear(key);
                }
            }
            At::Waiting => self.make_ready(key),
            At::Paused => {
                if kind == SignalKind::Deletion {
                    known.to_be_paused = false;
                    self.make_ready(key);
                }
            }
            At::Permanent => match kind {
                SignalKind::Observed => {
                    let due = known.last_end.saturating_add(SECOND);
                    self.delay(key, Why::Permanent, due, due);
                }
                _ => self.make_ready(key),
            },
            At::Delayed(why, due, _) => self.signal_delayed(key, kind, why, due),
        }
    }

    fn signal_delayed(&mut self, key: K, kind: SignalKind, why: Why, due: Time) {
        let input = matches!(kind, SignalKind::Input | SignalKind::Deletion);
        let observed = kind == SignalKind::Observed;
        match (why, self.config.during_backoff) {
            (Why::Asked | Why::Spins, _) => self.make_ready(key), // a signal comes first
            (Why::Interval, _) if input => self.clear(key),
            (Why::Interval, _) => {}
            (Why::Permanent, _) if input => self.make_ready(key),
            (Why::Permanent, _) => {}
            (_, BackoffSignals::Never) => {}
            (Why::Failed | Why::LostARace, BackoffSignals::Always) => {
                if input {
                    self.clear(key);
                }
                if input || observed {
                    self.make_ready(key);
                }
            }
            // The first input runs at once and clears failures, further ones at most one per second.
            (..) if input => {
                let at = self.input(key, due);
                if at <= self.now {
                    self.make_ready(key);
                } else if at < due {
                    self.delay(key, why, at, at);
                }
            }
            // A foreign change retries no later than a second after the last run's end.
            (Why::Failed | Why::LostARace, BackoffSignals::OnChange) if observed => {
                let sooner = self.keys[&key].last_end.saturating_add(SECOND);
                if sooner < due {
                    self.delay(key, why, sooner, sooner);
                }
            }
            (..) => {}
        }
    }

    /// A new input for a key that is due as soon as it may: its failures are cleared.
    fn clear(&mut self, key: K) {
        if self.config.during_backoff != BackoffSignals::Never && self.keys[&key].failures > 0 {
            self.input(key, Time::MAX);
        }
    }

    /// A new input for a failing key: when it runs instead of at `due`.
    fn input(&mut self, key: K, due: Time) -> Time {
        let now = self.now;
        let known = self.keys.get_mut(&key).unwrap();
        (known.failures, known.conflicts) = (0, 0);
        let at = known.next_input.max(now);
        if due <= at {
            return due;
        }
        known.next_input = at.saturating_add(SECOND);
        at
    }

    /// The key that is to run next.
    fn take(&mut self) -> Option<K> {
        if self.paused || self.closed {
            return None;
        }
        let waiting: BTreeSet<Lane> =
            self.keys.values().filter(|known| known.at == At::Ready).map(|known| known.lane).collect();
        let strongest = *waiting.first()?;
        let owed = waiting.iter().filter(|lane| **lane != strongest && self.patience(**lane) >= W);
        // Of two that are owed their turn, the one passed over more often; the stronger one if they are equal.
        let owed = owed.max_by_key(|lane| (self.patience(**lane), std::cmp::Reverse(**lane)));
        let lane = owed.copied().unwrap_or(strongest);
        for other in &waiting {
            if *other == lane {
                self.passed_over.remove(other);
            } else if *other != strongest {
                *self.passed_over.entry(*other).or_default() += 1;
            }
        }
        let ready = self.keys.iter().filter(|(_, known)| known.at == At::Ready && known.lane == lane);
        let key = ready.min_by_key(|(_, known)| (known.due, known.arrival)).map(|(key, _)| *key)?;
        let (now, remembers) = (self.now, !self.config.min_interval.is_zero());
        let known = self.keys.get_mut(&key)?;
        known.at = At::Running;
        known.due = now;
        known.last_start = remembers.then_some(now);
        self.forget_patience();
        Some(key)
    }

    fn patience(&self, lane: Lane) -> u32 {
        self.passed_over.get(&lane).copied().unwrap_or_default()
    }

    /// The outcome table.
    fn finish(&mut self, key: K, ended: &Ended, wrote: Wrote) {
        let now = self.now;
        let (mut input, mut observed, mut resync, mut own) = (false, false, false, false);
        let known = self.keys.get_mut(&key).unwrap();
        let came = std::mem::take(&mut known.came);
        for (index, came) in came.iter().enumerate() {
            let wrote_it = came.change.is_some() && wrote.own >> (index % 32) & 1 == 1;
            match came.kind {
                SignalKind::Deletion => input = true,
                SignalKind::Resync => resync = true,
                _ if wrote_it => own = true, // own beats Input
                SignalKind::Input => input = true,
                SignalKind::Observed => observed = true,
            }
        }
        let foreign = input || observed;
        let only_own_status = own && wrote.status_only && !foreign && !resync;
        let pending_lane = came.iter().map(|came| came.lane).min();
        let to_be_paused = known.to_be_paused;
        known.last_end = now;

        known.own_rounds = if only_own_status { known.own_rounds + 1 } else { 0 };
        let again = match ended {
            Ended::RequeueNow => true,
            Ended::RequeueAt(at) => *at <= now,
            Ended::RequeueAfter(delay) => delay.is_zero(),
            _ => false,
        };
        known.idle_turns = if again && !wrote.effective { known.idle_turns + 1 } else { 0 };
        let succeeded = ended.error().is_none();
        known.lane = match (succeeded, pending_lane) {
            (true, pending) if matches!(ended, Ended::RequeueNow) => {
                pending.map_or(known.lane, |lane| lane.min(known.lane))
            }
            (true, pending) => pending.unwrap_or(Lane::Normal),
            (false, pending) => pending.map_or(known.lane, |lane| lane.min(known.lane)),
        };
        if succeeded {
            (known.failures, known.conflicts, known.next_input) = (0, 0, Time::ZERO);
        }
        if self.closed {
            self.keys.remove(&key);
            return;
        }
        match ended {
            Ended::Failed(error) => self.after_error(key, error.retry(), (input, observed, resync)),
            Ended::Panicked(_) | Ended::TimedOut(_) => self.after_failure(key, input, observed),
            _ => self.after_success(key, ended, again, (foreign, resync, own), only_own_status),
        }
        let known = self.keys.get_mut(&key).unwrap();
        if to_be_paused {
            known.at = At::Paused;
        } else if known.at == At::Idle && known.last_start.is_none() {
            self.keys.remove(&key);
        } else if known.at == At::Idle {
            let interval = self.config.min_interval;
            if known.last_start.is_none_or(|start| start.saturating_add(interval) <= now) {
                self.keys.remove(&key);
            }
        }
    }

    fn after_success(
        &mut self,
        key: K,
        ended: &Ended,
        again: bool,
        (foreign, resync, own): (bool, bool, bool),
        only_own_status: bool,
    ) {
        let (now, config) = (self.now, self.config.clone());
        let known = self.keys.get_mut(&key).unwrap();
        let spins = known.idle_turns.max(known.own_rounds);
        if spins > config.spin_limit && !foreign && (again || only_own_status) {
            let ceiling = config.backoff.ceiling(spins - config.spin_limit);
            let (low, high) = ((ceiling / 2).min(SECOND), ceiling.min(SECOND));
            return self.delay(key, Why::Spins, now.saturating_add(low), now.saturating_add(high));
        }
        if again || foreign || resync || own {
            return self.make_ready(key);
        }
        match ended {
            Ended::RequeueAfter(delay) => {
                let first = !known.polled && now.since(self.start) <= *delay;
                let early = match config.requeue_spread {
                    None => Duration::ZERO,
                    Some(_) if first => *delay,
                    Some(parts) => *delay / parts.get(),
                };
                known.polled = true;
                let low = delay.saturating_sub(early).max(Duration::from_nanos(1));
                self.delay(key, Why::Asked, now.saturating_add(low), now.saturating_add(*delay));
            }
            Ended::RequeueAt(at) => self.delay(key, Why::Asked, *at, *at),
            Ended::WaitFor { recheck: Some(delay), .. } => {
                let due = now.saturating_add(*delay);
                self.delay(key, Why::Asked, due, due);
            }
            Ended::WaitFor { recheck: None, .. } => known.at = At::Waiting,
            _ => known.at = At::Idle,
        }
    }

    fn after_error(&mut self, key: K, class: Retry, (input, observed, resync): (bool, bool, bool)) {
        let (now, config) = (self.now, self.config.clone());
        let known = self.keys.get_mut(&key).unwrap();
        match class {
            Retry::After(delay) => {
                known.failures += 1;
                let due = now.saturating_add(delay.max(config.backoff.base()));
                let due = self.spend(due);
                self.back_off(key, Why::ToldWhen, due, due, input, false);
            }
            Retry::Never => {
                (known.failures, known.conflicts, known.next_input) = (0, 0, Time::ZERO);
                if input || resync {
                    self.make_ready(key);
                } else if observed {
                    let due = now.saturating_add(SECOND);
                    self.delay(key, Why::Permanent, due, due);
                } else {
                    known.at = At::Permanent;
                }
            }
            Retry::Conflict => {
                known.conflicts += 1;
                let (low, high) = match known.conflicts {
                    1 => (Duration::ZERO, super::after_run::CONFLICT_JITTER),
                    repeated => {
                        let ceiling = config.backoff.ceiling(repeated - 1);
                        (ceiling / 2, ceiling)
                    }
                };
                let (low, high) = (now.saturating_add(low), now.saturating_add(high));
                self.back_off(key, Why::LostARace, low, high, input, observed);
            }
            Retry::Cancelled if input => self.make_ready(key),
            Retry::NextTerm => known.at = At::Waiting,
            _ => self.after_failure(key, input, observed),
        }
    }

    fn after_failure(&mut self, key: K, input: bool, observed: bool) {
        let known = self.keys.get_mut(&key).unwrap();
        known.failures += 1;
        let ceiling = self.config.backoff.ceiling(known.failures);
        let (low, high) = (self.now.saturating_add(ceiling / 2), self.now.saturating_add(ceiling));
        let earliest = self.spend(Time::ZERO);
        self.back_off(key, Why::Failed, low.max(earliest), high.max(earliest), input, observed);
    }

    /// What the signals that came during a failing run do at its exit.
    fn back_off(&mut self, key: K, why: Why, low: Time, high: Time, input: bool, observed: bool) {
        let now = self.now;
        match self.config.during_backoff {
            BackoffSignals::Never => self.delay(key, why, low, high),
            BackoffSignals::Always if why != Why::ToldWhen => {
                if input {
                    self.input(key, Time::MAX);
                }
                if input || observed { self.make_ready(key) } else { self.delay(key, why, low, high) }
            }
            _ => {
                let bound = if observed { now.saturating_add(SECOND) } else { Time::MAX };
                let (low, high) = (low.min(bound), high.min(bound));
                if !input {
                    return self.delay(key, why, low, high);
                }
                let at = self.keys[&key].next_input.max(now);
                if at <= now {
                    self.input(key, Time::MAX);
                    // Due at once, whatever the draw; but a draw that is due already spends no turn.
                    return self.make_ready(key);
                }
                // The draw may be before or after the next input's turn; both bounds are cut to it.
                let known = self.keys.get_mut(&key).unwrap();
                (known.failures, known.conflicts) = (0, 0);
                if high > at {
                    known.next_input = at.saturating_add(SECOND);
                }
                self.delay(key, why, low.min(at), high.min(at));
            }
        }
    }

    /// A retry spends one of the budget: it may not start before this.
    fn spend(&mut self, due: Time) -> Time {
        let Some(budget) = self.config.retry_budget else { return due };
        let passed = self.now.since(self.tokens_at).as_nanos() as i128;
        self.tokens_at = self.now;
        self.tokens = (self.tokens + passed).min(full(budget)) - budget.interval().as_nanos() as i128;
        let owed = u64::try_from((-self.tokens).max(0)).unwrap();
        due.max(self.now.saturating_add(Duration::from_nanos(owed)))
    }

    fn depth(&self) -> Depth {
        let mut depth = Depth::default();
        for known in self.keys.values() {
            *match (known.at, known.lane) {
                (At::Idle, _) => &mut depth.idle,
                (At::Ready, Lane::High) => &mut depth.ready_high,
                (At::Ready, Lane::Normal) => &mut depth.ready_normal,
                (At::Ready, Lane::Low) => &mut depth.ready_low,
                (At::Running, _) if known.came.is_empty() => &mut depth.running,
                (At::Running, _) => &mut depth.running_dirty,
                (At::Delayed(Why::Asked, ..), _) => &mut depth.scheduled,
                (At::Delayed(Why::Spins, ..), _) => &mut depth.spinning,
                (At::Delayed(Why::Interval, ..), _) => &mut depth.held_back,
                (At::Delayed(..), _) => &mut depth.backing_off,
                (At::Waiting, _) => &mut depth.waiting,
                (At::Permanent, _) => &mut depth.permanent,
                (At::Paused, _) => &mut depth.paused,
            } += 1;
        }
        depth
    }

    fn state(&self, key: K) -> KeyState {
        let Some(known) = self.keys.get(&key) else { return KeyState::Idle };
        match known.at {
            At::Idle => KeyState::Idle,
            At::Ready if self.paused => KeyState::Paused,
            At::Ready => KeyState::Ready,
            At::Running if known.came.is_empty() => KeyState::Running,
            At::Running => KeyState::RunningDirty,
            At::Delayed(Why::Asked, ..) => KeyState::Scheduled,
            At::Delayed(Why::Spins, ..) => KeyState::Spinning,
            At::Delayed(Why::Interval, ..) => KeyState::HeldBack,
            At::Delayed(..) => KeyState::BackingOff,
            At::Waiting => KeyState::Waiting,
            At::Permanent => KeyState::Permanent,
            At::Paused => KeyState::Paused,
        }
    }
}

fn full(budget: RetryBudget) -> i128 {
    i128::from(budget.burst()) * budget.interval().as_nanos() as i128
}

/// Both, and what is needed to drive them.
struct Pair {
    machine: Machine<K>,
    model: Model,
    now: Time,
    running: BTreeMap<K, Taken<K>>,
    revisions: u64,
    /// Tickets of waiters are not part of this test; nothing may answer any.
    answers: usize,
}

/// Two keys share a hash, so that the table has to compare them.
fn hash(key: K) -> u32 {
    u32::from(key / 2)
}

impl Pair {
    fn new(config: QueueConfig) -> Self {
        let start = Time::after_start(Duration::from_secs(5));
        Pair {
            machine: Machine::new(config.clone(), start),
            model: Model::new(config, start),
            now: start,
            running: BTreeMap::new(),
            revisions: 0,
            answers: 0,
        }
    }

    fn machine<T>(&mut self, f: impl FnOnce(&mut Machine<K>, Time, &mut Effects<K>) -> T) -> T {
        let mut fx = Effects::default();
        let result = f(&mut self.machine, self.now, &mut fx);
        self.answers += fx.rare().map_or(0, |rare| rare.answers.len());
        result
    }

    fn signal(&mut self, key: K, kind: SignalKind, lane: Lane, stepped: bool) {
        let change = stepped.then(|| {
            self.revisions += 1;
            Change { kind: 0, before: Revision(self.revisions - 1), after: Revision(self.revisions) }
        });
        let mut signal = Signal::new(kind, lane, Cause::new(CauseKind::Updated, "test"));
        // Beyond 32 a run's changes are no longer told apart; the model does not count them.
        let crowded = self.model.keys.get(&key).is_some_and(|known| known.came.len() >= 32);
        let change = change.filter(|_| !crowded);
        signal.step = change;
        self.machine(|machine, now, fx| machine.signal(hash(key), key, signal, now, fx));
        self.model.advance(self.now);
        self.model.signal(key, kind, lane, change);
    }

    fn take(&mut self) -> Result<Option<K>, TestCaseError> {
        let make = |attempt: u32, causes: Causes, _: Time| -> RunControl {
            Run::builder().attempt(attempt).causes(causes).build().1
        };
        let taken = self.machine(|machine, now, fx| machine.take(now, make, fx));
        self.model.advance(self.now);
        let expected = self.model.take();
        prop_assert_eq!(taken.as_ref().map(|(taken, _)| *taken.key), expected, "who runs next");
        let Some((taken, control)) = taken else { return Ok(None) };
        let key = *taken.key;
        prop_assert!(!control.run().causes().is_empty() || self.model.keys[&key].failures == 0);
        prop_assert_eq!(taken.attempt, self.model.keys[&key].failures + 1);
        prop_assert!(self.running.insert(key, taken).is_none(), "invariant 2: {} ran twice at once", key);
        Ok(Some(key))
    }

    fn finish(&mut self, key: K, ended: Ended, wrote: Wrote, random: u64) -> Result<(), TestCaseError> {
        let Some(taken) = self.running.remove(&key) else { return Ok(()) };
        let came = self.model.keys[&key].came.clone();
        let dirty = came.len();
        let own = came.iter().enumerate().filter(|(index, _)| wrote.own >> (index % 32) & 1 == 1);
        let own = own.filter_map(|(_, came)| came.change);
        let own = own.map(|step| OwnWrite { step, status_only: wrote.status_only }).collect();
        let finished = Finished { ended: ended.clone(), own, effective: wrote.effective, carry: None };
        self.machine(|machine, now, fx| machine.finish(taken.id, finished, now, random, fx));
        self.model.advance(self.now);
        self.model.finish(key, &ended, wrote);
        // Invariant 3: a signal while it ran makes it run again: it is not idle, and not parked unless a pause,
        // a permanent failure or the end of the term says so.
        let fenced = matches!(&ended, Ended::Failed(error) if error.retry() == Retry::NextTerm);
        if dirty > 0 && !self.model.closed && !fenced {
            let state = self.model.state(key);
            let permanent = matches!(&ended, Ended::Failed(error) if error.retry() == Retry::Never);
            prop_assert!(
                !matches!(state, KeyState::Idle | KeyState::Waiting)
                    && (permanent || state != KeyState::Permanent),
                "{} signals came while {} ran, and it is {:?}",
                dirty,
                key,
                state
            );
        }
        Ok(())
    }

    /// Both agree on everything that can be seen, and the model takes over what was drawn.
    fn compare(&mut self) -> Result<(), TestCaseError> {
        self.machine(Machine::advance);
        self.model.advance(self.now);
        for key in 0..KEYS {
            let told: Explanation<()> = self.machine.explain(hash(key), &key, self.now);
            let (now, paused) = (self.now, self.model.paused);
            if let Some(known) = self.model.keys.get_mut(&key)
                && let At::Delayed(why, low, high) = known.at
                && low != high
            {
                match told.next_run {
                    Some(next) => {
                        let due = now.saturating_add(next);
                        prop_assert!(
                            low <= due && due <= high,
                            "{}: {:?} not in {:?}..={:?}",
                            key,
                            due,
                            low,
                            high
                        );
                        known.at = At::Delayed(why, due, due);
                    }
                    None => {
                        prop_assert!(low <= now, "{} is due before {:?}", key, low);
                        (known.at, known.due) = (At::Ready, now);
                    }
                }
            }
            let expected = self.model.state(key);
            prop_assert_eq!(told.state, expected, "key {}", key);
            let Some(known) = self.model.keys.get(&key) else { continue };
            prop_assert_eq!(told.lane, known.lane, "key {}", key);
            prop_assert_eq!(told.failures, known.failures, "key {}", key);
            if let At::Delayed(_, due, _) = known.at {
                prop_assert_eq!(told.next_run, Some(due.since(now)), "key {}", key);
            }
            if matches!(known.at, At::Ready | At::Running) {
                prop_assert_eq!(told.since, now.since(known.due), "key {}, paused {}", key, paused);
            }
        }
        let (depth, queue) = (self.model.depth(), self.machine.snapshot(self.now));
        prop_assert_eq!(queue.depth, depth);
        let ready = if self.model.paused || self.model.closed { 0 } else { depth.ready() };
        prop_assert_eq!(self.machine.ready(), ready, "the depth is the number of ready keys");
        prop_assert_eq!(self.machine.is_drained(), depth.active() == 0);
        let oldest =
            self.model.keys.values().filter(|known| known.at == At::Ready).map(|known| known.due).min();
        let oldest = oldest.map_or(Duration::ZERO, |due| self.now.since(due));
        prop_assert_eq!(queue.oldest_ready, oldest);
        // The driver never sleeps past what is due next, and not for ever while anything is.
        let interval = self.model.config.min_interval;
        let dues = self.model.keys.values().filter_map(|known| match known.at {
            At::Delayed(_, due, _) => Some(due),
            At::Idle => known.last_start.map(|start| start.saturating_add(interval)),
            _ => None,
        });
        let (next, armed) = (dues.min(), self.machine.arm());
        prop_assert_eq!(armed.is_some(), next.is_some());
        prop_assert!(armed <= next, "sleeps until {:?}, but {:?} is due", armed, next);
        prop_assert_eq!(self.answers, 0);
        self.machine.check();
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Signal { key, kind, lane, stepped } => self.signal(key, kind, lane, stepped),
            Step::Take => {
                self.take()?;
            }
            Step::Finish { key, ended, wrote, random } => {
                let ended = ended.at(self.now);
                self.finish(key, ended, wrote, random)?;
            }
            Step::Turn { ended, wrote, random } => {
                if let Some(key) = self.take()? {
                    self.compare()?;
                    let ended = ended.at(self.now);
                    self.finish(key, ended, wrote, random)?;
                }
            }
            Step::Churn { key, turns } => {
                let wrote = Wrote { effective: true, own: 0, status_only: false };
                for _ in 0..turns {
                    self.signal(key, SignalKind::Input, Lane::High, false);
                    if let Some(key) = self.take()? {
                        self.finish(key, Ended::AwaitChange, wrote, 0)?;
                    }
                    self.compare()?;
                }
            }
            Step::Sleep(nanos) => self.now = self.now.saturating_add(Duration::from_nanos(nanos)),
            Step::PauseKey(key) => {
                self.machine(|machine, now, fx| machine.pause_key(hash(key), key, now, fx));
                self.model.advance(self.now);
                self.model.pause_key(key);
            }
            Step::ResumeKey(key) => {
                self.machine(|machine, now, fx| machine.resume_key(hash(key), &key, now, fx));
                self.model.advance(self.now);
                self.model.resume_key(key);
                self.signal(key, SignalKind::Input, Lane::Normal, false);
            }
            Step::Pause => {
                self.machine(|machine, _, fx| machine.pause(fx));
                self.model.paused = true;
            }
            Step::Resume => {
                self.machine(|machine, _, _| machine.resume());
                self.model.paused = false;
            }
            Step::Close => {
                self.machine(|machine, _, fx| machine.close(fx));
                self.model.closed = true;
                self.model.keys.retain(|_, known| known.at == At::Running);
            }
        }
        self.model.forget_patience();
        self.compare()
    }
}

impl Model {
    fn pause_key(&mut self, key: K) {
        if self.closed {
            return;
        }
        if !self.keys.contains_key(&key) {
            self.signal(key, SignalKind::Input, Lane::Normal, None);
        }
        let known = self.keys.get_mut(&key).unwrap();
        match known.at {
            At::Running => known.to_be_paused = true,
            _ => known.at = At::Paused,
        }
    }

    fn resume_key(&mut self, key: K) {
        let Some(known) = self.keys.get_mut(&key) else { return };
        known.to_be_paused = false;
        if known.at == At::Paused {
            self.make_ready(key);
        }
    }
}

/// How a run ends, before the instant is known.
#[derive(Debug, Clone)]
enum Ending {
    AwaitChange,
    RequeueNow,
    RequeueAfter(u64),
    /// Relative to now, in nanoseconds; the first one is in the past.
    RequeueAt(u64),
    WaitFor(Option<u64>),
    Failed(Retry),
    Panicked,
    TimedOut,
}

impl Ending {
    fn at(self, now: Time) -> Ended {
        let nanos = Duration::from_nanos;
        let error = |class| ReconcileError::new(class, "test");
        match self {
            Ending::AwaitChange => Ended::AwaitChange,
            Ending::RequeueNow => Ended::RequeueNow,
            Ending::RequeueAfter(delay) => Ended::RequeueAfter(nanos(delay)),
            Ending::RequeueAt(0) => Ended::RequeueAt(Time::ZERO),
            Ending::RequeueAt(delay) => Ended::RequeueAt(now.saturating_add(nanos(delay))),
            Ending::WaitFor(recheck) => Ended::WaitFor { reason: "test".into(), recheck: recheck.map(nanos) },
            Ending::Failed(class) => Ended::Failed(error(class)),
            Ending::Panicked => Ended::Panicked(error(Retry::Backoff)),
            Ending::TimedOut => Ended::TimedOut(error(Retry::Backoff)),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Signal {
        key: K,
        kind: SignalKind,
        lane: Lane,
        stepped: bool,
    },
    Take,
    Finish {
        key: K,
        ended: Ending,
        wrote: Wrote,
        random: u64,
    },
    /// Take and finish.
    Turn {
        ended: Ending,
        wrote: Wrote,
        random: u64,
    },
    /// An urgent key again and again, so that patience ends.
    Churn {
        key: K,
        turns: u32,
    },
    Sleep(u64),
    PauseKey(K),
    ResumeKey(K),
    Pause,
    Resume,
    Close,
}

fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        1..2_000_u64,
        1..20_000_000_u64,
        1..3_000_000_000_u64,
        1..4_000_000_000_000_u64,
        Just(1_000_000_000)
    ]
}

fn endings() -> impl Strategy<Value = Ending> {
    let class = prop_oneof![
        4 => Just(Retry::Backoff),
        2 => nanos().prop_map(|delay| Retry::After(Duration::from_nanos(delay))),
        2 => Just(Retry::Never),
        2 => Just(Retry::Conflict),
        1 => Just(Retry::Cancelled),
        1 => Just(Retry::NextTerm),
    ];
    prop_oneof![
        4 => Just(Ending::AwaitChange),
        4 => Just(Ending::RequeueNow),
        3 => nanos().prop_map(Ending::RequeueAfter),
        2 => nanos().prop_map(Ending::RequeueAt),
        2 => prop::option::of(nanos()).prop_map(Ending::WaitFor),
        8 => class.prop_map(Ending::Failed),
        1 => Just(Ending::Panicked),
        1 => Just(Ending::TimedOut),
    ]
}

fn wrote() -> impl Strategy<Value = Wrote> {
    let own = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    (prop::bool::weighted(0.2), own, prop::bool::weighted(0.7))
        .prop_map(|(effective, own, status_only)| Wrote { effective, own, status_only })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        3 => Just(SignalKind::Input),
        4 => Just(SignalKind::Observed),
        1 => Just(SignalKind::Deletion),
        1 => Just(SignalKind::Resync),
    ];
    let lane = prop::sample::select(&LANES[..]);
    let step = prop_oneof![
        10 => (0..KEYS, kind, lane, any::<bool>())
            .prop_map(|(key, kind, lane, stepped)| Step::Signal { key, kind, lane, stepped }),
        5 => Just(Step::Take),
        5 => (0..KEYS, endings(), wrote(), any::<u64>())
            .prop_map(|(key, ended, wrote, random)| Step::Finish { key, ended, wrote, random }),
        12 => (endings(), wrote(), any::<u64>())
            .prop_map(|(ended, wrote, random)| Step::Turn { ended, wrote, random }),
        1 => (0..KEYS, 1..40_u32).prop_map(|(key, turns)| Step::Churn { key, turns }),
        6 => nanos().prop_map(Step::Sleep),
        1 => (0..KEYS).prop_map(Step::PauseKey),
        2 => (0..KEYS).prop_map(Step::ResumeKey),
    ];
    let rare = prop_oneof![2 => Just(Step::Pause), 3 => Just(Step::Resume), 1 => Just(Step::Close)];
    prop::collection::vec(prop_oneof![60 => step, 1 => rare], 1..160)
}

fn configs() -> impl Strategy<Value = QueueConfig> {
    let policy =
        prop::sample::select(&[BackoffSignals::OnChange, BackoffSignals::Always, BackoffSignals::Never][..]);
    let budget = prop::option::of((1..4_u32, 1..3_000_u64));
    let interval = prop_oneof![2 => Just(0), 1 => 1..3_000_u64];
    (policy, budget, interval, 0..4_u32, 0..4_u32).prop_map(
        |(policy, budget, interval, spread, spin_limit)| {
            let mut config = QueueConfig::new("model");
            config.backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(60));
            config.during_backoff = policy;
            config.retry_budget =
                budget.map(|(burst, interval)| RetryBudget::new(burst, Duration::from_millis(interval)));
            config.min_interval = Duration::from_millis(interval);
            config.requeue_spread = NonZeroU32::new(spread);
            config.spin_limit = spin_limit;
            config
        },
    )
}

proptest! {
    #[test]
    fn q1_the_machine_equals_the_model(config in configs(), steps in steps()) {
        let mut pair = Pair::new(config);
        pair.compare()?;
        for step in steps {
            pair.step(step)?;
        }
    }
}

/// Q8, from inside: a queue that runs empty holds no more memory than one that was never full.
#[test]
fn q8_an_empty_queue_gives_its_memory_back() {
    let at = |round| Time::after_start(SECOND * round as u32);
    let mut pair = Machine::<u64>::new(QueueConfig::new("q8"), Time::ZERO);
    let mut fx = Effects::default();
    let make =
        |attempt: u32, causes: Causes, _: Time| Run::builder().attempt(attempt).causes(causes).build().1;
    for round in 0..2 {
        for key in 0..100_000_u64 {
            let signal = Signal::new(SignalKind::Input, Lane::Normal, Cause::new(CauseKind::Enqueued, ""));
            pair.signal(key as u32, key, signal, at(round), &mut fx);
        }
        assert!(pair.capacity() >= 100_000);
        while let Some((taken, _)) = pair.take(at(round), make, &mut fx) {
            // Half of them through a timer.
            let ended =
                if *taken.key % 2 == round { Ended::RequeueAt(at(round + 1)) } else { Ended::AwaitChange };
            pair.finish(taken.id, Finished::of(ended), at(round), 0, &mut fx);
        }
        while let Some((taken, _)) = pair.take(at(round + 1), make, &mut fx) {
            pair.finish(taken.id, Finished::of(Ended::AwaitChange), at(round + 1), 0, &mut fx);
        }
        pair.check();
        assert!(pair.capacity() <= 4_096, "round {round}: room for {} keys is kept", pair.capacity());
        assert_eq!(pair.arm(), None);
    }
}

/// B13 and B5, on the machine: cancelling a timer that fired or is not there is no step at all.
#[test]
fn b13_cancelling_is_idempotent() {
    let config = QueueConfig { requeue_spread: None, ..QueueConfig::new("b13") };
    for fired in [false, true] {
        let mut pair = Pair::new(config.clone());
        let wrote = Wrote { effective: false, own: 0, status_only: false };
        let poll = |pair: &mut Pair| {
            let key = pair.take().unwrap().expect("a key is due");
            pair.finish(key, Ended::RequeueAfter(SECOND), wrote, 0).unwrap();
            pair.compare().unwrap();
        };
        pair.signal(1, SignalKind::Input, Lane::Normal, false);
        poll(&mut pair);
        if fired {
            pair.now = pair.now.saturating_add(SECOND);
            pair.compare().unwrap();
            assert_eq!(pair.machine.ready(), 1);
        }
        // A pause takes the key off its timer, whether or not that fired; twice is once.
        pair.step(Step::PauseKey(1)).unwrap();
        pair.step(Step::PauseKey(1)).unwrap();
        assert_eq!((pair.machine.arm(), pair.machine.ready()), (None, 0));
        pair.step(Step::Sleep(10_000_000_000)).unwrap();
        // The deletion runs it once, and nothing of the old timer is left.
        pair.step(Step::Signal { key: 1, kind: SignalKind::Deletion, lane: Lane::Normal, stepped: false })
            .unwrap();
        let key = pair.take().unwrap().expect("the deletion is due");
        pair.finish(key, Ended::AwaitChange, wrote, 0).unwrap();
        pair.compare().unwrap();
        assert_eq!((pair.machine.arm(), pair.machine.ready()), (None, 0));
        pair.step(Step::Close).unwrap();
        pair.step(Step::Close).unwrap();
    }
}
