//! A store in memory with one fault.
//!
//! A [`Flaw`] changes one thing on the way to a good store or back; everything else is the good store, so
//! that what the suite finds is that one thing.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use reconcile_runtime::{
    MemoryStore,
    core::{
        ObjectKey, Resource, Revision, Store, StoreError,
        store::{
            Changes, Cursor, Guarantees, LeaseRecord, LeaseState, Leases, ListQuery, Page, Scope, Write,
            WriteContext, Written,
        },
    },
    store::{Damage, MemorySnapshot},
};
use reconcile_testing::conformance::{ClockMode, Harness, Missing, Power, PowerError, Probe, Stores};

pub(crate) type Fallible<T> = Result<T, StoreError>;

/// What one wrong store does differently. Everything it leaves alone is right.
pub(crate) trait Flaw: Clone + Default + Send + Sync + 'static {
    fn get<R: Resource>(
        &self,
        store: &MemoryStore,
        key: &ObjectKey,
    ) -> impl Future<Output = Fallible<Option<Arc<R>>>> + Send {
        async move { store.get(key).await }
    }

    fn list<R: Resource>(
        &self,
        store: &MemoryStore,
        query: ListQuery,
    ) -> impl Future<Output = Fallible<Page<R>>> + Send {
        async move { store.list(query).await }
    }

    fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> impl Future<Output = Fallible<Changes<R>>> + Send {
        async move { store.watch(from, scope).await }
    }

    fn write<R: Resource>(
        &self,
        store: &MemoryStore,
        write: Write<R>,
        cx: &WriteContext,
    ) -> impl Future<Output = Fallible<Written<R>>> + Send {
        async move { store.write(write, cx).await }
    }

    fn revision<R: Resource>(&self, store: &MemoryStore) -> impl Future<Output = Fallible<Revision>> + Send {
        async move { Store::<R>::revision(store).await }
    }

    fn swap(
        &self,
        store: &MemoryStore,
        name: &str,
        seen: Option<Revision>,
        next: LeaseRecord,
    ) -> impl Future<Output = Fallible<LeaseState>> + Send {
        async move { store.swap(name, seen, next).await }
    }

    fn compact(&self, store: &MemoryStore) {
        store.compact();
    }

    fn restore(&self, store: &MemoryStore, snapshot: &MemorySnapshot) {
        store.restore(snapshot);
    }
}

/// A good store behind a flaw.
#[derive(Clone)]
pub(crate) struct Wrong<F> {
    store: MemoryStore,
    flaw: F,
}

#[async_trait]
impl<R: Resource, F: Flaw> Store<R> for Wrong<F> {
    async fn get(&self, key: &ObjectKey) -> Fallible<Option<Arc<R>>> {
        self.flaw.get(&self.store, key).await
    }

    async fn list(&self, query: ListQuery) -> Fallible<Page<R>> {
        self.flaw.list(&self.store, query).await
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Fallible<Changes<R>> {
        self.flaw.watch(&self.store, from, scope).await
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Fallible<Written<R>> {
        self.flaw.write(&self.store, write, cx).await
    }

    async fn revision(&self) -> Fallible<Revision> {
        self.flaw.revision::<R>(&self.store).await
    }

    fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }
}

#[async_trait]
impl<F: Flaw> Leases for Wrong<F> {
    async fn lease(&self, name: &str) -> Fallible<Option<LeaseState>> {
        self.store.lease(name).await
    }

    async fn swap(&self, name: &str, seen: Option<Revision>, next: LeaseRecord) -> Fallible<LeaseState> {
        self.flaw.swap(&self.store, name, seen, next).await
    }
}

/// The harness of a wrong store.
pub(crate) struct WrongHarness<F> {
    store: Wrong<F>,
    saved: Mutex<Option<MemorySnapshot>>,
}

pub(crate) fn harness<F: Flaw>() -> WrongHarness<F> {
    let store = Wrong { store: MemoryStore::default(), flaw: F::default() };
    WrongHarness { store, saved: Mutex::new(None) }
}

#[async_trait]
impl<F: Flaw> Harness for WrongHarness<F> {
    fn missing(&self) -> Vec<Missing> {
        [Power::Kill, Power::Undefault, Power::LoseReply]
            .map(|power| Missing::new(power, "the wrong stores have no fault there"))
            .to_vec()
    }

    fn clock(&self) -> ClockMode {
        ClockMode::Paused
    }

    async fn stores(&self) -> Stores {
        Stores::of(self.store.clone()).with_leases(self.store.clone())
    }

    async fn compact(&self) -> Result<(), PowerError> {
        self.store.flaw.compact(&self.store.store);
        Ok(())
    }

    async fn damage(&self, key: &ObjectKey, damage: Damage) -> Result<(), PowerError> {
        let damaged = self.store.store.damage::<Probe>(key, damage, "damaged by a test");
        damaged.map(drop).map_err(PowerError::failed)
    }

    async fn save(&self) -> Result<(), PowerError> {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.store.store.snapshot());
        Ok(())
    }

    async fn restore(&self) -> Result<(), PowerError> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let saved = saved.ok_or_else(|| PowerError::failed("there is no backup"))?;
        self.store.flaw.restore(&self.store.store, &saved);
        Ok(())
    }
}
