//! What a successful run asks for: the constructors of the outcome table.
//!
//! An [`Action`] is made by a constructor only, so that each row of the table has one spelling. Failures are
//! not actions: they are [`Error`](crate::Error)s with a class.

use std::{borrow::Cow, time::Duration};

use crate::Timestamp;

/// What a run that did not fail asks the runtime to do next.
///
/// Every constructor resets the key's failure count. A signal for the key always comes first: a timer set
/// here is an upper bound of the wait, never a lower one.
///
/// # Examples
///
/// ```
/// use reconcile_core::Action;
/// use std::time::Duration;
///
/// let converged = Action::await_change();
/// let poll = Action::requeue_after(Duration::from_secs(60));
/// let blocked = Action::wait_for("pods to become ready").recheck_after(Duration::from_secs(5));
/// assert_ne!(converged, poll);
/// assert_eq!(blocked.to_string(), "wait for pods to become ready, recheck after 5s");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an action does nothing until the reconciler returns it"]
pub struct Action {
    next: Next,
}

/// The content of an [`Action`], for runtimes and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Converged: the next run comes with a signal or a resync.
    AwaitChange,
    /// More to do: at once, from the back of the queue.
    RequeueNow,
    /// Converged, but look again after this long.
    RequeueAfter(Duration),
    /// Converged, but look again at this instant of wall time.
    RequeueAt(Timestamp),
    /// Not converged and not failed: something else has to happen first.
    WaitFor {
        /// What the key waits for; shown by `explain`.
        reason: Cow<'static, str>,
        /// Look again after this long even without a signal.
        recheck: Option<Duration>,
    },
}

impl Action {
    /// Converged: run again when something changes, or at the next resync.
    pub const fn await_change() -> Self {
        Action { next: Next::AwaitChange }
    }

    /// More to do: run again at once, behind the ready keys of the same lane.
    ///
    /// A key that returns this many times in a row without an effective write is slowed down and explained
    /// as "spinning"; say [`Run::progressed`](crate::Run::progressed) when the work is done outside the store.
    pub const fn requeue_now() -> Self {
        Action { next: Next::RequeueNow }
    }

    /// Converged; look again after `delay` (a poll).
    ///
    /// The runtime spreads polls over the last tenth of the delay, and the first one after a start over all
    /// of it, so that a restart does not synchronise the polls of all keys. A zero delay is
    /// [`requeue_now`](Self::requeue_now). Delays beyond the clock's range are clamped to it.
    pub const fn requeue_after(delay: Duration) -> Self {
        if delay.is_zero() { Action::requeue_now() } else { Action { next: Next::RequeueAfter(delay) } }
    }

    /// Converged; look again exactly at `instant` (a deadline). An instant in the past is due at once.
    pub const fn requeue_at(instant: Timestamp) -> Self {
        Action { next: Next::RequeueAt(instant) }
    }

    /// Not converged, and not an error: `reason` has to happen first. Any signal runs the key again.
    ///
    /// Read the text as the end of the sentence "waits for …".
    pub fn wait_for(reason: impl Into<Cow<'static, str>>) -> Self {
        Action { next: Next::WaitFor { reason: reason.into(), recheck: None } }
    }

    /// Look again after `delay` even if no signal comes.
    ///
    /// On [`wait_for`](Self::wait_for) it adds a timer to the wait. On any other action it is the same as
    /// [`requeue_after`](Self::requeue_after): the key looks again after `delay`.
    pub fn recheck_after(self, delay: Duration) -> Self {
        match self.next {
            Next::WaitFor { reason, .. } => Action { next: Next::WaitFor { reason, recheck: Some(delay) } },
            _ => Action::requeue_after(delay),
        }
    }

    /// The content, for runtimes and tests.
    #[inline]
    pub fn next(&self) -> &Next {
        &self.next
    }

    /// The content, by value.
    #[inline]
    pub fn into_next(self) -> Next {
        self.next
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.next {
            Next::AwaitChange => f.write_str("await change"),
            Next::RequeueNow => f.write_str("requeue now"),
            Next::RequeueAfter(delay) => write!(f, "requeue after {delay:?}"),
            Next::RequeueAt(instant) => write!(f, "requeue at {instant}"),
            Next::WaitFor { reason, recheck: None } => write!(f, "wait for {reason}"),
            Next::WaitFor { reason, recheck: Some(delay) } => {
                write!(f, "wait for {reason}, recheck after {delay:?}")
            }
        }
    }
}

/// What [`ObjectReconciler::cleanup`](crate::ObjectReconciler::cleanup) reports.
///
/// # Examples
///
/// ```
/// use reconcile_core::Cleanup;
/// use std::time::Duration;
///
/// assert!(Cleanup::done().is_done());
/// let waiting = Cleanup::wait_for("the volume to detach").recheck_after(Duration::from_secs(2));
/// assert!(!waiting.is_done());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a cleanup result does nothing until the reconciler returns it"]
pub struct Cleanup {
    wait: Option<Action>,
}

impl Cleanup {
    /// Everything is cleaned up: the finalizer may go. Only this removes it.
    pub const fn done() -> Self {
        Cleanup { wait: None }
    }

    /// Not yet: `reason` has to happen first. Keeps the finalizer, and is no failure.
    pub fn wait_for(reason: impl Into<Cow<'static, str>>) -> Self {
        Cleanup { wait: Some(Action::wait_for(reason)) }
    }

    /// Look again after `delay` even if no signal comes. Does nothing on [`done`](Self::done).
    pub fn recheck_after(self, delay: Duration) -> Self {
        Cleanup { wait: self.wait.map(|action| action.recheck_after(delay)) }
    }

    /// Whether the finalizer may be removed.
    pub fn is_done(&self) -> bool {
        self.wait.is_none()
    }

    /// The action that waits for the rest of the cleanup, if it is not done.
    pub fn into_wait(self) -> Option<Action> {
        self.wait
    }
}
