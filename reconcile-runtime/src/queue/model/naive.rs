//! The naive model of the queue: sorted maps, walks over all keys, and the words of the design. Nothing of it
//! is shared with the machine but the settings and the arithmetic of `Backoff`.
//!
//! Where the outcome table leaves a choice to jitter, the model knows the bounds; whoever drives it takes over
//! the draw.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reconcile_core::Retry;

use crate::{
    change::Step as Change,
    environment::Time,
    queue::{
        BackoffSignals, Depth, Ended, KeyState, Lane, QueueConfig, RetryBudget, SignalKind,
        after_run::CONFLICT_JITTER,
    },
};

pub(super) type K = u8;
/// Small, so that keys meet; and more than the lanes.
pub(super) const KEYS: K = 7;
pub(super) const LANES: [Lane; 3] = [Lane::High, Lane::Normal, Lane::Low];
/// Design, section 6: a lower lane goes first only when it has been passed over W times in a row.
pub(super) const W: u32 = 16;
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Why a key is on a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Asked,
    Failed,
    ToldWhen,
    LostARace,
    Permanent,
    Spins,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
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
pub(super) struct Known {
    pub(super) at: At,
    pub(super) lane: Lane,
    /// Since when it is due.
    pub(super) due: Time,
    pub(super) arrival: u64,
    pub(super) failures: u32,
    pub(super) conflicts: u32,
    pub(super) idle_turns: u32,
    pub(super) own_rounds: u32,
    /// No input before this runs it at once, while it fails.
    pub(super) next_input: Time,
    pub(super) last_start: Option<Time>,
    pub(super) last_end: Time,
    pub(super) polled: bool,
    pub(super) to_be_paused: bool,
    /// What came while it ran.
    pub(super) came: Vec<Came>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) kind: SignalKind,
    pub(super) lane: Lane,
    pub(super) change: Option<Change>,
}

/// What a finished run says of itself, beside how it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrote {
    pub(super) effective: bool,
    /// Which of the changes that came were its own, as bits.
    pub(super) own: u32,
    pub(super) status_only: bool,
}

pub(super) struct Model {
    pub(super) config: QueueConfig,
    pub(super) now: Time,
    pub(super) start: Time,
    pub(super) keys: BTreeMap<K, Known>,
    pub(super) arrivals: u64,
    pub(super) passed_over: BTreeMap<Lane, u32>,
    /// Retries left, in nanoseconds of their interval; below zero they are owed.
    pub(super) tokens: i128,
    pub(super) tokens_at: Time,
    pub(super) paused: bool,
    pub(super) closed: bool,
}

impl Model {
    pub(super) fn new(config: QueueConfig, start: Time) -> Self {
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

    pub(super) fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Time passes: what is due becomes ready, and what is idle long enough is forgotten.
    pub(super) fn advance(&mut self, now: Time) {
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
    pub(super) fn forget_patience(&mut self) {
        for lane in LANES {
            if !self.keys.values().any(|known| known.at == At::Ready && known.lane == lane) {
                self.passed_over.remove(&lane);
            }
        }
    }

    /// Due now, or when its minimum interval allows.
    pub(super) fn make_ready(&mut self, key: K) {
        self.delay(key, Why::Interval, Time::ZERO, Time::ZERO);
    }

    pub(super) fn delay(&mut self, key: K, why: Why, low: Time, high: Time) {
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

    pub(super) fn signal(&mut self, key: K, kind: SignalKind, lane: Lane, change: Option<Change>) {
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

    pub(super) fn signal_delayed(&mut self, key: K, kind: SignalKind, why: Why, due: Time) {
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
    pub(super) fn clear(&mut self, key: K) {
        if self.config.during_backoff != BackoffSignals::Never && self.keys[&key].failures > 0 {
            self.input(key, Time::MAX);
        }
    }

    /// A new input for a failing key: when it runs instead of at `due`.
    pub(super) fn input(&mut self, key: K, due: Time) -> Time {
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
    pub(super) fn take(&mut self) -> Option<K> {
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

    pub(super) fn patience(&self, lane: Lane) -> u32 {
        self.passed_over.get(&lane).copied().unwrap_or_default()
    }

    /// The outcome table.
    pub(super) fn finish(&mut self, key: K, ended: &Ended, wrote: Wrote) {
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

    pub(super) fn after_success(
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

    pub(super) fn after_error(
        &mut self,
        key: K,
        class: Retry,
        (input, observed, resync): (bool, bool, bool),
    ) {
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
                    1 => (Duration::ZERO, CONFLICT_JITTER),
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

    pub(super) fn after_failure(&mut self, key: K, input: bool, observed: bool) {
        let known = self.keys.get_mut(&key).unwrap();
        known.failures += 1;
        let ceiling = self.config.backoff.ceiling(known.failures);
        let (low, high) = (self.now.saturating_add(ceiling / 2), self.now.saturating_add(ceiling));
        let earliest = self.spend(Time::ZERO);
        self.back_off(key, Why::Failed, low.max(earliest), high.max(earliest), input, observed);
    }

    /// What the signals that came during a failing run do at its exit.
    pub(super) fn back_off(&mut self, key: K, why: Why, low: Time, high: Time, input: bool, observed: bool) {
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
    pub(super) fn spend(&mut self, due: Time) -> Time {
        let Some(budget) = self.config.retry_budget else { return due };
        let passed = self.now.since(self.tokens_at).as_nanos() as i128;
        self.tokens_at = self.now;
        self.tokens = (self.tokens + passed).min(full(budget)) - budget.interval().as_nanos() as i128;
        let owed = u64::try_from((-self.tokens).max(0)).unwrap();
        due.max(self.now.saturating_add(Duration::from_nanos(owed)))
    }

    pub(super) fn depth(&self) -> Depth {
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

    pub(super) fn state(&self, key: K) -> KeyState {
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

impl Model {
    pub(super) fn pause_key(&mut self, key: K) {
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

    pub(super) fn resume_key(&mut self, key: K) {
        let Some(known) = self.keys.get_mut(&key) else { return };
        known.to_be_paused = false;
        if known.at == At::Paused {
            self.make_ready(key);
        }
    }
}
