//! Runs control loops.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod cache;
mod change;
mod controller;
pub mod environment;
mod handle;
mod manager;
pub mod metrics;
mod panics;
pub mod prelude;
mod queue;
pub mod store;
mod sync;
mod worker;

pub use api::{Api, Client};
pub use cache::{CacheSnapshot, Index, RestartCause, Restarts};
pub use change::Change;
pub use controller::{
    AnyApi, ConfigError, Controller, Keyed, KindId, Managed, PAUSE_ANNOTATION, SourceStatus, Trigger,
    TriggerItem, Watch, changed,
};
pub use environment::{Environment, Time};
pub use handle::{Handle, Idle, NotConverged, RunReport, Stopped};
pub use manager::{
    ControllerStatus, LoopRole, LoopStatus, Manager, ManagerHandle, ManagerStatus, Phase, Readiness,
    RunError, UnsyncedKind, WaitingController,
};
#[cfg(feature = "signal")]
pub use manager::{Shutdown, shutdown_signal};
pub use queue::{
    BackoffSignals, Depth, Explanation, KeyState, Lane, LastOutcome, OutcomeKind, QueueSnapshot, RetryBudget,
};
pub use reconcile_core as core;
pub use store::MemoryStore;
