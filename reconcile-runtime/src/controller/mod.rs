//! Controllers: a reconciler, what wakes it, and how it runs.
//!
//! A [`Controller`] is a description. [`Manager::add`](crate::Manager::add) checks it, and gives a handle; the
//! manager connects its sources and starts its loops. Controllers come in two forms: of objects
//! ([`Controller::for_objects`], [`Controller::managed`]), whose keys are those of one kind, the primary; and
//! of keys ([`Controller::for_keys`]), which need no store.
//!
//! Promises: whatever user code a source holds may panic and disturbs nothing else; a source signals the queue
//! directly, and never blocks or waits.
//!
//! Not here: the queue, the running of a reconciler, the caches.

mod builder;
pub mod changed;
mod classify;
mod error;
mod kind;
mod managed;
mod prepared;
mod primary;
mod resync;
mod settings;
mod source;
mod trigger;
mod watch;

pub use builder::{Controller, Keyed};
pub use classify::PAUSE_ANNOTATION;
pub use error::ConfigError;
pub use kind::{AnyApi, KindId};
pub use managed::Managed;
pub(crate) use prepared::{AnyController, Control};
#[cfg(test)]
pub(crate) use source::SourceStats;
pub use source::SourceStatus;
pub use trigger::{Trigger, TriggerItem};
pub use watch::Watch;
