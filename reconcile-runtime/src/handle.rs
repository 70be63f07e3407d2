//! The handle of a running controller: ask it, wait for it, pause it.

use std::{fmt, time::Duration};

use reconcile_core::{Key, ReconcileError};

use crate::queue::{Answer, Explanation, OutcomeKind, Queue, QueueSnapshot, by_hand};

/// The handle of a controller: cheap to clone, and good for as long as anybody holds it.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), RunError> {
/// let mut manager = Manager::new();
/// let greet = reconcile_fn(|name: String, _run| async move {
///     if name.is_empty() { Err("nobody to greet".into()) } else { Ok(Action::await_change()) }
/// });
/// let handle = manager.add(Controller::for_keys("greet", greet).enqueued_by_hand())?;
/// let asked = handle.clone();
/// manager
///     .run_until(async move {
///         asked.enqueue("world".to_owned());
///         asked.converged(&"world".to_owned()).await.expect("greeting the world succeeds");
///         asked.enqueue(String::new());
///         let outcome = asked.next_outcome(&String::new()).await.expect("the controller runs");
///         assert_eq!(outcome.kind, OutcomeKind::Failed);
///         println!("{}", asked.explain(&String::new()));
///     })
///     .await
/// # }
/// ```
pub struct Handle<K> {
    queue: Queue<K>,
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Handle { queue: self.queue.clone() }
    }
}

impl<K> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("queue", &self.queue).finish()
    }
}

/// Why waiting for a key to converge ended without it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NotConverged {
    /// The key failed for good: waiting longer is useless until its input changes.
    #[error("the key failed for good")]
    Failed(#[source] ReconcileError),
    /// The key or its controller is paused: it converges only after a resume.
    #[error("the key is paused: resume it, then wait again")]
    Paused,
    /// This process is not the leader, so it runs no keys.
    #[error("this process is not the leader: ask the one that is")]
    NotLeader,
    /// The controller has stopped.
    #[error("the controller has stopped")]
    Stopped,
}

/// The controller has stopped, so no run will end any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the controller has stopped")]
pub struct Stopped;

/// How one run ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunReport {
    /// In one word.
    pub kind: OutcomeKind,
    /// The error, if there was one.
    pub error: Option<ReconcileError>,
    /// How long the run took.
    pub took: Duration,
}

/// Nothing is ready and nothing is running.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Idle<K> {
    /// The keys that fail all the same, each with its last error: they wait for a retry or for a new input.
    pub failing: Vec<(K, Option<ReconcileError>)>,
}

impl<K: Key> Handle<K> {
    pub(crate) fn new(queue: Queue<K>) -> Self {
        Handle { queue }
    }

    /// Runs a key as soon as a worker is free: an input, in the high lane. Never blocks.
    ///
    /// Does nothing once the controller stops.
    pub fn enqueue(&self, key: K) {
        self.queue.signal(key, by_hand());
    }

    /// Why a key is running, waiting or not running: as data, and by `Display` in one sentence.
    pub fn explain(&self, key: &K) -> Explanation<K> {
        self.queue.explain(key)
    }

    /// The controller's queue in numbers.
    pub fn snapshot(&self) -> QueueSnapshot {
        self.queue.snapshot()
    }

    /// Waits for a run that started after the newest input known now, and that ended converged.
    ///
    /// A key that has converged and was not signalled since answers at once. A key that was never seen is run.
    ///
    /// # Errors
    ///
    /// [`NotConverged`] when waiting longer is useless: the key failed for good, is paused, or the controller
    /// has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn converged(&self, key: &K) -> Result<(), NotConverged> {
        match self.queue.wait_converged(key).await {
            Answer::Converged | Answer::Outcome { .. } => Ok(()),
            Answer::Failed(error) => Err(NotConverged::Failed(error)),
            Answer::Paused => Err(NotConverged::Paused),
            Answer::Stopped => Err(NotConverged::Stopped),
        }
    }

    /// Waits until the key's next run, or the current one, has ended, however it ends.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the controller stops before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn next_outcome(&self, key: &K) -> Result<RunReport, Stopped> {
        loop {
            match self.queue.wait_outcome(key).await {
                Answer::Outcome { kind, error, took } => return Ok(RunReport { kind, error, took }),
                Answer::Stopped => return Err(Stopped),
                // A pause is no outcome: the next run comes after it.
                Answer::Converged | Answer::Failed(_) | Answer::Paused => {}
            }
        }
    }

    /// Waits until no key is ready or running. Keys that fail do not count; they are listed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn idle(&self) -> Idle<K> {
        self.queue.quiet().await;
        Idle { failing: self.queue.failing() }
    }

    /// Starts no runs any more. Running ones finish, signals are taken in, and every key keeps its causes.
    pub fn pause(&self) {
        self.queue.pause();
    }

    /// Starts runs again.
    pub fn resume(&self) {
        self.queue.resume();
    }

    /// The controller's name.
    pub fn name(&self) -> &str {
        self.queue.name()
    }
}
