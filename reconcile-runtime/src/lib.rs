//! Runs control loops.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod cache;
mod change;
pub mod environment;
mod handle;
pub mod metrics;
mod panics;
mod queue;
pub mod store;
mod sync;
mod worker;

pub use api::{Api, Client};
pub use cache::{CacheSnapshot, Index, RestartCause, Restarts};
pub use change::Change;
pub use handle::{Handle, Idle, NotConverged, RunReport, Stopped};
pub use environment::{Environment, Time};
pub use queue::{
    BackoffSignals, Depth, Explanation, KeyState, Lane, LastOutcome, OutcomeKind, QueueSnapshot, RetryBudget,
};
pub use reconcile_core as core;
pub use store::MemoryStore;
