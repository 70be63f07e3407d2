//! Two kinds, and a store in memory that fails, hangs, loses answers and falls silent on demand.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use reconcile_core::{
    Object, ObjectKey, Resource, Revision, Spec, Store, StoreError, StoreFault,
    store::{Changes, Cursor, Guarantees, ListQuery, Page, Scope, Write, WriteContext, Written},
};
use tokio::sync::watch;

use crate::{
    Change, Environment, MemoryStore, Time,
    cache::{Kind, KindSettings},
    change::{Initial, Step, Subscriber},
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WebSpec {
    pub(crate) replicas: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WebStatus {
    pub(crate) ready: usize,
}

impl Spec for WebSpec {
    const KIND: &'static str = "Web";
    type Status = WebStatus;
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodSpec;

impl Spec for PodSpec {
    const KIND: &'static str = "Pod";
    type Status = ();
}

pub(crate) type Web = Object<WebSpec>;
pub(crate) type Pod = Object<PodSpec>;

pub(crate) fn web(name: &str) -> Web {
    Web::new(name, WebSpec { replicas: 0 })
}

pub(crate) fn pod(name: &str) -> Pod {
    Pod::new(name, PodSpec)
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name)
}

/// A web as a store would give it.
pub(crate) fn stored_web(name: &str, uid: &str, revision: u64) -> Arc<Web> {
    let mut web = web(name);
    web.meta.uid = uid.into();
    web.meta.revision = Revision(revision);
    Arc::new(web)
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFault {
    /// It lands, and the answer is lost.
    AnswerLost,
    /// It does not land, and the answer is this.
    Refused(StoreFault),
    /// It lands, and is never answered.
    LandsAndHangs,
    /// It never lands and is never answered.
    Hangs,
}

/// How a test ends the open streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Error(StoreFault),
    End,
}

#[derive(Default)]
struct Plan {
    list: Option<StoreFault>,
    watch: Option<StoreFault>,
    get: Option<StoreFault>,
    writes: VecDeque<WriteFault>,
    /// Streams that are opened now deliver nothing.
    silent: bool,
    /// Pages after the first name themselves as the next one.
    repeat: bool,
    /// After how many more pages the gate of pages closes.
    pages_left: Option<usize>,
    /// Panics at the next listing.
    panic: bool,
    lists: Vec<Time>,
    watches: Vec<(Time, Revision)>,
    gets: usize,
    sent: Vec<WriteContext>,
    largest_page: usize,
}

/// A store in memory that does what a test says. Clones are the same store.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) memory: MemoryStore,
    environment: Environment,
    plan: Arc<Mutex<Plan>>,
    cuts: watch::Sender<(u64, Option<Cut>)>,
    /// Whether writes, reads and pages are let through.
    gates: watch::Sender<Gates>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gates {
    pub(crate) writes: bool,
    pub(crate) gets: bool,
    pub(crate) pages: bool,
}

impl Faulty {
    pub(crate) fn new(environment: &Environment) -> Self {
        Faulty {
            memory: MemoryStore::default(),
            environment: environment.clone(),
            plan: Arc::default(),
            cuts: watch::Sender::new((0, None)),
            gates: watch::Sender::new(Gates { writes: true, gets: true, pages: true }),
        }
    }

    fn plan<T>(&self, f: impl FnOnce(&mut Plan) -> T) -> T {
        f(&mut self.plan.lock().unwrap())
    }

    pub(crate) fn fail_lists(&self, fault: Option<StoreFault>) {
        self.plan(|plan| plan.list = fault);
    }

    pub(crate) fn fail_watches(&self, fault: Option<StoreFault>) {
        self.plan(|plan| plan.watch = fault);
    }

    pub(crate) fn fail_gets(&self, fault: Option<StoreFault>) {
        self.plan(|plan| plan.get = fault);
    }

    pub(crate) fn next_write(&self, fault: WriteFault) {
        self.plan(|plan| plan.writes.push_back(fault));
    }

    pub(crate) fn silence(&self, silent: bool) {
        self.plan(|plan| plan.silent = silent);
    }

    pub(crate) fn panic_once(&self) {
        self.plan(|plan| plan.panic = true);
    }

    /// Ends all open streams.
    pub(crate) fn cut(&self, cut: Cut) {
        self.cuts.send_modify(|(number, now)| {
            *number += 1;
            *now = Some(cut);
        });
    }

    pub(crate) fn repeat_pages(&self) {
        self.plan(|plan| plan.repeat = true);
    }

    /// Lets so many more pages through, and holds those after.
    pub(crate) fn hold_pages_after(&self, pages: usize) {
        self.plan(|plan| plan.pages_left = Some(pages));
    }

    pub(crate) fn gates(&self, change: impl FnOnce(&mut Gates)) {
        self.gates.send_modify(change);
    }

    async fn pass(&self, is_open: impl Fn(&Gates) -> bool) {
        let mut gates = self.gates.subscribe();
        gates.wait_for(|gates| is_open(gates)).await.unwrap();
    }

    pub(crate) fn list_times(&self) -> Vec<Time> {
        self.plan(|plan| plan.lists.clone())
    }

    pub(crate) fn watched_from(&self) -> Vec<(Time, Revision)> {
        self.plan(|plan| plan.watches.clone())
    }

    pub(crate) fn gets(&self) -> usize {
        self.plan(|plan| plan.gets)
    }

    pub(crate) fn writes_sent(&self) -> Vec<WriteContext> {
        self.plan(|plan| plan.sent.clone())
    }

    pub(crate) fn largest_page(&self) -> usize {
        self.plan(|plan| plan.largest_page)
    }

    /// Writes past all faults, as somebody else.
    pub(crate) async fn foreign<R: Resource>(&self, write: Write<R>) -> Written<R> {
        let cx = WriteContext::new(self.environment.wall(), self.environment.new_uid());
        self.memory.write(write, &cx).await.unwrap()
    }

    pub(crate) async fn create(&self, name: &str) -> Arc<Web> {
        self.foreign(Write::Create(web(name))).await.object().unwrap().clone()
    }

    pub(crate) async fn scale(&self, name: &str, replicas: usize) -> Arc<Web> {
        let mut web = (*self.read(name).await).clone();
        web.spec.replicas = replicas;
        self.foreign(Write::Update(web)).await.object().unwrap().clone()
    }

    pub(crate) async fn remove(&self, name: &str) {
        let only_if = reconcile_core::store::Preconditions::none();
        let propagation = reconcile_core::store::Propagation::Background;
        self.foreign::<Web>(Write::Delete { key: key(name), only_if, propagation }).await;
    }

    pub(crate) async fn read(&self, name: &str) -> Arc<Web> {
        Store::<Web>::get(&self.memory, &key(name)).await.unwrap().unwrap()
    }
}

fn fail(operation: &'static str, kind: &'static str, fault: Option<StoreFault>) -> Result<(), StoreError> {
    match fault {
        Some(fault) => Err(StoreError::of_kind(operation, kind, fault).because("the test says so")),
        None => Ok(()),
    }
}

#[async_trait]
impl<R: Resource> Store<R> for Faulty {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        self.plan(|plan| plan.gets += 1);
        self.pass(|gates| gates.gets).await;
        fail("get", R::KIND, self.plan(|plan| plan.get))?;
        self.memory.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        let now = self.environment.now();
        let panics = self.plan(|plan| {
            plan.lists.push(now);
            std::mem::take(&mut plan.panic)
        });
        assert!(!panics, "the test says so");
        self.pass(|gates| gates.pages).await;
        fail("list", R::KIND, self.plan(|plan| plan.list))?;
        let own_token = query.after.clone();
        let mut page: Page<R> = self.memory.list(query).await?;
        if own_token.is_some() && self.plan(|plan| plan.repeat) {
            page.next = own_token;
        }
        let last = self.plan(|plan| {
            plan.largest_page = plan.largest_page.max(page.items.len());
            plan.pages_left = plan.pages_left.map(|left| left.saturating_sub(1));
            plan.pages_left.take_if(|left| *left == 0).is_some()
        });
        if last {
            self.gates(|gates| gates.pages = false);
        }
        Ok(page)
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        let now = self.environment.now();
        self.plan(|plan| plan.watches.push((now, from.revision())));
        fail("watch", R::KIND, self.plan(|plan| plan.watch))?;
        if self.plan(|plan| plan.silent) {
            return Ok(stream::pending().boxed());
        }
        let inner: Changes<R> = self.memory.watch(from, scope).await?;
        let mut cuts = self.cuts.subscribe();
        let cut = stream::once(async move {
            // The sender lives as long as the store; when it goes, the stream may end.
            let _changed = cuts.changed().await;
            cuts.borrow().1
        });
        let cut = cut.filter_map(|cut| async move {
            match cut {
                Some(Cut::Error(fault)) => Some(Some(Err(StoreError::of_kind("watch", R::KIND, fault)))),
                _ => Some(None),
            }
        });
        let events = stream::select_with_strategy(cut, inner.map(Some), |(): &mut ()| stream::PollNext::Left);
        Ok(events
            .take_while(|item| futures::future::ready(item.is_some()))
            .filter_map(futures::future::ready)
            .boxed())
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        let fault = self.plan(|plan| {
            plan.sent.push(cx.clone());
            plan.writes.pop_front()
        });
        let error = |fault| StoreError::new(write.operation(), R::KIND, &write.key(), fault);
        self.pass(|gates| gates.writes).await;
        match fault {
            None => self.memory.write(write, cx).await,
            Some(WriteFault::AnswerLost) => {
                let lost = error(StoreFault::Indeterminate);
                self.memory.write(write, cx).await?;
                Err(lost)
            }
            Some(WriteFault::Refused(fault)) => Err(error(fault)),
            Some(WriteFault::LandsAndHangs) => {
                self.memory.write(write, cx).await?;
                std::future::pending().await
            }
            Some(WriteFault::Hangs) => std::future::pending().await,
        }
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Store::<R>::revision(&self.memory).await
    }

    fn guarantees(&self) -> Guarantees {
        self.memory.guarantees()
    }
}

/// What a subscriber was told, as short texts.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) steps: Mutex<Vec<Step>>,
}

impl Told {
    /// Takes what was told so far.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    pub(crate) fn last_step(&self) -> Step {
        *self.steps.lock().unwrap().last().unwrap()
    }
}

impl<R: Resource> Subscriber<R> for Told {
    fn changed(&self, _key: &ObjectKey, change: &Change<R>, step: Step, initial: Initial) {
        let object = change.object();
        let what = match (change, initial) {
            (Change::Added(_), Initial::Yes) => "initial".to_owned(),
            (Change::Added(_), Initial::No) => "added".to_owned(),
            (Change::Updated { old, .. }, _) => format!("updated from {}", old.meta().revision),
            (Change::Deleted(_), _) => "deleted".to_owned(),
        };
        let line = format!("{} {what} {}", object.meta().name, object.meta().revision);
        self.lines.lock().unwrap().push(line);
        self.steps.lock().unwrap().push(step);
    }

    fn flagged(&self, object: &Arc<R>) {
        self.lines.lock().unwrap().push(format!("{} flagged", object.meta().name));
    }
}

/// A kind on a faulty store, in a seeded environment, with somebody who is told.
pub(crate) struct World {
    pub(crate) environment: Environment,
    pub(crate) store: Faulty,
    pub(crate) kind: Arc<Kind<Web>>,
    pub(crate) told: Arc<Told>,
    reflector: Option<crate::environment::Task>,
}

impl World {
    pub(crate) fn new() -> Self {
        World::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut KindSettings)) -> Self {
        World::seeded(1, change)
    }

    pub(crate) fn seeded(seed: u64, change: impl FnOnce(&mut KindSettings)) -> Self {
        let environment = Environment::seeded(seed);
        let store = Faulty::new(&environment);
        let mut settings = KindSettings::default();
        change(&mut settings);
        let kind = Kind::new(Arc::new(store.clone()), environment.clone(), 7, settings);
        let told = Arc::new(Told::default());
        kind.subscribe(told.clone());
        World { environment, store, kind, told, reflector: None }
    }

    /// Starts the reflector, and waits until the cache is synced.
    pub(crate) async fn synced() -> Self {
        let mut world = World::new();
        world.start().await;
        world
    }

    pub(crate) fn reflect(&mut self) {
        use crate::cache::AnyKind;
        self.reflector = Some(self.environment.spawn("reflector", self.kind.clone().reflect()));
    }

    pub(crate) async fn start(&mut self) {
        use crate::cache::AnyKind;
        self.reflect();
        self.kind.clone().wait_synced().await;
        self.settle().await;
    }

    pub(crate) fn stop(&mut self) {
        self.reflector = None;
    }

    pub(crate) fn api(&self) -> crate::Api<Web> {
        crate::Api::new(self.kind.clone())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.kind.cache().list().iter().map(|web| web.meta.name.clone()).collect()
    }

    /// Lets everything run that can run without time passing, as far as a millisecond.
    pub(crate) async fn settle(&self) {
        self.environment.sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.environment.sleep(time).await;
    }

    pub(crate) fn counts(&self) -> crate::CacheSnapshot {
        use crate::cache::AnyKind;
        self.kind.snapshot()
    }
}
