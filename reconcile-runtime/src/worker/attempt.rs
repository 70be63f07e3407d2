//! One attempt: the reconciler's future, polled in place under every guard that a run has.

use std::{any::Any, pin::pin, task::Poll, time::Duration};

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
    carry: Option<Box<dyn Any + Send + Sync>>,
    span: &tracing::Span,
) -> Ended {
    if let Some(refreshes) = carry.and_then(|carry| carry.downcast::<Vec<Box<dyn Refresh>>>().ok())
        && let Err(error) = refresh(worker, seat, *refreshes).await
    {
        return Ended::Failed(error);
    }
    let run = control.run();
    let call = || span.in_scope(|| run.enter(|| guarded(|| worker.reconciler.reconcile(&taken.key, run))));
    let future = match call() {
        Ok(future) => future,
        Err(message) => return panicked(&message),
    };
    // In place and optional, so that it can be dropped under the same guard as its polls.
    let mut future = pin!(Some(future));
    let mut limit: Option<BoxFuture<'static, ()>> = None;
    let mut abandoned = pin!(worker.queue.abandoned());
    let mut waited = false;
    let result = std::future::poll_fn(|cx| {
        // Limit, stop, run. Neither of the first two exists before the run has waited once, since most never do.
        if let Some(limit) = &mut limit
            && limit.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(End::OverLimit);
        }
        if waited && abandoned.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Abandoned);
        }
        let poll = || future.as_mut().as_pin_mut().map(|future| future.poll(cx));
        match span.in_scope(|| run.enter(|| guarded(poll))) {
            Err(message) => return Poll::Ready(End::Panicked(message)),
            Ok(Some(Poll::Ready(result))) => return Poll::Ready(End::Returned(result)),
            Ok(Some(Poll::Pending) | None) => {}
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
    // A panic of the drop is a panic of the run, whatever it had returned.
    let dropped = span.in_scope(|| run.enter(|| guarded(|| future.set(None))));
    match (dropped, result) {
        (Err(message), _) | (Ok(()), End::Panicked(message)) => panicked(&message),
        (Ok(()), End::OverLimit) => Ended::TimedOut(over_limit(worker.settings.run_limit)),
        (Ok(()), End::Abandoned) => Ended::Failed(ReconcileError::new(
            Retry::Cancelled,
            "the run did not end within the grace time of the stop",
        )),
        (Ok(()), End::Returned(Ok(action))) => of_action(action, &worker.env),
        (Ok(()), End::Returned(Err(error))) => failed(worker, error),
    }
}

/// How the polling of a run ended.
enum End {
    Returned(Result<Action, Error>),
    Panicked(String),
    OverLimit,
    Abandoned,
}

/// Reads again what the last run could not read after a write of it failed.
async fn refresh<T: Reconciler>(
    worker: &Worker<T>,
    seat: &WorkerSeat<T::Key>,
    refreshes: Vec<Box<dyn Refresh>>,
) -> Result<(), ReconcileError> {
    seat.suspend();
    for refresh in refreshes {
        refresh.run().await.map_err(|error| {
            let error = ReconcileError::new(error.fault().retry(), error);
            error.while_doing("reading again what the last run could not write")
        })?;
    }
    let _ = worker;
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

fn failed<T: Reconciler>(worker: &Worker<T>, error: Error) -> Ended {
    // What the error says of itself goes first: `classify` is for errors of foreign origin.
    let classify = worker.settings.classify.as_ref().filter(|_| error.retry() == Retry::Backoff);
    let class = classify.map(|classify| guarded(|| classify(&error)));
    match class {
        Some(Ok(Some(class))) => Ended::Failed(error.with_retry(class).into_reconcile_error()),
        Some(Err(message)) => panicked(&format!("classify panicked: {message}")),
        Some(Ok(None)) | None => Ended::Failed(error.into_reconcile_error()),
    }
}

fn panicked(message: &str) -> Ended {
    Ended::Panicked(ReconcileError::new(Retry::Backoff, format!("panicked: {message}")))
}

fn over_limit(limit: Option<Duration>) -> ReconcileError {
    let limit = limit.unwrap_or_default();
    ReconcileError::new(
        Retry::Backoff,
        format!("the run took longer than its limit of {limit:?} and was dropped"),
    )
}
