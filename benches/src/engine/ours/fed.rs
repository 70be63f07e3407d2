//! Stores that hold nothing: one is fed from a stream, one fails when it is told to.
//!
//! [`Fed`] makes the objects of a page when the page is asked for, and its changes come from the suite's stream,
//! in batches as large as those of the store in memory. So the engine is fed as the peer is: every object is
//! made once, when it is wanted, and belongs to the engine from then on.
//!
//! It cannot be written, and cannot be listed again once something has changed, since it does not keep what it
//! gave away: both are refused with an error that says so.
//!
//! # Invariants
//! 1. A change is taken from the stream by one watch at a time, under the feed's lock, and counts as handed out
//!    in the same hold of it; so a watch that is opened again goes on where the last one stopped.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::{
    FutureExt, Stream, StreamExt,
    future::{BoxFuture, Shared},
    stream::{self, BoxStream},
};
use reconcile_runtime::{
    Handle,
    core::{
        Object, ObjectKey, Resource, Revision, Spec, Store, StoreError, StoreFault,
        store::{
            Changes, Cursor, Guarantees, ListQuery, Page, PageToken, Scope, WatchBatch, WatchEvent, Write,
            WriteContext, Written,
        },
    },
};
use tokio::sync::mpsc;

use super::{
    super::{Change, Part, Urgency, names},
    objects::{self, Thing},
};

/// Objects of a page, if the engine does not say.
const PAGE: usize = 500;
/// Changes of a batch at most: as many as the store in memory gives.
const BATCH: usize = 256;

/// A store that is fed from a stream; clones are the same store.
#[derive(Clone)]
pub(super) struct Fed(Arc<Inner>);

struct Inner {
    objects: u32,
    feed: Mutex<Feed>,
    /// Where urgent changes go; set once the controller exists.
    urgent: OnceLock<Handle<ObjectKey>>,
    /// Where changes go that can wait.
    patient: mpsc::Sender<ObjectKey>,
    /// The last revision whose batch the engine has done with: it came back and found nothing more.
    taken_in: AtomicU64,
    /// In every cursor; shared, so that a cursor costs no allocation.
    check: Arc<[u8]>,
}

struct Feed {
    changes: BoxStream<'static, Change>,
    /// Of the last change that was handed out; of the listing, if there was none.
    revision: u64,
}

impl Fed {
    /// A store that lists `0..objects` and then changes as the stream says.
    pub(super) fn new(
        objects: u32,
        changes: BoxStream<'static, Change>,
        patient: mpsc::Sender<ObjectKey>,
    ) -> Self {
        // A suite's stream may end, and is not to be asked again then: nothing changes any more.
        let changes = changes.chain(stream::pending()).boxed();
        let feed = Feed { changes, revision: revision_of_listing(objects) };
        Fed(Arc::new(Inner {
            objects,
            feed: Mutex::new(feed),
            urgent: OnceLock::new(),
            patient,
            taken_in: AtomicU64::new(0),
            check: Arc::from([]),
        }))
    }

    /// Urgent changes are asked for by this handle from now on. The first one that is given counts.
    pub(super) fn ask_by(&self, handle: Handle<ObjectKey>) {
        self.0.urgent.get_or_init(|| handle);
    }

    /// The revision up to which the engine has taken everything in.
    pub(super) fn taken_in(&self) -> u64 {
        self.0.taken_in.load(Ordering::Acquire)
    }
}

/// The listing's revision is that of its last object.
pub(super) fn revision_of_listing(objects: u32) -> u64 {
    objects::revision_listed(objects.saturating_sub(1))
}

fn refused(operation: &'static str, why: &'static str) -> StoreError {
    StoreError::of_kind(operation, Thing::KIND, StoreFault::Unavailable).because(why)
}

impl Inner {
    fn cursor(&self, revision: u64) -> Cursor {
        Cursor::new(Revision(revision), self.check.clone())
    }

    /// The next batch (invariant 1). The stream is polled under the lock, since it is taken from by one only.
    fn poll_batch(&self, cx: &mut Context<'_>) -> Poll<Result<WatchBatch<Thing>, StoreError>> {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = Vec::new();
        let mut taken = 0;
        while taken < BATCH {
            let Poll::Ready(Some(change)) = feed.changes.poll_next_unpin(cx) else { break };
            taken += 1;
            match change.urgency {
                Urgency::Normal => {
                    feed.revision += 1;
                    events.push(event(change, feed.revision));
                }
                Urgency::High => self.urge(change.id)?,
                Urgency::Low => self.put_off(change.id)?,
            }
        }
        if taken == 0 {
            self.taken_in.store(feed.revision, Ordering::Release);
            return Poll::Pending;
        }
        Poll::Ready(Ok(WatchBatch::new(events, self.cursor(feed.revision))))
    }

    /// What is urgent is asked for by hand, which is how this engine is told of urgency.
    fn urge(&self, id: u32) -> Result<(), StoreError> {
        let handle = self.urgent.get();
        let handle = handle.ok_or_else(|| refused("watch", "an urgent change came before the controller"))?;
        handle.enqueue(objects::key(id));
        Ok(())
    }

    fn put_off(&self, id: u32) -> Result<(), StoreError> {
        let sent = self.patient.try_send(objects::key(id));
        sent.map_err(|_| refused("watch", "more patient changes wait than their channel takes"))
    }
}

fn event(change: Change, revision: u64) -> WatchEvent<Thing> {
    match change.part {
        Part::Spec | Part::Status => WatchEvent::Applied(Arc::new(objects::stored(change, revision))),
        Part::Deleted => {
            let last = objects::listed(change.id);
            WatchEvent::Deleted {
                key: last.key(),
                uid: Some(last.meta.uid.clone()),
                revision: Revision(revision),
                last: Some(Arc::new(last)),
            }
        }
    }
}

struct Batches(Arc<Inner>);

impl Stream for Batches {
    type Item = Result<WatchBatch<Thing>, StoreError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_batch(cx).map(Some)
    }
}

#[async_trait]
impl Store<Thing> for Fed {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Thing>>, StoreError> {
        let fault = StoreError::new("get", Thing::KIND, key, StoreFault::Unavailable);
        Err(fault.because("a store that is fed from a stream keeps nothing to be read"))
    }

    async fn list(&self, query: ListQuery) -> Result<Page<Thing>, StoreError> {
        let listed = revision_of_listing(self.0.objects);
        if self.0.feed.lock().unwrap_or_else(PoisonError::into_inner).revision != listed {
            return Err(refused(
                "list",
                "a store that is fed from a stream lists only before its first change",
            ));
        }
        let from = match &query.after {
            None => 0,
            Some(token) => {
                place(token).ok_or_else(|| refused("list", "the page token is not of this store"))?
            }
        };
        let limit = query.limit.unwrap_or(PAGE).max(1);
        let items: Vec<Arc<Thing>> = names::in_key_order(self.0.objects, from)
            .take(limit)
            .map(|id| Arc::new(objects::listed(id)))
            .collect();
        let end = from.saturating_add(u32::try_from(items.len()).unwrap_or(u32::MAX));
        let next = (end < self.0.objects).then(|| PageToken::new(end.to_be_bytes().as_slice()));
        Ok(Page::new(items, Vec::new(), self.0.cursor(listed), next))
    }

    async fn watch(&self, from: Cursor, _: &Scope) -> Result<Changes<Thing>, StoreError> {
        let handed_out = self.0.feed.lock().unwrap_or_else(PoisonError::into_inner).revision;
        if from.revision() != Revision(handed_out) {
            let gone = StoreError::of_kind("watch", Thing::KIND, StoreFault::Expired);
            return Err(gone.because("changes after this cursor were handed out and are not kept"));
        }
        Ok(Batches(self.0.clone()).boxed())
    }

    async fn write(&self, _: Write<Thing>, _: &WriteContext) -> Result<Written<Thing>, StoreError> {
        Err(refused("write", "a store that is fed from a stream takes no writes"))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Ok(Revision(self.0.feed.lock().unwrap_or_else(PoisonError::into_inner).revision))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::new("fed")
    }
}

fn place(token: &PageToken) -> Option<u32> {
    Some(u32::from_be_bytes(token.as_bytes().try_into().ok()?))
}

/// The kind of the second watch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SiblingSpec;

impl Spec for SiblingSpec {
    const KIND: &'static str = "Sibling";
    type Status = ();
}

/// A store without objects whose watch is silent until `begin` ends, and fails from then on whenever it is
/// asked.
#[derive(Clone)]
pub(super) struct Failing {
    begin: Shared<BoxFuture<'static, ()>>,
}

impl Failing {
    pub(super) fn after(begin: BoxFuture<'static, ()>) -> Self {
        Failing { begin: begin.shared() }
    }

    fn fault(operation: &'static str) -> StoreError {
        StoreError::of_kind(operation, SiblingSpec::KIND, StoreFault::Unavailable)
            .because("this store fails on purpose")
    }
}

#[async_trait]
impl Store<Object<SiblingSpec>> for Failing {
    async fn get(&self, _: &ObjectKey) -> Result<Option<Arc<Object<SiblingSpec>>>, StoreError> {
        Ok(None)
    }

    async fn list(&self, _: ListQuery) -> Result<Page<Object<SiblingSpec>>, StoreError> {
        if self.begin.peek().is_some() {
            return Err(Failing::fault("list"));
        }
        Ok(Page::new(Vec::new(), Vec::new(), Cursor::new(Revision(1), []), None))
    }

    async fn watch(&self, _: Cursor, _: &Scope) -> Result<Changes<Object<SiblingSpec>>, StoreError> {
        Ok(stream::once(self.begin.clone()).map(|()| Err(Failing::fault("watch"))).boxed())
    }

    async fn write(
        &self,
        _: Write<Object<SiblingSpec>>,
        _: &WriteContext,
    ) -> Result<Written<Object<SiblingSpec>>, StoreError> {
        Err(Failing::fault("write"))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Ok(Revision(1))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::new("failing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its stream ends behind the changes, and panics if it is asked again.
    fn fed(objects: u32, changes: Vec<Change>) -> Fed {
        let ending =
            stream::unfold(changes.into_iter(), |mut rest| async move { Some((rest.next()?, rest)) });
        Fed::new(objects, ending.boxed(), mpsc::channel(1).0)
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_in_key_order_and_share_one_cursor() {
        let store = fed(1_050, Vec::new());
        let mut query = ListQuery::all().limit(500);
        let (mut keys, mut cursors) = (Vec::new(), Vec::new());
        loop {
            let page = store.list(query).await.unwrap();
            keys.extend(page.items.iter().map(|thing| thing.key()));
            cursors.push(page.cursor);
            let Some(next) = page.next else { break };
            query = ListQuery::all().limit(500).after(next);
        }
        assert_eq!((keys.len(), cursors.len()), (1_050, 3));
        assert!(keys.is_sorted());
        assert!(cursors.iter().all(|cursor| *cursor == cursors[0]));
        let strange = ListQuery::all().after(PageToken::new([1].as_slice()));
        assert!(store.list(strange).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_where_the_last_one_stopped_and_nothing_is_listed_after_a_change() {
        let store = fed(3, (0..3).map(Change::spec).chain((0..3).map(Change::spec)).collect());
        let cursor = store.list(ListQuery::all()).await.unwrap().cursor;
        let first = {
            let mut watch = store.watch(cursor.clone(), &Scope::all()).await.unwrap();
            watch.next().await.unwrap().unwrap()
        };
        let revisions: Vec<u64> = first.events.iter().map(|event| event.revision().0).collect();
        assert_eq!(revisions, [4, 5, 6, 7, 8, 9]);
        assert_eq!(store.taken_in(), 0, "nobody came back for more");
        let mut watch = store.watch(first.cursor, &Scope::all()).await.unwrap();
        assert!(futures::poll!(watch.next()).is_pending());
        assert!(futures::poll!(watch.next()).is_pending());
        assert_eq!(store.taken_in(), 9);
        let old = store.watch(cursor, &Scope::all()).await.err().unwrap();
        assert_eq!(old.fault(), StoreFault::Expired);
        assert!(store.list(ListQuery::all()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_failing_store_is_silent_until_it_is_told_and_fails_ever_after() {
        let (begin, begun) = tokio::sync::oneshot::channel::<()>();
        let store = Failing::after(Box::pin(async move { begun.await.unwrap_or(()) }));
        let cursor = store.list(ListQuery::all()).await.unwrap().cursor;
        let mut watch = store.watch(cursor.clone(), &Scope::all()).await.unwrap();
        assert!(futures::poll!(watch.next()).is_pending());
        begin.send(()).unwrap();
        assert!(watch.next().await.unwrap().is_err());
        let mut again = store.watch(cursor, &Scope::all()).await.unwrap();
        assert!(again.next().await.unwrap().is_err());
        assert!(store.list(ListQuery::all()).await.is_err());
    }
}
