//! Watching: a position in the history of a kind, and nothing else.
//!
//! A watcher copies a bounded batch of changes from its position under the read lock, judges its scope
//! outside the lock, and moves on. If there is nothing it parks its waker; the next change takes it. So a slow
//! watcher costs no memory, and one that the history has overtaken hears `Expired`.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures::Stream;
use reconcile_core::{
    ObjectKey, Resource, StoreError,
    store::{Changes, Cursor, Scope, Unreadable, WatchBatch, WatchEvent},
};

use super::{
    Inner,
    history::{Held, History, Recorded},
    shared::{Shared, Stale},
};

/// The most changes in one batch: as many as are handled in some ten microseconds, so that a reader that is
/// far behind lets other tasks run between its batches.
const BATCH: usize = 256;

/// A watch of one kind.
struct Watcher<R: Resource> {
    inner: Arc<Inner>,
    /// What the reader wants to see.
    scope: Scope,
    /// Where the reader stands, with the check of the epoch that `revision` belongs to.
    position: Cursor,
    /// The key of its waker among the parked ones; none until it parks for the first time.
    parked_as: Option<u64>,
    /// Whether the stream has given its last item.
    ended: bool,
    /// The kind, which is known by type only.
    kind: std::marker::PhantomData<fn() -> R>,
}

/// What a look at the history gave.
enum Look<R> {
    Changes(Vec<Recorded<R>>, Cursor),
    Nothing,
}

pub(super) fn watch<R: Resource>(
    inner: &Arc<Inner>,
    from: &Cursor,
    scope: &Scope,
) -> Result<Changes<R>, StoreError> {
    let checked =
        inner.with_kind::<R, _>("watch", None, |shared, kind| check(shared, kind.history(), from))?;
    checked.map_err(|stale| stale.error("watch", R::KIND))?;
    Ok(Box::pin(Watcher::<R> {
        inner: inner.clone(),
        scope: scope.clone(),
        position: from.clone(),
        parked_as: None,
        ended: false,
        kind: std::marker::PhantomData,
    }))
}

/// Whether the changes after a position can all be had.
fn check<R>(shared: &Shared, history: &History<R>, at: &Cursor) -> Result<(), Stale> {
    shared.check_position(at.revision(), at.check())?;
    if history.reaches_back_to(at.revision()) { Ok(()) } else { Err(Stale::Forgotten) }
}

impl<R: Resource> Watcher<R> {
    /// The changes after the position, or that there are none.
    fn look(&self) -> Result<Look<R>, StoreError> {
        let looked = self.inner.with_kind::<R, _>("watch", None, |shared, kind| {
            check(shared, kind.history(), &self.position)?;
            if kind.newest() <= self.position.revision() {
                return Ok(Look::Nothing);
            }
            let changes = kind.history().after(self.position.revision(), BATCH);
            // A short batch is the last one, and then the reader knows of all the kind up to now.
            let reached = match changes.last() {
                Some(last) if changes.len() == BATCH => last.revision,
                _ => shared.revision(),
            };
            Ok(Look::Changes(changes, shared.cursor(reached)))
        })?;
        looked.map_err(|stale: Stale| stale.error("watch", R::KIND))
    }

    /// Parks, unless something has happened since the last look (invariant 6). Whether it parked.
    fn park(&mut self, waker: Waker) -> Parking {
        let mut shared = self.inner.lock_write();
        let current = shared.check_position(self.position.revision(), self.position.check()).is_ok();
        let id = match self.parked_as {
            Some(id) => id,
            None => shared.new_watcher(),
        };
        let old = match shared.kind_mut::<R>() {
            Some(kind) if current && kind.newest() <= self.position.revision() => kind.park(id, waker),
            _ => return Parking::LookAgain,
        };
        drop(shared);
        drop(old); // a waker is foreign code: not under the lock
        self.parked_as = Some(id);
        Parking::Parked
    }
}

/// Whether a watcher may sleep.
#[derive(PartialEq, Eq)]
enum Parking {
    Parked,
    LookAgain,
}

impl<R: Resource> Stream for Watcher<R> {
    type Item = Result<WatchBatch<R>, StoreError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while !this.ended {
            match this.look() {
                Ok(Look::Changes(changes, reached)) => {
                    let events =
                        changes.into_iter().filter_map(|change| event(&this.scope, change)).collect();
                    this.position = reached.clone();
                    // Without events it is a progress mark: the reader learns how far it has seen.
                    return Poll::Ready(Some(Ok(WatchBatch::new(events, reached))));
                }
                Ok(Look::Nothing) => {
                    if this.park(cx.waker().clone()) == Parking::Parked {
                        return Poll::Pending;
                    }
                }
                Err(error) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}

impl<R: Resource> Drop for Watcher<R> {
    fn drop(&mut self) {
        let Some(id) = self.parked_as else { return };
        let waker = self.inner.lock_write().kind_mut::<R>().and_then(|kind| kind.unpark(id));
        drop(waker);
    }
}

/// Whether what is stored under a key is in a scope. What cannot be read far enough to tell is, so that
/// nothing disappears from a reader because it was damaged (rule 8).
pub(super) fn in_scope<R: Resource>(scope: &Scope, key: &ObjectKey, held: &Held<R>) -> bool {
    let namespace = scope.namespace.as_deref();
    (namespace.is_none() || key.namespace() == namespace)
        && held.meta().is_none_or(|meta| scope.labels.matches(&meta.labels))
}

/// A change as a reader with this scope sees it.
fn event<R: Resource>(scope: &Scope, change: Recorded<R>) -> Option<WatchEvent<R>> {
    let Recorded { revision, key, before, after } = change;
    if let Some(after) = after.filter(|after| in_scope(scope, &key, after)) {
        return Some(match after {
            Held::Readable(object) => WatchEvent::Applied(object),
            Held::Damaged(damaged) => WatchEvent::Unreadable(Unreadable::clone(&damaged.item)),
        });
    }
    let before = before.filter(|before| in_scope(scope, &key, before))?;
    let uid = before.meta().map(|meta| meta.uid.clone());
    Some(WatchEvent::Deleted { key, uid, revision, last: before.readable().cloned() })
}
