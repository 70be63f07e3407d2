//! Runs control loops: keeps a real state equal to a wanted one, for as long as the process lives.
//!
//! A user implements one trait, [`Reconciler`](reconcile_core::Reconciler), and says what wakes it. A
//! [`Controller`] is the two together; a [`Manager`] runs any number of them, with one cache per kind of objects.
//! Start with the [`prelude`].
//!
//! ```
//! use reconcile_runtime::prelude::*;
//! use std::time::Duration;
//!
//! struct Ping;
//!
//! impl Reconciler for Ping {
//!     type Key = String;
//!
//!     async fn reconcile(&self, host: &String, run: &Run) -> Result<Action, Error> {
//!         if host.is_empty() {
//!             return Err("a host needs a name").permanent()?; // no retry until somebody asks again
//!         }
//!         println!("ping {host}, attempt {} because of {}", run.attempt(), run.causes());
//!         Ok(Action::requeue_after(Duration::from_secs(10)))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), RunError> {
//! # let stop = tokio::time::sleep(Duration::from_secs(60));
//! let hosts = || async { Ok(vec!["a.example".to_owned(), "b.example".to_owned()]) };
//! Controller::for_keys("ping", Ping)
//!     .resync_from(Duration::from_secs(600), hosts)
//!     .run_until(stop) // in a program: `shutdown_signal()`
//!     .await
//! # }
//! ```
//!
//! What it promises:
//!
//! - A key never runs twice at once, no wake-up is lost, and equal signals are merged.
//! - Every outcome of a run has its row in the table on [`Reconciler`](reconcile_core::Reconciler); a panic, a
//!   run over its limit and an error are outcomes of one key and touch no other.
//! - Reads of an [`Api`] come from memory and see what was written through it.
//! - [`Handle::explain`] says why a key is running, waiting or not running.
//! - Nothing is global: two managers in one process share nothing. With a seeded [`Environment`] on a paused
//!   clock and one thread, the same program does the same.
//!
//! What it is not: a workflow engine, an API server, or a store on disk. [`MemoryStore`] ends with the process; a
//! store of your own implements [`core::Store`] and passes the conformance suite of
//! `reconcile-testing`.
//!
//! | to … | see |
//! |---|---|
//! | run keys without a store | [`Controller::for_keys`] |
//! | run objects, their children, and what they refer to | [`Controller::for_objects`], [`Controller::owns`], [`Controller::watches`] |
//! | clean up before an object goes | [`Controller::managed`] |
//! | read and write objects | [`Api`], [`Index`]; in tools [`Client`] |
//! | enqueue, explain, wait, pause | [`Handle`] |
//! | know how a process fares | [`ManagerHandle`] |
//! | test on virtual time | [`Environment::seeded`] |
//!
//! # Features
//!
//! - `signal` (on by default): `shutdown_signal`, which ends on Ctrl-C and SIGTERM.
//! - `serde`: the JSON form of objects; see `reconcile_core::object::json`.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The programs of the README, which have to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
