//! The machine against a naive model, written from the text of the design: sorted maps, walks over all keys,
//! and no list, wheel, table or counter of its own.
//!
//! Random signals, runs, outcomes, pauses and steps of time go to both. After every step both must agree on
//! where each key is, why, in which lane, how often it failed and when it is due; every run must be of the key
//! that the model names; and the machine must keep its own invariants ([`Machine::check`]).
//!
//! Where the outcome table leaves a choice to jitter, the model knows the bounds and takes over the draw.

mod naive;

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use proptest::prelude::*;
use reconcile_core::{Backoff, Cause, CauseKind, Causes, ReconcileError, Retry, Revision, Run, RunControl};

use super::{
    BackoffSignals, Ended, Explanation, Finished, KeyState, Lane, QueueConfig, RetryBudget, Signal,
    SignalKind,
    effects::Effects,
    machine::{Machine, Taken},
};
use crate::{api::scope::OwnWrite, change::Step as Change, environment::Time};

use naive::{At, K, KEYS, LANES, Model, SECOND, Wrote};

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
    let policies = [BackoffSignals::OnChange, BackoffSignals::Always, BackoffSignals::Never];
    let policy = prop::sample::select(policies.to_vec());
    // Below and above the second that signals bring a retry forward to.
    let base = prop::sample::select(vec![200, 5_000]);
    let budget = prop::option::of((1..4_u32, 1..3_000_u64));
    let interval = prop_oneof![2 => Just(0), 1 => 1..3_000_u64];
    (policy, base, budget, interval, 0..4_u32, 0..4_u32).prop_map(
        |(policy, base, budget, interval, spread, spin_limit)| {
            let mut config = QueueConfig::new("model");
            config.backoff = Backoff::new(Duration::from_millis(base), Duration::from_secs(60));
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
