//! The queue as the rest of the crate sees it: a handle around the machine, its lock, its clock and its
//! waiters.
//!
//! # Invariants
//!
//! 1. Every operation takes the desk's lock once; what it leaves behind ([`Effects`]) is carried out after the
//!    lock is released: dropping keys and errors, answering waiters, cancelling runs.
//! 2. A key is hashed once, before the lock.
//! 3. A ticket is answered at most once, and is forgotten by the machine when its waiter is gone.
//!
//! Not here: what a worker does with a job; see [`worker`](crate::worker).

use std::{
    collections::HashMap,
    fmt,
    hash::BuildHasher,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use foldhash::fast::FixedState;
use reconcile_core::{Cause, CauseKind, Causes, Key, ReconcileError, RunControl};
use tokio::sync::{Notify, oneshot};

use super::{
    Explanation, QueueConfig, QueueSnapshot, Signal, SignalKind,
    desk::{Called, Desk, Found, Seat, Work},
    effects::{Answer, Effects, Rare},
    ended::Finished,
    machine::{Machine, Taken},
    signal::Lane,
};
use crate::{
    api::scope::RunScope,
    environment::{Environment, Fork, Time},
    panics::guarded,
};

/// A work queue: a cheap handle.
pub(crate) struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    name: Arc<str>,
    desk: Desk<Core<K>>,
    env: Environment,
    /// Seeded per queue, so that no outsider can choose keys that collide.
    hasher: FixedState,
    /// Who waits for an answer, by ticket (invariant 3).
    tickets: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    next_ticket: AtomicU64,
    /// Notified when nothing is ready or running any more.
    quiet: Notify,
    /// Notified when no run is running any more.
    drained: Notify,
    /// Whether runs are to be dropped now.
    abandoned: AtomicBool,
    abandon: Notify,
}

/// The most that one run counts for in the mean cost, so that a run that waited for hours does not hide what
/// the others cost.
const COSTLIEST_NANOS: u64 = 1_000_000_000;

/// What the desk's lock guards.
struct Core<K> {
    machine: Machine<K>,
    random: Fork,
    /// The mean cost of the latest runs in nanoseconds, over about eight of them.
    cost_nanos: u64,
    was_quiet: bool,
    was_drained: bool,
}

impl<K: Key> Work for Core<K> {
    fn ready(&self) -> usize {
        self.machine.ready()
    }

    fn backlog_nanos(&self) -> u64 {
        self.cost_nanos.saturating_mul(self.machine.ready() as u64)
    }

    fn needs_timer(&self) -> bool {
        self.machine.is_sooner()
    }

    fn is_closed(&self) -> bool {
        self.machine.closed
    }
}

/// Which of the states that somebody may wait for an operation has reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    quiet: bool,
    drained: bool,
}

impl<K: Key> Core<K> {
    /// Takes the cost of a run into the mean.
    fn costs(&mut self, took: Duration) {
        let cost = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(COSTLIEST_NANOS);
        self.cost_nanos = self.cost_nanos - self.cost_nanos / 8 + cost / 8;
    }

    fn reached(&mut self) -> Reached {
        let drained = self.machine.is_drained();
        let quiet = drained && self.machine.ready() == 0;
        let reached = Reached { quiet: quiet && !self.was_quiet, drained: drained && !self.was_drained };
        self.was_quiet = quiet;
        self.was_drained = drained;
        reached
    }
}

impl<K: Key> Queue<K> {
    pub(crate) fn new(config: QueueConfig, env: &Environment) -> Self {
        let mut random = env.random().fork();
        let seed = random.next_u64();
        let core = Core {
            machine: Machine::new(config.clone(), env.now()),
            random,
            cost_nanos: 0,
            was_quiet: true,
            was_drained: true,
        };
        Queue {
            inner: Arc::new(Inner {
                name: config.name,
                desk: Desk::new(core),
                env: env.clone(),
                hasher: FixedState::with_seed(seed),
                tickets: Mutex::default(),
                next_ticket: AtomicU64::new(0),
                quiet: Notify::new(),
                drained: Notify::new(),
                abandoned: AtomicBool::new(false),
                abandon: Notify::new(),
            }),
        }
    }

    /// The controller's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.inner.name
    }

    // === signals

    /// A signal for a key. Never blocks, never awaits.
    pub(crate) fn signal(&self, key: K, signal: Signal) {
        let hash = self.hash(&key);
        self.operate(|core, now, fx| core.machine.signal(hash, key, signal, now, fx));
    }

    /// The key's object carries the pause annotation.
    pub(crate) fn pause_key(&self, key: K, cause: Cause) {
        let hash = self.hash(&key);
        let _ = cause;
        self.operate(|core, now, fx| core.machine.pause_key(hash, key, now, fx));
    }

    /// The key's object carries the pause annotation no more: an input.
    pub(crate) fn resume_key(&self, key: K, cause: Cause) {
        let hash = self.hash(&key);
        self.operate(|core, now, fx| {
            core.machine.resume_key(hash, &key, now, fx);
            core.machine.signal(hash, key, Signal::new(SignalKind::Input, Lane::Normal, cause), now, fx);
        });
    }

    /// Hands out no keys any more; intake goes on.
    pub(crate) fn pause(&self) {
        self.operate(|core, _, fx| core.machine.pause(fx));
    }

    /// Hands out keys again.
    pub(crate) fn resume(&self) {
        self.operate(|core, _, _| core.machine.resume());
    }

    // === stopping

    /// Closes the intake, drops what is queued, and asks the runs to stop.
    pub(crate) fn close(&self) {
        self.operate(|core, _, fx| core.machine.close(fx));
        self.inner.desk.wake_all();
        self.inner.quiet.notify_waiters();
    }

    /// The grace is over: workers drop the futures of their runs.
    pub(crate) fn abandon(&self) {
        self.inner.abandoned.store(true, Ordering::Release);
        self.inner.abandon.notify_waiters();
    }

    /// Whether [`abandon`](Self::abandon) was called.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.abandoned.load(Ordering::Acquire)
    }

    /// Waits until [`abandon`](Self::abandon) is called.
    pub(crate) async fn abandoned(&self) {
        let mut notified = std::pin::pin!(self.inner.abandon.notified());
        notified.as_mut().enable(); // before the flag is read, so that no call comes in between
        if !self.is_abandoned() {
            notified.await;
        }
    }

    /// Waits until no worker has a key.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub(crate) async fn drained(&self) {
        self.until(&self.inner.drained, |core| core.machine.is_drained()).await;
    }

    /// Keys that a worker has, longest first, as text.
    pub(crate) fn running(&self) -> Vec<String> {
        let keys = self.inner.desk.read(|core| core.machine.running_keys());
        keys.iter().map(|key| format!("{key:?}")).collect()
    }

    // === asking

    /// Why a key is running, waiting or not running.
    pub(crate) fn explain(&self, key: &K) -> Explanation<K> {
        let (hash, now) = (self.hash(key), self.inner.env.now());
        let told = self.inner.desk.read(|core| core.machine.explain(hash, key, now));
        told.about(key.clone())
    }

    /// The queue in numbers.
    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        let now = self.inner.env.now();
        self.inner.desk.read(|core| core.machine.snapshot(now))
    }

    /// The keys that fail, with their last errors.
    pub(crate) fn failing(&self) -> Vec<(K, Option<ReconcileError>)> {
        let failing = self.inner.desk.read(|core| core.machine.failing());
        failing.into_iter().map(|(key, error)| ((*key).clone(), error)).collect()
    }

    /// Waits until no key is ready or running; at once if so.
    pub(crate) async fn quiet(&self) {
        self.until(&self.inner.quiet, |core| {
            core.machine.closed || (core.machine.is_drained() && core.machine.ready() == 0)
        })
        .await;
    }

    /// Waits until a run that started after the newest input known now has ended converged.
    pub(crate) async fn wait_converged(&self, key: &K) -> Answer {
        self.wait(key, |core, hash, key, ticket, now, fx| {
            core.machine.wait_converged(hash, key, ticket, now, fx);
        })
        .await
    }

    /// Waits until the key's next run has ended.
    pub(crate) async fn wait_outcome(&self, key: &K) -> Answer {
        self.wait(key, |core, hash, key, ticket, now, fx| {
            core.machine.wait_outcome(hash, key, ticket, now, fx);
        })
        .await
    }

    async fn wait(
        &self,
        key: &K,
        register: impl FnOnce(&mut Core<K>, u32, K, u64, Time, &mut Effects<K>),
    ) -> Answer {
        let ticket = self.inner.next_ticket.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.tickets().insert(ticket, sender);
        let hash = self.hash(key);
        let guard = TicketGuard { queue: self, key, hash, ticket };
        let own = key.clone();
        self.operate(|core, now, fx| register(core, hash, own, ticket, now, fx));
        let answer = receiver.await.unwrap_or(Answer::Stopped);
        drop(guard);
        answer
    }

    async fn until(&self, notify: &Notify, reached: impl Fn(&Core<K>) -> bool) {
        loop {
            let mut notified = std::pin::pin!(notify.notified());
            notified.as_mut().enable(); // before looking, so that no change comes in between
            if self.inner.desk.read(&reached) {
                return;
            }
            notified.await;
        }
    }

    // === timers

    /// The timer task: moves keys to the lanes when they are due. Ends when the queue is closed.
    pub(crate) async fn run_timers(&self) {
        loop {
            let mut sleep = None;
            let closed = std::future::poll_fn(|cx| {
                loop {
                    let (closed, wake_at) = self.rearm(cx.waker());
                    if closed {
                        return Poll::Ready(true);
                    }
                    let Some(wake_at) = wake_at else { return Poll::Pending };
                    let mut timer = self.inner.env.sleep_until(wake_at);
                    if timer.as_mut().poll(cx).is_pending() {
                        sleep = Some(timer);
                        return Poll::Pending;
                    }
                }
            })
            .await;
            drop(sleep);
            if closed {
                return;
            }
        }
    }

    /// Moves what is due, and answers until when to sleep; a sooner timer calls the waker.
    fn rearm(&self, waker: &Waker) -> (bool, Option<Time>) {
        let now = self.inner.env.now();
        let mut fx = Effects::default();
        let answer = self.inner.desk.arm(waker, |core| {
            core.machine.advance(now, &mut fx);
            (core.machine.closed, core.machine.arm())
        });
        self.carry_out(fx, Reached::default());
        answer
    }

    // === workers

    /// Takes a seat for a worker.
    pub(crate) fn sit(&self) -> WorkerSeat<K> {
        WorkerSeat { queue: self.clone(), seat: self.inner.desk.sit() }
    }

    fn operate<T>(&self, f: impl FnOnce(&mut Core<K>, Time, &mut Effects<K>) -> T) -> T {
        let now = self.inner.env.now();
        let mut fx = Effects::default();
        let (result, reached) = self.inner.desk.operate(|core| {
            let result = f(core, now, &mut fx);
            (result, core.reached())
        });
        self.carry_out(fx, reached);
        result
    }

    /// Carries out what an operation left behind (invariant 1).
    fn carry_out(&self, fx: Effects<K>, reached: Reached) {
        if let Some(rare) = fx.rare() {
            self.carry_out_rare(rare);
        }
        if reached.quiet {
            self.inner.quiet.notify_waiters();
        }
        if reached.drained {
            self.inner.drained.notify_waiters();
        }
        // Last, and guarded: with it go keys and errors, whose drop is user code.
        if let Err(message) = guarded(|| drop(fx)) {
            tracing::error!(controller = &*self.inner.name, panic = %message, "a key or an error panicked in its drop");
        }
    }

    fn carry_out_rare(&self, rare: &Rare<K>) {
        if let Some((control, step)) = &rare.supersede {
            // The run's own write comes back as a signal; it must not cancel the run that made it.
            let own = step.is_some_and(|step| {
                let scope = control.run().ambient().cloned().and_then(|any| any.downcast::<RunScope>().ok());
                scope.is_some_and(|scope| scope.has_written(step))
            });
            if !own {
                control.supersede();
            }
        }
        for control in &rare.stop {
            control.stop();
        }
        for (ticket, answer) in &rare.answers {
            let sender = self.tickets().remove(ticket);
            // A waiter that is gone needs no answer.
            let _gone = sender.map(|sender| sender.send(answer.clone()));
        }
    }

    fn tickets(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.inner.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, key: &K) -> u32 {
        // The upper half: foldhash mixes it best.
        (self.inner.hasher.hash_one(key) >> 32) as u32
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// Forgets the ticket of a waiter that is dropped (invariant 3).
struct TicketGuard<'a, K: Key> {
    queue: &'a Queue<K>,
    key: &'a K,
    hash: u32,
    ticket: u64,
}

impl<K: Key> Drop for TicketGuard<'_, K> {
    fn drop(&mut self) {
        let unanswered = self.queue.tickets().remove(&self.ticket);
        if unanswered.is_some() {
            let (hash, ticket) = (self.hash, self.ticket);
            self.queue.operate(|core, _, fx| core.machine.forget_waiter(hash, self.key, ticket, fx));
        }
    }
}

/// A worker's seat; given back when it is dropped.
pub(crate) struct WorkerSeat<K: Key> {
    queue: Queue<K>,
    seat: Seat,
}

/// A key that this worker has to run. However it is dropped, the key is released (invariant 4 of the queue).
pub(crate) struct Job<K: Key> {
    queue: Queue<K>,
    taken: Option<Taken<K>>,
    /// How the run ended; a job that is dropped without it was cancelled.
    finished: Option<Finished>,
}

impl<K: Key> Job<K> {
    pub(crate) fn taken(&self) -> &Taken<K> {
        self.taken.as_ref().expect("a job holds its key until it is finished")
    }

    pub(crate) fn take_carry(&mut self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.taken.as_mut().and_then(|taken| taken.carry.take())
    }

    /// Says how the run ended; the key is released with the next look for work, or when the job is dropped.
    pub(crate) fn finish(&mut self, finished: Finished) {
        self.finished = Some(finished);
    }
}

impl<K: Key> Drop for Job<K> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            let finished = self.finished.take().unwrap_or_else(|| Finished::of(cancelled()));
            self.queue.operate(|core, now, fx| {
                let random = core.random.next_u64();
                core.machine.finish(taken.id, finished, now, random, fx);
            });
        }
    }
}

/// The outcome of a run whose worker was dropped.
fn cancelled() -> super::Ended {
    super::Ended::Failed(ReconcileError::new(reconcile_core::Retry::Cancelled, "the worker was stopped"))
}

/// What a worker that looks for work gets: the job, the run's control, and whether to yield first.
pub(crate) type Given<K> = (Job<K>, RunControl, Called);

impl<K: Key> WorkerSeat<K> {
    /// Ends the last run and takes the next key, in one critical section. None if nothing is due.
    ///
    /// `make` builds the run of the key that is taken: from its attempt, its causes and the time.
    pub(crate) fn next_now(
        &self,
        done: Option<Job<K>>,
        make: impl FnOnce(u32, Causes, Time) -> RunControl,
    ) -> Option<Given<K>> {
        let queue = &self.queue;
        let now = queue.inner.env.now();
        let mut fx = Effects::default();
        let mut reached = Reached::default();
        let mut spent = None;
        let mut finished = None;
        if let Some(mut job) = done {
            spent = job.taken.take();
            finished = Some(job.finished.take().unwrap_or_else(|| Finished::of(cancelled())));
        }
        let found = queue.inner.desk.look(self.seat, |core| {
            if let (Some(taken), Some(finished)) = (&spent, finished.take()) {
                core.costs(now.since(taken.started));
                let random = core.random.next_u64();
                core.machine.finish(taken.id, finished, now, random, &mut fx);
            }
            let taken = core.machine.take(now, make, &mut fx);
            reached = core.reached();
            taken
        });
        // The guard of the new key first: what is dropped after it is user code.
        let next = found.map(|((taken, control), called)| (self.job(taken), control, called));
        if let Some(taken) = spent {
            fx.drop_key(taken.key);
        }
        queue.carry_out(fx, reached);
        next
    }

    /// Waits for a key that is due, and takes it. None once the queue is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no key.
    pub(crate) async fn next(
        &self,
        mut make: impl FnMut(u32, Causes, Time) -> RunControl,
    ) -> Option<Given<K>> {
        let queue = &self.queue;
        std::future::poll_fn(|cx| {
            let now = queue.inner.env.now();
            let mut fx = Effects::default();
            let mut reached = Reached::default();
            let found = queue.inner.desk.look_or_park(self.seat, cx.waker(), |core| {
                let taken = core.machine.take(now, &mut make, &mut fx);
                reached = core.reached();
                taken
            });
            // The guard of the new key first: what is dropped after it is user code.
            let next = match found {
                Found::Job((taken, control), called) => Poll::Ready(Some((self.job(taken), control, called))),
                Found::Parked => Poll::Pending,
                Found::Closed => Poll::Ready(None),
            };
            queue.carry_out(fx, reached);
            next
        })
        .await
    }

    fn job(&self, taken: Taken<K>) -> Job<K> {
        Job { queue: self.queue.clone(), taken: Some(taken), finished: None }
    }

    /// The run waits for something: another worker may be needed for what is ready.
    pub(crate) fn suspend(&self) {
        self.queue.inner.desk.suspend(self.seat);
    }
}

impl<K: Key> Drop for WorkerSeat<K> {
    fn drop(&mut self) {
        self.queue.inner.desk.leave(self.seat);
    }
}

/// A signal that somebody asked for by hand.
pub(crate) fn by_hand() -> Signal {
    Signal::new(SignalKind::Input, Lane::High, Cause::new(CauseKind::Enqueued, ""))
}
