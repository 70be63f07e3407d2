//! How a run ended: what the worker reports to the machine, and what is kept of it.

use std::{any::Any, borrow::Cow, fmt, time::Duration};

use reconcile_core::{ReconcileError, Retry};

use crate::{api::scope::OwnWrite, environment::Time};

/// How a run ended, in the words of the outcome table.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    AwaitChange,
    RequeueNow,
    RequeueAfter(Duration),
    RequeueAt(Time),
    WaitFor { reason: Cow<'static, str>, recheck: Option<Duration> },
    Failed(ReconcileError),
    Panicked(ReconcileError),
    TimedOut(ReconcileError),
}

/// All that a worker reports of a run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    /// The run's own writes.
    pub(crate) own: Vec<OwnWrite>,
    /// Whether it wrote anything that changed something, or said that it did work outside the store.
    pub(crate) effective: bool,
    /// What it left for the key's next run.
    pub(crate) carry: Option<Box<dyn Any + Send + Sync>>,
}

impl Finished {
    /// A run without writes.
    #[inline]
    pub(crate) fn of(ended: Ended) -> Self {
        Finished { ended, own: Vec::new(), effective: false, carry: None }
    }
}

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OutcomeKind {
    /// Converged.
    Done,
    /// Converged, and looks again later.
    Requeued,
    /// Not converged: more to do at once.
    Again,
    /// Not converged: waits for something.
    Waiting,
    /// Failed; retried with backoff, or when the other side said.
    Failed,
    /// Failed for good: retrying the same input is useless.
    Permanent,
    /// Somebody else was quicker.
    Conflict,
    /// Ended early because it was cancelled.
    Cancelled,
    /// The writer's term was over.
    Fenced,
    /// Panicked.
    Panicked,
    /// Took longer than the run limit.
    TimedOut,
}

impl OutcomeKind {
    /// One word, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeKind::Done => "done",
            OutcomeKind::Requeued => "requeued",
            OutcomeKind::Again => "again",
            OutcomeKind::Waiting => "waiting",
            OutcomeKind::Failed => "failed",
            OutcomeKind::Permanent => "permanent",
            OutcomeKind::Conflict => "conflict",
            OutcomeKind::Cancelled => "cancelled",
            OutcomeKind::Fenced => "fenced",
            OutcomeKind::Panicked => "panicked",
            OutcomeKind::TimedOut => "timed out",
        }
    }

    /// Whether the state of the key is as wanted.
    pub fn is_converged(self) -> bool {
        matches!(self, OutcomeKind::Done | OutcomeKind::Requeued)
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ended {
    #[inline]
    pub(crate) fn kind(&self) -> OutcomeKind {
        match self {
            Ended::AwaitChange => OutcomeKind::Done,
            Ended::RequeueNow => OutcomeKind::Again,
            Ended::RequeueAfter(_) | Ended::RequeueAt(_) => OutcomeKind::Requeued,
            Ended::WaitFor { .. } => OutcomeKind::Waiting,
            Ended::Panicked(_) => OutcomeKind::Panicked,
            Ended::TimedOut(_) => OutcomeKind::TimedOut,
            Ended::Failed(error) => match error.retry() {
                Retry::Never => OutcomeKind::Permanent,
                Retry::Conflict => OutcomeKind::Conflict,
                Retry::Cancelled => OutcomeKind::Cancelled,
                Retry::NextTerm => OutcomeKind::Fenced,
                _ => OutcomeKind::Failed,
            },
        }
    }

    #[inline]
    pub(crate) fn error(&self) -> Option<&ReconcileError> {
        match self {
            Ended::Failed(error) | Ended::Panicked(error) | Ended::TimedOut(error) => Some(error),
            _ => None,
        }
    }
}
