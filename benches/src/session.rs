//! One engine on one runtime, driven by one suite.
//!
//! The driver is the suite's side: it waits for goals, feeds changes, reads clocks. When it ends, the engine's
//! future is dropped and the runtime with it, so nothing of one measurement reaches into the next.

#![allow(clippy::disallowed_methods, reason = "the engine under test is a task of a runtime made here")]

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::{Builder, Runtime},
    select,
};

use crate::{
    engine::{Engine, Setup},
    work::Work,
};

/// Threads that run tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Threads {
    /// tokio's current-thread runtime.
    One,
    /// tokio's multi-thread runtime with this many workers.
    Many(usize),
}

impl Threads {
    /// For a number from the command line.
    pub(crate) fn from_count(count: usize) -> Self {
        if count <= 1 { Threads::One } else { Threads::Many(count) }
    }

    /// A runtime of this shape with its timers on.
    pub(crate) fn runtime(self) -> Result<Runtime> {
        let mut builder = match self {
            Threads::One => Builder::new_current_thread(),
            Threads::Many(count) => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(count);
                builder
            }
        };
        builder.enable_time().build().context("cannot start a runtime; are threads limited here?")
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threads::One => f.write_str("1 thread"),
            Threads::Many(count) => write!(f, "{count} threads"),
        }
    }
}

/// How long a runtime may take to drop its tasks. They hold nothing that outlives the measurement.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Runs `engine` beside `driver` until the driver ends, and gives what it gave.
///
/// # Errors
/// The driver's own, or that the engine ended before the driver did.
pub(crate) fn drive<W: Work, T>(
    threads: Threads,
    engine: Engine,
    setup: Setup,
    work: Arc<W>,
    driver: impl Future<Output = Result<T>>,
) -> Result<T> {
    observe(threads, engine, setup, work, |ended| async move {
        select! {
            biased;
            result = driver => result,
            reason = ended => Err(anyhow!("{} ended in the middle of the measurement: {reason}", engine.name())),
        }
    })
}

/// Like [`drive`], for a suite to which the engine's end is a result: the driver is given a future that ends
/// with the reason when the engine does.
///
/// # Errors
/// The driver's own.
pub(crate) fn observe<W: Work, T, F: Future<Output = Result<T>>>(
    threads: Threads,
    engine: Engine,
    setup: Setup,
    work: Arc<W>,
    driver: impl FnOnce(Pin<Box<dyn Future<Output = String> + Send>>) -> F,
) -> Result<T> {
    let runtime = threads.runtime()?;
    let result = runtime.block_on(async {
        let task = tokio::spawn(engine.run(setup, work));
        let abort = task.abort_handle();
        let ended = Box::pin(async move {
            match task.await {
                Ok(Ok(())) => "it returned".to_owned(),
                Ok(Err(error)) => format!("{error:#}"),
                Err(error) if error.is_panic() => "it panicked".to_owned(),
                Err(error) => error.to_string(),
            }
        });
        let result = driver(ended).await;
        abort.abort();
        result
    });
    runtime.shutdown_timeout(SHUTDOWN);
    result
}
