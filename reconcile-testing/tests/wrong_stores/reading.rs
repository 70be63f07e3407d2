//! Stores that read, list or watch wrongly.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use reconcile_runtime::{
    MemoryStore,
    core::{
        ObjectKey, Resource, Revision, Store, StoreFault,
        store::{
            Changes, Cursor, ListQuery, Page, Scope, Unreadable, WatchBatch, WatchEvent, Write, WriteContext,
            Written,
        },
    },
    store::MemorySnapshot,
};

use crate::flaw::{Fallible, Flaw};

/// A flaw that changes the batches of a watch: `pending` is how far the store was when it was opened.
macro_rules! watches_wrongly {
    ($(#[$doc:meta])* $name:ident, |$batch:ident, $pending:ident| $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Default)]
        pub(crate) struct $name;

        impl Flaw for $name {
            async fn watch<R: Resource>(
                &self,
                store: &MemoryStore,
                from: Cursor,
                scope: &Scope,
            ) -> Fallible<Changes<R>> {
                let $pending = Store::<R>::revision(store).await?;
                let changes: Changes<R> = store.watch(from, scope).await?;
                Ok(changes
                    .map(move |batch| {
                        batch.map(|mut $batch: WatchBatch<R>| {
                            $body;
                            $batch
                        })
                    })
                    .boxed())
            }
        }
    };
}

watches_wrongly!(
    /// Loses the newest change that was already there when the watch was resumed.
    ResumeDropsAnEvent,
    |batch, pending| batch.events.retain(|event| event.revision() != pending)
);

watches_wrongly!(
    /// Gives the first change of every batch twice.
    EventsAreRepeated,
    |batch, _pending| if let Some(first) = batch.events.first().cloned() {
        batch.events.insert(0, first);
    }
);

watches_wrongly!(
    /// Swaps the first two changes of every batch.
    EventsAreSwapped,
    |batch, _pending| if batch.events.len() > 1 {
        batch.events.swap(0, 1);
    }
);

watches_wrongly!(
    /// Forgets what was deleted.
    DeletesHaveNoLastState,
    |batch, _pending| for event in &mut batch.events {
        if let WatchEvent::Deleted { last, .. } = event {
            *last = None;
        }
    }
);

watches_wrongly!(
    /// Gives a delete the revision of the state that was deleted.
    DeletesHaveNoRevision,
    |batch, _pending| for event in &mut batch.events {
        if let WatchEvent::Deleted { revision, last: Some(last), .. } = event {
            *revision = last.meta().revision;
        }
    }
);

watches_wrongly!(
    /// Tells of deletes with the status that was there first.
    DeletesHaveAStaleLastState,
    |batch, _pending| {
        let events = batch.events.clone();
        for event in &mut batch.events {
            let key = event.key();
            let WatchEvent::Deleted { last: Some(last), .. } = event else { continue };
            let first = events.iter().find_map(|earlier| match earlier {
                WatchEvent::Applied(object) if object.key() == key => Some(object.status().clone()),
                _ => None,
            });
            if let Some(status) = first {
                let mut stale = (**last).clone();
                *stale.status_mut() = status;
                *last = Arc::new(stale);
            }
        }
    }
);

watches_wrongly!(
    /// Says nothing of damage.
    DamageIsHidden,
    |batch, _pending| batch.events.retain(|event| !matches!(event, WatchEvent::Unreadable(_)))
);

watches_wrongly!(
    /// Tells of damage as of a delete.
    DamageIsADelete,
    |batch, _pending| for event in &mut batch.events {
        if let WatchEvent::Unreadable(Unreadable { key, revision, .. }) = event {
            *event = WatchEvent::Deleted { key: key.clone(), uid: None, revision: *revision, last: None };
        }
    }
);

watches_wrongly!(
    /// Gives a cursor that is one change behind.
    CursorIsBehind,
    |batch, _pending| {
        let behind = batch.cursor.revision().0.saturating_sub(1);
        batch.cursor = Cursor::new(Revision(behind), batch.cursor.check());
    }
);

/// The newest position of a store, for those that put a reader there who has no business there.
async fn newest<R: Resource>(store: &MemoryStore) -> Fallible<Cursor> {
    let page: Page<R> = store.list(ListQuery::all().limit(1)).await?;
    Ok(page.cursor)
}

/// Goes on from now where it should say that it cannot go on from there.
#[derive(Clone, Default)]
pub(crate) struct NothingExpires;

impl Flaw for NothingExpires {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        match store.watch(from, scope).await {
            Err(error) if error.fault() == StoreFault::Expired => {
                store.watch(newest::<R>(store).await?, scope).await
            }
            opened => opened,
        }
    }
}

/// Waits for a revision that may never come.
#[derive(Clone, Default)]
pub(crate) struct TheFutureIsWaitedFor;

impl Flaw for TheFutureIsWaitedFor {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let newest = newest::<R>(store).await?;
        if from.check() == newest.check() && from.revision() > newest.revision() {
            return store.watch(newest, scope).await;
        }
        store.watch(from, scope).await
    }
}

/// Takes the cursors of every history for its own.
#[derive(Clone, Default)]
pub(crate) struct HistoriesAreConfused;

impl Flaw for HistoriesAreConfused {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let newest = newest::<R>(store).await?;
        store.watch(Cursor::new(from.revision(), newest.check()), scope).await
    }
}

/// Skips what was forgotten in silence, also in a watch that is open.
#[derive(Clone, Default)]
pub(crate) struct CompactionLeavesAGap;

impl Flaw for CompactionLeavesAGap {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let (store, scope) = (store.clone(), scope.clone());
        let stream = futures::stream::unfold((None, from), move |(mut open, mut from)| {
            let (store, scope) = (store.clone(), scope.clone());
            async move {
                loop {
                    let mut changes: Changes<R> = match open.take() {
                        Some(changes) => changes,
                        None => match store.watch(from.clone(), &scope).await {
                            Ok(changes) => changes,
                            Err(error) if error.fault() == StoreFault::Expired => {
                                from = newest::<R>(&store).await.ok()?;
                                continue;
                            }
                            Err(error) => return Some((Err(error), (None, from))),
                        },
                    };
                    match changes.next().await? {
                        Err(error) if error.fault() == StoreFault::Expired => {
                            from = newest::<R>(&store).await.ok()?;
                        }
                        Err(error) => return Some((Err(error), (None, from))),
                        Ok(batch) => return Some((Ok(batch), (Some(changes), from))),
                    }
                }
            }
        });
        Ok(stream.boxed())
    }
}

/// Goes back in time without a new history.
#[derive(Clone, Default)]
pub(crate) struct RestoreKeepsTheCursors {
    /// The first cursor's check, which all cursors have.
    check: Arc<Mutex<Option<Vec<u8>>>>,
}

impl RestoreKeepsTheCursors {
    fn outward(&self, cursor: &Cursor) -> Cursor {
        let mut check = self.check.lock().unwrap_or_else(PoisonError::into_inner);
        Cursor::new(cursor.revision(), check.get_or_insert_with(|| cursor.check().to_vec()).as_slice())
    }

    async fn inward<R: Resource>(&self, store: &MemoryStore, cursor: &Cursor) -> Fallible<Cursor> {
        Ok(Cursor::new(cursor.revision(), newest::<R>(store).await?.check()))
    }
}

impl Flaw for RestoreKeepsTheCursors {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let mut page: Page<R> = store.list(query).await?;
        page.cursor = self.outward(&page.cursor);
        Ok(page)
    }

    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let changes: Changes<R> = store.watch(self.inward::<R>(store, &from).await?, scope).await?;
        let this = self.clone();
        let outward = move |mut batch: WatchBatch<R>| {
            batch.cursor = this.outward(&batch.cursor);
            batch
        };
        Ok(changes.map(move |batch| batch.map(&outward)).boxed())
    }
}

/// Lists what was there before the newest write.
#[derive(Clone, Default)]
pub(crate) struct ListingsAreOld {
    before: Arc<Mutex<Option<MemorySnapshot>>>,
}

impl Flaw for ListingsAreOld {
    async fn write<R: Resource>(
        &self,
        store: &MemoryStore,
        write: Write<R>,
        cx: &WriteContext,
    ) -> Fallible<Written<R>> {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(store.snapshot());
        store.write(write, cx).await
    }

    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(before), None) = (before, &query.after) else { return store.list(query).await };
        let old = MemoryStore::default();
        old.restore(&before);
        let page: Page<R> = old.list(query).await?;
        let check = newest::<R>(store).await?;
        Ok(Page::new(page.items, page.unreadable, Cursor::new(page.cursor.revision(), check.check()), None))
    }
}

/// Begins each later page one object too far on.
#[derive(Clone, Default)]
pub(crate) struct PagesLoseAnItemAtTheBorder;

impl Flaw for PagesLoseAnItemAtTheBorder {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let later = query.after.is_some();
        let mut page: Page<R> = store.list(query).await?;
        if later && !page.items.is_empty() {
            page.items.remove(0);
        }
        Ok(page)
    }
}

/// Begins each later page with the object that ended the one before.
#[derive(Clone, Default)]
pub(crate) struct PagesRepeatAnItemAtTheBorder {
    last: Arc<Mutex<Option<ObjectKey>>>,
}

impl Flaw for PagesRepeatAnItemAtTheBorder {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let later = query.after.is_some();
        let mut page: Page<R> = store.list(query).await?;
        let before = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, page.items.last().map(|item| item.key()))
        };
        if let (true, Some(before)) = (later, before)
            && let Some(again) = store.get(&before).await?
        {
            page.items.insert(0, again);
        }
        Ok(page)
    }
}

/// Gives each page the cursor of its own time.
#[derive(Clone, Default)]
pub(crate) struct PagesHaveCursorsOfTheirOwn;

impl Flaw for PagesHaveCursorsOfTheirOwn {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let mut page: Page<R> = store.list(query).await?;
        page.cursor = newest::<R>(store).await?;
        Ok(page)
    }
}

/// Lists in the order of age.
#[derive(Clone, Default)]
pub(crate) struct ListingsAreUnordered;

impl Flaw for ListingsAreUnordered {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let mut page: Page<R> = store.list(query).await?;
        page.items.sort_by_key(|item| item.meta().revision);
        Ok(page)
    }
}

/// Watches everything, whatever the scope.
#[derive(Clone, Default)]
pub(crate) struct ScopesAreIgnored;

impl Flaw for ScopesAreIgnored {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        _scope: &Scope,
    ) -> Fallible<Changes<R>> {
        store.watch(from, &Scope::all()).await
    }
}

/// Judges the scope by the new state alone: what leaves it is never heard of again.
#[derive(Clone, Default)]
pub(crate) struct LeavingAScopeIsHidden;

impl Flaw for LeavingAScopeIsHidden {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let scope = scope.clone();
        let changes: Changes<R> = store.watch(from, &Scope::all()).await?;
        let judged = move |mut batch: WatchBatch<R>| {
            batch.events.retain(|event| match event {
                WatchEvent::Applied(object) => scope.contains(object.meta()),
                WatchEvent::Deleted { last: Some(last), .. } => scope.contains(last.meta()),
                _ => true,
            });
            batch
        };
        Ok(changes.map(move |batch| batch.map(&judged)).boxed())
    }
}

/// Marks no progress.
#[derive(Clone, Default)]
pub(crate) struct ProgressIsNotMarked;

impl Flaw for ProgressIsNotMarked {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let changes: Changes<R> = store.watch(from, scope).await?;
        let empty = |batch: &Fallible<WatchBatch<R>>| matches!(batch, Ok(batch) if batch.events.is_empty());
        Ok(changes.filter(move |batch| std::future::ready(!empty(batch))).boxed())
    }
}

/// Promises a revision that no watch will reach by itself.
#[derive(Clone, Default)]
pub(crate) struct TheRevisionIsAhead;

impl Flaw for TheRevisionIsAhead {
    async fn revision<R: Resource>(&self, store: &MemoryStore) -> Fallible<Revision> {
        Ok(Revision(newest::<R>(store).await?.revision().0 + 1))
    }
}

/// Takes what is unreadable for nothing.
#[derive(Clone, Default)]
pub(crate) struct UnreadableIsAbsent;

impl Flaw for UnreadableIsAbsent {
    async fn get<R: Resource>(&self, store: &MemoryStore, key: &ObjectKey) -> Fallible<Option<Arc<R>>> {
        match store.get(key).await {
            Err(error) if error.fault() == StoreFault::Unreadable => Ok(None),
            got => got,
        }
    }
}

/// Leaves what is unreadable out of listings.
#[derive(Clone, Default)]
pub(crate) struct UnreadableIsNotListed;

impl Flaw for UnreadableIsNotListed {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let mut page: Page<R> = store.list(query).await?;
        page.unreadable.clear();
        Ok(page)
    }
}

/// Fails to list anything for one object that it cannot read.
#[derive(Clone, Default)]
pub(crate) struct DamageStopsListings;

impl Flaw for DamageStopsListings {
    async fn list<R: Resource>(&self, store: &MemoryStore, query: ListQuery) -> Fallible<Page<R>> {
        let page: Page<R> = store.list(query).await?;
        if page.unreadable.is_empty() {
            return Ok(page);
        }
        Err(reconcile_runtime::core::StoreError::of_kind("list", R::KIND, StoreFault::Unreadable))
    }
}

/// Counts a changed label as a changed spec, wherever an object is shown.
#[derive(Clone, Default)]
pub(crate) struct LabelsRaiseTheGeneration;

fn counted<R: Resource>(object: &Arc<R>) -> Arc<R> {
    let mut object = (**object).clone();
    object.meta_mut().generation += object.meta().labels.len() as u64;
    Arc::new(object)
}

impl Flaw for LabelsRaiseTheGeneration {
    async fn write<R: Resource>(
        &self,
        store: &MemoryStore,
        write: Write<R>,
        cx: &WriteContext,
    ) -> Fallible<Written<R>> {
        Ok(match store.write(write, cx).await? {
            Written::Stored(object) => Written::Stored(counted(&object)),
            Written::Unchanged(object) => Written::Unchanged(counted(&object)),
            written => written,
        })
    }
}

/// Deletes, and forgets to tell.
#[derive(Clone, Default)]
pub(crate) struct DeletesWithoutAnEvent;

impl Flaw for DeletesWithoutAnEvent {
    async fn watch<R: Resource>(
        &self,
        store: &MemoryStore,
        from: Cursor,
        scope: &Scope,
    ) -> Fallible<Changes<R>> {
        let changes: Changes<R> = store.watch(from, scope).await?;
        let silent = |mut batch: WatchBatch<R>| {
            batch.events.retain(|event| !matches!(event, WatchEvent::Deleted { .. }));
            batch
        };
        Ok(changes.map(move |batch| batch.map(silent)).boxed())
    }
}
