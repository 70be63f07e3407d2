//! A store in memory: objects behind `Arc`s, never serialised.
//!
//! One [`MemoryStore`] holds every kind. It promises the nine rules, one order of revisions across all kinds,
//! and fencing. A read is one short read lock; a write decides outside every lock and commits under one short
//! write lock if what it decided on is still what is stored.
//!
//! It is not durable: what it holds ends with the last handle. It is not a cache: reads from a controller go
//! through `Api`, which never waits.
//!
//! # Invariants
//!
//! 1. All state is behind one lock, [`Inner::shared`]. It is the only lock of the module, and it is never held
//!    over an await, so there is no order of locks to keep.
//! 2. No code of the user runs under the lock, with one exception: the accessor `meta_mut`, which puts the
//!    revision into an object that nobody else has seen yet. Clones, comparisons, defaults, validation and
//!    scopes are evaluated before or after; whatever the lock lets go of is dropped after it.
//! 3. Nobody is woken under the lock.
//! 4. Within one epoch revisions rise strictly, and nothing is committed with the revision of another commit.
//!    So an (epoch, revision) names one content, and comparing it is comparing the object.
//! 5. A history holds every change after its `forgotten` revision, in order, without a gap.
//! 6. A parked watcher has seen everything up to the newest change of its kind; whoever makes a newer one
//!    takes the parked wakers in the same critical section.
//! 7. A table and its order hold the same keys, and one key's allocation is shared by table, order and history.

mod history;
mod hooks;
mod kind;
mod lease;
mod page;
#[cfg(test)]
mod races;
mod read;
mod shared;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use reconcile_core::store::Guarantees;

pub use hooks::{Damage, MemorySnapshot};
use shared::Shared;

/// How many changes a kind remembers unless told otherwise.
///
/// A watcher that falls behind by more lists again, and so does one whose listing takes longer than this many
/// writes. At a thousand writes a second that is a minute, while the changes themselves take 4 MB a kind (64
/// bytes each) beside the older versions that they keep alive.
const DEFAULT_HISTORY: usize = 65_536;

/// A store in memory, as a cheap handle: clones are the same store.
///
/// It implements [`Store<R>`](reconcile_core::Store) for every kind, and
/// [`Leases`](reconcile_core::store::Leases). Objects are held and handed out as `Arc`s, so a read copies
/// nothing; the `Arc` that a write answers is the one that later reads and watches give.
///
/// Revisions are ordered across all kinds. The history is bounded per kind ([`MemoryStoreBuilder::history`]):
/// a watch from before it answers `Expired`. Watchers have no buffers, so a slow one costs nothing.
///
/// Two types with the same `KIND` are two kinds to the compiler and one to the user: the second one gets an
/// `Invalid` error that names both types.
///
/// # Comparison to other stores
///
/// Everything is lost with the last handle. Use it for tests, for programs that rebuild their state at start,
/// and to begin with.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::MemoryStore;
/// use reconcile_runtime::core::{Object, ObjectKey, Spec, Store, Timestamp, Uid};
/// use reconcile_runtime::core::store::{Write, WriteContext, Written};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct WebSpec { replicas: usize }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
/// type Web = Object<WebSpec>;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reconcile_runtime::core::StoreError> {
/// let store = MemoryStore::default();
/// let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("uid-1"));
/// let written = store.write(Write::Create(Web::new("web", WebSpec { replicas: 3 })), &cx).await?;
/// let Written::Stored(web) = written else { panic!("nothing was there before") };
/// assert_eq!(web.meta.generation, 1);
///
/// let read: Option<std::sync::Arc<Web>> = store.get(&ObjectKey::new("web")).await?;
/// assert!(std::sync::Arc::ptr_eq(&web, &read.unwrap()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

/// What all handles of one store share.
struct Inner {
    /// Which store this is; never changes, unlike the epoch inside `shared`.
    store_id: Arc<str>,
    /// Everything else. Invariant 1.
    shared: RwLock<Shared>,
}

/// Sets up a [`MemoryStore`].
///
/// # Examples
///
/// ```
/// use reconcile_runtime::MemoryStore;
///
/// let store = MemoryStore::builder().history(1_000).build();
/// # let _ = store;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct MemoryStoreBuilder {
    history: usize,
}

impl MemoryStoreBuilder {
    /// How many changes each kind remembers (default 65,536). Zero counts as one.
    ///
    /// It should be more than the writes of a kind that happen while its slowest reader lists all of it, or
    /// that reader's watch starts as `Expired` and it lists again for ever.
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes.max(1);
        self
    }

    /// An empty store.
    pub fn build(self) -> MemoryStore {
        let epoch = shared::Epoch::next();
        MemoryStore {
            inner: Arc::new(Inner {
                store_id: format!("memory-{}", epoch.number()).into(),
                shared: RwLock::new(Shared::new(epoch, self.history)),
            }),
        }
    }
}

impl MemoryStore {
    /// To set up a store that differs from the default.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { history: DEFAULT_HISTORY }
    }

    /// What the store promises beyond the nine rules: fencing, and one order of revisions across all kinds.
    pub fn guarantees(&self) -> Guarantees {
        Guarantees::new(self.inner.store_id.clone()).with_fencing().with_store_wide_order()
    }
}

impl Inner {
    /// A panic of user code under the lock (invariant 2) happens before anything is changed, so poison says
    /// nothing about the state.
    fn lock_read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Inner::lock_read`].
    fn lock_write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::builder().build()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (revision, kinds) = {
            let shared = self.inner.lock_read();
            (shared.revision(), shared.sizes())
        };
        f.debug_struct("MemoryStore")
            .field("store_id", &self.inner.store_id)
            .field("revision", &revision)
            .field("kinds", &kinds)
            .finish()
    }
}
