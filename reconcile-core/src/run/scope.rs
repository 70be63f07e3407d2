//! The current run of a thread: set while a run's future is polled, and put back after each poll.
//!
//! A thread-local and a wrapper around `poll`, because this crate knows no runtime and tasks move between
//! threads: the value is right exactly for as long as one poll lasts.

use std::{
    cell::RefCell,
    pin::Pin,
    task::{Context, Poll},
};

use super::Run;

thread_local! {
    static CURRENT: RefCell<Option<Run>> = const { RefCell::new(None) };
}

#[inline]
pub(super) fn current() -> Option<Run> {
    // A thread that is being torn down has no current run.
    CURRENT.try_with(|slot| slot.borrow().clone()).ok().flatten()
}

/// Puts the previous run back when dropped, also when the poll panics.
pub(super) struct Entered {
    previous: Option<Run>,
}

#[inline]
pub(super) fn enter(run: Run) -> Entered {
    let previous = CURRENT.try_with(|slot| slot.replace(Some(run))).ok().flatten();
    Entered { previous }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let previous = self.previous.take();
        let _ended = CURRENT.try_with(|slot| slot.replace(previous));
    }
}

/// A future that is polled, and dropped, with its run as the current one.
pub(super) struct Scoped<F> {
    run: Run,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Scoped<F> {
    pub(super) fn new(run: Run, future: F) -> Self {
        Scoped { run, future: Some(Box::pin(future)) }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = enter(self.run.clone());
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending, // only reached while dropping
        }
    }
}

impl<F> Drop for Scoped<F> {
    fn drop(&mut self) {
        let _entered = enter(self.run.clone());
        self.future = None;
    }
}
