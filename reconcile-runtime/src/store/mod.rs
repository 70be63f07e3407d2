//! The stores that come with the runtime.
//!
//! [`MemoryStore`] is always there. It keeps the nine rules of
//! [`reconcile_core::store`] like any other store, so that a program which runs on it
//! runs on a durable one without a change; only a restart of the process is different.
//!
//! Not here: the rules themselves, which live in [`reconcile_core::store::decide`], and the suite that checks
//! them, which lives in `reconcile-testing`.

mod memory;

pub use memory::{Damage, MemorySnapshot, MemoryStore, MemoryStoreBuilder};
