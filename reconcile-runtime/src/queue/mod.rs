//! The work queue.

mod config;
mod signal;

pub(crate) use config::QueueConfig;
pub use config::{BackoffSignals, RetryBudget};
pub use signal::Lane;
pub(crate) use signal::{Signal, SignalKind};
