//! What a backend of bytes implements; one encoding layer makes a [`Store`](super::Store) of it.
//!
//! Promises asked of a backend: a commit compares the revision and checks the fence in the transaction in
//! which it writes; changes come in order, none twice; a key that was never written and one that was deleted
//! look the same to [`read`](ByteStore::read).
//!
//! Not here: what the bytes mean. A backend never parses them, so a value that nobody can read disturbs nothing.

use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use super::{Cursor, Fence, Leases, ListQuery, PageToken, StoreError};
use crate::{ObjectKey, Revision};

/// Stored bytes. In a stream of changes, no `value` means that the key is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawItem {
    /// The key.
    pub key: ObjectKey,
    /// The revision of this value, or of the delete.
    pub revision: Revision,
    /// The bytes; for a delete, none.
    pub value: Option<Arc<[u8]>>,
    /// For a change: the bytes before it, if the backend still has them.
    pub previous: Option<Arc<[u8]>>,
}

impl RawItem {
    /// An item.
    pub fn new(key: ObjectKey, revision: Revision, value: Option<Arc<[u8]>>) -> Self {
        RawItem { key, revision, value, previous: None }
    }

    /// The bytes before the change.
    #[must_use]
    pub fn previous(mut self, previous: Option<Arc<[u8]>>) -> Self {
        self.previous = previous;
        self
    }
}

/// One compare-and-set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// The kind.
    pub kind: &'static str,
    /// The key.
    pub key: ObjectKey,
    /// The revision that must be stored; none: the key must be absent.
    pub expect: Option<Revision>,
    /// The new bytes; none: delete.
    pub put: Option<Vec<u8>>,
    /// The writer's term.
    pub fence: Option<Fence>,
}

impl Commit {
    /// A commit without a fence.
    pub fn new(kind: &'static str, key: ObjectKey, expect: Option<Revision>, put: Option<Vec<u8>>) -> Self {
        Commit { kind, key, expect, put, fence: None }
    }

    /// The same with a fence.
    #[must_use]
    pub fn fenced(mut self, fence: Option<Fence>) -> Self {
        self.fence = fence;
        self
    }
}

/// What came of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Committed {
    /// It landed, with this revision.
    Done(Revision),
    /// Something else is stored: decide again on this.
    Stale(Option<RawItem>),
}

/// Raw changes of a kind, and where the reader stands after them.
pub type RawChanges = BoxStream<'static, Result<(Vec<RawItem>, Cursor), StoreError>>;

/// A backend of bytes.
#[async_trait]
pub trait ByteStore: Leases {
    /// The bytes under a key.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the backend cannot answer.
    async fn read(&self, kind: &'static str, key: &ObjectKey) -> Result<Option<RawItem>, StoreError>;

    /// One page of a kind, in key order.
    ///
    /// # Errors
    ///
    /// `Expired` if the page token is too old.
    async fn scan(
        &self,
        kind: &'static str,
        query: ListQuery,
    ) -> Result<(Vec<RawItem>, Cursor, Option<PageToken>), StoreError>;

    /// Every change after a cursor.
    ///
    /// # Errors
    ///
    /// `Expired` if the changes after the cursor cannot be had.
    async fn changes(&self, kind: &'static str, from: Cursor) -> Result<RawChanges, StoreError>;

    /// Compares and sets, in one transaction with the check of the fence.
    ///
    /// # Errors
    ///
    /// `Fenced` before anything else; `Indeterminate` if the reply was lost.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;
}
