//! Runs control loops.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod change;
pub mod environment;
mod panics;
mod queue;
pub mod store;

pub use change::Change;
pub use environment::{Environment, Time};
pub use queue::{BackoffSignals, Lane, RetryBudget};
pub use reconcile_core as core;
pub use store::MemoryStore;
