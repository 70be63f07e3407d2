//! A store behind its time limit, and the writes that have left their run.
//!
//! Promise: no request lasts longer than the limit. A read that does is `Unavailable`; a write that does is
//! `Indeterminate`, since it may land later.
//!
//! Not here: retries, and what an answer means for a cache.

use std::{fmt, sync::Arc, time::Duration};

use reconcile_core::{
    ObjectKey, Resource, Revision, StoreError, StoreFault,
    store::{Changes, Cursor, ListQuery, Page, Scope, Store, Write, WriteContext, Written},
};

use super::tasks::TaskBag;
use crate::Environment;

/// What came of a write. The same as [`Written`], which may grow, but closed.
#[derive(Debug, Clone)]
pub(super) enum Landed<R> {
    /// The object as it is stored.
    Stored(Arc<R>),
    /// Nothing would have changed.
    Unchanged(Arc<R>),
    /// The object is gone.
    Removed { last: Option<Arc<R>>, revision: Revision },
}

/// A store, as `Api`, `Client` and the reflector use it.
pub(crate) struct Backend<R: Resource> {
    store: Arc<dyn Store<R>>,
    environment: Environment,
    /// How long one request may take.
    limit: Duration,
    writes: TaskBag,
}

impl<R: Resource> Backend<R> {
    pub(crate) fn new(store: Arc<dyn Store<R>>, environment: Environment, limit: Duration) -> Arc<Self> {
        Arc::new(Backend { store, environment, limit, writes: TaskBag::new() })
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The started writes whose run is gone.
    pub(crate) fn writes(&self) -> &TaskBag {
        &self.writes
    }

    pub(crate) async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        let late = || StoreError::new("get", R::KIND, key, StoreFault::Unavailable);
        self.limited(self.store.get(key), late).await
    }

    pub(crate) async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        let late = || StoreError::of_kind("list", R::KIND, StoreFault::Unavailable);
        self.limited(self.store.list(query), late).await
    }

    pub(crate) async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        let late = || StoreError::of_kind("watch", R::KIND, StoreFault::Unavailable);
        self.limited(self.store.watch(from, scope), late).await
    }

    pub(crate) async fn revision(&self) -> Result<Revision, StoreError> {
        let late = || StoreError::of_kind("read the revision of", R::KIND, StoreFault::Unavailable);
        self.limited(self.store.revision(), late).await
    }

    pub(super) async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Landed<R>, StoreError> {
        let (operation, key) = (write.operation(), write.key());
        let unknown = || StoreError::new(operation, R::KIND, &key, StoreFault::Indeterminate);
        match self.limited(self.store.write(write, cx), unknown).await? {
            Written::Stored(object) => Ok(Landed::Stored(object)),
            Written::Unchanged(object) => Ok(Landed::Unchanged(object)),
            Written::Removed { last, revision } => Ok(Landed::Removed { last, revision }),
            _ => Err(unknown().because("the store gave an answer that this version does not know")),
        }
    }

    async fn limited<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
        late: impl FnOnce() -> StoreError,
    ) -> Result<T, StoreError> {
        let deadline = self.environment.now().saturating_add(self.limit);
        match self.environment.before(deadline, request).await {
            Ok(answer) => answer,
            Err(_) => Err(late().because(format!("the store did not answer within {:?}", self.limit))),
        }
    }
}

impl<R: Resource> fmt::Debug for Backend<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("kind", &R::KIND)
            .field("limit", &self.limit)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}
