//! What the log says about runs. One span per attempt; the levels are: error for panics, warn for failures and
//! runs over the limit, debug for everything else.

use std::{fmt, sync::Arc};

use reconcile_core::{Key, Run};
use tracing::{Span, field};

use crate::queue::{Ended, OutcomeKind, Taken};

/// The span of an attempt; costs next to nothing when nobody listens.
pub(super) fn span<K: Key>(controller: &Arc<str>, taken: &Taken<K>, run: &Run) -> Span {
    tracing::debug_span!(
        "reconcile",
        controller = %controller,
        object.key = ?taken.key,
        object.reason = %run.causes(),
        attempt = taken.attempt,
        run = taken.number,
        queue.wait_ms = u64::try_from(taken.waited.as_millis()).unwrap_or(u64::MAX),
        outcome = field::Empty,
        requeue_after_ms = field::Empty,
    )
}

/// Says how the attempt ended.
pub(super) fn ended<K: Key>(controller: &Arc<str>, taken: &Taken<K>, ended: &Ended, span: &Span) {
    let kind = ended.kind();
    if !span.is_disabled() {
        span.record("outcome", kind.as_str());
        let again = match ended {
            Ended::RequeueAfter(delay) => Some(*delay),
            Ended::RequeueAt(at) => Some(at.since(taken.started)),
            Ended::WaitFor { recheck, .. } => *recheck,
            _ => None,
        };
        if let Some(again) = again {
            span.record("requeue_after_ms", u64::try_from(again.as_millis()).unwrap_or(u64::MAX));
        }
    }
    let Some(error) = ended.error() else { return };
    let (key, run, attempt) = (&taken.key, taken.number, taken.attempt);
    let error = Chain(error.get_ref());
    match kind {
        OutcomeKind::Panicked => {
            tracing::error!(parent: span, controller = %controller, ?key, run, attempt, %error, "reconcile panicked");
        }
        // Somebody being quicker is no news until it happens again and again.
        OutcomeKind::Conflict if taken.conflicts == 0 => {
            tracing::debug!(parent: span, controller = %controller, ?key, run, %error, "reconcile lost a race");
        }
        OutcomeKind::Cancelled | OutcomeKind::Fenced => {
            tracing::debug!(parent: span, controller = %controller, ?key, run, %error, "reconcile was cancelled");
        }
        _ => {
            tracing::warn!(parent: span, controller = %controller, ?key, run, attempt, outcome = %kind, %error, "reconcile failed");
        }
    }
}

/// A write of a dropped run did not settle in time: its key is released all the same.
pub(super) fn unsettled<K: Key>(controller: &Arc<str>, taken: &Taken<K>) {
    let key = &taken.key;
    tracing::warn!(controller = %controller, ?key, "a write did not settle in time, the key is released");
}

/// An error and its causes, on one line.
struct Chain<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let causes = std::iter::successors(self.0.source(), |error| error.source());
        for cause in causes.take(16) {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}
