//! A whole manager on virtual time: real kinds on a store that can be held up, and controllers that only
//! remember what was asked of them.

mod config;
mod starts;
mod stops;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use reconcile_core::{
    Object, ObjectKey, Resource, Revision, Spec, Store, StoreError, StoreFault,
    store::{Changes, Cursor, Guarantees, ListQuery, Page, Scope, Write, WriteContext, Written},
};
use tokio::sync::Notify;

use super::*;
use crate::{
    MemoryStore,
    controller::{AnyController, Control, SourceStats},
    manager::supervise::{LoopEnd, LoopSpec, LoopStats, Policy},
};

#[derive(Clone, Debug, PartialEq)]
struct Web;
impl Spec for Web {
    const KIND: &'static str = "Web";
    type Status = ();
}

#[derive(Clone, Debug, PartialEq)]
struct Pod;
impl Spec for Pod {
    const KIND: &'static str = "Pod";
    type Status = ();
}

const SECOND: Duration = Duration::from_secs(1);

/// How a listing behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Listing {
    Works,
    Hangs,
    Fails,
    Panics,
}

/// A store in memory whose listings can be held up, and are counted.
#[derive(Clone)]
struct Slow {
    store: MemoryStore,
    state: Arc<SlowState>,
}

struct SlowState {
    listing: Mutex<Listing>,
    changed: Notify,
    lists: AtomicUsize,
    log: Log,
}

impl Slow {
    fn new(listing: Listing, log: &Log) -> Self {
        let state = SlowState {
            listing: Mutex::new(listing),
            changed: Notify::new(),
            lists: AtomicUsize::new(0),
            log: log.clone(),
        };
        Slow { store: MemoryStore::default(), state: Arc::new(state) }
    }

    fn set(&self, listing: Listing) {
        *self.state.listing.lock().unwrap() = listing;
        self.state.changed.notify_waiters();
    }

    fn lists(&self) -> usize {
        self.state.lists.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl<R: Resource> Store<R> for Slow {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        self.state.lists.fetch_add(1, Ordering::SeqCst);
        self.state.log.add(format!("list {}", R::KIND));
        loop {
            let changed = self.state.changed.notified();
            let listing = *self.state.listing.lock().unwrap();
            match listing {
                Listing::Works => return self.store.list(query).await,
                Listing::Fails => {
                    let error = StoreError::of_kind("list", R::KIND, StoreFault::Unavailable);
                    return Err(error.because("permission denied"));
                }
                Listing::Panics => panic!("bad page"),
                Listing::Hangs => changed.await,
            }
        }
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        self.store.watch(from, scope).await
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        self.store.write(write, cx).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Store::<R>::revision(&self.store).await
    }

    fn guarantees(&self) -> Guarantees {
        Store::<R>::guarantees(&self.store)
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A controller that remembers what was asked of it.
struct Fake {
    control: Arc<FakeControl>,
}

struct FakeControl {
    name: Arc<str>,
    log: Log,
    /// The keys of runs that do not end by themselves.
    running: Vec<String>,
    /// How the runs end: not at all, or when they are dropped.
    dropped: Dropped,
    /// Closing may be repeated; the log has the first time.
    closed: AtomicBool,
    abandoned: AtomicBool,
    wake: Notify,
    /// How many tasks of its loops are alive.
    alive: Arc<AtomicUsize>,
}

/// What a dropped run does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Dropped {
    Unwinds,
    BlocksItsThread,
}

impl Fake {
    fn new(name: &str, log: &Log) -> Self {
        Fake::running(name, log, &[], Dropped::Unwinds)
    }

    fn running(name: &str, log: &Log, keys: &[&str], dropped: Dropped) -> Self {
        let control = FakeControl {
            name: name.into(),
            log: log.clone(),
            running: keys.iter().map(|key| (*key).to_owned()).collect(),
            dropped,
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            wake: Notify::new(),
            alive: Arc::default(),
        };
        Fake { control: Arc::new(control) }
    }

    fn alive(&self) -> Arc<AtomicUsize> {
        self.control.alive.clone()
    }
}

/// Counts itself while it lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl AnyController for Fake {
    fn open(&mut self) {
        self.control.log.add(format!("open {}", self.control.name));
    }

    fn start(&mut self) -> Vec<LoopSpec> {
        self.control.log.add(format!("start {}", self.control.name));
        let spec = |role, policy| {
            let alive = self.control.alive.clone();
            LoopSpec::new(&LoopStats::new(role, &self.control.name, None), policy, move || {
                let alive = Alive::new(&alive);
                Box::pin(async move {
                    let _alive = alive;
                    std::future::pending::<LoopEnd>().await
                })
            })
        };
        vec![spec(LoopRole::Worker, Policy::Engine), spec(LoopRole::Trigger, Policy::Source)]
    }

    fn control(&self) -> Arc<dyn Control> {
        self.control.clone()
    }
}

impl Control for FakeControl {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn sources(&self) -> &[Arc<SourceStats>] {
        &[]
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.log.add(format!("close {}", self.name));
        }
    }

    fn abandon(&self) {
        self.log.add(format!("abandon {}", self.name));
        if self.dropped == Dropped::Unwinds {
            self.abandoned.store(true, Ordering::SeqCst);
            self.wake.notify_one();
        }
    }

    fn drained(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            while !self.running.is_empty() && !self.abandoned.load(Ordering::SeqCst) {
                self.wake.notified().await;
            }
        })
    }

    fn running(&self) -> Vec<String> {
        self.running.clone()
    }
}

/// A manager on virtual time, with the log of everything that happens.
fn manager() -> (Manager, Environment, Log) {
    let env = Environment::seeded(1);
    (Manager::with_environment(env.clone()), env, Log::default())
}
