//! A store that does what a test tells it to: it fails, hangs, loses replies, and breaks its streams.
//!
//! It wraps a [`MemoryStore`], so everything that gets through keeps the store rules. Faults are told per kind,
//! since a real network fails one connection and not the next. Foreign writers use the store behind it, which
//! no fault reaches.
//!
//! Not here: time. A fault lasts until the test ends it, so a test decides the order of everything.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use futures::StreamExt;
use reconcile_runtime::{
    MemoryStore,
    core::{
        ObjectKey, Resource, Revision, Store, StoreError, StoreFault,
        store::{
            Changes, Cursor, Guarantees, ListQuery, Page, Scope, WatchBatch, Write, WriteContext, Written,
        },
    },
};
use tokio::sync::Notify;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    Get,
    List,
    Watch,
    Write,
    Revision,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It is refused, and does nothing.
    Fails(StoreFault),
    /// It is done, and its reply is lost.
    LosesReply,
    /// The store panics before it does anything.
    Panics,
}

/// How open streams end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Break {
    Ends,
    Fails(StoreFault),
    Panics,
}

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct ScriptedStore {
    memory: MemoryStore,
    scripts: Arc<Mutex<BTreeMap<&'static str, Arc<Script>>>>,
}

/// What goes wrong with one kind.
pub(crate) struct Script {
    state: Mutex<State>,
    /// After each change of `state`.
    changed: Notify,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<Op, usize>,
    /// For the next requests, in order.
    next: BTreeMap<Op, VecDeque<Fault>>,
    /// For all requests after those.
    always: BTreeMap<Op, Fault>,
    /// Requests that wait before they are done.
    held: BTreeSet<Op>,
    /// Requests that wait after they were done.
    held_replies: BTreeSet<Op>,
    /// Items of listings are copies, as from a store that decodes bytes.
    copies: bool,
    /// Streams are numbered as they open, from 1.
    opened: u64,
    /// Those that are open.
    open: BTreeSet<u64>,
    /// Those that have delivered something.
    delivered: BTreeSet<u64>,
    /// Streams deliver nothing for now.
    streams_held: bool,
    /// Streams up to this number never deliver anything again, and do not end either.
    silent_to: u64,
    /// Streams that end, and how.
    broken: BTreeMap<u64, Break>,
    /// Changes of these revisions are left out of batches, as by a store that coalesces.
    hidden: BTreeSet<Revision>,
    /// Called with each answered listing.
    on_page: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

impl ScriptedStore {
    pub(crate) fn new() -> Self {
        ScriptedStore::over(MemoryStore::default())
    }

    pub(crate) fn over(memory: MemoryStore) -> Self {
        ScriptedStore { memory, scripts: Arc::default() }
    }

    /// The store behind, which no fault reaches.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// The script of a kind.
    pub(crate) fn of<R: Resource>(&self) -> Arc<Script> {
        let mut scripts = self.scripts.lock().unwrap();
        scripts.entry(R::KIND).or_insert_with(|| Arc::new(Script::new())).clone()
    }
}

impl Script {
    fn new() -> Self {
        Script { state: Mutex::default(), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_waiters();
    }

    async fn until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable(); // before looking, so that no change comes in between
            if reached(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// The next `times` requests go wrong.
    pub(crate) fn next(&self, op: Op, times: usize, fault: Fault) {
        self.change(|state| state.next.entry(op).or_default().extend((0..times).map(|_| fault)));
    }

    /// All requests go wrong, until [`heal`](Self::heal).
    pub(crate) fn always(&self, op: Op, fault: Fault) {
        self.change(|state| {
            state.always.insert(op, fault);
        });
    }

    /// Requests work again.
    pub(crate) fn heal(&self, op: Op) {
        self.change(|state| {
            state.always.remove(&op);
            state.next.remove(&op);
        });
    }

    /// Requests wait before they are done.
    pub(crate) fn hold(&self, op: Op) {
        self.change(|state| {
            state.held.insert(op);
        });
    }

    /// Requests are done, and their replies wait.
    pub(crate) fn hold_replies(&self, op: Op) {
        self.change(|state| {
            state.held_replies.insert(op);
        });
    }

    /// Whatever waits goes on.
    pub(crate) fn release(&self, op: Op) {
        self.change(|state| {
            state.held.remove(&op);
            state.held_replies.remove(&op);
        });
    }

    /// How often it was asked for.
    pub(crate) fn count(&self, op: Op) -> usize {
        self.state().counts.get(&op).copied().unwrap_or(0)
    }

    /// Listings give copies of the objects.
    pub(crate) fn copy_listed_objects(&self) {
        self.change(|state| state.copies = true);
    }

    /// Calls `look` with the number of objects of each page, before the page is given out.
    pub(crate) fn on_page(&self, look: impl Fn(usize) + Send + Sync + 'static) {
        self.change(|state| state.on_page = Some(Arc::new(look)));
    }

    /// Streams deliver nothing for now.
    pub(crate) fn hold_streams(&self) {
        self.change(|state| state.streams_held = true);
    }

    pub(crate) fn release_streams(&self) {
        self.change(|state| state.streams_held = false);
    }

    /// The streams that are open now never deliver anything again, and do not end either.
    pub(crate) fn silence_open_streams(&self) {
        self.change(|state| state.silent_to = state.opened);
    }

    /// The streams that are open now end.
    pub(crate) fn break_open_streams(&self, how: Break) {
        self.change(|state| state.broken.extend(state.open.iter().map(|number| (*number, how))));
    }

    /// Whether a stream is open that has delivered something.
    pub(crate) fn is_delivering(&self) -> bool {
        let state = self.state();
        state.open.iter().any(|number| state.delivered.contains(number))
    }

    /// Leaves the change of this revision out of all batches.
    pub(crate) fn hide(&self, revision: Revision) {
        self.change(|state| {
            state.hidden.insert(revision);
        });
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        self.state().open.len()
    }

    /// What goes wrong with this request, once it may go on.
    async fn arrive(&self, op: Op) -> Option<Fault> {
        let fault = {
            let mut state = self.state();
            *state.counts.entry(op).or_default() += 1;
            let next = state.next.get_mut(&op).and_then(VecDeque::pop_front);
            next.or_else(|| state.always.get(&op).copied())
        };
        self.changed.notify_waiters();
        self.until(|state| !state.held.contains(&op)).await;
        fault
    }

    async fn reply(&self, op: Op) {
        self.until(|state| !state.held_replies.contains(&op)).await;
    }
}

/// Does a request under its script.
async fn request<T>(
    script: &Script,
    op: Op,
    error: impl Fn(StoreFault) -> StoreError,
    done: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match script.arrive(op).await {
        Some(Fault::Fails(fault)) => return Err(error(fault).because("the test says so")),
        Some(Fault::Panics) => panic!("the store panics on {op:?}, as the test says"),
        Some(Fault::LosesReply) => {
            let _lost = done.await;
            return Err(error(StoreFault::Indeterminate).because("the test lost the reply"));
        }
        None => {}
    }
    let answer = done.await;
    script.reply(op).await;
    answer
}

#[async_trait]
impl<R: Resource> Store<R> for ScriptedStore {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        let error = |fault| StoreError::new("get", R::KIND, key, fault);
        request(&self.of::<R>(), Op::Get, error, self.memory.get(key)).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page<R>, StoreError> {
        let script = self.of::<R>();
        let error = |fault| StoreError::of_kind("list", R::KIND, fault);
        let mut page: Page<R> = request(&script, Op::List, error, self.memory.list(query)).await?;
        let (copies, look) = {
            let state = script.state();
            (state.copies, state.on_page.clone())
        };
        if copies {
            page.items = page.items.iter().map(|object| Arc::new(R::clone(object))).collect();
        }
        if let Some(look) = look {
            look(page.items.len());
        }
        Ok(page)
    }

    async fn watch(&self, from: Cursor, scope: &Scope) -> Result<Changes<R>, StoreError> {
        let script = self.of::<R>();
        let error = |fault| StoreError::of_kind("watch", R::KIND, fault);
        let inner = request(&script, Op::Watch, error, self.memory.watch(from, scope)).await?;
        let stream = Some(ScriptedStream::open(script, inner));
        Ok(futures::stream::unfold(stream, async |stream| {
            let mut stream = stream?;
            match stream.next().await {
                Some(Ok(batch)) => Some((Ok(batch), Some(stream))),
                Some(Err(error)) => Some((Err(error), None)),
                None => None,
            }
        })
        .boxed())
    }

    async fn write(&self, write: Write<R>, cx: &WriteContext) -> Result<Written<R>, StoreError> {
        let (operation, key) = (write.operation(), write.key());
        let error = |fault| StoreError::new(operation, R::KIND, &key, fault);
        request(&self.of::<R>(), Op::Write, error, self.memory.write(write, cx)).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        let error = |fault| StoreError::of_kind("read the revision of", R::KIND, fault);
        request(&self.of::<R>(), Op::Revision, error, Store::<R>::revision(&self.memory)).await
    }

    fn guarantees(&self) -> Guarantees {
        self.memory.guarantees()
    }
}

/// An open stream, which counts itself.
struct ScriptedStream<R> {
    script: Arc<Script>,
    number: u64,
    inner: Changes<R>,
}

/// What a stream may do now.
enum Flow {
    Flows,
    Stands,
    Breaks(Break),
}

impl<R: Resource> ScriptedStream<R> {
    fn open(script: Arc<Script>, inner: Changes<R>) -> Self {
        let number = {
            let mut state = script.state();
            state.opened += 1;
            let number = state.opened;
            state.open.insert(number);
            number
        };
        ScriptedStream { script, number, inner }
    }

    fn flow(&self) -> Flow {
        let state = self.script.state();
        match state.broken.get(&self.number) {
            Some(how) => Flow::Breaks(*how),
            None if state.streams_held || self.number <= state.silent_to => Flow::Stands,
            None => Flow::Flows,
        }
    }

    async fn next(&mut self) -> Option<Result<WatchBatch<R>, StoreError>> {
        let script = self.script.clone();
        loop {
            let mut changed = pin!(script.changed.notified());
            changed.as_mut().enable();
            match self.flow() {
                Flow::Breaks(Break::Ends) => return None,
                Flow::Breaks(Break::Panics) => panic!("the stream of {} breaks, as the test says", R::KIND),
                Flow::Breaks(Break::Fails(fault)) => {
                    return Some(Err(
                        StoreError::of_kind("watch", R::KIND, fault).because("the test says so")
                    ));
                }
                Flow::Stands => changed.await,
                Flow::Flows => {
                    let item = tokio::select! {
                        biased;
                        () = &mut changed => continue,
                        item = self.inner.next() => item,
                    };
                    script.state().delivered.insert(self.number);
                    return item.map(|item| item.map(|batch| self.without_hidden(batch)));
                }
            }
        }
    }

    fn without_hidden(&self, mut batch: WatchBatch<R>) -> WatchBatch<R> {
        let state = self.script.state();
        batch.events.retain(|event| !state.hidden.contains(&event.revision()));
        batch
    }
}

impl<R> Drop for ScriptedStream<R> {
    fn drop(&mut self) {
        self.script.state().open.remove(&self.number);
    }
}
