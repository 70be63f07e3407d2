//! What tests do to a store that programs do not: forget, go back in time, damage.

use std::{fmt, sync::Arc};

use reconcile_core::{ObjectKey, Resource, Revision, StoreError, StoreFault, store::Unreadable};

use super::{
    MemoryStore,
    history::{Damaged, Held},
    kind::After,
    shared::{Copy, Epoch},
};

/// Everything a store holds, as of one instant. Made by [`MemoryStore::snapshot`].
#[derive(Clone)]
pub struct MemorySnapshot {
    copy: Arc<Copy>,
}

impl MemorySnapshot {
    /// The store's revision at that instant.
    pub fn revision(&self) -> Revision {
        self.copy.revision()
    }
}

impl fmt::Debug for MemorySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySnapshot").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// How much of an object [`MemoryStore::damage`] destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// Spec and status cannot be read, metadata can.
    Content,
    /// Nothing can be read.
    Everything,
}

impl MemoryStore {
    /// Forgets all changes so far, as a durable store does when it compacts its log.
    ///
    /// Objects stay. A watch from before the newest change of its kind is `Expired`, also one that is open and
    /// has not read that far.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reconcile_runtime::{MemoryStore, core::{Object, Spec, Store, StoreFault, Timestamp, Uid}};
    /// # use reconcile_runtime::core::store::{ListQuery, Page, Scope, Write, WriteContext};
    /// # #[derive(Clone, Debug, PartialEq)] struct Spot;
    /// # impl Spec for Spot { const KIND: &'static str = "Spot"; type Status = (); }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reconcile_runtime::core::StoreError> {
    /// let store = MemoryStore::default();
    /// let page: Page<Object<Spot>> = store.list(ListQuery::all()).await?;
    /// let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("u1"));
    /// store.write(Write::Create(Object::new("x", Spot)), &cx).await?;
    /// store.compact();
    /// let watch = Store::<Object<Spot>>::watch(&store, page.cursor, &Scope::all()).await;
    /// assert_eq!(watch.err().unwrap().fault(), StoreFault::Expired);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) {
        let forgotten = self.inner.lock_write().forget();
        drop(forgotten); // with the last handles of old objects: not under the lock
    }

    /// Starts a new history with the same contents: all cursors, watches and page tokens are `Expired`.
    pub fn start_epoch(&self) {
        let parked = self.inner.lock_write().start_epoch(Epoch::next());
        for parked in parked {
            parked.wake();
        }
    }

    /// Everything that is stored now: objects, leases and the revision.
    ///
    /// It copies handles, not objects, under the lock: a test's tool, not a backup.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot { copy: Arc::new(self.inner.lock_read().copy()) }
    }

    /// Goes back to a snapshot, as when an operator restores a backup: objects, leases and the revision are
    /// what they were, and new writes get revisions that were given before.
    ///
    /// A new history starts: cursors, watches and page tokens from before are `Expired`, whatever revision
    /// the store reaches. Fencing tokens that were given out meanwhile are never given out again. Versions are
    /// told apart by their revision alone, so an update that was decided on a given-up version is a `Conflict`
    /// unless its object has come to that very revision again. The snapshot may be of another store. The store
    /// keeps its id.
    pub fn restore(&self, snapshot: &MemorySnapshot) {
        let replaced = self.inner.lock_write().restore(&snapshot.copy, Epoch::next());
        replaced.settle();
    }

    /// Replaces what is stored under a key by something that cannot be read, as a change of its own, which
    /// watchers see as `Unreadable` (rule 8). `fault` is what readers are told. Gives the change's revision.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is nothing to damage, `Conflict` if it was changed at the same time, `Invalid` if
    /// another type has this `KIND`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reconcile_runtime::{MemoryStore, core::{Object, ObjectKey, Spec, Store, StoreFault, Timestamp, Uid}};
    /// # use reconcile_runtime::core::store::{Write, WriteContext};
    /// # #[derive(Clone, Debug, PartialEq)] struct Spot;
    /// # impl Spec for Spot { const KIND: &'static str = "Spot"; type Status = (); }
    /// use reconcile_runtime::store::Damage;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reconcile_runtime::core::StoreError> {
    /// # let store = MemoryStore::default();
    /// # let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("u1"));
    /// store.write(Write::Create(Object::new("x", Spot)), &cx).await?;
    /// let key = ObjectKey::new("x");
    /// store.damage::<Object<Spot>>(&key, Damage::Content, "not JSON")?;
    /// let read = Store::<Object<Spot>>::get(&store, &key).await;
    /// assert_eq!(read.unwrap_err().fault(), StoreFault::Unreadable);
    /// store.repair::<Object<Spot>>(&key)?;
    /// assert!(Store::<Object<Spot>>::get(&store, &key).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn damage<R: Resource>(
        &self,
        key: &ObjectKey,
        damage: Damage,
        fault: impl Into<Arc<str>>,
    ) -> Result<Revision, StoreError> {
        let fault = fault.into();
        self.replace::<R>("damage", key, |held| {
            let good = match held {
                Held::Readable(object) => object.clone(),
                Held::Damaged(damaged) => damaged.good.clone(),
            };
            let meta = match damage {
                Damage::Content => held.meta().cloned(),
                Damage::Everything => None,
            };
            let item = Unreadable::new(key.clone(), meta, Revision(0), fault.clone());
            Held::Damaged(Arc::new(Damaged { item, good }))
        })
    }

    /// Makes a damaged object readable again, as a change of its own: with the content from before the damage,
    /// and the newest metadata that could be read since. Gives the change's revision.
    ///
    /// # Errors
    ///
    /// As [`MemoryStore::damage`].
    pub fn repair<R: Resource>(&self, key: &ObjectKey) -> Result<Revision, StoreError> {
        self.replace::<R>("repair", key, |held| match held {
            Held::Readable(object) => Held::Readable(Arc::new((**object).clone())),
            Held::Damaged(damaged) => {
                let mut object = (*damaged.good).clone();
                if let Some(meta) = &damaged.item.meta {
                    *object.meta_mut() = meta.clone();
                }
                Held::Readable(Arc::new(object))
            }
        })
    }

    /// Replaces what is stored under a key, past all rules. `change` runs outside the lock.
    fn replace<R: Resource>(
        &self,
        operation: &'static str,
        key: &ObjectKey,
        change: impl Fn(&Held<R>) -> Held<R>,
    ) -> Result<Revision, StoreError> {
        let fail = |fault| StoreError::new(operation, R::KIND, key, fault);
        let seen = self.inner.with_kind::<R, _>(operation, Some(key), |shared, kind| {
            let entry = kind.get(key)?;
            Some((shared.epoch().number(), entry.revision, entry.held.clone()))
        })?;
        let (epoch, seen_revision, held) = seen.ok_or_else(|| fail(StoreFault::NotFound))?;
        let mut next = change(&held);
        let after: Option<(Revision, After<R>)> = {
            let mut shared = self.inner.lock_write();
            let revision = shared.next_revision();
            let same_epoch = shared.epoch().number() == epoch;
            let kind = shared.kind_mut::<R>().filter(|kind| {
                same_epoch && kind.get(key).is_some_and(|entry| entry.revision == seen_revision)
            });
            match kind {
                None => None,
                Some(kind) => {
                    next.set_revision(revision);
                    let after = kind.put(key, revision, next.clone());
                    shared.reached(revision);
                    Some((revision, after))
                }
            }
        };
        let (revision, after) = after.ok_or_else(|| fail(StoreFault::Conflict))?;
        after.settle();
        Ok(revision)
    }
}
