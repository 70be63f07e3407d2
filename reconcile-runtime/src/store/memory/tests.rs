//! What this store promises beyond the rules that the conformance suite checks.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use reconcile_core::{
    LabelSelector, Object, ObjectKey, ObjectMeta, Resource, Revision, Spec, Store, StoreFault, Timestamp,
    Uid,
    store::{
        Changes, Fence, LeaseRecord, Leases, ListQuery, Page, Preconditions, Propagation, Scope, WatchBatch,
        WatchEvent, Write, WriteContext, Written,
    },
};

use super::{Damage, MemoryStore};

#[derive(Clone, Debug, PartialEq)]
struct SpotSpec {
    size: u32,
}

impl Spec for SpotSpec {
    const KIND: &'static str = "Spot";
    type Status = u32;
}

type Spot = Object<SpotSpec>;

fn cx(uid: &str) -> WriteContext {
    WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from(uid))
}

fn spot(name: &str, size: u32) -> Spot {
    Object::new(name, SpotSpec { size })
}

async fn create(store: &MemoryStore, object: Spot) -> Arc<Spot> {
    let uid = format!("uid-{}", object.meta.name);
    match store.write(Write::Create(object), &cx(&uid)).await.unwrap() {
        Written::Stored(object) => object,
        other => panic!("{other:?}"),
    }
}

async fn change(store: &MemoryStore, object: &Spot, f: impl FnOnce(&mut Spot)) -> Arc<Spot> {
    let mut object = object.clone();
    f(&mut object);
    match store.write(Write::Update(object), &cx("")).await.unwrap() {
        Written::Stored(object) => object,
        other => panic!("{other:?}"),
    }
}

async fn list(store: &MemoryStore, query: ListQuery) -> Page<Spot> {
    store.list(query).await.unwrap()
}

fn names(page: &Page<Spot>) -> Vec<&str> {
    page.items.iter().map(|item| item.meta.name.as_str()).collect()
}

/// The next batch, which must be there without waiting.
fn now(changes: &mut Changes<Spot>) -> WatchBatch<Spot> {
    changes.next().now_or_never().expect("a batch is ready").expect("the watch goes on").expect("no error")
}

fn fault_now(changes: &mut Changes<Spot>) -> StoreFault {
    changes.next().now_or_never().expect("an item is ready").expect("an item").unwrap_err().fault()
}

#[tokio::test]
async fn a_write_answers_the_very_arc_that_reads_lists_and_watches_give() {
    let store = MemoryStore::default();
    let cursor = list(&store, ListQuery::all()).await.cursor;
    let written = create(&store, spot("a", 1)).await;
    let read: Arc<Spot> = store.get(&ObjectKey::new("a")).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&written, &read));
    assert!(Arc::ptr_eq(&written, &list(&store, ListQuery::all()).await.items[0]));
    let mut changes = store.watch(cursor, &Scope::all()).await.unwrap();
    let WatchEvent::Applied(seen) = &now(&mut changes).events[0] else { panic!("applied") };
    assert!(Arc::ptr_eq(&written, seen));

    let delete = Write::<Spot>::Delete {
        key: read.key(),
        only_if: Preconditions::none(),
        propagation: Propagation::Background,
    };
    let Written::Removed { last: Some(last), revision } = store.write(delete, &cx("")).await.unwrap() else {
        panic!("removed")
    };
    assert!(Arc::ptr_eq(&written, &last));
    let WatchEvent::Deleted { last: Some(last), revision: told, .. } = &now(&mut changes).events[0] else {
        panic!("deleted")
    };
    assert!(Arc::ptr_eq(&written, last));
    assert_eq!(*told, revision);
}

#[tokio::test]
async fn two_types_with_one_kind_are_an_error_that_names_both() {
    #[derive(Clone, Debug, PartialEq)]
    struct Impostor;
    impl Spec for Impostor {
        const KIND: &'static str = "Spot";
        type Status = ();
    }
    let store = MemoryStore::default();
    create(&store, spot("a", 1)).await;
    let error = Store::<Object<Impostor>>::get(&store, &ObjectKey::new("a")).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Invalid);
    assert!(error.to_string().contains("SpotSpec") && error.to_string().contains("Impostor"), "{error}");
    let error = store.write(Write::Create(Object::new("b", Impostor)), &cx("u")).await.unwrap_err();
    assert_eq!((error.fault(), error.operation()), (StoreFault::Invalid, "create"));
    assert_eq!(names(&list(&store, ListQuery::all()).await), ["a"]);
}

#[tokio::test]
async fn stores_have_ids_of_their_own_and_handles_share_one() {
    let (one, two) = (MemoryStore::default(), MemoryStore::default());
    assert_eq!(one.guarantees(), one.clone().guarantees());
    assert_ne!(one.guarantees().store_id, two.guarantees().store_id);
    assert!(one.guarantees().fencing && one.guarantees().store_wide_order);
    let cursor = list(&one, ListQuery::all()).await.cursor;
    let error = Store::<Spot>::watch(&two, cursor, &Scope::all()).await.err().unwrap();
    assert_eq!(error.fault(), StoreFault::Expired);
}

#[tokio::test]
async fn a_full_history_expires_the_watch_that_is_behind_and_no_other() {
    let store = MemoryStore::builder().history(3).build();
    let cursor = list(&store, ListQuery::all()).await.cursor;
    let mut behind: Changes<Spot> = store.watch(cursor.clone(), &Scope::all()).await.unwrap();
    let mut ahead: Changes<Spot> = store.watch(cursor.clone(), &Scope::all()).await.unwrap();
    for name in ["a", "b", "c"] {
        create(&store, spot(name, 1)).await;
    }
    assert_eq!(now(&mut ahead).events.len(), 3);
    create(&store, spot("d", 1)).await;
    assert_eq!(fault_now(&mut behind), StoreFault::Expired);
    assert!(behind.next().now_or_never().unwrap().is_none(), "the stream ends after its error");
    assert_eq!(now(&mut ahead).events.len(), 1);
    let error = Store::<Spot>::watch(&store, cursor, &Scope::all()).await.err().unwrap();
    assert_eq!(error.fault(), StoreFault::Expired);
}

#[tokio::test]
async fn c5_a_restored_store_gives_old_revisions_again_and_expires_every_old_position() {
    let store = MemoryStore::default();
    let a = create(&store, spot("a", 1)).await;
    let snapshot = store.snapshot();
    let lost = change(&store, &a, |spot| spot.spec.size = 2).await;
    create(&store, spot("b", 1)).await;
    let page = list(&store, ListQuery::all().limit(1)).await;
    let mut open: Changes<Spot> = store.watch(page.cursor.clone(), &Scope::all()).await.unwrap();
    assert!(open.next().now_or_never().is_none());

    store.restore(&snapshot);
    assert_eq!(fault_now(&mut open), StoreFault::Expired);
    let back: Arc<Spot> = store.get(&a.key()).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&a, &back));
    assert!(Store::<Spot>::get(&store, &ObjectKey::new("b")).await.unwrap().is_none());

    // The revision comes back with other contents, and neither position is taken for the new one.
    for size in 10..20 {
        let current: Arc<Spot> = store.get(&a.key()).await.unwrap().unwrap();
        change(&store, &current, |spot| spot.spec.size = size).await;
    }
    assert!(store.snapshot().revision() > page.cursor.revision());
    let watched = Store::<Spot>::watch(&store, page.cursor, &Scope::all()).await;
    assert_eq!(watched.err().unwrap().fault(), StoreFault::Expired);
    let next = Store::<Spot>::list(&store, ListQuery::all().after(page.next.unwrap())).await;
    assert_eq!(next.unwrap_err().fault(), StoreFault::Expired);
    // A write decided in the given-up history is a conflict, though there is an object of that name.
    let error = store.write(Write::Update((*lost).clone()), &cx("")).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Conflict);
}

#[tokio::test]
async fn a_kind_that_came_after_the_snapshot_is_empty_after_the_restore() {
    let store = MemoryStore::default();
    let snapshot = store.snapshot();
    create(&store, spot("a", 1)).await;
    store.restore(&snapshot);
    assert!(list(&store, ListQuery::all()).await.items.is_empty());
    create(&store, spot("a", 1)).await;
    store.restore(&snapshot);
    assert!(list(&store, ListQuery::all()).await.items.is_empty(), "a snapshot can be restored twice");
}

#[tokio::test]
async fn a_new_epoch_keeps_the_objects_and_ends_the_watches() {
    let store = MemoryStore::default();
    create(&store, spot("a", 1)).await;
    let page = list(&store, ListQuery::all()).await;
    let mut changes: Changes<Spot> = store.watch(page.cursor, &Scope::all()).await.unwrap();
    store.start_epoch();
    assert_eq!(fault_now(&mut changes), StoreFault::Expired);
    let page = list(&store, ListQuery::all()).await;
    assert_eq!(names(&page), ["a"]);
    assert!(Store::<Spot>::watch(&store, page.cursor, &Scope::all()).await.is_ok(), "the new cursor is good");
}

#[tokio::test]
async fn a_scoped_watch_marks_progress_when_nothing_matches() {
    let store = MemoryStore::default();
    let cursor = list(&store, ListQuery::all()).await.cursor;
    let scope = Scope::all().labels(LabelSelector::default().with("app", "web"));
    let mut changes: Changes<Spot> = store.watch(cursor, &scope).await.unwrap();
    let other = create(&store, spot("a", 1)).await;
    let mark = now(&mut changes);
    assert!(mark.events.is_empty());
    assert_eq!(mark.cursor.revision(), other.meta.revision);
    assert!(changes.next().now_or_never().is_none(), "and then it waits");
}

#[tokio::test]
async fn batches_are_bounded() {
    let store = MemoryStore::default();
    let cursor = list(&store, ListQuery::all()).await.cursor;
    for index in 0..600 {
        create(&store, spot(&format!("{index}"), 1)).await;
    }
    let mut changes: Changes<Spot> = store.watch(cursor, &Scope::all()).await.unwrap();
    let sizes = [(); 3].map(|()| now(&mut changes).events.len());
    assert_eq!(sizes, [256, 256, 88]);
}

#[tokio::test]
async fn a_page_is_bounded_and_the_pages_cover_everything() {
    let store = MemoryStore::default();
    for index in 0..5_000 {
        create(&store, spot(&format!("{index:05}"), 1)).await;
    }
    let first = list(&store, ListQuery::all().limit(1_000_000)).await;
    assert_eq!(first.items.len(), super::read::PAGE);
    let second = list(&store, ListQuery::all().after(first.next.clone().unwrap())).await;
    assert_eq!(first.items.len() + second.items.len(), 5_000);
    assert_eq!(first.cursor, second.cursor);
    assert!(second.next.is_none());
}

#[tokio::test]
async fn a_page_token_of_another_kind_or_of_noise_is_expired() {
    #[derive(Clone, Debug, PartialEq)]
    struct Other;
    impl Spec for Other {
        const KIND: &'static str = "Other";
        type Status = ();
    }
    let store = MemoryStore::default();
    create(&store, spot("a", 1)).await;
    create(&store, spot("b", 1)).await;
    let token = list(&store, ListQuery::all().limit(1)).await.next.unwrap();
    let error = Store::<Object<Other>>::list(&store, ListQuery::all().after(token)).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Expired);
    let noise = reconcile_core::store::PageToken::new([1, 2, 3].as_slice());
    let error = Store::<Spot>::list(&store, ListQuery::all().after(noise)).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_parked_watch_wakes_for_the_next_change_and_leaves_nothing_when_dropped() {
    let store = MemoryStore::default();
    let cursor = list(&store, ListQuery::all()).await.cursor;
    let mut changes: Changes<Spot> = store.watch(cursor.clone(), &Scope::all()).await.unwrap();
    let waiting = changes.next();
    let writing = async {
        tokio::task::yield_now().await;
        create(&store, spot("a", 1)).await;
    };
    let (batch, ()) = tokio::join!(waiting, writing);
    assert_eq!(batch.unwrap().unwrap().events.len(), 1);

    // Polled again and again it parks once, and a dropped watch is forgotten.
    for _ in 0..100 {
        assert!(changes.next().now_or_never().is_none());
    }
    let parked = || store.inner.lock_read().kind::<Spot>().unwrap().parked();
    assert_eq!(parked(), 1);
    drop(changes);
    assert_eq!(parked(), 0);
}

#[tokio::test]
async fn damaged_and_repaired_the_object_keeps_its_finalizers_and_its_deletion_mark() {
    let store = MemoryStore::default();
    let mut object = spot("a", 1);
    object.meta.finalizers.push("test/hold".to_owned());
    let a = create(&store, object).await;
    store.damage::<Spot>(&a.key(), Damage::Content, "not JSON").unwrap();
    let error = Store::<Spot>::get(&store, &a.key()).await.unwrap_err();
    assert!(error.to_string().contains("not JSON"), "{error}");
    let delete = || Write::<Spot>::Delete {
        key: ObjectKey::new("a"),
        only_if: Preconditions::uid(Uid::from("uid-a")),
        propagation: Propagation::Background,
    };
    let marked = store.write(delete(), &cx("")).await.unwrap();
    let Written::Marked(item) = &marked else { panic!("{marked:?}") };
    assert!(item.meta.as_ref().unwrap().is_deleting());
    assert_eq!(item.meta.as_ref().unwrap().revision, item.revision);
    let again = store.write(delete(), &cx("")).await.unwrap();
    assert!(matches!(&again, Written::Marked(same) if same == item), "{again:?}");

    store.repair::<Spot>(&a.key()).unwrap();
    let repaired: Arc<Spot> = store.get(&a.key()).await.unwrap().unwrap();
    assert!(repaired.meta.is_deleting() && repaired.meta.has_finalizer("test/hold"));
    assert_eq!(repaired.spec, a.spec);
    assert!(repaired.meta.revision > item.revision);
}

#[tokio::test]
async fn a_fenced_write_says_which_term_it_is() {
    let store = MemoryStore::default();
    let write = |fence| {
        let store = store.clone();
        async move { store.write(Write::Create(spot("a", 1)), &cx("u").fenced(fence)).await }
    };
    let error = write(Fence::new("main", Revision(1))).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Fenced);
    assert!(error.to_string().contains("there is no lease \"main\""), "{error}");
    let record = LeaseRecord::new(Some("a".to_owned()), Duration::from_secs(15), 0);
    let lease = store.swap("main", None, record).await.unwrap();
    let error = write(Fence::new("main", Revision(77))).await.unwrap_err();
    assert!(error.to_string().contains("has the token 1, and this writer's is 77"), "{error}");
    assert!(write(Fence::new("main", lease.token)).await.is_ok());
}

thread_local! {
    /// The store that [`Nosy`] uses from every hook.
    static NOSY_STORE: Cell<Option<MemoryStore>> = const { Cell::new(None) };
}

/// An object whose every hook uses the store: with the lock held, each of them would hang.
#[derive(Debug)]
struct Nosy {
    meta: ObjectMeta,
    status: Looks,
    size: u32,
}

#[derive(Debug)]
struct Looks(u32);

/// Reads and writes the store, as user code under its lock could not. Counts the kinds of callers.
fn look_at_the_store(hook: &'static str) {
    let Some(store) = NOSY_STORE.take() else { return };
    HOOKS.lock().unwrap().entry(hook).and_modify(|count| *count += 1).or_insert(1_u32);
    let write = Write::Create(spot(&format!("{hook}-{}", HOOKS.lock().unwrap()[hook]), 1));
    store.write(write, &cx("spot")).now_or_never().expect("it does not wait").expect("it is created");
    NOSY_STORE.set(Some(store));
}

static HOOKS: Mutex<BTreeMap<&'static str, u32>> = Mutex::new(BTreeMap::new());

impl Clone for Nosy {
    fn clone(&self) -> Self {
        look_at_the_store("clone");
        Nosy { meta: self.meta.clone(), status: self.status.clone(), size: self.size }
    }
}

impl Clone for Looks {
    fn clone(&self) -> Self {
        look_at_the_store("clone-status");
        Looks(self.0)
    }
}

impl PartialEq for Looks {
    fn eq(&self, other: &Self) -> bool {
        look_at_the_store("compare-status");
        self.0 == other.0
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        look_at_the_store("drop");
    }
}

impl Resource for Nosy {
    const KIND: &'static str = "Nosy";
    type Status = Looks;

    fn meta(&self) -> &ObjectMeta {
        look_at_the_store("meta");
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn status(&self) -> &Looks {
        look_at_the_store("status");
        &self.status
    }

    fn status_mut(&mut self) -> &mut Looks {
        look_at_the_store("status-mut");
        &mut self.status
    }

    fn spec_eq(&self, other: &Self) -> bool {
        look_at_the_store("spec-eq");
        self.size == other.size
    }

    fn set_defaults(&mut self) {
        look_at_the_store("defaults");
    }

    fn validate(&self, _old: Option<&Self>, _faults: &mut reconcile_core::Faults) {
        look_at_the_store("validate");
    }
}

#[tokio::test]
async fn no_user_code_runs_under_the_lock() {
    let store = MemoryStore::builder().history(1).build();
    NOSY_STORE.set(Some(store.clone()));
    let nosy = Nosy { meta: ObjectMeta::new("n"), status: Looks(0), size: 1 };
    let page: Page<Nosy> = store.list(ListQuery::all()).await.unwrap();
    let mut changes: Changes<Nosy> = store.watch(page.cursor, &Scope::all()).await.unwrap();
    let Written::Stored(stored) = store.write(Write::Create(nosy), &cx("n")).await.unwrap() else {
        panic!("stored")
    };
    assert_eq!(changes.next().await.unwrap().unwrap().events.len(), 1);
    for size in 2..5 {
        let current: Arc<Nosy> = store.get(&stored.key()).await.unwrap().unwrap();
        let mut next = (*current).clone();
        next.size = size;
        drop(current);
        store.write(Write::Update(next), &cx("")).await.unwrap();
        let current: Arc<Nosy> = store.get(&stored.key()).await.unwrap().unwrap();
        let mut next = (*current).clone();
        next.status.0 = size;
        store.write(Write::UpdateStatus(next), &cx("")).await.unwrap();
    }
    let labels = Scope::all().labels(LabelSelector::default().with("a", "b"));
    let page: Page<Nosy> = store.list(ListQuery::all().scope(labels)).await.unwrap();
    assert!(page.items.is_empty());
    let snapshot = store.snapshot();
    store.damage::<Nosy>(&stored.key(), Damage::Content, "broken").unwrap();
    store.repair::<Nosy>(&stored.key()).unwrap();
    store.restore(&snapshot);
    store.compact();
    drop((stored, changes, snapshot));
    NOSY_STORE.set(None);
    let hooks = HOOKS.lock().unwrap();
    for hook in ["clone", "clone-status", "compare-status", "drop", "meta", "spec-eq", "defaults", "validate"]
    {
        assert!(hooks.contains_key(hook), "{hook} was not called: {hooks:?}");
    }
}
