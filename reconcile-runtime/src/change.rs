//! What happened to an object, as the cache tells its subscribers.

use std::sync::Arc;

use reconcile_core::{ObjectKey, Resource, Revision};

/// What happened to an object in the cache. There is one shape of delete, always with the last known object.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::Change;
/// use std::sync::Arc;
///
/// let change = Change::Updated { old: Arc::new(1), new: Arc::new(2) };
/// assert_eq!(**change.object(), 2);
/// assert_eq!(change.old().map(|old| **old), Some(1));
/// ```
#[derive(Debug, Clone)]
pub enum Change<R> {
    /// It was not there before.
    Added(Arc<R>),
    /// It is another version of the same incarnation.
    Updated {
        /// Before.
        old: Arc<R>,
        /// After.
        new: Arc<R>,
    },
    /// It is gone; this was its last state.
    Deleted(Arc<R>),
}

impl<R> Change<R> {
    /// The newest state: of a delete, the last one.
    pub fn object(&self) -> &Arc<R> {
        match self {
            Change::Added(object) | Change::Deleted(object) => object,
            Change::Updated { new, .. } => new,
        }
    }

    /// The state before an update.
    pub fn old(&self) -> Option<&Arc<R>> {
        match self {
            Change::Updated { old, .. } => Some(old),
            Change::Added(_) | Change::Deleted(_) => None,
        }
    }

    /// Whether the object is gone.
    pub fn is_delete(&self) -> bool {
        matches!(self, Change::Deleted(_))
    }
}

/// One step of one object's history in one cache: which revision was there, and which is there now.
///
/// A run recognises its own writes by it: a change is the run's own only if the run wrote `after` while the
/// cache held the very revision `before` that the write was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which kind of the manager, by number.
    pub(crate) kind: u32,
    /// What the cache held; zero for nothing.
    pub(crate) before: Revision,
    /// What it holds now; of a delete, the delete's own revision.
    pub(crate) after: Revision,
}

/// Who is told of changes: a controller's source. Called synchronously, in order, outside every lock.
pub(crate) trait Subscriber<R: Resource>: Send + Sync + 'static {
    /// A change happened to the object under `key`, which shares the cache's own allocation. `initial` marks what was there at the first listing, or is replayed.
    fn changed(&self, key: &ObjectKey, change: &Change<R>, step: Step, initial: Initial);

    /// An object that could be read is now stored in a form that cannot be, or can be read again.
    fn flagged(&self, object: &Arc<R>);
}

/// Whether a change is news or was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Initial {
    /// It was there at the first listing of the cache, or is replayed to a new subscriber.
    Yes,
    /// It is news.
    No,
}
