//! The wake and park protocol: how work meets workers, without a lost wake-up and without needless ones.
//!
//! A desk holds the work behind one lock, and a seat for each worker. A worker that finds nothing parks under
//! the very lock under which it found nothing. Whoever brings work calls one parked worker, and a worker that
//! arrives while more is left calls the next one: so a burst wakes as many as it needs, one after another.
//!
//! # Invariants
//!
//! 1. A worker parks in the same critical section in which it found nothing, so no work can come in between.
//! 2. At most one worker is called and has not arrived. The mark is cleared when that worker arrives, whatever
//!    it finds, and when its seat is given up; both then call the next one if work is left.
//! 3. While work is ready and a worker is parked, a worker is called or awake. An awake one is on a processor
//!    and looks for work before it parks; one whose run is suspended does not count.
//! 4. Wakers are called and dropped outside the lock.
//!
//! A second worker is called beside an awake one only when the backlog is worth it, since a wake across threads
//! costs as much as many cheap runs.
//!
//! No tokio types here: loom explores every interleaving of this module (see the `loom` tests beside it).

use std::task::Waker;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The work behind the desk.
pub(crate) trait Work {
    /// How many jobs could be taken now.
    fn ready(&self) -> usize;

    /// What the backlog is likely to cost in nanoseconds of processor time, if one worker did it all.
    fn backlog_nanos(&self) -> u64;

    /// Whether a timer was set that is sooner than the one that the timer task sleeps for.
    fn needs_timer(&self) -> bool;

    /// Whether there will never be work again.
    fn is_closed(&self) -> bool;
}

/// What makes waking another worker beside an awake one worth its cost. Below about 100 µs of work, the wake,
/// the migration of the lock and the cold cache cost more than a second processor brings.
const WORTH_A_WORKER_NANOS: u64 = 100_000;

/// A worker's place at a desk, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat(usize);

#[derive(Debug)]
enum Sitting {
    /// The seat is free.
    Vacant,
    /// On a processor, or about to be: it looks for work before it parks.
    Awake,
    /// Its run waits for something.
    Suspended,
    /// Found nothing. Taken by a caller.
    Parked(Waker),
    /// Its waker was taken and called.
    Called,
}

/// What a worker gets when it looks for work.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// A job; and whether another worker was called for what is left, so that this one should yield once: the
    /// called worker may be in this thread's slot that other threads cannot steal from.
    Job(T, Called),
    /// Nothing: the worker is parked.
    Parked,
    /// Nothing, for ever.
    Closed,
}

/// Whether an operation called a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    Yes,
    No,
}

#[derive(Debug)]
struct State<M> {
    work: M,
    seats: Vec<Sitting>,
    /// Seats that parked, the last one on top. May name seats that are parked no more; each seat at most once.
    stack: Vec<Seat>,
    /// Which seats stand in `stack`.
    stacked: Vec<bool>,
    awake: usize,
    /// The seat that is called and has not arrived.
    called: Option<Seat>,
    /// The timer task, while it sleeps.
    timer: Option<Waker>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Desk<M> {
    state: Mutex<State<M>>,
    #[cfg(reconcile_loom)]
    flaw: Flaw,
}

/// A deliberate mistake, to show that the model checker finds it.
#[cfg(reconcile_loom)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// A called worker that finds nothing leaves the mark set: whoever brings work believes that one is coming.
    MarkStays,
}

/// Wakers to be called once the lock is released (invariant 4).
#[derive(Default)]
struct Wake {
    worker: Option<Waker>,
    timer: Option<Waker>,
}

impl Wake {
    fn now(self) -> Called {
        if let Some(timer) = self.timer {
            timer.wake();
        }
        match self.worker {
            Some(worker) => {
                worker.wake();
                Called::Yes
            }
            None => Called::No,
        }
    }
}

impl<M: Work> Desk<M> {
    pub(crate) fn new(work: M) -> Self {
        let state = State {
            work,
            seats: Vec::new(),
            stack: Vec::new(),
            stacked: Vec::new(),
            awake: 0,
            called: None,
            timer: None,
        };
        Desk {
            state: Mutex::new(state),
            #[cfg(reconcile_loom)]
            flaw: Flaw::None,
        }
    }

    /// Does something with the work, and wakes who is needed for what it brought.
    pub(crate) fn operate<T>(&self, f: impl FnOnce(&mut M) -> T) -> T {
        let mut state = self.lock();
        let result = f(&mut state.work);
        let wake = state.wake();
        drop(state);
        wake.now();
        result
    }

    /// Reads the work; nothing may become ready by it.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        f(&self.lock().work)
    }

    /// Takes a seat. Whoever takes one gives it back with [`leave`](Self::leave).
    pub(crate) fn sit(&self) -> Seat {
        let mut state = self.lock();
        state.awake += 1;
        match state.seats.iter().position(|seat| matches!(seat, Sitting::Vacant)) {
            Some(vacant) => {
                state.set(Seat(vacant), Sitting::Awake);
                Seat(vacant)
            }
            None => {
                state.seats.push(Sitting::Awake);
                state.stacked.push(false);
                Seat(state.seats.len() - 1)
            }
        }
    }

    /// Gives a seat back, in whatever state: a worker that was called passes the call on (invariant 2).
    pub(crate) fn leave(&self, seat: Seat) {
        let mut state = self.lock();
        state.arrive(seat);
        state.awake -= 1;
        let left = state.set(seat, Sitting::Vacant);
        let wake = state.wake();
        drop(state);
        drop(left);
        wake.now();
    }

    /// Looks for work: `take` gets the work, ends the worker's last run and takes the next. The worker stays
    /// awake if there is none; it has to look again to park.
    pub(crate) fn look<T>(&self, seat: Seat, take: impl FnOnce(&mut M) -> Option<T>) -> Option<(T, Called)> {
        let mut state = self.lock();
        let parked = self.arrive(&mut state, seat);
        let job = take(&mut state.work);
        let wake = state.wake();
        drop(state);
        drop(parked);
        let called = wake.now();
        job.map(|job| (job, called))
    }

    /// Looks for work, and parks if there is none. Needs the waker in hand, which costs a clone; a worker with
    /// a run behind it tries [`look`](Self::look) first.
    pub(crate) fn look_or_park<T>(
        &self,
        seat: Seat,
        waker: &Waker,
        take: impl FnOnce(&mut M) -> Option<T>,
    ) -> Found<T> {
        let waker = waker.clone(); // outside the lock (invariant 4)
        let mut state = self.lock();
        let parked = self.arrive(&mut state, seat);
        let found = match take(&mut state.work) {
            Some(job) => Found::Job(job, Called::No),
            None if state.work.is_closed() => Found::Closed,
            None => {
                state.park(seat, waker); // invariant 1
                Found::Parked
            }
        };
        let wake = state.wake();
        drop(state);
        drop(parked);
        let called = wake.now();
        match found {
            Found::Job(job, _) => Found::Job(job, called),
            other => other,
        }
    }

    /// The worker's run waits for something: it is no longer there to take what is ready (invariant 3).
    pub(crate) fn suspend(&self, seat: Seat) {
        let mut state = self.lock();
        if matches!(state.seats.get(seat.0), Some(Sitting::Awake)) {
            state.awake -= 1;
            state.set(seat, Sitting::Suspended);
        }
        let wake = state.wake();
        drop(state);
        wake.now();
    }

    /// Arms the timer: `arm` says until when to sleep, and `waker` is called when a sooner timer is set.
    pub(crate) fn arm<T>(&self, waker: &Waker, arm: impl FnOnce(&mut M) -> T) -> T {
        let waker = waker.clone();
        let mut state = self.lock();
        let until = arm(&mut state.work);
        let old = state.timer.replace(waker);
        let wake = state.wake();
        drop(state);
        drop(old);
        wake.now();
        until
    }

    /// Wakes everybody, so that each sees for itself that the desk is closed.
    pub(crate) fn wake_all(&self) {
        let mut state = self.lock();
        let mut wakers: Vec<Waker> = state.timer.take().into_iter().collect();
        let seats: Vec<Seat> = (0..state.seats.len()).map(Seat).collect();
        for seat in seats {
            if let Some(Sitting::Parked(_)) = state.seats.get(seat.0)
                && let Sitting::Parked(waker) = state.set(seat, Sitting::Called)
            {
                wakers.push(waker);
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The worker looks for work: it is called no more (invariant 2), unless the model checker is to find out.
    fn arrive(&self, state: &mut State<M>, seat: Seat) -> Sitting {
        #[cfg(reconcile_loom)]
        let marked = state.called;
        let before = state.arrive(seat);
        #[cfg(reconcile_loom)]
        if self.flaw == Flaw::MarkStays {
            state.called = marked;
        }
        before
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        // No user code but a key's `Eq` runs under the lock, and the state is whole between any two calls of it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Work> State<M> {
    /// Whom to wake now (invariants 2 and 3).
    fn wake(&mut self) -> Wake {
        let timer = if self.work.needs_timer() { self.timer.take() } else { None };
        Wake { worker: self.call(), timer }
    }

    fn call(&mut self) -> Option<Waker> {
        if self.work.ready() == 0 || self.called.is_some() {
            return None;
        }
        if self.awake > 0 && self.work.backlog_nanos() < WORTH_A_WORKER_NANOS {
            return None;
        }
        while let Some(seat) = self.stack.pop() {
            if let Some(stacked) = self.stacked.get_mut(seat.0) {
                *stacked = false;
            }
            if matches!(self.seats.get(seat.0), Some(Sitting::Parked(_)))
                && let Sitting::Parked(waker) = self.set(seat, Sitting::Called)
            {
                self.called = Some(seat);
                return Some(waker);
            }
        }
        None
    }

    /// The worker is here: it counts as awake, and it is called no more. Answers what it was, to be dropped
    /// outside the lock.
    fn arrive(&mut self, seat: Seat) -> Sitting {
        if self.called == Some(seat) {
            self.called = None;
        }
        let before = self.set(seat, Sitting::Awake);
        if !matches!(before, Sitting::Awake) {
            self.awake += 1;
        }
        before
    }

    fn park(&mut self, seat: Seat, waker: Waker) {
        self.awake -= 1;
        self.set(seat, Sitting::Parked(waker));
        if let Some(stacked) = self.stacked.get_mut(seat.0)
            && !std::mem::replace(stacked, true)
        {
            self.stack.push(seat);
        }
    }

    fn set(&mut self, seat: Seat, sitting: Sitting) -> Sitting {
        match self.seats.get_mut(seat.0) {
            Some(place) => std::mem::replace(place, sitting),
            None => Sitting::Vacant,
        }
    }
}

#[cfg(all(test, reconcile_loom))]
#[path = "desk_loom.rs"]
mod loom_tests;
