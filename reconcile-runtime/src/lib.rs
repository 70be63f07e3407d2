//! Runs control loops.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod cache;
mod change;
pub mod environment;
mod panics;
mod queue;

pub use api::{Api, Client};
pub use cache::{CacheSnapshot, Index, RestartCause, Restarts};
pub use change::Change;
pub use environment::{Environment, Time};
pub use queue::{BackoffSignals, Lane, RetryBudget};
pub use reconcile_core as core;
