//! The writes and live reads of `Api`, without a cache: for tools.

use std::{fmt, sync::Arc};

use reconcile_core::{
    ObjectKey, Owner, Resource, StoreError,
    store::{Preconditions, Propagation, Scope, Store},
};

use super::{backend::Backend, write::Writer};
use crate::{Environment, cache::KindSettings};

/// The objects of one kind in a store, without a cache: every read asks the store.
///
/// For tools, tests and one-shot jobs. A reconciler uses [`Api`](crate::Api), whose reads cost no I/O and see
/// its own writes. Writes follow the same rules; those made during a run carry the run's identity too. Cheap to
/// clone.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::{Client, core::{Object, Spec, Store, StoreError}};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct WebSpec { replicas: usize }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
/// type Web = Object<WebSpec>;
///
/// async fn scale(store: impl Store<Web>, replicas: usize) -> Result<(), StoreError> {
///     let webs = Client::<Web>::new(store);
///     for web in webs.list().await? {
///         let mut wanted = (*web).clone();
///         wanted.spec.replicas = replicas;
///         webs.update(wanted).await?;
///     }
///     Ok(())
/// }
/// ```
pub struct Client<R: Resource> {
    backend: Arc<Backend<R>>,
    writer: Writer<R>,
}

impl<R: Resource> Clone for Client<R> {
    fn clone(&self) -> Self {
        Client { backend: self.backend.clone(), writer: self.writer.clone() }
    }
}

impl<R: Resource> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("backend", &self.backend).finish()
    }
}

impl<R: Resource> Client<R> {
    /// A client of a store, in tokio's environment.
    ///
    /// # Panics
    ///
    /// If the operating system has no random bits to give, as the uids of new objects could then repeat.
    pub fn new(store: impl Store<R>) -> Self {
        Client::in_environment(store, Environment::tokio())
    }

    /// A client with an environment of your own, such as a seeded one.
    pub fn in_environment(store: impl Store<R>, environment: Environment) -> Self {
        let backend = Backend::new(Arc::new(store), environment, KindSettings::DEFAULT_STORE_LIMIT);
        Client { writer: Writer::new(backend.clone(), None), backend }
    }

    /// The object under a key, as the store has it now.
    ///
    /// # Errors
    ///
    /// `Unreadable`; `Unavailable`, also after the time limit.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        self.writer.read(key).await
    }

    /// All objects that can be read, in key order, page by page.
    ///
    /// # Errors
    ///
    /// `Unavailable`, also after the time limit of one page; `Expired` if the store has forgotten where a page
    /// ended: list again.
    pub async fn list(&self) -> Result<Vec<Arc<R>>, StoreError> {
        self.list_in(&Scope::all()).await
    }

    /// Like [`list`](Self::list), of one namespace or with some labels.
    ///
    /// # Errors
    ///
    /// Like [`list`](Self::list).
    pub async fn list_in(&self, scope: &Scope) -> Result<Vec<Arc<R>>, StoreError> {
        self.writer.list(scope, KindSettings::DEFAULT_PAGE_SIZE).await
    }

    /// Creates an object; see [`Api::create`](crate::Api::create).
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Invalid`; `Indeterminate`.
    pub async fn create(&self, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.create(object).await
    }

    /// Creates an object with `owner` as its controller; see [`Api::create_owned`](crate::Api::create_owned).
    ///
    /// # Errors
    ///
    /// Like [`create`](Self::create).
    pub async fn create_owned(&self, owner: &impl Owner, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.create_owned(owner, object).await
    }

    /// Writes spec and metadata; see [`Api::update`](crate::Api::update).
    ///
    /// # Errors
    ///
    /// `Conflict`; `NotFound`; `Invalid`.
    pub async fn update(&self, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.update(object).await
    }

    /// Reads, applies, writes, and again on a conflict; see [`Api::modify`](crate::Api::modify).
    ///
    /// # Errors
    ///
    /// `NotFound`; `Conflict` after the last try; `Invalid`.
    pub async fn modify(
        &self,
        key: &ObjectKey,
        change: impl FnMut(&mut R) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.writer.modify(key, change).await
    }

    /// Like [`modify`](Self::modify), for the status.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Conflict` after the last try.
    pub async fn modify_status(
        &self,
        key: &ObjectKey,
        change: impl FnMut(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.writer.modify_status(key, change).await
    }

    /// Writes the status; see [`Api::update_status`](crate::Api::update_status).
    ///
    /// # Errors
    ///
    /// `Conflict`; `NotFound`.
    pub async fn update_status(
        &self,
        object: &R,
        change: impl FnOnce(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.writer.update_status(object, change).await
    }

    /// Deletes this very version of an object; see [`Api::delete`](crate::Api::delete).
    ///
    /// # Errors
    ///
    /// `Conflict`; `NotFound`; `Invalid`.
    pub async fn delete(&self, object: &R) -> Result<(), StoreError> {
        self.delete_with(object, Propagation::default()).await
    }

    /// Like [`delete`](Self::delete), and says what happens to the children.
    ///
    /// # Errors
    ///
    /// Like [`delete`](Self::delete).
    pub async fn delete_with(&self, object: &R, propagation: Propagation) -> Result<(), StoreError> {
        self.writer.delete(object, propagation).await
    }

    /// Deletes what is under a key, if the conditions hold.
    ///
    /// # Errors
    ///
    /// `Conflict`; `NotFound`.
    pub async fn delete_key(&self, key: &ObjectKey, only_if: Preconditions) -> Result<(), StoreError> {
        self.writer.delete_key(key.clone(), only_if, Propagation::default()).await
    }

    /// Waits until every write whose future was dropped after it was started has settled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn settle(&self) {
        self.backend.writes().settled().await;
    }
}
