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

#[cfg(test)]
mod tests {
    use std::{
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use futures::{FutureExt, future::BoxFuture};

    use super::*;
    use crate::{
        Time,
        environment::{Clock, JoinTask, Random, Spawn, TaskEnd},
    };

    /// Runs a task to its end before `spawn` returns, as another thread may.
    struct AtOnce;

    impl Spawn for AtOnce {
        fn spawn(&self, _: &'static str, mut future: BoxFuture<'static, ()>) -> Box<dyn JoinTask> {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut cx).is_ready(), "the test gives only futures that do not wait");
            Box::new(Ended)
        }
    }

    struct Ended;

    impl JoinTask for Ended {
        fn abort(&self) {}

        fn poll_end(&mut self, _: &mut Context<'_>) -> Poll<TaskEnd> {
            Poll::Ready(TaskEnd::Finished)
        }
    }

    impl Clock for AtOnce {
        fn now(&self) -> Time {
            Time::ZERO
        }

        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }

        fn sleep_until(&self, _: Time) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn a_task_that_ends_before_its_handle_is_there_leaves_nothing_behind() {
        let environment = Environment::new(Arc::new(AtOnce), Arc::new(AtOnce), Random::seeded(1));
        let bag = TaskBag::new();
        bag.adopt(&environment, "at once", async {});
        assert_eq!(bag.left(), 0);
        assert!(bag.settled().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_out_of_the_bag() {
        let environment = Environment::seeded(1);
        let bag = TaskBag::new();
        bag.adopt(&environment, "panics", async { panic!("the test says so") });
        bag.adopt(&environment, "waits", environment.sleep(Duration::from_secs(1)));
        assert_eq!(bag.left(), 2);
        bag.settled().await;
        assert_eq!(bag.left(), 0);
        assert_eq!(environment.now(), Time::after_start(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_bag_aborts_its_tasks() {
        let environment = Environment::seeded(1);
        let bag = TaskBag::new();
        let held = Arc::new(());
        let kept = held.clone();
        bag.adopt(&environment, "waits for ever", async move {
            std::future::pending::<()>().await;
            drop(kept);
        });
        environment.sleep(Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&held), 2);
        drop(bag);
        environment.sleep(Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
