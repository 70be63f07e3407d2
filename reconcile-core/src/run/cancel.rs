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
    flags: AtomicU8,
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl CancelState {
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
    state: &'a CancelState,
    id: Option<u64>,
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let new = cx.waker().clone();
        let mut waiters = self.state.lock();
        if self.state.is_cancelled() {
            return Poll::Ready(()); // invariant 2: read under the lock
        }
        let replaced = match self.id.and_then(|id| waiters.iter_mut().find(|(other, _)| *other == id)) {
            Some((_, old)) => Some(std::mem::replace(old, new)),
            None => {
                let id = waiters.last().map_or(0, |(last, _)| last + 1);
                waiters.push((id, new));
                drop(waiters);
                self.id = Some(id);
                None
            }
        };
        drop(replaced);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled {
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
