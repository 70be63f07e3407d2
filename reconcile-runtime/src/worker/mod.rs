//! One of the tasks that run the keys of a queue.
//!
//! Promises: the reconciler's future runs in place, without a box or a task of its own; a panic of the call, of
//! a poll or of the drop ends only this run; a run over its limit is dropped; the key is released by a guard on
//! every path; and while a write of the run is still on its way, the key is not released.
//!
//! The poll order is limit, stop, run: a run that is always ready cannot outrun its limit.
//!
//! Not here: which key runs when ([`queue`](crate::queue)), and restarting a worker that died
//! ([`manager`](crate::manager)).

mod attempt;
mod report;

use std::{any::Any, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use reconcile_core::{Causes, Error, Reconciler, Retry, Run, RunControl, store::Fence};

use crate::{
    Environment,
    api::scope::{Refresh, RunScope},
    environment::Time,
    panics::guarded,
    queue::{Called, Finished, Job, Queue},
};

/// A worker yields after so many runs that never waited, so that timers and other tasks get their turn (and
/// virtual time can move). Small enough for a fair share, large enough that yielding costs nothing.
const RUNS_PER_TURN: u32 = 64;

/// How long a key is kept for a write that its dropped run had started. As long as a store operation may take
/// by default.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// Sets the class of an error of foreign origin, in one place for a controller.
pub(crate) type Classify = Arc<dyn Fn(&Error) -> Option<Retry> + Send + Sync>;

/// How a worker runs.
pub(crate) struct WorkerSettings {
    /// The controller's name.
    pub(crate) name: Arc<str>,
    pub(crate) run_limit: Option<Duration>,
    pub(crate) classify: Option<Classify>,
    /// The term, if the controller is elected.
    pub(crate) fence: Option<Fence>,
}

/// One of the tasks that run keys.
pub(crate) struct Worker<T: Reconciler> {
    queue: Queue<T::Key>,
    reconciler: Arc<T>,
    env: Environment,
    settings: WorkerSettings,
}

impl<T: Reconciler> Worker<T> {
    pub(crate) fn new(
        queue: Queue<T::Key>,
        reconciler: Arc<T>,
        env: Environment,
        settings: WorkerSettings,
    ) -> Self {
        Worker { queue, reconciler, env, settings }
    }
}

/// Runs keys until the queue is closed.
pub(crate) async fn work<T: Reconciler>(worker: Worker<T>) {
    let seat = worker.queue.sit();
    let mut runs = Runs::new(&worker.env, &worker.settings);
    let mut done = None;
    let mut in_a_row = 0;
    loop {
        let ready = seat.next_now(done.take(), |attempt, causes, now| runs.make(attempt, causes, now));
        let next = match ready {
            Some(next) => Some(next),
            None => seat.next(|attempt, causes, now| runs.make(attempt, causes, now)).await,
        };
        let Some((mut job, control, called)) = next else { return };
        in_a_row += 1;
        if called == Called::Yes || in_a_row >= RUNS_PER_TURN {
            in_a_row = 0;
            tokio::task::yield_now().await;
        }
        worker.run(&seat, &runs.scope, &mut job, &control).await;
        runs.spent = Some(control.into_run());
        done = Some(job);
    }
}

/// Makes the runs of one worker, each in the allocations of the last if nobody kept it.
struct Runs<'a> {
    env: &'a Environment,
    settings: &'a WorkerSettings,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Wall time at an instant not long ago, so that a deadline costs no look at the wall clock.
    anchor: (Time, Timestamp),
    scope: Arc<RunScope>,
    spent: Option<Run>,
}

/// How long the two clocks are taken to run alike. The wall clock may be set, and a deadline is for people.
const ANCHOR_HOLDS: Duration = Duration::from_secs(1);

impl<'a> Runs<'a> {
    fn new(env: &'a Environment, settings: &'a WorkerSettings) -> Self {
        Runs {
            env,
            settings,
            wall: env.wall_fn(),
            anchor: (env.now(), env.wall()),
            scope: RunScope::new(settings.name.clone(), settings.fence.clone()),
            spent: None,
        }
    }

    fn make(&mut self, attempt: u32, mut causes: Causes, now: Time) -> RunControl {
        let deadline = self.deadline(now);
        // The last run and its scope are used again if nobody kept the run: two allocations less. Whoever did
        // keep it goes on under the old scope, which nobody reads any more.
        let reusable = self.spent.take().filter(|run| run.is_unique() && Arc::strong_count(&self.scope) == 2);
        if let Some(run) = reusable
            && let Some(control) = run.again(attempt, std::mem::take(&mut causes), deadline)
        {
            return control;
        }
        self.scope = RunScope::new(self.settings.name.clone(), self.settings.fence.clone());
        let ambient: Arc<dyn Any + Send + Sync> = self.scope.clone();
        let deadline =
            deadline.and_then(|(from, after)| from.checked_add(SignedDuration::try_from(after).ok()?).ok());
        let builder = Run::builder().attempt(attempt).causes(causes).deadline(deadline);
        builder.clock(self.wall.clone()).ambient(ambient).build().1
    }

    /// When the limit ends a run that starts now: an instant of wall time, and how long after it.
    fn deadline(&mut self, now: Time) -> Option<(Timestamp, Duration)> {
        let limit = self.settings.run_limit?;
        if now.since(self.anchor.0) > ANCHOR_HOLDS {
            self.anchor = (self.env.now(), self.env.wall());
        }
        Some((self.anchor.1, now.since(self.anchor.0).saturating_add(limit)))
    }
}

impl<T: Reconciler> Worker<T> {
    /// Runs one key, and puts into the job how it ended.
    async fn run(
        &self,
        seat: &crate::queue::WorkerSeat<T::Key>,
        scope: &Arc<RunScope>,
        job: &mut Job<T::Key>,
        control: &RunControl,
    ) {
        // What has to be read first; what this run cannot read is left to the next one.
        let carry = job.take_carry().and_then(|carry| carry.downcast::<Vec<Box<dyn Refresh>>>().ok());
        let mut unread = carry.map_or_else(Vec::new, |carry| *carry);
        let span = self.telling(|| report::span(&self.settings.name, job.taken(), control.run()));
        let span = span.unwrap_or_else(tracing::Span::none);
        let ended = attempt::attempt(self, seat, job.taken(), control, &mut unread, &span).await;
        if unread.is_empty() && !scope.is_touched() {
            // Nothing was written: most runs end here.
            self.telling(|| report::ended(&self.settings.name, job.taken(), &ended, &span));
            job.finish(Finished { effective: control.has_progressed(), ..Finished::of(ended) });
            return;
        }
        if !scope.is_settled() {
            seat.suspend();
            let until = self.env.now().saturating_add(SETTLE_LIMIT);
            if self.env.before(until, scope.settled()).await.is_err() {
                report::unsettled(&self.settings.name, job.taken());
            }
        }
        self.telling(|| report::ended(&self.settings.name, job.taken(), &ended, &span));
        let report = scope.report();
        let effective = report.effective_writes > 0 || control.has_progressed();
        unread.extend(report.refresh);
        let carry: Option<Box<dyn Any + Send + Sync>> =
            if unread.is_empty() { None } else { Some(Box::new(unread)) };
        job.finish(Finished { ended, own: report.own, effective, carry });
    }

    /// Says something about a run. Keys and errors are printed by user code, whose panic must not end the worker.
    fn telling<O>(&self, tell: impl FnOnce() -> O) -> Option<O> {
        match guarded(tell) {
            Ok(told) => Some(told),
            Err(message) => {
                let controller = &*self.settings.name;
                tracing::error!(controller, panic = %message, "a key or an error of a run panicked when it was printed");
                None
            }
        }
    }
}
