//! The store contract: where objects are kept, and the nine rules that every store keeps.
//!
//! 1. Create fails if the key exists; Update and UpdateStatus fail if it is absent, or if uid or revision
//!    differ. Nothing is ever an upsert.
//! 2. Update cannot change status (an attempt is `Invalid`); UpdateStatus changes nothing else. Only a
//!    changed spec or the mark of deletion raises `generation`.
//! 3. A write that changes nothing raises no revision and emits no event (`Unchanged`).
//! 4. Revisions rise strictly; store-wide where [`Guarantees`] says so, else per kind. A delete has a revision
//!    of its own; its event carries the last committed state.
//! 5. Delete with finalizers present marks `deleted_at`; removing the last one removes the object
//!    (`Removed`). No new finalizers on a deleting object. Foreground and orphan set their finalizer in the
//!    same write.
//! 6. `watch(c)` gives every change after `c`, in order, none twice, or fails with `Expired` (too old, too
//!    new, or another history): then list again. A listing is never older than a write completed before it
//!    was asked for.
//! 7. Defaulting and validation run on create and when the spec changed, never in the way of metadata,
//!    finalizers or status; all faults in one answer, with field paths. Defaults are also applied on reading,
//!    so that a new default changes no generation.
//! 8. An unreadable object is **present**: `get` says `Unreadable`, create says it exists, the cache keeps
//!    its last good version and flags it, and nothing else is disturbed.
//! 9. A kill at any instant loses no acknowledged write. A reply lost on the way is `Indeterminate`; a
//!    retried create with the same new uid counts as success.
//!
//! Rules 1 to 3, 5 and 7 live once, in the pure function [`decide`]; a backend only compares and commits. The
//! conformance suite in `reconcile-testing` checks all nine on any store.
//!
//! Not here: any store. `reconcile-runtime` has the one in memory.

mod bytes;
mod decide;
mod error;
mod lease;
mod query;
mod write;

use std::sync::Arc;

use async_trait::async_trait;

pub use bytes::{ByteStore, Commit, Committed, RawChanges, RawItem};
pub use decide::{Current, Decision, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Refused, decide};
pub use error::{StoreError, StoreFault};
pub use lease::{LeaseRecord, LeaseState, Leases};
pub use query::{
    Changes, Cursor, Guarantees, ListQuery, Page, PageToken, Scope, Unreadable, WatchBatch, WatchEvent,
};
pub use write::{Fence, Preconditions, Propagation, Write, WriteContext, Written};

use crate::{ObjectKey, Resource, Revision};

/// Where objects of one kind are kept. One store usually implements it for every kind.
#[async_trait]
pub trait Store<R: Resource>: Send + Sync + 'static {
    /// The object under a key, as it is now.
    ///
    /// # Errors
    ///
    /// `Unreadable` if something is there that cannot be read (rule 8), `Unavailable` if the store cannot answer.
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError>;

    /// One page of the objects, in key order.
    ///
    /// # Errors
    ///
    /// `Expired` if the page token is too old: list again from the first page. `Unavailable` if the store cannot answer.
    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError>;

    /// Every change after `from`, in order, none twice (rule 6).
    ///
    /// # Errors
    ///
    /// `Expired`, here or as an item of the stream, if the changes after `from` cannot be had: list again.
    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError>;

    /// Writes, by the rules of [`decide`].
    ///
    /// # Errors
    ///
    /// What [`decide`] refuses; `Fenced` before anything else; `Indeterminate` if the reply was lost.
    ///
    /// # Cancel safety
    ///
    /// A write whose future is dropped may or may not land.
    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError>;

    /// A revision that this kind's watch will reach without further writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store cannot answer.
    async fn revision(&self) -> Result<Revision, StoreError>;

    /// What the store promises beyond the nine rules.
    fn guarantees(&self) -> Guarantees;
}

#[async_trait]
impl<R: Resource, S: Store<R> + ?Sized> Store<R> for Arc<S> {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        (**self).get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        (**self).list(query).await
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        (**self).watch(from, scope).await
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        (**self).write(write, cx).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        (**self).revision().await
    }

    fn guarantees(&self) -> Guarantees {
        (**self).guarantees()
    }
}
