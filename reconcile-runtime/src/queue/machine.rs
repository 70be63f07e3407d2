//! The queue itself: a pure, synchronous machine. Time, randomness and the making of a run are arguments.
//!
//! The invariants are those of [`queue`](super); this is where they are kept. The driver calls every function
//! under its one lock and carries out the [`Effects`] after releasing it.

use std::sync::Arc;

use hashbrown::HashTable;
use reconcile_core::{Cause, CauseKind, Causes, Key, RunControl};

use super::{
    BackoffSignals, Lane, QueueConfig,
    after_run::{Arrived, Circumstances, Delay, Next, Park, RETRY_ON_CHANGE, after_run},
    budget::Budget,
    counters::Counters,
    effects::{Answer, Effects},
    ended::{Finished, OutcomeKind},
    history::History,
    lanes::Lanes,
    places::{Id, List, Places},
    signal::{Signal, SignalKind},
    slot::{LastRun, Record, Slot, State},
    timers::Timers,
};
use crate::{api::scope::OwnWrite, environment::Time};

/// How many blank records are kept for reuse: about as many as there are workers, so that a run of a known
/// key allocates none.
const SPARE_RECORDS: usize = 64;

/// A queue that runs empty gives its memory back if it had room for more keys than this: below it, there is
/// less to give back than the ring of last outcomes holds.
const KEPT_SLOTS: usize = super::history::REMEMBERED;

/// A key that was handed to a worker.
#[derive(Debug)]
pub(crate) struct Taken<K> {
    pub(crate) id: Id,
    pub(crate) key: Arc<K>,
    /// The number of the run, counted by this queue.
    pub(crate) number: u64,
    pub(crate) attempt: u32,
    /// Conflicts in a row before it.
    pub(crate) conflicts: u32,
    /// When it was taken.
    pub(crate) started: Time,
    /// How long it was due before it was taken.
    pub(crate) waited: std::time::Duration,
    /// What the last run left.
    pub(crate) carry: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Machine<K> {
    pub(super) config: QueueConfig,
    /// The slot of each key, found by the key's hash.
    table: HashTable<Id>,
    /// By id; holes are in `free`.
    slots: Vec<Option<Slot<K>>>,
    free: Vec<Id>,
    pub(super) places: Places,
    /// Every `Ready` slot.
    pub(super) lanes: Lanes,
    /// Every `Delayed` slot, and every `Idle` one.
    timers: Timers,
    /// Every `Running` and `RunningDirty` slot, longest first.
    pub(super) running: List,
    /// Every `Parked` slot.
    parked: List,
    pub(super) history: History<K>,
    budget: Option<Budget>,
    /// Blank records, kept for their allocations.
    #[allow(clippy::vec_box, reason = "a record moves between here and a slot by its pointer")]
    spare: Vec<Box<Record>>,
    pub(super) counters: Counters,
    /// When the queue, or its current term, started.
    start: Time,
    /// The latest time seen: operations may reach the lock out of order, and time must not go back here.
    pub(super) now: Time,
    /// Counts runs as they start.
    pub(super) runs: u64,
    pub(super) paused: bool,
    pub(super) closed: bool,
    /// Until when the driver sleeps.
    armed: Option<Time>,
    /// A timer was set that is due before `armed`.
    sooner: bool,
    /// Ids whose timers fired, while they are moved; kept for its allocation.
    fired: Vec<Id>,
}

impl<K: Key> Machine<K> {
    pub(crate) fn new(config: QueueConfig, start: Time) -> Self {
        let budget = config.retry_budget.map(Budget::new);
        Machine {
            config,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            places: Places::default(),
            lanes: Lanes::default(),
            timers: Timers::default(),
            running: List::default(),
            parked: List::default(),
            history: History::default(),
            budget,
            spare: Vec::new(),
            counters: Counters::default(),
            start,
            now: start,
            runs: 0,
            paused: false,
            closed: false,
            armed: None,
            sooner: false,
            fired: Vec::new(),
        }
    }

    // === signals

    /// A signal for a key. Never blocks; costs one look-up.
    pub(crate) fn signal(&mut self, hash: u32, key: K, signal: Signal, now: Time, fx: &mut Effects<K>) {
        self.advance(now, fx);
        if self.closed {
            fx.given_key = Some(key);
            return;
        }
        self.counters.added(signal.cause.kind);
        match self.find(hash, &key) {
            None => {
                let id = self.insert(hash, Arc::new(key), signal.lane);
                self.record(id).causes.add(signal.cause);
                self.enter_ready(id);
            }
            Some(id) => {
                fx.given_key = Some(key);
                self.signal_known(id, signal, fx);
            }
        }
    }

    fn signal_known(&mut self, id: Id, signal: Signal, fx: &mut Effects<K>) {
        let state = self.slot(id).state;
        if !matches!(state, State::Idle) {
            self.counters.deduplicated += 1;
        }
        match state {
            State::Running | State::RunningDirty => {
                let record = self.record(id);
                if signal.kind.is_input() {
                    fx.rare_mut().supersede =
                        record.run.as_ref().map(|(_, control)| (control.clone(), signal.step));
                }
                record.paused &= signal.kind != SignalKind::Deletion;
                record.pending.get_or_insert_default().add(signal);
                self.set_state(id, State::RunningDirty); // invariant 3
            }
            State::Parked(Park::Paused) => {
                let gone = signal.kind == SignalKind::Deletion;
                self.lift(id, signal.lane);
                self.record(id).causes.add(signal.cause);
                if gone {
                    // The annotation that paused it went with the object.
                    self.unpause(id);
                }
            }
            State::Idle => {
                self.set_lane(id, signal.lane);
                self.record(id).causes.add(signal.cause);
                self.make_ready(id);
            }
            State::Ready => {
                if self.slot(id).lane > signal.lane {
                    // The stronger signal arrived now, and so does the key in its lane (invariant 7).
                    self.leave_list(id);
                    self.set_lane(id, signal.lane);
                    self.enter_lane(id);
                }
                if signal.kind.is_input() {
                    self.renew(id);
                }
                self.record(id).causes.add(signal.cause);
            }
            State::Delayed(delay) => self.signal_delayed(id, delay, signal),
            State::Parked(Park::Waiting) => {
                self.lift(id, signal.lane);
                self.record(id).causes.add(signal.cause);
                self.make_ready(id);
            }
            State::Parked(Park::Permanent) => {
                self.lift(id, signal.lane);
                self.record(id).causes.add(signal.cause);
                if signal.kind == SignalKind::Observed {
                    let after = self.last_end(id).saturating_add(RETRY_ON_CHANGE);
                    self.delay(id, Delay::Permanent, after);
                } else {
                    self.make_ready(id);
                }
            }
        }
    }

    /// A signal for a key on a timer: what it does depends on why the key waits.
    fn signal_delayed(&mut self, id: Id, delay: Delay, signal: Signal) {
        self.lift(id, signal.lane);
        self.record(id).causes.add(signal.cause);
        let input = signal.kind.is_input();
        let observed = signal.kind == SignalKind::Observed;
        let (now, due) = (self.now, self.places.due(id));
        match delay {
            // The wait was an upper bound: any signal comes first.
            Delay::Poll | Delay::Deadline | Delay::Recheck | Delay::Spin => self.make_ready(id),
            // It runs as soon as it may.
            Delay::Interval if input => self.renew(id),
            Delay::Interval => {}
            Delay::Permanent if input => self.make_ready(id),
            Delay::Permanent => {}
            Delay::Backoff | Delay::RetryAfter | Delay::Conflict => match self.config.during_backoff {
                BackoffSignals::Never => {}
                BackoffSignals::Always if delay != Delay::RetryAfter && (input || observed) => {
                    if input {
                        self.renew(id);
                    }
                    self.make_ready(id);
                }
                _ if input => {
                    let at = self.record(id).tally.input(now, due);
                    if at <= now {
                        self.make_ready(id);
                    } else if at < due {
                        self.delay(id, delay, at);
                    }
                }
                BackoffSignals::OnChange if observed && delay != Delay::RetryAfter => {
                    let sooner = self.last_end(id).saturating_add(RETRY_ON_CHANGE);
                    if sooner < due {
                        self.delay(id, delay, sooner);
                    }
                }
                _ => {}
            },
        }
    }

    /// A new input came for a key that is due already: it did not fail yet, so what failing counted is cleared.
    fn renew(&mut self, id: Id) {
        let (now, policy) = (self.now, self.config.during_backoff);
        let tally = &mut self.record(id).tally;
        if tally.failures > 0 && policy != BackoffSignals::Never {
            tally.input(now, Time::MAX);
        }
    }

    // === runs

    /// Hands the next due key to a worker; `make` builds the run from the attempt, its causes and the time.
    pub(crate) fn take(
        &mut self,
        now: Time,
        make: impl FnOnce(u32, Causes, Time) -> RunControl,
        fx: &mut Effects<K>,
    ) -> Option<(Taken<K>, RunControl)> {
        self.advance(now, fx);
        if self.paused || self.closed {
            return None;
        }
        let id = self.lanes.pop(&mut self.places)?;
        let now = self.now;
        let waited = now.since(self.places.due(id));
        self.counters.wait.observe(waited);
        self.runs += 1;
        let run = self.runs;
        let keep_start = !self.config.min_interval.is_zero();
        let record = self.record(id);
        let attempt = record.tally.failures.saturating_add(1);
        let conflicts = record.tally.conflicts;
        let causes = std::mem::take(&mut record.causes);
        let control = make(attempt, causes, now);
        record.run = Some((run, control.clone()));
        let carry = record.take_carry();
        if keep_start {
            record.make_aside().last_start = Some(now);
        }
        if let Some(aside) = record.aside_mut() {
            aside.reason = None;
        }
        if attempt > 1 {
            self.counters.retries += 1;
        }
        self.places.set_due(id, now);
        self.places.push_back(&mut self.running, id);
        self.set_state(id, State::Running); // invariant 2: it is in no lane any more
        let key = self.slot(id).key.clone();
        Some((Taken { id, key, attempt, number: run, conflicts, started: now, waited, carry }, control))
    }

    /// A run ended: the key goes where the outcome table says.
    pub(crate) fn finish(&mut self, id: Id, finished: Finished, now: Time, random: u64, fx: &mut Effects<K>) {
        self.advance(now, fx);
        let now = self.now;
        let started = self.places.due(id);
        self.leave_list(id);
        let Finished { ended, own, effective, carry } = finished;
        let kind = ended.kind();
        self.counters.ended(kind, now.since(started));
        let polled = self.slot(id).polled;
        let last = LastRun::new(started, now, kind);

        let start = self.start;
        let record = self.record(id);
        let run = record.run.take().map_or(0, |(run, _)| run);
        let arrived = judge(record, &own);
        let before = record.tally;
        let paused = record.paused;
        let (mut causes, mut pending_lane) = (Causes::default(), None);
        if let Some(pending) = &mut record.pending {
            causes = std::mem::take(&mut pending.causes);
            pending_lane = pending.lane;
            pending.clear();
        }
        if let Some(aside) = record.aside_mut() {
            fx.drop_carry(aside.carry.take());
            fx.drop_error(aside.error.take());
        }
        if carry.is_some() || ended.error().is_some() {
            let aside = record.make_aside();
            aside.carry = carry;
            aside.error = ended.error().cloned();
        }
        let on = Circumstances {
            config: &self.config,
            now,
            random,
            first_poll_after_start: (!polled).then_some(start),
        };
        let (next, tally) = after_run(&ended, effective, arrived, before, &mut self.budget, &on);

        // A key keeps its lane until it succeeds; then the signals that came meanwhile say how urgent it is.
        let lane = self.slot(id).lane;
        let lane = match (kind, pending_lane) {
            (OutcomeKind::Again, None) => lane,
            (OutcomeKind::Again, Some(pending)) => lane.min(pending),
            (OutcomeKind::Done | OutcomeKind::Requeued | OutcomeKind::Waiting, pending) => {
                pending.unwrap_or(Lane::Normal)
            }
            (_, pending) => pending.map_or(lane, |pending| lane.min(pending)),
        };
        self.set_lane(id, lane);
        let slot = self.slot_mut(id);
        slot.last = Some(last);
        slot.polled |= matches!(next, Next::Delayed(Delay::Poll, _));

        if kind == OutcomeKind::Again {
            causes.add(Cause::new(CauseKind::Requeue, ""));
        }
        let record = self.record(id);
        record.tally = tally;
        record.causes = causes;
        if let super::ended::Ended::WaitFor { reason, .. } = ended {
            record.make_aside().reason = Some(reason);
        } else if kind == OutcomeKind::Fenced {
            record.make_aside().reason = Some("the next term".into());
        }
        super::waiting::answer(record, run, kind, last, fx);

        if self.closed {
            self.drop_slot(id, fx);
            return;
        }
        match next {
            // A pause that came during the run holds the key, whatever the run asked for.
            _ if paused => self.enter_parked(id, Park::Paused),
            Next::Idle => return self.idle(id, fx),
            Next::Ready => self.enter_ready(id),
            Next::Delayed(delay, due) => self.enter_delayed(id, delay, due),
            Next::Parked(park) => self.enter_parked(id, park),
        }
        self.shed(id);
    }

    // === pausing, closing

    /// Parks a key with its causes; a running one is parked when its run ends.
    pub(crate) fn pause_key(&mut self, hash: u32, key: K, now: Time, fx: &mut Effects<K>) {
        self.advance(now, fx);
        if self.closed {
            fx.given_key = Some(key);
            return;
        }
        let id = match self.find(hash, &key) {
            Some(id) => {
                fx.given_key = Some(key);
                if !self.slot(id).state.is_running() {
                    self.leave_list(id);
                    self.enter_parked(id, Park::Paused);
                }
                id
            }
            None => {
                let id = self.insert(hash, Arc::new(key), Lane::Normal);
                self.enter_parked(id, Park::Paused);
                id
            }
        };
        let record = self.record(id);
        record.paused = true;
        let waiters = record.take_waiters();
        waiters.into_iter().for_each(|waiter| fx.answer(waiter.ticket, Answer::Paused));
    }

    /// Ends the pause of a key; the caller signals it afterwards.
    pub(crate) fn resume_key(&mut self, hash: u32, key: &K, now: Time, fx: &mut Effects<K>) {
        self.advance(now, fx);
        let Some(id) = self.find(hash, key) else { return };
        match self.slot(id).state {
            State::Parked(Park::Paused) => self.unpause(id),
            _ => self.record(id).paused = false,
        }
        self.shed(id);
    }

    fn unpause(&mut self, id: Id) {
        self.record(id).paused = false;
        self.make_ready(id);
    }

    /// Stops handing out keys. What is due stays due, and intake goes on.
    pub(crate) fn pause(&mut self, fx: &mut Effects<K>) {
        self.paused = true;
        self.answer_all(&Answer::Paused, fx);
    }

    pub(crate) fn resume(&mut self) {
        self.paused = false;
    }

    /// Closes the intake, drops all that is queued, and tells the runs to stop.
    pub(crate) fn close(&mut self, fx: &mut Effects<K>) {
        self.closed = true;
        self.answer_all(&Answer::Stopped, fx);
        for id in self.ids() {
            match self.slot(id).state {
                State::Running | State::RunningDirty => {
                    let control = self.record(id).run.as_ref().map(|(_, control)| control.clone());
                    fx.rare_mut().stop.extend(control);
                }
                _ => {
                    self.leave_list(id);
                    self.drop_slot(id, fx);
                }
            }
        }
        self.history.clear().for_each(|key| fx.drop_key(key));
    }

    fn answer_all(&mut self, answer: &Answer, fx: &mut Effects<K>) {
        for id in self.ids() {
            let Some(record) = self.slot_mut(id).record.as_mut() else { continue };
            let waiters = record.take_waiters();
            waiters.into_iter().for_each(|waiter| fx.answer(waiter.ticket, answer.clone()));
        }
    }

    // === timers

    /// Moves what is due at `now` to the lanes. Called first by every operation, so that the lanes stay in
    /// the order of due times (invariant 7).
    pub(crate) fn advance(&mut self, now: Time, fx: &mut Effects<K>) {
        self.now = self.now.max(now);
        if !self.timers.may_expire(self.now) {
            return;
        }
        let mut fired = std::mem::take(&mut self.fired);
        self.timers.expire(&mut self.places, self.now, |_, id| fired.push(id));
        for id in fired.drain(..) {
            let State::Delayed(delay) = self.slot(id).state else {
                self.drop_slot(id, fx); // idle, and its minimum interval has passed (invariant 6)
                continue;
            };
            let kind = match delay {
                Delay::Poll | Delay::Deadline | Delay::Recheck => Some(CauseKind::Timer),
                Delay::Backoff | Delay::RetryAfter | Delay::Conflict => Some(CauseKind::Retry),
                Delay::Spin | Delay::Interval | Delay::Permanent => None,
            };
            if let Some(kind) = kind {
                self.record(id).causes.add(Cause::new(kind, ""));
            }
            let lane = self.slot(id).lane;
            self.lanes.push(&mut self.places, lane, id);
            self.set_state(id, State::Ready);
        }
        // The list of what fired at once is memory of a full queue, too.
        self.fired = if self.slots.is_empty() { Vec::new() } else { fired };
    }

    /// When the driver has to call [`advance`](Self::advance) next; from now on only sooner timers are news.
    pub(crate) fn arm(&mut self) -> Option<Time> {
        self.armed = self.timers.wake_at(&self.places);
        self.sooner = false;
        self.armed
    }

    /// Whether a timer was set since [`arm`](Self::arm) that is due before what it answered.
    pub(crate) fn is_sooner(&self) -> bool {
        self.sooner
    }

    /// How many keys are due and may be taken.
    pub(crate) fn ready(&self) -> usize {
        if self.paused || self.closed { 0 } else { self.lanes.len() }
    }

    /// Whether no worker has a key.
    pub(crate) fn is_drained(&self) -> bool {
        self.running.is_empty()
    }

    // === moving a key that stands in a list

    /// Takes a key out of whatever list it is in, and makes it due.
    fn make_ready(&mut self, id: Id) {
        self.leave_list(id);
        self.enter_ready(id);
    }

    fn delay(&mut self, id: Id, delay: Delay, due: Time) {
        self.leave_list(id);
        self.enter_delayed(id, delay, due);
    }

    fn lift(&mut self, id: Id, lane: Lane) {
        let lane = self.slot(id).lane.min(lane);
        self.set_lane(id, lane);
    }

    /// Takes a key out of the list that its state says (invariant 1).
    pub(super) fn leave_list(&mut self, id: Id) {
        let slot = self.slot(id);
        match slot.state {
            State::Ready => {
                let lane = slot.lane;
                self.lanes.remove(&mut self.places, lane, id);
            }
            State::Delayed(_) | State::Idle => self.timers.remove(&mut self.places, id),
            State::Running | State::RunningDirty => self.places.remove(&mut self.running, id),
            State::Parked(_) => self.places.remove(&mut self.parked, id),
        }
    }

    // === placing a key that stands in no list

    /// Due now, or as soon as its minimum interval allows.
    pub(super) fn enter_ready(&mut self, id: Id) {
        let earliest = self.earliest(id);
        if earliest > self.now {
            self.enter_delayed(id, Delay::Interval, earliest);
        } else {
            self.enter_lane(id);
        }
    }

    fn enter_lane(&mut self, id: Id) {
        let (now, lane) = (self.now, self.slot(id).lane);
        self.places.set_due(id, now);
        self.lanes.push(&mut self.places, lane, id);
        self.set_state(id, State::Ready);
    }

    /// On a timer; limits combine with the later one. Work that is due now never touches a timer.
    fn enter_delayed(&mut self, id: Id, delay: Delay, due: Time) {
        let due = due.max(self.earliest(id));
        if due <= self.now {
            return self.enter_lane(id);
        }
        self.set_timer(id, due);
        self.set_state(id, State::Delayed(delay));
    }

    pub(super) fn enter_parked(&mut self, id: Id, park: Park) {
        self.places.push_back(&mut self.parked, id);
        self.set_state(id, State::Parked(park));
    }

    /// Nothing to do: the slot goes, unless its minimum interval has to be remembered (invariant 6).
    fn idle(&mut self, id: Id, fx: &mut Effects<K>) {
        let earliest = self.earliest(id);
        if earliest > self.now {
            self.set_timer(id, earliest);
            self.set_state(id, State::Idle);
        } else {
            self.drop_slot(id, fx);
        }
    }

    fn set_timer(&mut self, id: Id, due: Time) {
        self.timers.insert(&mut self.places, id, due);
        self.sooner |= self.armed.is_none_or(|armed| due < armed);
    }

    /// When the minimum interval lets the key start again.
    fn earliest(&self, id: Id) -> Time {
        let record = self.slot(id).record.as_ref();
        let last_start = record.and_then(|record| record.aside()?.last_start);
        last_start.map_or(Time::ZERO, |start| start.saturating_add(self.config.min_interval))
    }

    fn last_end(&self, id: Id) -> Time {
        self.slot(id).last.map_or(Time::ZERO, |last| last.ended)
    }

    // === slots

    pub(super) fn find(&self, hash: u32, key: &K) -> Option<Id> {
        let same = |id: &Id| {
            let slot = self.slot(*id);
            slot.hash == hash && *slot.key == *key
        };
        self.table.find(spread_hash(hash), same).copied()
    }

    /// A slot in no list; the caller puts it into one.
    pub(super) fn insert(&mut self, hash: u32, key: Arc<K>, lane: Lane) -> Id {
        let slot = Slot { key, hash, state: State::Idle, lane, polled: false, last: None, record: None };
        self.counters.depth.enter(slot.state, slot.lane);
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.slots.push(None);
                Id::try_from(self.slots.len() - 1).expect("fewer than 2^32 keys fit into memory")
            }
        };
        self.places.admit(id);
        if let Some(hole) = self.slots.get_mut(id as usize) {
            *hole = Some(slot);
        }
        let slots = &self.slots;
        let rehash = |id: &Id| {
            let slot = slots.get(*id as usize).and_then(Option::as_ref);
            spread_hash(slot.map_or(0, |slot| slot.hash))
        };
        self.table.insert_unique(spread_hash(hash), id, rehash);
        id
    }

    /// Removes a slot that is in no list.
    pub(super) fn drop_slot(&mut self, id: Id, fx: &mut Effects<K>) {
        let Some(mut slot) = self.slots.get_mut(id as usize).and_then(Option::take) else { return };
        self.counters.depth.leave(slot.state, slot.lane);
        if let Ok(entry) = self.table.find_entry(spread_hash(slot.hash), |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
        if let Some(mut record) = slot.record.take() {
            if let Some(aside) = record.aside_mut() {
                fx.drop_error(aside.error.take());
                fx.drop_carry(aside.carry.take());
            }
            let waiters = record.take_waiters();
            let answer = if self.closed { Answer::Stopped } else { Answer::Converged };
            waiters.into_iter().for_each(|waiter| fx.answer(waiter.ticket, answer.clone()));
            self.recycle(record);
        }
        match slot.last {
            Some(last) if !self.closed => {
                if let Some(oldest) = self.history.push(slot.hash, slot.key, last) {
                    fx.drop_key(oldest);
                }
            }
            _ => fx.drop_key(slot.key),
        }
        if self.free.len() == self.slots.len() && self.slots.len() > KEPT_SLOTS {
            self.give_back();
        }
    }

    /// Gives the memory of the slots back; none is live. It costs the keys that were here nothing noticeable,
    /// since each of them was moved several times.
    fn give_back(&mut self) {
        self.slots = Vec::new();
        self.free = Vec::new();
        self.fired = Vec::new();
        self.table = HashTable::new();
        self.places.give_back();
        self.timers.give_back();
    }

    /// Gives the record back if nothing would be lost with it.
    pub(super) fn shed(&mut self, id: Id) {
        let slot = self.slot_mut(id);
        if let Some(record) = slot.record.take_if(|record| record.is_blank()) {
            self.recycle(record);
        }
    }

    fn recycle(&mut self, mut record: Box<Record>) {
        if self.spare.len() < SPARE_RECORDS {
            record.reset();
            self.spare.push(record);
        }
    }

    pub(super) fn set_state(&mut self, id: Id, state: State) {
        let slot = self.slot_mut(id);
        let (old, lane) = (slot.state, slot.lane);
        slot.state = state;
        self.counters.depth.leave(old, lane);
        self.counters.depth.enter(state, lane);
    }

    /// The depth is counted by lane as well, so a lane changes only here.
    fn set_lane(&mut self, id: Id, lane: Lane) {
        let slot = self.slot_mut(id);
        let (state, old) = (slot.state, slot.lane);
        slot.lane = lane;
        self.counters.depth.leave(state, old);
        self.counters.depth.enter(state, lane);
    }

    pub(super) fn slot(&self, id: Id) -> &Slot<K> {
        self.slots.get(id as usize).and_then(Option::as_ref).expect("an id in a list names a live slot")
    }

    fn slot_mut(&mut self, id: Id) -> &mut Slot<K> {
        self.slots.get_mut(id as usize).and_then(Option::as_mut).expect("an id in a list names a live slot")
    }

    /// The record of a slot, made if it has none.
    pub(super) fn record(&mut self, id: Id) -> &mut Record {
        let slot = self.slots.get_mut(id as usize).and_then(Option::as_mut);
        let slot = slot.expect("an id in a list names a live slot");
        slot.record.get_or_insert_with(|| self.spare.pop().unwrap_or_default())
    }

    /// All live ids, in the order of their slots.
    pub(super) fn ids(&self) -> Vec<Id> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.is_some()).map(|(id, _)| id).collect()
    }
}

/// The table wants 64 bits of which the highest select the group: a multiplication spreads our 32 over them.
fn spread_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Tells the run's own changes from foreign ones, now that its writes are known.
fn judge(record: &Record, own: &[OwnWrite]) -> Arrived {
    let Some(pending) = &record.pending else { return Arrived::default() };
    let mut arrived = Arrived {
        input: pending.input,
        observed: pending.observed,
        resync: pending.resync,
        own: false,
        own_status_only: true,
    };
    for (kind, step) in &pending.changes {
        match own.iter().find(|write| write.step == *step) {
            Some(write) => {
                arrived.own = true;
                arrived.own_status_only &= write.status_only;
            }
            None if kind.is_input() => arrived.input = true,
            None => arrived.observed = true,
        }
    }
    arrived.own_status_only &= arrived.own;
    arrived
}

#[cfg(test)]
mod check;

#[cfg(all(test, reconcile_loom))]
mod interleavings;

#[cfg(all(test, reconcile_loom))]
mod stopping;
