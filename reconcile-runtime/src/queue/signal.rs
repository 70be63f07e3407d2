//! What makes a key run.

use reconcile_core::Cause;

use crate::change::Step;

/// How urgent a key is. A stronger signal lifts a queued key, and a key keeps its lane through retries until
/// it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Asked for explicitly, or by a source that says so.
    High,
    /// News.
    Normal,
    /// What was there at the start, and resync.
    Low,
}

/// What a signal means for a key that fails or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalKind {
    /// The wanted state may be another one: the primary was added, deleted, or changed uid or generation; a
    /// trigger; an explicit enqueue; a watch marked as input; an unpause.
    Input,
    /// The primary is gone: an input that no own write hides.
    Deletion,
    /// Any other change.
    Observed,
    /// The safety net.
    Resync,
}

impl SignalKind {
    /// Whether it brings a new input.
    #[inline]
    pub(crate) fn is_input(self) -> bool {
        matches!(self, SignalKind::Input | SignalKind::Deletion)
    }
}

/// One signal for a key.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    pub(crate) kind: SignalKind,
    pub(crate) lane: Lane,
    pub(crate) cause: Cause,
    /// Which change it comes from, so that a run can tell its own writes.
    pub(crate) step: Option<Step>,
}

impl Signal {
    #[inline]
    pub(crate) fn new(kind: SignalKind, lane: Lane, cause: Cause) -> Self {
        Signal { kind, lane, cause, step: None }
    }

    /// The same, from a change in a cache.
    #[inline]
    pub(crate) fn step(mut self, step: Step) -> Self {
        self.step = Some(step);
        self
    }
}
