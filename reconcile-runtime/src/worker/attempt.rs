//! One attempt: the reconciler's future, polled in place under every guard that a run has.

use std::{pin::pin, task::Poll, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use reconcile_core::{Action, Error, Next, ReconcileError, Reconciler, Retry, RunControl};

use super::Worker;
use crate::{
    api::scope::Refresh,
    environment::{Environment, Time},
    panics::guarded,
    queue::{Ended, Taken, WorkerSeat},
};

/// Runs the reconciler for a key that was taken.
pub(super) async fn attempt<T: Reconciler>(
    worker: &Worker<T>,
    seat: &WorkerSeat<T::Key>,
    taken: &Taken<T::Key>,
    control: &RunControl,
    unread: &mut Vec<Box<dyn Refresh>>,
    span: &tracing::Span,
) -> Ended {
    if !unread.is_empty() {
        seat.suspend();
        if let Err(error) = refresh(unread).await {
            return Ended::Failed(error);
        }
    }
    let run = control.run();
    // In place and optional, so that it can be dropped under the same guard as its polls.
    let mut future = pin!(None);
    let mut limit: Option<BoxFuture<'static, ()>> = None;
    let mut abandoned = pin!(worker.queue.abandoned());
    let mut waited = false;
    let result = std::future::poll_fn(|cx| {
        if waited {
            // Limit, stop, run. Neither of the first two exists before the run has waited once: most never do.
            if limit.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(End::OverLimit);
            }
            if abandoned.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::Abandoned);
            }
        }
        // One entry for the call, the poll and, if the run is over, the drop.
        let polled = span.in_scope(|| {
            run.enter(|| {
                if !waited {
                    match guarded(|| worker.reconciler.reconcile(&taken.key, run)) {
                        Ok(made) => future.set(Some(made)),
                        Err(message) => return Some(End::Panicked(message)),
                    }
                }
                let end = match guarded(|| future.as_mut().as_pin_mut().map(|future| future.poll(cx))) {
                    Err(message) => End::Panicked(message),
                    Ok(Some(Poll::Ready(result))) => End::Returned(result),
                    Ok(Some(Poll::Pending) | None) => return None,
                };
                // A panic of the drop is a panic of the run, whatever it had returned.
                Some(guarded(|| future.set(None)).map_or_else(End::Panicked, |()| end))
            })
        });
        if let Some(end) = polled {
            return Poll::Ready(end);
        }
        if !waited {
            waited = true;
            seat.suspend();
            if let Some(allowed) = worker.settings.run_limit {
                let mut timer = worker.env.sleep_until(taken.started.saturating_add(allowed));
                if timer.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(End::OverLimit);
                }
                limit = Some(timer);
            }
            if abandoned.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::Abandoned);
            }
        }
        Poll::Pending
    })
    .await;
    // Dropped here only if it did not end by itself.
    let dropped = match &result {
        End::OverLimit | End::Abandoned => span.in_scope(|| run.enter(|| guarded(|| future.set(None)))),
        End::Returned(_) | End::Panicked(_) => Ok(()),
    };
    match (dropped, result) {
        (Err(message), _) | (Ok(()), End::Panicked(message)) => panicked(worker, taken, &message),
        (Ok(()), End::OverLimit) => Ended::TimedOut(over_limit(worker.settings.run_limit)),
        (Ok(()), End::Abandoned) => Ended::Failed(ReconcileError::new(
            Retry::Cancelled,
            "the run did not end within the grace time of the stop",
        )),
        (Ok(()), End::Returned(Ok(action))) => of_action(action, &worker.env),
        (Ok(()), End::Returned(Err(error))) => failed(worker, taken, error),
    }
}

/// How the polling of a run ended.
enum End {
    Returned(Result<Action, Error>),
    Panicked(String),
    OverLimit,
    Abandoned,
}

/// Reads again what the last run could not read after a write of it failed. Takes out what was read: the rest
/// is still to be read before the key may run, also if the store panics.
async fn refresh(unread: &mut Vec<Box<dyn Refresh>>) -> Result<(), ReconcileError> {
    while let Some(next) = unread.last() {
        let mut reading = next.run();
        let read = std::future::poll_fn(|cx| match guarded(|| reading.as_mut().poll(cx)) {
            Ok(poll) => {
                poll.map(|read| read.map_err(|error| ReconcileError::new(error.fault().retry(), error)))
            }
            Err(message) => Poll::Ready(Err(ReconcileError::new(
                Retry::Backoff,
                format!("the store panicked: {message}"),
            ))),
        });
        read.await.map_err(|error| error.while_doing("reading again what the last run could not write"))?;
        unread.pop();
    }
    Ok(())
}

fn of_action(action: Action, env: &Environment) -> Ended {
    match action.into_next() {
        Next::AwaitChange => Ended::AwaitChange,
        Next::RequeueNow => Ended::RequeueNow,
        Next::RequeueAfter(delay) => Ended::RequeueAfter(delay),
        Next::RequeueAt(instant) => Ended::RequeueAt(monotonic(instant, env)),
        Next::WaitFor { reason, recheck } => Ended::WaitFor { reason, recheck },
        // `Next` may grow; an outcome that this runtime does not know yet waits for a change, as all do.
        _ => Ended::AwaitChange,
    }
}

/// An instant of wall time on the monotonic clock, as the two stand to each other now.
fn monotonic(instant: Timestamp, env: &Environment) -> Time {
    let ahead = instant.duration_since(env.wall());
    env.now().saturating_add(Duration::try_from(ahead).unwrap_or(Duration::ZERO))
}

fn failed<T: Reconciler>(worker: &Worker<T>, taken: &Taken<T::Key>, error: Error) -> Ended {
    // What the error says of itself goes first: `classify` is for errors of foreign origin.
    let classify = worker.settings.classify.as_ref().filter(|_| error.retry() == Retry::Backoff);
    let class = classify.map(|classify| guarded(|| classify(&error)));
    match class {
        Some(Ok(Some(class))) => Ended::Failed(error.with_retry(class).into_reconcile_error()),
        Some(Err(message)) => panicked(worker, taken, &format!("classify: {message}")),
        Some(Ok(None)) | None => Ended::Failed(error.into_reconcile_error()),
    }
}

/// The error carries what the log line carries, so that whoever gets it knows the object.
fn panicked<T: Reconciler>(worker: &Worker<T>, taken: &Taken<T::Key>, message: &str) -> Ended {
    let error = ReconcileError::new(Retry::Backoff, format!("panicked: {message}"));
    let (name, key, number) = (&worker.settings.name, &taken.key, taken.number);
    // The key's `Debug` is user code, and this is no time for another panic.
    let run = guarded(|| format!("run {number} of {key:?} by controller `{name}`"))
        .unwrap_or_else(|_| format!("run {number} of a key that cannot be printed, by controller `{name}`"));
    Ended::Panicked(error.while_doing(run))
}

fn over_limit(limit: Option<Duration>) -> ReconcileError {
    let limit = limit.unwrap_or_default();
    ReconcileError::new(
        Retry::Backoff,
        format!("the run took longer than its limit of {limit:?} and was dropped"),
    )
}
