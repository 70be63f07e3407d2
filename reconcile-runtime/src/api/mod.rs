//! What reconcilers read and write with: [`Api`], and without a cache [`Client`].
//!
//! Promises: reads come from memory; a successful write is in the cache and its indexes, and its change is
//! delivered, before the call returns; after a write that lost to another one, the object has been read again;
//! a write that was started is carried through, even if its run is dropped.
//!
//! Not here: the store rules (in core), the order of states and the reflector ([`cache`](crate::cache)).

mod backend;
mod client;
mod owned;
pub(crate) mod scope;
mod tasks;
#[cfg(test)]
mod tests;
mod verbs;
mod write;

use std::{fmt, sync::Arc};

use reconcile_core::{
    ObjectKey, Owner, Resource, StoreError,
    store::{Preconditions, Propagation, Unreadable},
};

pub(crate) use backend::Backend;
pub use client::Client;

use crate::cache::Kind;
use write::Writer;

/// The objects of one kind: reads from the cache, writes to the store. Made by the manager; cheap to clone.
///
/// Reads cost no I/O and give immutable `Arc`s in key order. Writes go to the store, with the identity of the
/// run they are made in.
///
/// | a write answers | what has happened by then |
/// |---|---|
/// | `Ok` | it is in the cache and the indexes, and its change is delivered |
/// | `Conflict`, `AlreadyExists`, `NotFound`, `Indeterminate` | the object was read live and is in the cache; failing that, it is read before the key's next run |
/// | anything else | nothing |
///
/// # Cancel safety
///
/// A write that was polled once is carried through when its future is dropped; the key of its run is released
/// when it has settled, or after one time limit of the store.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::{Api, core::{Error, Object, Spec}};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct WebSpec { replicas: usize }
/// #[derive(Clone, Debug, Default, PartialEq)]
/// struct WebStatus { ready: usize }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = WebStatus;
/// }
///
/// async fn scale_all(webs: &Api<Object<WebSpec>>, replicas: usize) -> Result<(), Error> {
///     for web in webs.list() {
///         webs.modify(&web.meta.key(), |web| web.spec.replicas = replicas).await?;
///     }
///     Ok(())
/// }
/// # let _ = scale_all;
/// # trait Key { fn key(&self) -> reconcile_runtime::core::ObjectKey; }
/// # impl Key for reconcile_runtime::core::ObjectMeta {
/// #     fn key(&self) -> reconcile_runtime::core::ObjectKey {
/// #         reconcile_runtime::core::ObjectKey::in_namespace(self.namespace.as_deref(), &self.name)
/// #     }
/// # }
/// ```
pub struct Api<R: Resource> {
    kind: Arc<Kind<R>>,
    writer: Writer<R>,
}

impl<R: Resource> Clone for Api<R> {
    fn clone(&self) -> Self {
        Api { kind: self.kind.clone(), writer: self.writer.clone() }
    }
}

impl<R: Resource> fmt::Debug for Api<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("kind", &self.kind).finish()
    }
}

impl<R: Resource> Api<R> {
    pub(crate) fn new(kind: Arc<Kind<R>>) -> Self {
        let writer = Writer::new(kind.backend().clone(), Some(kind.cache().clone()));
        Api { kind, writer }
    }

    pub(crate) fn kind(&self) -> &Arc<Kind<R>> {
        &self.kind
    }

    // ---- reads from the cache

    /// The object under a key, as the cache knows it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<R>> {
        self.kind.cache().get(key)
    }

    /// All objects, in key order.
    pub fn list(&self) -> Vec<Arc<R>> {
        self.kind.cache().list()
    }

    /// The objects whose controller is this very incarnation of `owner`, in key order.
    pub fn owned_by(&self, owner: &impl Owner) -> Vec<Arc<R>> {
        self.kind.cache().owned_by(&owner.owner_meta().uid)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.kind.cache().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first listing has ended, so that what is not in the cache was not in the store then.
    pub fn is_synced(&self) -> bool {
        self.kind.cache().is_synced()
    }

    /// What is stored under the key, if it cannot be read. [`get`](Self::get) gives the last version that could.
    pub fn unreadable(&self, key: &ObjectKey) -> Option<Arc<Unreadable>> {
        self.kind.cache().unreadable(key)
    }

    // ---- live

    /// Waits until the cache holds everything that any process had written before the call.
    ///
    /// The own writes of this manager are there already when they return; this is for what others wrote.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store cannot say where it stands.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn caught_up(&self) -> Result<(), StoreError> {
        self.kind.barrier().await
    }

    /// The object under a key, as the store has it now. What it finds is in the cache when it returns.
    ///
    /// For decisions that cannot be taken back outside the store; everything else reads from the cache.
    ///
    /// # Errors
    ///
    /// `Unreadable`; `Unavailable`, also after the time limit; `Reentrant` inside a mapper.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn get_live(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        self.writer.read(key).await
    }

    // ---- writes

    /// Creates an object. The store gives it its uid and revision; gives back what is stored.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Invalid`, with all faults; `Indeterminate` if the answer was lost and the object was
    /// not found afterwards.
    pub async fn create(&self, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.create(object).await
    }

    /// Creates an object with `owner` as its controller; it inherits the owner's namespace.
    ///
    /// # Errors
    ///
    /// Like [`create`](Self::create); `Invalid` without a request if the owner has no uid or lives in another
    /// namespace, or if the object has another controller.
    pub async fn create_owned(&self, owner: &impl Owner, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.create_owned(owner, object).await
    }

    /// Writes spec and metadata of an object, decided on the uid and revision that it carries. Gives back what
    /// is stored; if it removed the last finalizer of a deleted object, the object's last state.
    ///
    /// # Errors
    ///
    /// `Conflict` if the object is not what it was decided on; `NotFound`; `Invalid`, also for a changed status.
    pub async fn update(&self, object: R) -> Result<Arc<R>, StoreError> {
        self.writer.update(object).await
    }

    /// Reads an object, from the cache first, applies `change` to it and writes spec and metadata. On a
    /// conflict it reads live and applies again, eight times at most. Writes nothing if nothing was changed.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such object; `Conflict` after the last try; `Invalid`, also for a changed
    /// status.
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
    /// `NotFound` if there is no such object; `Conflict` after the last try.
    pub async fn modify_status(
        &self,
        key: &ObjectKey,
        change: impl FnMut(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.writer.modify_status(key, change).await
    }

    /// Applies `change` to the status of `object` and writes it, decided on the revision of `object`. Sends
    /// nothing if nothing was changed.
    ///
    /// # Errors
    ///
    /// `Conflict` if the object is not what it was decided on; `NotFound`.
    pub async fn update_status(
        &self,
        object: &R,
        change: impl FnOnce(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.writer.update_status(object, change).await
    }

    /// Deletes this very version of an object, or marks it if it has finalizers.
    ///
    /// # Errors
    ///
    /// `Conflict` if it was changed meanwhile; `NotFound`; `Invalid` if it was never stored.
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

    /// Deletes what is under a key, if the conditions hold: also something that cannot be read.
    ///
    /// # Errors
    ///
    /// `Conflict` if a condition does not hold; `NotFound`.
    pub async fn delete_key(&self, key: &ObjectKey, only_if: Preconditions) -> Result<(), StoreError> {
        self.writer.delete_key(key.clone(), only_if, Propagation::default()).await
    }
}
