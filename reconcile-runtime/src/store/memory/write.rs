//! Writing: decide outside the lock, commit under it.

use std::sync::Arc;

use reconcile_core::{
    ObjectKey, Resource, Revision, StoreError, StoreFault,
    store::{Current, Decision, Fence, Write, WriteContext, Written, decide},
};

use super::{
    Inner,
    history::{Damaged, Held},
    kind::{After, Entry},
};

/// How often a write is decided again because somebody else was quicker.
///
/// Only a write that names no version can get here twice: one that does is a conflict the second time. Each
/// turn that is lost is a write that somebody else won, so sixteen in a row mean a hot object, and the caller
/// should know.
const ATTEMPTS: usize = 16;

/// What a write was decided on: the epoch, and what was stored under the key.
struct Seen<R> {
    epoch: u64,
    entry: Option<(Revision, Held<R>)>,
}

impl<R> Seen<R> {
    fn revision(&self) -> Option<Revision> {
        self.entry.as_ref().map(|(revision, _)| *revision)
    }
}

/// What came of a commit.
enum Committed<R> {
    /// It landed.
    Done { revision: Revision, held: Option<Held<R>>, after: After<R> },
    /// Something else is stored by now.
    Stale,
}

pub(super) fn write<R: Resource>(
    inner: &Inner,
    write: &Write<R>,
    cx: &WriteContext,
) -> Result<Written<R>, StoreError> {
    let key = write.key();
    let operation = write.operation();
    let fence = cx.fence.as_ref();
    for _ in 0..ATTEMPTS {
        let seen = look(inner, operation, &key, fence)?;
        let held = seen.entry.as_ref().map(|(_, held)| held);
        let current = match held {
            None => Current::Absent,
            Some(Held::Readable(object)) => Current::Readable(&**object),
            Some(Held::Damaged(damaged)) => Current::Unreadable(damaged.item.meta.as_ref()),
        };
        let next = match decide(current, write, cx).map_err(|refused| refused.into_error(write))? {
            Decision::Put(object) => Some(Held::Readable(Arc::new(object))),
            Decision::PutMeta(meta) => match held {
                Some(Held::Damaged(damaged)) => {
                    let mut item = damaged.item.clone();
                    item.meta = Some(meta);
                    Some(Held::Damaged(Arc::new(Damaged { item, good: damaged.good.clone() })))
                }
                _ => return Err(unexpected(operation, R::KIND, &key)),
            },
            Decision::Remove => None,
            Decision::Unchanged => {
                return match held {
                    Some(Held::Readable(object)) => Ok(Written::Unchanged(object.clone())),
                    Some(Held::Damaged(damaged)) => Ok(Written::Marked(Arc::new(damaged.item.clone()))),
                    None => Err(unexpected(operation, R::KIND, &key)),
                };
            }
            _ => return Err(unexpected(operation, R::KIND, &key)),
        };
        match commit(inner, operation, &key, &seen, next, fence)? {
            Committed::Stale => {}
            Committed::Done { revision, held, after } => {
                after.settle();
                return Ok(match held {
                    Some(Held::Readable(object)) => Written::Stored(object),
                    Some(Held::Damaged(damaged)) => Written::Marked(Arc::new(damaged.item.clone())),
                    None => {
                        let last = seen.entry.and_then(|(_, held)| held.readable().cloned());
                        Written::Removed { last, revision }
                    }
                });
            }
        }
    }
    Err(StoreError::new(operation, R::KIND, &key, StoreFault::Conflict)
        .because(format!("others changed it {ATTEMPTS} times while this write was decided: try again")))
}

/// What is stored under the key, if the writer may write at all.
fn look<R: Resource>(
    inner: &Inner,
    operation: &'static str,
    key: &ObjectKey,
    fence: Option<&Fence>,
) -> Result<Seen<R>, StoreError> {
    inner
        .with_kind::<R, _>(operation, Some(key), |shared, kind| {
            if let Some(fence) = fence
                && let Err(token) = shared.check_fence(fence)
            {
                return Err((fence, token));
            }
            let entry = kind.get(key).map(|entry: &Entry<R>| (entry.revision, entry.held.clone()));
            Ok(Seen { epoch: shared.epoch().number(), entry })
        })?
        .map_err(|(fence, token)| fenced::<R>(operation, key, fence, token))
}

/// Commits `next` (none: removes) if what was seen is still what is stored, and the writer's term has not
/// ended meanwhile. Nobody else holds `next` yet; it gets its revision here.
fn commit<R: Resource>(
    inner: &Inner,
    operation: &'static str,
    key: &ObjectKey,
    seen: &Seen<R>,
    mut next: Option<Held<R>>,
    fence: Option<&Fence>,
) -> Result<Committed<R>, StoreError> {
    // `next` outlives the guard on every way out, so that nothing is dropped under the lock (invariant 2).
    let mut shared = inner.lock_write();
    if let Some(fence) = fence
        && let Err(token) = shared.check_fence(fence)
    {
        drop(shared);
        return Err(fenced::<R>(operation, key, fence, token));
    }
    let revision = shared.next_revision();
    let epoch = shared.epoch().number();
    let Some(kind) = shared.kind_mut::<R>() else { return Ok(Committed::Stale) };
    // Invariant 4: the same epoch and revision are the same content.
    if epoch != seen.epoch || kind.get(key).map(|entry| entry.revision) != seen.revision() {
        return Ok(Committed::Stale);
    }
    if let Some(next) = &mut next {
        next.set_revision(revision);
    }
    let after = match next.clone() {
        Some(held) => kind.put(key, revision, held),
        None => kind.remove(key, revision),
    };
    shared.reached(revision);
    drop(shared);
    Ok(Committed::Done { revision, held: next, after })
}

/// The writer's term is over, or never was.
fn fenced<R: Resource>(
    operation: &'static str,
    key: &ObjectKey,
    fence: &Fence,
    token: Option<Revision>,
) -> StoreError {
    let why = match token {
        Some(token) => format!(
            "the lease {:?} has the token {token}, and this writer's is {}: its term is over, acquire the \
             lease again",
            fence.lease, fence.token
        ),
        None => format!("there is no lease {:?} in this store: acquire it first", fence.lease),
    };
    StoreError::new(operation, R::KIND, key, StoreFault::Fenced).because(why)
}

/// `decide` gave an answer that does not go with what was stored, or one that this store does not know.
fn unexpected(operation: &'static str, kind: &'static str, key: &ObjectKey) -> StoreError {
    StoreError::new(operation, kind, key, StoreFault::Unavailable)
        .because("the store rules gave an answer that this store does not know: use matching versions")
}
