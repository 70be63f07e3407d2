//! The flags of a run and the waiters on them.
//!
//! # Invariants
//!
//! 1. Flags go from unset to set, never back.
//! 2. A waiter registers under the lock after reading the flags under the same lock, and a setter takes the
//!    wakers under that lock after setting: so no wake-up is lost. Wakers are called outside it.
//! 3. A waiter removes its own entry when it is dropped.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::Run;
use crate::Retry;

const STOPPED: u8 = 1;
const SUPERSEDED: u8 = 2;
const PROGRESSED: u8 = 4;

#[derive(Default)]
pub(super) struct CancelState {
    /// What happened to the run; set before `waiters` are woken.
    flags: AtomicU8,
    /// Who waits for `STOPPED` or `SUPERSEDED`, by rising id; empty for good once one of the two is set.
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl CancelState {
    /// As new. Whoever has it alone has no waiter left (invariant 3), but for one whose drop was forgotten.
    #[inline]
    pub(super) fn reset(&mut self) {
        *self.flags.get_mut() = 0;
        let waiters = self.waiters.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !waiters.is_empty() {
            waiters.clear();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.flags.load(Ordering::Acquire) & (STOPPED | SUPERSEDED) != 0
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.flags.load(Ordering::Acquire) & SUPERSEDED != 0
    }

    pub(super) fn has_progressed(&self) -> bool {
        self.flags.load(Ordering::Acquire) & PROGRESSED != 0
    }

    pub(super) fn set_progressed(&self) {
        self.flags.fetch_or(PROGRESSED, Ordering::AcqRel);
    }

    pub(super) fn stop(&self) {
        self.cancel(STOPPED);
    }

    pub(super) fn supersede(&self) {
        self.cancel(SUPERSEDED);
    }

    fn cancel(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
        let waiters = std::mem::take(&mut *self.lock());
        for (_, waker) in waiters {
            waker.wake();
        }
    }

    pub(super) fn cancelled(&self) -> Waiting<'_> {
        Waiting { state: self, id: None }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        // A panic while the list is held cannot leave it half-changed: every change is one push or one take.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Waiting<'a> {
    /// Where it registers.
    state: &'a CancelState,
    /// Its entry in `state`'s waiters, once it was polled.
    id: Option<u64>,
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let new = cx.waker().clone();
        let state = self.state;
        let mut waiters = state.lock();
        if state.is_cancelled() {
            return Poll::Ready(()); // invariant 2: read under the lock
        }
        let registered = self.id.and_then(|id| waiters.iter_mut().find(|(other, _)| *other == id));
        let replaced = match registered {
            Some((_, old)) => Some(std::mem::replace(old, new)),
            None => {
                // Larger than every id in the list, so different from all of them.
                let id = waiters.last().map_or(0, |(last, _)| last.saturating_add(1));
                waiters.push((id, new));
                self.id = Some(id);
                None
            }
        };
        drop(waiters);
        drop(replaced); // a waker's drop is foreign code: outside the lock
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let mut waiters = self.state.lock();
            let position = waiters.iter().position(|(other, _)| *other == id);
            let removed = position.map(|at| waiters.remove(at)); // invariant 3
            drop(waiters);
            drop(removed);
        }
    }
}

/// A run ended early because it was cancelled; its class is [`Retry::Cancelled`].
///
/// # Examples
///
/// ```
/// use reconcile_core::{Error, Retry, Run};
///
/// let (run, control) = Run::builder().build();
/// control.supersede();
/// let waited = futures::executor::block_on(run.until_cancelled(std::future::pending::<()>()));
/// let cancelled = waited.unwrap_err();
/// assert!(cancelled.superseded());
/// assert_eq!(Error::from(cancelled).retry(), Retry::Cancelled);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled {
    /// Which of the two flags it was; superseded, if both.
    superseded: bool,
}

impl Cancelled {
    pub(super) fn of(run: &Run) -> Self {
        Cancelled { superseded: run.superseded() }
    }

    /// Whether a new input was the reason, and not a stop of the runtime.
    pub fn superseded(&self) -> bool {
        self.superseded
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.superseded { f.write_str("superseded by a new input") } else { f.write_str("stopped") }
    }
}

impl StdError for Cancelled {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&Retry::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    /// Counts its wake-ups, and looks at the state it came from while it is woken and dropped.
    struct Counting {
        woken: AtomicUsize,
        state: Arc<CancelState>,
    }

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            assert!(self.state.waiters.try_lock().is_ok(), "woken under the lock");
            assert!(self.state.is_cancelled(), "woken before the flag");
            self.woken.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            assert!(self.state.waiters.try_lock().is_ok(), "dropped under the lock");
        }
    }

    fn counting(state: &Arc<CancelState>) -> Arc<Counting> {
        Arc::new(Counting { woken: AtomicUsize::new(0), state: Arc::clone(state) })
    }

    fn poll(waiting: &mut Waiting<'_>, waker: &Waker) -> Poll<()> {
        Pin::new(waiting).poll(&mut Context::from_waker(waker))
    }

    fn registered(state: &CancelState) -> Vec<u64> {
        state.lock().iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn r12_a_dropped_waiter_leaves_nothing() {
        let state = CancelState::default();
        for _ in 0..100_000 {
            let mut waiting = state.cancelled();
            assert!(poll(&mut waiting, Waker::noop()).is_pending());
        }
        assert_eq!(registered(&state), Vec::<u64>::new());
        assert!(state.lock().capacity() < 16, "nor does the list grow");
    }

    #[test]
    fn r12_waiters_are_dropped_in_any_order() {
        let state = CancelState::default();
        let mut waiters: Vec<Waiting<'_>> = (0..4).map(|_| state.cancelled()).collect();
        for waiting in &mut waiters {
            assert!(poll(waiting, Waker::noop()).is_pending());
        }
        drop(waiters.remove(1));
        drop(waiters.remove(2)); // the last one, whose id is then free
        let mut new = state.cancelled();
        assert!(poll(&mut new, Waker::noop()).is_pending());
        assert_eq!(registered(&state), [0, 2, 3]);
        drop(waiters);
        assert_eq!(registered(&state), [3]);
    }

    #[test]
    fn a_waiter_has_one_entry_and_is_woken_by_its_last_waker() {
        let state = Arc::new(CancelState::default());
        let (first, last) = (counting(&state), counting(&state));
        let mut waiting = state.cancelled();
        let waker = Waker::from(Arc::clone(&first));
        assert!(poll(&mut waiting, &waker).is_pending());
        drop(waker);
        let (count, weak) = (Arc::strong_count(&first), Arc::downgrade(&first));
        assert_eq!(count, 2, "one here, one in the list");
        drop(first); // the list holds the last one, so that its drop runs when it is replaced
        assert!(poll(&mut waiting, &Waker::from(Arc::clone(&last))).is_pending());
        assert!(weak.upgrade().is_none(), "the replaced waker is gone");
        assert_eq!(registered(&state).len(), 1);
        state.stop();
        assert_eq!(last.woken.load(Ordering::SeqCst), 1);
        assert!(poll(&mut waiting, Waker::noop()).is_ready());
    }

    #[test]
    fn every_waiter_is_woken_once_and_late_ones_do_not_wait() {
        let state = Arc::new(CancelState::default());
        let counts: Vec<Arc<Counting>> = (0..3).map(|_| counting(&state)).collect();
        let mut waiters: Vec<Waiting<'_>> = (0..3).map(|_| state.cancelled()).collect();
        for (waiting, count) in waiters.iter_mut().zip(&counts) {
            assert!(poll(waiting, &Waker::from(Arc::clone(count))).is_pending());
        }
        state.supersede();
        state.stop();
        assert!(counts.iter().all(|count| count.woken.load(Ordering::SeqCst) == 1));
        assert!(poll(&mut state.cancelled(), Waker::noop()).is_ready());
        assert_eq!(registered(&state), Vec::<u64>::new());
    }

    #[test]
    fn progress_cancels_nothing() {
        let state = Arc::new(CancelState::default());
        let count = counting(&state);
        let mut waiting = state.cancelled();
        assert!(poll(&mut waiting, &Waker::from(Arc::clone(&count))).is_pending());
        state.set_progressed();
        assert!(state.has_progressed() && !state.is_cancelled() && !state.is_superseded());
        assert_eq!(count.woken.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn flags_are_kept_apart() {
        let (stopped, superseded) = (CancelState::default(), CancelState::default());
        stopped.stop();
        superseded.supersede();
        assert!(stopped.is_cancelled() && !stopped.is_superseded());
        assert!(superseded.is_cancelled() && superseded.is_superseded());
        assert!(!stopped.has_progressed() && !superseded.has_progressed());
    }
}
