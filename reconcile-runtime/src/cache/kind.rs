//! A kind of one manager: its store, its cache, and what can be set about them; and the same without its type,
//! so that a manager can hold all its kinds in one list.
//!
//! Not here: supervision. A reflector that returns or panics is the manager's to start again.

use std::{
    any::{Any, TypeId},
    fmt,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use reconcile_core::{
    Backoff, Resource, Revision, StoreError,
    store::{Scope, Store},
};

use super::{
    Cache, CacheSnapshot, Index,
    index::{AnyIndex, TypedIndex},
    reflector,
};
use crate::{Environment, api::Backend, change::Subscriber};

/// What can be set about a kind.
#[derive(Debug, Clone)]
pub(crate) struct KindSettings {
    /// Which objects are cached.
    pub(crate) scope: Scope,
    /// The most objects of one page of a listing. Zero counts as one.
    pub(crate) page_size: usize,
    /// How long one request to the store may take.
    pub(crate) store_limit: Duration,
    /// How long a watch may be silent before it is opened again.
    pub(crate) idle_limit: Duration,
    /// How long a reflector waits after a failure.
    pub(crate) backoff: Backoff,
}

impl KindSettings {
    /// A page of 500 objects of some KiB is about a MiB: few round trips, and no peak worth speaking of.
    pub(crate) const DEFAULT_PAGE_SIZE: usize = 500;
    /// Longer than any healthy store takes, shorter than a person's patience.
    pub(crate) const DEFAULT_STORE_LIMIT: Duration = Duration::from_secs(30);
    /// A half-open connection is found within five minutes; a quiet kind reconnects twelve times an hour.
    pub(crate) const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(300);
    /// Half a second spares a store that restarts, and thirty seconds is the longest that a cache stays behind
    /// after the store has recovered.
    pub(crate) const DEFAULT_BACKOFF: (Duration, Duration) =
        (Duration::from_millis(500), Duration::from_secs(30));
}

impl Default for KindSettings {
    fn default() -> Self {
        let (base, cap) = Self::DEFAULT_BACKOFF;
        KindSettings {
            scope: Scope::all(),
            page_size: Self::DEFAULT_PAGE_SIZE,
            store_limit: Self::DEFAULT_STORE_LIMIT,
            idle_limit: Self::DEFAULT_IDLE_LIMIT,
            backoff: Backoff::new(base, cap),
        }
    }
}

/// A kind of one manager.
pub(crate) struct Kind<R: Resource> {
    number: u32,
    backend: Arc<Backend<R>>,
    cache: Arc<Cache<R>>,
    settings: KindSettings,
}

impl<R: Resource> Kind<R> {
    /// A kind on a store. `number` tells the kinds of a manager apart.
    pub(crate) fn new(
        store: Arc<dyn Store<R>>,
        environment: Environment,
        number: u32,
        settings: KindSettings,
    ) -> Arc<Self> {
        Arc::new(Kind {
            number,
            backend: Backend::new(store, environment, settings.store_limit),
            cache: Cache::new(number, settings.scope.clone()),
            settings,
        })
    }

    pub(crate) fn cache(&self) -> &Arc<Cache<R>> {
        &self.cache
    }

    pub(crate) fn backend(&self) -> &Arc<Backend<R>> {
        &self.backend
    }

    pub(crate) fn settings(&self) -> &KindSettings {
        &self.settings
    }

    pub(crate) fn environment(&self) -> &Environment {
        self.backend.environment()
    }

    /// Tells `subscriber` of everything that is cached, and of every change from then on, in order.
    pub(crate) fn subscribe(&self, subscriber: Arc<dyn Subscriber<R>>) {
        self.cache.subscribe(subscriber);
    }

    /// A new index, filled when this returns. `name` is for logs.
    pub(crate) fn index<V, I>(
        &self,
        name: impl Into<Arc<str>>,
        values_of: impl Fn(&R) -> I + Send + Sync + 'static,
    ) -> Index<R, V>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        let index = Arc::new(TypedIndex::new(name.into(), values_of));
        let shared: Arc<dyn AnyIndex<R>> = index.clone();
        self.cache.add_index(shared);
        Index::new(index)
    }

    /// Waits until the reflector has passed `revision`, or a listing has ended that was asked for later. A watch
    /// that does not get there within the store's time limit is given up for a listing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn catch_up(&self, revision: Revision) {
        let asked = self.cache.listings_asked();
        let signals = self.cache.signals();
        let reached = |now: &super::Progress| now.synced && (now.floor >= revision || now.listed > asked);
        let environment = self.environment();
        let deadline = environment.now().saturating_add(self.settings.store_limit);
        if environment.before(deadline, signals.until(reached)).await.is_err() {
            self.cache.want_listing();
            signals.until(reached).await;
        }
    }
}

impl<R: Resource> Kind<R> {
    /// Waits until the cache holds everything that was written before the call, or was listed again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub(crate) async fn barrier(&self) -> Result<(), StoreError> {
        let newest = self.cache.newest();
        let revision = self.backend.revision().await?;
        if revision < newest {
            // The store no longer knows of a change that it has shown: it went back in time.
            let listing = self.cache.want_listing();
            self.cache.signals().until(|now| now.listed >= listing).await;
            return Ok(());
        }
        self.catch_up(revision).await;
        Ok(())
    }
}

impl<R: Resource> fmt::Debug for Kind<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("kind", &R::KIND)
            .field("number", &self.number)
            .field("objects", &self.cache.len())
            .finish_non_exhaustive()
    }
}

/// A kind, whatever its type.
pub(crate) trait AnyKind: fmt::Debug + Send + Sync + 'static {
    /// The name of the kind.
    fn name(&self) -> &'static str;

    /// The type of its objects.
    fn object_type(&self) -> TypeId;

    /// Itself, to be downcast to `Kind<R>`.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Lists and watches for as long as it is polled. Goes on where an earlier one was stopped.
    fn reflect(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Whether the first listing has ended.
    fn is_synced(&self) -> bool;

    /// Waits until the first listing has ended.
    fn wait_synced(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Waits until every started write whose run is gone has settled.
    fn settle(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Aborts the started writes whose run is gone. They may or may not land.
    fn abort_writes(&self);

    /// The numbers of now.
    fn snapshot(&self) -> CacheSnapshot;
}

impl<R: Resource> AnyKind for Kind<R> {
    fn name(&self) -> &'static str {
        R::KIND
    }

    fn object_type(&self) -> TypeId {
        TypeId::of::<R>()
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn reflect(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(reflector::reflect(self))
    }

    fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    fn wait_synced(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.cache.signals().until(|now| now.synced).await })
    }

    fn settle(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.backend.writes().settled().await })
    }

    fn abort_writes(&self) {
        self.backend.writes().abort();
    }

    fn snapshot(&self) -> CacheSnapshot {
        self.cache.snapshot(self.environment().now(), self.backend.writes().left())
    }
}
