//! The work queue.

mod config;
mod driver;
mod signal;

pub(crate) use config::QueueConfig;
pub use config::{BackoffSignals, RetryBudget};
pub(crate) use driver::Queue;
pub use signal::Lane;
pub(crate) use signal::{Signal, SignalKind};
