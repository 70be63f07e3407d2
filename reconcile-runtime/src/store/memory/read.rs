//! Reading: objects, pages, and the store trait that ties reading, writing and watching together.

use std::{ops::Bound, sync::Arc};

use async_trait::async_trait;
use reconcile_core::{
    ObjectKey, Resource, Revision, Store, StoreError, StoreFault,
    store::{Changes, Cursor, Guarantees, ListQuery, Page, Scope, Unreadable, Write, WriteContext, Written},
};

use super::{
    Inner, MemoryStore,
    history::Held,
    kind::Kind,
    page::Position,
    shared::{Shared, Stale},
    watch, write,
};

/// How many objects are looked at under one lock, and so the most that one page holds.
///
/// Copying as many `Arc`s takes some hundred microseconds, which is as long as a listing may hold up a writer.
pub(super) const PAGE: usize = 4_096;

#[async_trait]
impl<R: Resource> Store<R> for MemoryStore {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        let held = self
            .inner
            .with_kind::<R, _>("get", Some(key), |_, kind| kind.get(key).map(|entry| entry.held.clone()))?;
        match held {
            None => Ok(None),
            Some(Held::Readable(object)) => Ok(Some(object)),
            Some(Held::Damaged(damaged)) => {
                let fault = damaged.item.fault.clone();
                Err(StoreError::new("get", R::KIND, key, StoreFault::Unreadable).because(fault))
            }
        }
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        self.inner.list(query)
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        watch::watch(&self.inner, &from, scope)
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        write::write(&self.inner, &write, cx)
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.with_kind::<R, _>("read the revision of", None, |_, kind| kind.newest())
    }

    fn guarantees(&self) -> Guarantees {
        MemoryStore::guarantees(self)
    }
}

impl Inner {
    /// Runs `read` on a kind under the lock; makes the kind if it was never asked for before.
    pub(super) fn with_kind<R: Resource, T>(
        &self,
        operation: &'static str,
        key: Option<&ObjectKey>,
        read: impl FnOnce(&Shared, &Kind<R>) -> T,
    ) -> Result<T, StoreError> {
        {
            let shared = self.lock_read();
            if let Some(kind) = shared.kind::<R>() {
                return Ok(read(&shared, kind));
            }
        }
        let mut shared = self.lock_write();
        if let Err(clash) = shared.kind_or_new::<R>() {
            drop(shared);
            return Err(clash.error(operation, key));
        }
        let kind = shared.kind::<R>().expect("the kind was just made, and the lock held since");
        Ok(read(&shared, kind))
    }

    /// One page: as many chunks as it takes to fill it, since labels are looked at outside the lock.
    fn list<R: Resource>(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        let ListQuery { scope, after, limit, .. } = query;
        let limit = limit.unwrap_or(PAGE).clamp(1, PAGE);
        let stale = |stale: Stale| stale.error("list", R::KIND);
        let first = match &after {
            None => None,
            Some(token) => Some(Position::from_token(token, R::KIND).ok_or(stale(Stale::NotOurs))?),
        };
        let mut cursor = None;
        let mut last = first.as_ref().map(|position| position.after.clone());
        let (mut items, mut unreadable) = (Vec::new(), Vec::new());
        loop {
            let wanted = if scope.labels.is_empty() { limit } else { PAGE };
            let (at, chunk, more) = self
                .with_kind::<R, _>("list", None, |shared, kind| {
                    // The first page's position is checked again with every chunk: after a restore between
                    // two chunks the halves would not belong together.
                    let at = match (&cursor, &first) {
                        (Some(cursor), _) => Cursor::clone(cursor),
                        (None, Some(first)) => Cursor::new(first.revision, first.check.as_slice()),
                        (None, None) => shared.cursor(shared.revision()),
                    };
                    shared.check_position(at.revision(), at.check())?;
                    let start = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                    let (chunk, more) = kind.page(start, scope.namespace.as_deref(), wanted);
                    Ok((at, chunk, more))
                })?
                .map_err(stale)?;
            let mut rest = chunk.into_iter();
            for (key, held) in rest.by_ref() {
                last = Some(key.clone());
                if !watch::in_scope(&scope, &key, &held) {
                    continue;
                }
                match held {
                    Held::Readable(object) => items.push(object),
                    Held::Damaged(damaged) => unreadable.push(Unreadable::clone(&damaged.item)),
                }
                if items.len() + unreadable.len() == limit {
                    break;
                }
            }
            let full = items.len() + unreadable.len() == limit;
            let more = more || rest.len() > 0;
            if !full && more {
                cursor = Some(at);
                continue;
            }
            let next = last.filter(|_| more).map(|after| {
                Position { revision: at.revision(), check: at.check().to_vec(), after }.token(R::KIND)
            });
            return Ok(Page::new(items, unreadable, at, next));
        }
    }
}
