//! Tasks of an environment: started, aborted, joined.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures::future::BoxFuture;

/// Starts tasks.
pub trait Spawn: Send + Sync + 'static {
    /// Starts a task. `name` says what it is, for diagnostics.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn JoinTask>;
}

/// A started task.
pub trait JoinTask: Send + Sync + 'static {
    /// Stops the task at its next await; its future is dropped.
    fn abort(&self);

    /// Whether the task has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<TaskEnd>;
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd {
    /// Its future returned.
    Finished,
    /// It was aborted.
    Aborted,
    /// It panicked, with this message.
    Panicked(String),
}

/// A started task, aborted when this is dropped.
pub struct Task {
    handle: Box<dyn JoinTask>,
    end: Option<TaskEnd>,
}

impl Task {
    pub(super) fn new(handle: Box<dyn JoinTask>) -> Self {
        Task { handle, end: None }
    }

    /// Stops the task at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Waits until the task has ended. May be called again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn join(&mut self) -> TaskEnd {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = std::future::poll_fn(|cx| self.handle.poll_end(cx)).await;
        self.end = Some(end.clone());
        end
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.handle.abort();
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("end", &self.end).finish_non_exhaustive()
    }
}
