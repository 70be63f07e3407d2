//! The lock of the queue, swappable for the model checker's.
//!
//! Only what the wake and park protocol needs; every other module uses `std::sync` directly.

#[cfg(not(reconcile_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(reconcile_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(reconcile_loom)]
pub(crate) use std::sync::PoisonError;
