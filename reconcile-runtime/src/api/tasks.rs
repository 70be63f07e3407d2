//! Started writes whose run is gone: tasks that are held until they have settled.
//!
//! # Invariants
//!
//! 1. A task is in the bag from before it starts until its future is dropped, whichever way it ends.
//! 2. A task's handle is dropped outside the lock, since dropping it aborts the task.
//! 3. Dropping the bag aborts its tasks.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::watch;

use crate::{Environment, environment::Task, panics::guarded};

/// Tasks that nobody waits for, but that must come to their end.
pub(crate) struct TaskBag {
    inner: Arc<Inner>,
}

struct Inner {
    tasks: Mutex<Tasks>,
    /// How many are in `tasks`; set after each change.
    left: watch::Sender<usize>,
}

#[derive(Default)]
struct Tasks {
    /// None while the task is being started: it may end before its handle is here.
    by_number: HashMap<u64, Option<Task>>,
    next: u64,
}

impl TaskBag {
    pub(super) fn new() -> Self {
        TaskBag { inner: Arc::new(Inner { tasks: Mutex::default(), left: watch::Sender::new(0) }) }
    }

    /// Takes a future over and runs it to its end.
    pub(super) fn adopt(
        &self,
        environment: &Environment,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let number = {
            let mut tasks = self.inner.lock();
            let number = tasks.next;
            tasks.next += 1;
            tasks.by_number.insert(number, None);
            number
        };
        self.inner.count();
        let last = Last { inner: Arc::downgrade(&self.inner), number };
        // A runtime that is being torn down starts nothing any more, and tokio says so by a panic. This runs in
        // drops, where a panic would end the process.
        let started = guarded(|| {
            environment.spawn(name, async move {
                let _last = last;
                future.await;
            })
        });
        match started {
            Ok(task) => {
                let ended = match self.inner.lock().by_number.get_mut(&number) {
                    Some(place) => place.replace(task),
                    None => Some(task),
                };
                drop(ended);
            }
            Err(text) => {
                tracing::warn!(reason = %text, "{name}: not followed to its end, it may or may not land");
            }
        }
    }

    /// How many have not ended.
    pub(crate) fn left(&self) -> usize {
        self.inner.lock().by_number.len()
    }

    /// Waits until all have ended.
    pub(crate) async fn settled(&self) {
        let mut left = self.inner.left.subscribe();
        // The sender is in `self`: the wait cannot end for want of it.
        let _left = left.wait_for(|left| *left == 0).await;
    }

    /// Aborts all.
    pub(crate) fn abort(&self) {
        let aborted = std::mem::take(&mut self.inner.lock().by_number);
        drop(aborted);
        self.inner.count();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read inside the channel's own lock, so that of two changes the later count stays.
    fn count(&self) {
        self.left.send_modify(|left| *left = self.lock().by_number.len());
    }
}

/// Takes its task out of the bag when the future is dropped.
struct Last {
    inner: Weak<Inner>,
    number: u64,
}

impl Drop for Last {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let task = inner.lock().by_number.remove(&self.number);
        drop(task);
        inner.count();
    }
}

impl fmt::Debug for TaskBag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBag").field("left", &self.left()).finish()
    }
}
