//! The clock of an environment.

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::Time;

/// Monotonic time, wall time, and sleeping.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time; never goes back.
    fn now(&self) -> Time;

    /// Wall time; may jump.
    fn wall(&self) -> Timestamp;

    /// A future that ends when [`now`](Self::now) has reached the deadline.
    fn sleep_until(&self, deadline: Time) -> BoxFuture<'static, ()>;
}
