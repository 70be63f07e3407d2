//! The seam to everything that is not deterministic: clock, tasks, wall time, randomness.
//!
//! A [`Manager`](crate::Manager) and everything it runs reach the world through one [`Environment`] and
//! through nothing else, so that a test which owns the environment owns the run. The default one is tokio's:
//! with a paused tokio clock, virtual time works everywhere.
//!
//! # Invariants
//!
//! 1. No other module of this crate reads a clock, sleeps, spawns or draws a random number.
//! 2. [`Time`] never goes back.
//! 3. A dropped [`Task`] is aborted, so whoever owns the tasks stops them by being dropped.
//!
//! Not here: I/O. That belongs to the stores.

mod clock;
mod random;
mod spawn;
mod time;
mod tokio_impl;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use reconcile_core::Uid;

pub use clock::Clock;
pub(crate) use random::Fork;
pub use random::Random;
pub use spawn::{JoinTask, Spawn, Task, TaskEnd};
pub use time::Time;

/// Clock, tasks, wall time and randomness, as one cheap handle.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::Environment;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // Seeded: the same seed gives the same uids and the same jitter; wall time follows the (paused) clock.
/// let (one, two) = (Environment::seeded(7), Environment::seeded(7));
/// assert_eq!(one.new_uid(), two.new_uid());
/// assert_eq!(one.wall(), two.wall());
/// # }
/// ```
#[derive(Clone)]
pub struct Environment {
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
    random: Random,
}

impl Environment {
    /// Tokio's clock and tasks, the system's wall time, and a random seed.
    pub fn tokio() -> Self {
        Environment {
            clock: Arc::new(tokio_impl::TokioClock::real()),
            spawn: Arc::new(tokio_impl::TokioSpawn),
            random: Random::from_system(),
        }
    }

    /// Tokio's clock and tasks, with a seed, and a wall clock that starts at a fixed instant and follows
    /// tokio's clock. Under a paused clock on one thread, two runs with one seed do the same.
    pub fn seeded(seed: u64) -> Self {
        Environment {
            clock: Arc::new(tokio_impl::TokioClock::virtual_wall()),
            spawn: Arc::new(tokio_impl::TokioSpawn),
            random: Random::seeded(seed),
        }
    }

    /// An environment of your own parts, such as a simulator's.
    pub fn new(clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>, random: Random) -> Self {
        Environment { clock, spawn, random }
    }

    /// Monotonic time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Wall time.
    pub fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// Sleeps until an instant of monotonic time; an instant that has passed is due at once.
    pub fn sleep_until(&self, deadline: Time) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(deadline)
    }

    /// Sleeps for a while.
    pub fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.now().saturating_add(delay))
    }

    /// Starts a task. It is aborted when the returned [`Task`] is dropped.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        Task::new(self.spawn.spawn(name, Box::pin(future)))
    }

    /// The source of randomness.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// A new uid, in the form of a version 4 UUID.
    pub fn new_uid(&self) -> Uid {
        let (high, low) = (self.random.next_u64(), self.random.next_u64());
        let version = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let variant = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        Uid::from(format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version >> 32,
            (version >> 16) & 0xffff,
            version & 0xffff,
            variant >> 48,
            variant & 0xffff_ffff_ffff
        ))
    }

    /// The wall clock as a shared function, for [`RunBuilder::clock`](reconcile_core::RunBuilder::clock).
    pub(crate) fn wall_fn(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.wall())
    }

    /// Runs `future` until it ends or the deadline passes; the deadline is looked at first.
    pub(crate) async fn before<F: Future>(&self, deadline: Time, future: F) -> Result<F::Output, Elapsed> {
        let mut future = std::pin::pin!(future);
        let mut sleep: Option<BoxFuture<'static, ()>> = None;
        std::future::poll_fn(|cx| {
            if let Some(sleep) = &mut sleep
                && sleep.as_mut().poll(cx).is_ready()
            {
                return std::task::Poll::Ready(Err(Elapsed));
            }
            if let std::task::Poll::Ready(output) = future.as_mut().poll(cx) {
                return std::task::Poll::Ready(Ok(output));
            }
            // The timer is made only for a future that did not end at its first poll.
            if sleep.is_none() {
                let mut timer = self.sleep_until(deadline);
                if timer.as_mut().poll(cx).is_ready() {
                    return std::task::Poll::Ready(Err(Elapsed));
                }
                sleep = Some(timer);
            }
            std::task::Poll::Pending
        })
        .await
    }
}

impl Default for Environment {
    fn default() -> Self {
        Environment::tokio()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

/// The deadline of [`Environment::before`] passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;
