//! Runs the keys of a queue.
use crate::{Environment, queue::Queue};
use reconcile_core::{Error, Reconciler, Retry, store::Fence};
use std::{sync::Arc, time::Duration};

/// How a worker runs.
pub(crate) struct WorkerSettings {
    pub(crate) name: Arc<str>,
    pub(crate) run_limit: Option<Duration>,
    pub(crate) classify: Option<Arc<dyn Fn(&Error) -> Option<Retry> + Send + Sync>>,
    pub(crate) fence: Option<Fence>,
}
/// One of the tasks that run keys.
pub(crate) struct Worker<T: Reconciler> {
    queue: Queue<T::Key>,
    reconciler: Arc<T>,
    env: Environment,
    settings: WorkerSettings,
}
impl<T: Reconciler> Worker<T> {
    pub(crate) fn new(
        queue: Queue<T::Key>,
        reconciler: Arc<T>,
        env: Environment,
        settings: WorkerSettings,
    ) -> Self {
        Worker { queue, reconciler, env, settings }
    }
}
pub(crate) async fn work<T: Reconciler>(worker: Worker<T>) {
    let Worker { queue, reconciler: _reconciler, env: _env, settings } = worker;
    let WorkerSettings { name: _, run_limit: _, classify: _, fence: _ } = settings;
    queue.run_timers().await;
}
