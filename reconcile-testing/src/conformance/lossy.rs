//! A wrapper that loses replies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use reconcile_core::{
    ObjectKey, Resource, Revision, Store, StoreError, StoreFault,
    store::{Changes, Cursor, Guarantees, ListQuery, Page, Scope, Write, WriteContext, Written},
};

/// A store whose reply to a write can be lost on the way: the write lands, and the caller hears
/// `Indeterminate`. Clones lose replies together.
///
/// # Examples
///
/// ```
/// use reconcile_core::{StoreFault, Store, Timestamp, Uid, store::{Write, WriteContext}};
/// use reconcile_runtime::MemoryStore;
/// use reconcile_testing::conformance::{LossyReplies, Probe, ProbeSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = LossyReplies::new(MemoryStore::default());
/// store.lose_next();
/// let probe = Probe::new("a", ProbeSpec::default());
/// let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("u1"));
/// let lost = store.write(Write::Create(probe.clone()), &cx).await;
/// assert_eq!(lost.unwrap_err().fault(), StoreFault::Indeterminate);
/// assert!(store.write(Write::Create(probe), &cx).await.is_ok(), "the same create again is a success");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LossyReplies<S> {
    store: S,
    /// Whether the next reply is lost.
    armed: Arc<AtomicBool>,
}

impl<S> LossyReplies<S> {
    /// A store that loses no reply until it is told to.
    pub fn new(store: S) -> Self {
        LossyReplies { store, armed: Arc::new(AtomicBool::new(false)) }
    }

    /// Loses the reply to the next write that lands.
    pub fn lose_next(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl<R: Resource, S: Store<R>> Store<R> for LossyReplies<S> {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        self.store.list(query).await
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        self.store.watch(from, scope).await
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        let (operation, key) = (write.operation(), write.key());
        let written = self.store.write(write, cx).await?;
        if self.armed.swap(false, Ordering::SeqCst) {
            return Err(StoreError::new(operation, R::KIND, &key, StoreFault::Indeterminate));
        }
        Ok(written)
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }

    fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }
}
