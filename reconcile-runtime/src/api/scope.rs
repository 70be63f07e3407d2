//! What one run writes: recorded while it writes, and read by the worker when the run has ended.
//!
//! A worker attaches a [`RunScope`] to every run as its ambient identity. [`Api`](crate::Api) and
//! [`Client`](crate::Client) find it there, write with its fence, and leave behind which steps of which
//! objects were the run's own, what has to be read again before the key's next run, and which writes have not
//! settled yet.
//!
//! Not here: what a worker makes of it.
//!
//! # Invariants
//!
//! 1. A started write counts as in flight from before its first request until its [`InFlight`] is dropped,
//!    and every exit drops it: return, panic, abort, and the end of the time limit.
//! 2. An own step is recorded before the write that made it stops being in flight, so a report taken after
//!    [`settled`](RunScope::settled) misses none.
//! 3. Whoever waits in `settled` has put its waker in the list under the lock that the count is read under, so
//!    the write that brings the count to zero wakes it. Wakers are called after the lock is released.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use futures::future::BoxFuture;
use reconcile_core::{Run, StoreError, store::Fence};

use crate::change::Step;

/// What one run writes.
pub(crate) struct RunScope {
    /// Who writes, for logs.
    controller: Arc<str>,
    /// The term, if the controller is elected; goes with every write.
    fence: Option<Fence>,
    /// Whether anything was ever put into `state` since the last report: set before it, cleared by the report.
    touched: AtomicBool,
    state: Mutex<ScopeState>,
}

#[derive(Default)]
struct ScopeState {
    report: ScopeReport,
    /// Started writes that have not settled.
    in_flight: usize,
    /// Who waits for `in_flight` to become zero (invariant 3).
    waiting: Vec<Waker>,
}

/// One step that the run wrote itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnWrite {
    /// From the revision that the write was decided on to the one that it made.
    pub(crate) step: Step,
    /// Whether it changed nothing but a status.
    pub(crate) status_only: bool,
}

/// What a run left behind.
#[derive(Default)]
pub(crate) struct ScopeReport {
    /// The steps that the run wrote, in order.
    pub(crate) own: Vec<OwnWrite>,
    /// How many writes changed something in a store.
    pub(crate) effective_writes: u32,
    /// How many writes lost to somebody who was quicker.
    pub(crate) conflicts: u32,
    /// What must be read again before the key runs next.
    pub(crate) refresh: Vec<Box<dyn Refresh>>,
}

/// An object to be read live, because a write failed and the read after it failed too.
pub(crate) trait Refresh: Send + Sync + 'static {
    /// Reads the object, and tells its cache.
    fn run(&self) -> BoxFuture<'static, Result<(), StoreError>>;
}

impl RunScope {
    /// A scope for the runs of a controller, in a term if it is elected. Allocates once.
    pub(crate) fn new(controller: Arc<str>, fence: Option<Fence>) -> Arc<Self> {
        Arc::new(RunScope { controller, fence, touched: AtomicBool::new(false), state: Mutex::default() })
    }

    /// The scope of the run that is being polled on this thread, if there is one.
    pub(crate) fn current() -> Option<Arc<RunScope>> {
        Arc::downcast(Run::current()?.ambient()?.clone()).ok()
    }

    /// The term that goes with every write.
    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// Whether the run made this step itself.
    pub(crate) fn has_written(&self, step: Step) -> bool {
        self.lock().report.own.iter().any(|write| write.step == step)
    }

    /// Whether the run started a write or left anything behind. Without it there is nothing to wait for and
    /// nothing to report.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    /// Takes what the run left behind. Empty lists cost no allocation.
    pub(crate) fn report(&self) -> ScopeReport {
        let report = std::mem::take(&mut self.lock().report);
        self.touched.store(false, Ordering::Release);
        report
    }

    /// Whether no write is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().in_flight == 0
    }

    /// Waits until no write is in flight.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves one waker behind, which is woken at most once and then gone.
    pub(crate) async fn settled(&self) {
        std::future::poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut state = self.lock();
            if state.in_flight == 0 {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|known| known.will_wake(&waker)) {
                state.waiting.push(waker); // invariant 3
            }
            Poll::Pending
        })
        .await;
    }

    /// A write of this run starts.
    pub(crate) fn start(self: &Arc<Self>) -> InFlight {
        self.touched.store(true, Ordering::Release);
        self.lock().in_flight += 1;
        InFlight { scope: self.clone() }
    }

    /// A write of this run changed something; `step` is none if the object is in no cache of the manager, or
    /// if nobody can tell which revision was this run's.
    pub(crate) fn wrote(&self, own: Option<OwnWrite>) {
        self.touched.store(true, Ordering::Release);
        let mut state = self.lock();
        state.report.effective_writes = state.report.effective_writes.saturating_add(1);
        state.report.own.extend(own);
    }

    /// A write of this run lost to somebody who was quicker.
    pub(crate) fn conflicted(&self) {
        self.touched.store(true, Ordering::Release);
        let mut state = self.lock();
        state.report.conflicts = state.report.conflicts.saturating_add(1);
    }

    /// The object could not be read after a failed write: the key's next run has to do it first.
    pub(crate) fn needs(&self, refresh: Box<dyn Refresh>) {
        self.touched.store(true, Ordering::Release);
        self.lock().report.refresh.push(refresh);
    }

    fn lock(&self) -> MutexGuard<'_, ScopeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RunScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunScope")
            .field("controller", &self.controller)
            .field("fence", &self.fence)
            .field("in_flight", &self.lock().in_flight)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ScopeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeReport")
            .field("own", &self.own)
            .field("effective_writes", &self.effective_writes)
            .field("conflicts", &self.conflicts)
            .field("refresh", &self.refresh.len())
            .finish()
    }
}

/// One started write of a run; it is in flight until this is dropped (invariant 1).
#[derive(Debug)]
pub(crate) struct InFlight {
    scope: Arc<RunScope>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.scope.lock();
            state.in_flight = state.in_flight.saturating_sub(1);
            if state.in_flight == 0 { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        for waker in woken {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use reconcile_core::Revision;

    fn scope() -> Arc<RunScope> {
        RunScope::new("web".into(), None)
    }

    #[test]
    fn a_scope_is_found_only_while_its_run_is_polled() {
        let scope = scope();
        let (run, _control) = Run::builder().ambient(scope.clone()).build();
        assert!(RunScope::current().is_none());
        run.enter(|| assert!(Arc::ptr_eq(&RunScope::current().unwrap(), &scope)));
        assert!(RunScope::current().is_none());
    }

    #[test]
    fn another_ambient_value_is_no_scope() {
        let (run, _control) = Run::builder().ambient(Arc::new(7_u32)).build();
        run.enter(|| assert!(RunScope::current().is_none()));
    }

    #[test]
    fn settled_waits_for_the_last_of_several_writes() {
        let scope = scope();
        assert!(scope.is_settled() && scope.settled().now_or_never().is_some());
        let (first, second) = (scope.start(), scope.start());
        let waiting = scope.clone();
        let mut settled = tokio_test_task(async move { waiting.settled().await });
        assert!(!settled.poll());
        drop(second);
        assert!(!settled.woken() && !settled.poll());
        drop(first);
        assert!(settled.woken() && settled.poll());
    }

    #[test]
    fn a_dropped_waiter_takes_no_wake_up_from_another() {
        let scope = scope();
        let write = scope.start();
        let (one, two) = (scope.clone(), scope.clone());
        let mut gone = tokio_test_task(async move { one.settled().await });
        let mut stays = tokio_test_task(async move { two.settled().await });
        assert!(!gone.poll() && !stays.poll());
        drop(gone);
        drop(write);
        assert!(stays.woken() && stays.poll());
    }

    #[test]
    fn a_report_is_taken_once_and_an_untouched_scope_has_none() {
        let scope = scope();
        assert!(!scope.is_touched());
        let step = Step { kind: 1, before: Revision(3), after: Revision(4) };
        scope.wrote(Some(OwnWrite { step, status_only: true }));
        scope.wrote(None);
        scope.conflicted();
        assert!(scope.is_touched());
        let report = scope.report();
        assert_eq!((report.own.len(), report.effective_writes, report.conflicts), (1, 2, 1));
        assert!(!scope.is_touched());
        assert_eq!(scope.report().effective_writes, 0);
    }

    use crate::cache::test_task::task as tokio_test_task;
}
