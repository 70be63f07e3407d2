//! What the loops of one manager share: whether it is stopping, and the error that ends it.
//!
//! # Invariants
//!
//! 1. `stopping` goes from false to true, never back, and is true before any queue is closed: a loop that ends
//!    because of a stop can always see that there is one.
//! 2. Only the first failure is kept: what follows is usually its consequence.
//! 3. A waiter is woken after the failure is stored and the lock is released; a wake-up that comes before the
//!    wait is kept as a permit.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use super::RunError;

pub(crate) struct Board {
    stopping: AtomicBool,
    failure: Mutex<Option<RunError>>,
    /// One permit per failure; there is one waiter, the manager's run.
    failed: Notify,
    restart_limit: u32,
}

impl Board {
    pub(super) fn new(restart_limit: u32) -> Self {
        Board {
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: Notify::new(),
            restart_limit,
        }
    }

    pub(super) fn restart_limit(&self) -> u32 {
        self.restart_limit
    }

    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(super) fn fail(&self, error: RunError) {
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            if failure.is_none() {
                *failure = Some(error); // invariant 2
            }
        }
        self.failed.notify_one(); // invariant 3
    }

    /// Waits for a failure, and takes it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the failure stays until it is taken.
    pub(super) async fn failed(&self) -> RunError {
        loop {
            if let Some(error) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return error;
            }
            self.failed.notified().await;
        }
    }

    #[cfg(test)]
    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(name: &str) -> RunError {
        RunError::LoopFailed { name: name.to_owned(), restarts: 0, last_end: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_is_kept_and_found_by_a_late_waiter() {
        let board = Board::new(1);
        board.fail(failure("first"));
        board.fail(failure("second"));
        assert!(matches!(board.failed().await, RunError::LoopFailed { name, .. } if name == "first"));
    }
}
