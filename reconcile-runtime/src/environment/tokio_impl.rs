//! The parts of an environment on tokio. The only place that reads a clock or spawns.
#![allow(clippy::disallowed_methods, reason = "this is the seam that the other modules are sent to")]

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::{task::JoinHandle, time::Instant};

use super::{Clock, JoinTask, Spawn, TaskEnd, Time};
use crate::panics::payload_text;

/// Where virtual wall time starts: a round instant, so that a trace reads well.
const VIRTUAL_START: i64 = 1_700_000_000;

/// The longest sleep that tokio's timer takes without loss; beyond it we sleep again.
const LONGEST_SLEEP: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) struct TokioClock {
    start: Instant,
    virtual_start: Option<Timestamp>,
}

impl TokioClock {
    pub(super) fn real() -> Self {
        TokioClock { start: Instant::now(), virtual_start: None }
    }

    pub(super) fn virtual_wall() -> Self {
        let start = Timestamp::from_second(VIRTUAL_START).expect("a constant within the range of timestamps");
        TokioClock { start: Instant::now(), virtual_start: Some(start) }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::after_start(self.start.elapsed())
    }

    fn wall(&self) -> Timestamp {
        match self.virtual_start {
            None => Timestamp::now(),
            Some(start) => {
                let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
                start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    fn sleep_until(&self, deadline: Time) -> BoxFuture<'static, ()> {
        let start = self.start;
        Box::pin(async move {
            loop {
                let left = deadline.since(Time::after_start(start.elapsed()));
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }
}

pub(super) struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, _name: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn JoinTask> {
        Box::new(TokioTask(tokio::spawn(future)))
    }
}

struct TokioTask(JoinHandle<()>);

impl JoinTask for TokioTask {
    fn abort(&self) {
        self.0.abort();
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<TaskEnd> {
        Pin::new(&mut self.0).poll(cx).map(|end| match end {
            Ok(()) => TaskEnd::Finished,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => TaskEnd::Panicked(payload_text(payload)),
                Err(_) => TaskEnd::Aborted,
            },
        })
    }
}
