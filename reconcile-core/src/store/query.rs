//! Reading a store: lists, watches, and where a reader stands in the history.
//!
//! Promises: a [`Cursor`] and a [`PageToken`] mean something to the store that made them and to nobody else;
//! what cannot be read is listed and watched beside what can, never left out (rule 8).
//!
//! Not here: the cache that lists once and watches from there; that is the runtime's.

use std::{fmt, sync::Arc};

use futures_core::stream::BoxStream;

use crate::{LabelSelector, ObjectKey, ObjectMeta, Revision, Uid, store::StoreError};

/// Where a reader stands in the history of a kind. Made by a store, and given back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Everything up to it has been seen.
    revision: Revision,
    /// By which the store tells that `revision` is one of its own history.
    check: Arc<[u8]>,
}

impl Cursor {
    /// A cursor of a store: the last revision seen, and what the store needs to know its own history again.
    pub fn new(revision: Revision, check: impl Into<Arc<[u8]>>) -> Self {
        Cursor { revision, check: check.into() }
    }

    /// The last revision seen.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// What the store put in to know its own history again.
    pub fn check(&self) -> &[u8] {
        &self.check
    }
}

/// Where the next page begins. Made by a store, and given back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken(Arc<[u8]>);

impl PageToken {
    /// A token of a store.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        PageToken(bytes.into())
    }

    /// What the store put in.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Something is stored under a key that cannot be read. It is present all the same (rule 8).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The key.
    pub key: ObjectKey,
    /// The metadata, if that much could be read.
    pub meta: Option<ObjectMeta>,
    /// The revision of what is stored.
    pub revision: Revision,
    /// What is wrong with it.
    pub fault: Arc<str>,
}

impl Unreadable {
    /// Something unreadable.
    pub fn new(
        key: ObjectKey,
        meta: Option<ObjectMeta>,
        revision: Revision,
        fault: impl Into<Arc<str>>,
    ) -> Self {
        Unreadable { key, meta, revision, fault: fault.into() }
    }
}

/// One page of a listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<R> {
    /// The objects, in key order.
    pub items: Vec<Arc<R>>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Where to watch from after the listing; the same on every page.
    pub cursor: Cursor,
    /// Where the next page begins, if there is one.
    pub next: Option<PageToken>,
}

impl<R> Page<R> {
    /// A page.
    pub fn new(
        items: Vec<Arc<R>>,
        unreadable: Vec<Unreadable>,
        cursor: Cursor,
        next: Option<PageToken>,
    ) -> Self {
        Page { items, unreadable, cursor, next }
    }
}

/// Which objects of a kind: of one namespace, or with some labels.
///
/// # Examples
///
/// ```
/// use reconcile_core::{LabelSelector, ObjectMeta, store::Scope};
///
/// let scope = Scope::all().namespace("default").labels(LabelSelector::default().with("app", "web"));
/// let mut meta = ObjectMeta::new("web-1");
/// meta.labels.insert("app".into(), "web".into());
/// assert!(!scope.contains(&meta), "it is in no namespace");
/// meta.namespace = Some("default".into());
/// assert!(scope.contains(&meta));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
}

impl Scope {
    /// All objects.
    pub fn all() -> Self {
        Scope::default()
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Whether an object with this metadata is in the scope.
    pub fn contains(&self, meta: &ObjectMeta) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| meta.namespace.as_ref() == Some(namespace))
            && self.labels.matches(&meta.labels)
    }
}

/// Which page of which objects.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListQuery {
    /// Which objects.
    pub scope: Scope,
    /// After which page; none for the first.
    pub after: Option<PageToken>,
    /// At most how many objects; none leaves it to the store. Zero counts as one.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// The first page of all objects.
    pub fn all() -> Self {
        ListQuery::default()
    }

    /// Only objects of this scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The page after a token.
    #[must_use]
    pub fn after(mut self, token: PageToken) -> Self {
        self.after = Some(token);
        self
    }

    /// At most this many objects a page.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// What a store promises beyond the nine rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantees {
    /// Which store it is: equal for two handles on one store, different for two stores.
    pub store_id: Arc<str>,
    /// Whether it refuses writes with an old fencing token.
    pub fencing: bool,
    /// Whether revisions are ordered across kinds.
    pub store_wide_order: bool,
}

impl Guarantees {
    /// A store without fencing, whose revisions are ordered per kind.
    pub fn new(store_id: impl Into<Arc<str>>) -> Self {
        Guarantees { store_id: store_id.into(), fencing: false, store_wide_order: false }
    }

    /// It refuses writes with an old fencing token.
    #[must_use]
    pub fn with_fencing(mut self) -> Self {
        self.fencing = true;
        self
    }

    /// Its revisions are ordered across kinds.
    #[must_use]
    pub fn with_store_wide_order(mut self) -> Self {
        self.store_wide_order = true;
        self
    }
}

/// One change of a kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "an event lives for as long as its batch; the rare variant is large"
)]
pub enum WatchEvent<R> {
    /// The object was created or changed.
    Applied(Arc<R>),
    /// The object was changed to something that cannot be read.
    Unreadable(Unreadable),
    /// The object is gone. For a scoped watch: gone from the scope.
    Deleted {
        /// The key.
        key: ObjectKey,
        /// The incarnation, if it could be read.
        uid: Option<Uid>,
        /// The delete's own revision.
        revision: Revision,
        /// The last committed state, if it could be read.
        last: Option<Arc<R>>,
    },
}

impl<R: crate::Resource> WatchEvent<R> {
    /// The key of the object that changed.
    pub fn key(&self) -> ObjectKey {
        match self {
            WatchEvent::Applied(object) => object.key(),
            WatchEvent::Unreadable(item) => item.key.clone(),
            WatchEvent::Deleted { key, .. } => key.clone(),
        }
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            WatchEvent::Applied(object) => object.meta().revision,
            WatchEvent::Unreadable(item) => item.revision,
            WatchEvent::Deleted { revision, .. } => *revision,
        }
    }
}

/// Some changes, and where the reader stands after them. Without events it is a progress mark.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchBatch<R> {
    /// The changes, in order.
    pub events: Vec<WatchEvent<R>>,
    /// Where to watch from after them.
    pub cursor: Cursor,
}

impl<R> WatchBatch<R> {
    /// A batch.
    pub fn new(events: Vec<WatchEvent<R>>, cursor: Cursor) -> Self {
        WatchBatch { events, cursor }
    }
}

/// The stream of a watch. It ends with an error, or when the store lets it end.
pub type Changes<R> = BoxStream<'static, Result<WatchBatch<R>, StoreError>>;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.revision)
    }
}
