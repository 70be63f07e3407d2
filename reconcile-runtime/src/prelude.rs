//! What a program that runs controllers needs: traits, and the nouns beside them.
//!
//! ```
//! use reconcile_runtime::prelude::*;
//! ```
//!
//! Not here: options that few programs set ([`Trigger`](crate::Trigger), [`Watch`](crate::Watch),
//! [`Lane`](crate::Lane), filters in [`changed`](crate::changed)) and the words of store authors in
//! [`core::store`](crate::core::store).

pub use reconcile_core::{
    Action, Backoff, Cleanup, Error, LabelSelector, Object, ObjectKey, ObjectMeta, ObjectReconciler, Owner,
    OwnerReference, ReconcileError, Reconciler, Resource, ResultExt, Retry, Run, Spec, StoreError,
    StoreFault, reconcile_fn,
};

#[cfg(feature = "signal")]
pub use crate::shutdown_signal;
pub use crate::{
    Api, ConfigError, Controller, Handle, Index, Manager, MemoryStore, NotConverged, OutcomeKind, RunError,
};
