//! What happens between the look and the commit of a write, and between the look and the sleep of a watch.
//!
//! User code runs between look and commit, so a test can do there whatever another writer could.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use reconcile_core::{
    Object, ObjectKey, Revision, Spec, Store, StoreError, StoreFault, Timestamp, Uid,
    store::{
        Changes, Fence, LeaseRecord, Leases, ListQuery, Page, Preconditions, Propagation, Scope, Write,
        WriteContext, Written,
    },
};

use super::MemoryStore;

type Meanwhile = Box<dyn FnMut()>;

thread_local! {
    /// What runs whenever a spec is cloned, unless it is already running.
    static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

#[derive(Debug, PartialEq)]
struct Racing(u32);

impl Clone for Racing {
    fn clone(&self) -> Self {
        let meanwhile = MEANWHILE.with_borrow_mut(Option::take);
        if let Some(mut run) = meanwhile {
            run();
            MEANWHILE.with_borrow_mut(|slot| *slot = Some(run));
        }
        Racing(self.0)
    }
}

impl Spec for Racing {
    const KIND: &'static str = "Racing";
    type Status = ();
}

type Racer = Object<Racing>;

fn meanwhile(run: impl FnMut() + 'static) {
    MEANWHILE.with_borrow_mut(|slot| *slot = Some(Box::new(run)));
}

fn quiet() {
    MEANWHILE.with_borrow_mut(|slot| *slot = None);
}

fn cx(uid: &str) -> WriteContext {
    WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from(uid))
}

fn write(store: &MemoryStore, write: Write<Racer>, cx: &WriteContext) -> Result<Written<Racer>, StoreError> {
    store.write(write, cx).now_or_never().expect("this store never waits")
}

fn get(store: &MemoryStore) -> Arc<Racer> {
    let got = store.get(&ObjectKey::new("a")).now_or_never().expect("this store never waits");
    got.expect("it is readable").expect("it is there")
}

/// An object with a finalizer, so that a delete clones it.
fn one(store: &MemoryStore) -> Arc<Racer> {
    let mut object = Object::new("a", Racing(1));
    object.meta.finalizers.push("test/hold".to_owned());
    write(store, Write::Create(object), &cx("u")).expect("there was none");
    get(store)
}

fn set(store: &MemoryStore, value: u32) {
    let mut next = (*get(store)).clone();
    next.spec = Racing(value);
    write(store, Write::Update(next), &cx("")).expect("nobody else writes");
}

fn delete() -> Write<Racer> {
    let propagation = Propagation::Background;
    Write::Delete { key: ObjectKey::new("a"), only_if: Preconditions::none(), propagation }
}

#[test]
fn a_write_is_decided_again_on_what_somebody_else_stored_meanwhile() {
    let store = MemoryStore::default();
    one(&store);
    let (other, mut first) = (store.clone(), true);
    meanwhile(move || {
        if std::mem::take(&mut first) {
            set(&other, 2);
        }
    });
    let written = write(&store, delete(), &cx("")).expect("it names no version");
    quiet();
    let Written::Stored(marked) = written else { panic!("{written:?}") };
    assert!(marked.meta.is_deleting());
    assert_eq!(marked.spec, Racing(2), "the other write is not lost");
    assert_eq!(marked.meta.generation, 3);
}

#[test]
fn c5_a_write_decided_before_a_restore_brings_nothing_of_the_given_up_history_back() {
    let store = MemoryStore::default();
    one(&store);
    let snapshot = store.snapshot();
    set(&store, 2);
    let given_up = get(&store).meta.revision;
    let (other, mut first) = (store.clone(), true);
    meanwhile(move || {
        if std::mem::take(&mut first) {
            other.restore(&snapshot);
            set(&other, 3);
            assert_eq!(get(&other).meta.revision, given_up, "the same revision, with other contents");
        }
    });
    let written = write(&store, delete(), &cx("")).expect("it names no version");
    quiet();
    let Written::Stored(marked) = written else { panic!("{written:?}") };
    assert_eq!(marked.spec, Racing(3));
}

#[test]
fn a_write_that_always_loses_ends_as_a_conflict_after_sixteen_turns() {
    let store = MemoryStore::default();
    one(&store);
    let turns = Arc::new(AtomicU32::new(0));
    let (other, counted) = (store.clone(), turns.clone());
    meanwhile(move || set(&other, 2 + counted.fetch_add(1, Ordering::Relaxed)));
    let error = write(&store, delete(), &cx("")).expect_err("somebody else is always quicker");
    quiet();
    assert_eq!(error.fault(), StoreFault::Conflict);
    assert!(error.to_string().contains("16 times"), "{error}");
    assert_eq!(turns.load(Ordering::Relaxed), 16);
    assert!(!get(&store).meta.is_deleting());
}

#[test]
fn a_takeover_between_decision_and_commit_fences_the_write() {
    let store = MemoryStore::default();
    one(&store);
    let swap = |store: &MemoryStore, seen, holder: &str| {
        let record = LeaseRecord::new(Some(holder.to_owned()), Duration::from_secs(15), 0);
        store.swap("main", seen, record).now_or_never().expect("never waits").expect("nobody else swaps")
    };
    let lease = swap(&store, None, "a");
    let (other, mut seen) = (store.clone(), Some(lease.revision));
    meanwhile(move || {
        if let Some(revision) = seen.take() {
            swap(&other, Some(revision), "b");
        }
    });
    let fenced = cx("").fenced(Fence::new("main", lease.token));
    let error = write(&store, delete(), &fenced).expect_err("the term is over");
    quiet();
    assert_eq!(error.fault(), StoreFault::Fenced);
    assert!(!get(&store).meta.is_deleting());
}

/// How many times a watch is about to sleep just when somebody writes.
const WRITES: u64 = 20_000;

/// Far more than the writes take; a lost wake-up never ends.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_about_to_sleep_misses_no_change() {
    let store = MemoryStore::default();
    let page: Page<Racer> = store.list(ListQuery::all()).await.expect("it is empty");
    let mut changes: Changes<Racer> = store.watch(page.cursor, &Scope::all()).await.expect("it is current");
    let environment = crate::Environment::tokio();
    let (seen, mut told) = tokio::sync::watch::channel(Revision(0));
    let reader = environment.spawn("reader", async move {
        while let Some(Ok(batch)) = changes.next().await {
            seen.send_replace(batch.cursor.revision());
        }
    });
    let writer = async {
        for index in 0..WRITES {
            let object = Object::new(format!("{index}"), Racing(1));
            let created = store.write(Write::Create(object), &cx(&format!("u{index}"))).await;
            let Ok(Written::Stored(object)) = created else { panic!("{created:?}") };
            // The next write comes right after the reader has seen this one, and is about to sleep.
            told.wait_for(|revision| *revision >= object.meta.revision).await.expect("the reader goes on");
        }
    };
    tokio::select! {
        biased;
        () = writer => {}
        () = environment.sleep(LIMIT) => panic!("the watch sleeps through a change"),
    }
    drop(reader);
}
