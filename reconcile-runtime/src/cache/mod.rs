//! The cache of a kind: what the store holds, as far as this process knows, readable without I/O.
//!
//! One cache per kind and manager, shared by all controllers. A reflector (see [`reflector`]) lists and
//! watches the store and enters what it sees; `Api` enters the answers to its writes and live reads. Readers
//! get `Arc`s, so nothing they do changes what others read.
//!
//! Promises: changes reach the subscribers in order, none twice, deletes included; a writer's change is in the
//! cache and its indexes, and is delivered, when its call returns; readers never see an object that is known to
//! be gone, an older version after a newer one, or an empty cache during a listing.
//!
//! Not here: the order of states ([`transition`]), who delivers ([`outbox`]), store I/O ([`reflector`]).
//!
//! # Invariants
//!
//! 1. *One writer*: `objects`, the indexes and everything in [`State`] change only under `state`'s lock, an
//!    object, its index entries and its outbox items in one hold of it.
//! 2. No user code runs under that lock but accessors of metadata and the `Eq` of index values: index values
//!    are computed before it, subscribers are called after it, and displaced things are dropped after it.
//! 3. Lock order: `state`, then one shard of `objects` or of an index. Readers take one shard's lock and
//!    nothing else; a guard never leaves the function that took it.
//! 4. An entry is stale exactly while a fresh epoch's first listing is unfinished, and has neither listed its
//!    key nor received an answer of this epoch for it. When that listing has ended, nothing is stale.
//! 5. An answer that was begun in another epoch changes nothing.
//! 6. `floor` never falls within an epoch. Everything up to it has been entered.
//! 7. Once `synced`, always `synced`.

mod delivering;
mod index;
mod kind;
mod outbox;
mod owner_index;
mod postings;
mod progress;
mod reflector;
mod relist;
mod snapshot;
#[cfg(test)]
pub(crate) mod test_store;
#[cfg(test)]
pub(crate) mod test_task;
#[cfg(test)]
pub(crate) mod tests;
mod tombstone;
mod transition;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use reconcile_core::{
    ObjectKey, ObjectMeta, Resource, Revision, Uid,
    store::{Scope, Unreadable},
};

pub(crate) use delivering::is_delivering;
pub use index::Index;
pub(crate) use kind::{AnyKind, Kind, KindSettings};
pub use snapshot::{CacheSnapshot, RestartCause, Restarts};

use crate::{
    change::{Change, Initial, Step, Subscriber},
    panics::guarded,
};
use delivering::Delivering;
use index::{AnyIndex, Garbage, Prepaid};
use outbox::{Delivered, Outbox, Post, drain_now};
use owner_index::OwnerIndex;
use progress::{Progress, Signals};
use snapshot::Reflection;
use tombstone::Tombstones;
use transition::{Held, Incoming, News, Slot, transition};

/// How many locks the objects are spread over. A listing reader holds one of them at a time, for a 128th of its
/// work, so a writer meets even several listing readers rarely (one lock, or a few, would let them starve it);
/// an empty cache still lists in microseconds.
const SHARDS: usize = 128;

/// How many states are entered in one hold of the lock: enough to share its cost, few enough that a writer
/// waits for microseconds.
const CHUNK: usize = 64;

/// What the store holds of one kind, as far as this process knows.
pub(crate) struct Cache<R: Resource> {
    /// The kind's number in its manager, for [`Step`].
    number: u32,
    /// What the reflector watches; an answer outside of it is a delete.
    scope: Scope,
    objects: DashMap<ObjectKey, Arc<R>, RandomState>,
    owners: OwnerIndex<R>,
    state: Mutex<State<R>>,
    /// Set after each change of `State`'s floor and listings, outside the lock.
    signals: Signals,
    /// What the reflector counts.
    reflection: Reflection,
    /// Panics of subscribers; they guard their own user code, so each is a fault of ours.
    subscriber_panics: AtomicU64,
}

type Indexes<R> = Arc<[Arc<dyn AnyIndex<R>>]>;
type Subscribers<R> = Arc<[Arc<dyn Subscriber<R>>]>;

/// Everything under the one lock (invariant 1).
struct State<R: Resource> {
    outbox: Outbox<Item<R>>,
    subscribers: Subscribers<R>,
    /// Replaced as a whole, so that a writer sees by its pointer whether its prepared values are for these.
    indexes: Indexes<R>,
    tombstones: Tombstones,
    /// What is stored and cannot be read, with or without a last good version in `objects`.
    flags: HashMap<ObjectKey, Arc<Unreadable>, RandomState>,
    /// Which history of the store the revisions are of.
    epoch: u64,
    /// Up to where the reflector has brought everything (invariant 6).
    floor: Revision,
    /// The highest revision known in this epoch: a listing that is behind it is of another history.
    highest: Revision,
    /// The highest revision of a change of this kind known in this epoch; `highest` may be another kind's.
    newest: Revision,
    /// The number of the last listing that was asked for.
    listings: u64,
    /// The number of the last listing that has ended.
    listed: u64,
    /// Whether this epoch's first listing is unfinished (invariant 4).
    fresh: bool,
    /// The keys that the unfinished listing has shown so far.
    seen: HashSet<ObjectKey, RandomState>,
    /// The keys for which an answer of a fresh epoch was entered (invariant 4).
    answered: HashSet<ObjectKey, RandomState>,
    synced: bool,
}

/// What the outbox delivers. Each carries whom to tell: those who had subscribed when it was pushed.
pub(crate) enum Item<R: Resource> {
    Changed {
        to: Subscribers<R>,
        key: ObjectKey,
        change: Change<R>,
        step: Step,
        initial: Initial,
    },
    Flagged {
        to: Subscribers<R>,
        object: Arc<R>,
    },
    /// Everything that was there when a subscriber came.
    Replay {
        to: Arc<dyn Subscriber<R>>,
        objects: Vec<Arc<R>>,
        flagged: Vec<Arc<R>>,
    },
}

/// A key, what came in for it, and what the indexes need to know of it.
struct Entering<R> {
    key: ObjectKey,
    incoming: Incoming<R>,
    /// Per index, for the version that may be held from now on.
    values: Vec<Prepaid>,
}

/// Who enters something.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Reflector,
    /// An answer to a request that was sent at this point.
    Answer(Began),
}

/// What was known when a request was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    epoch: u64,
    floor: Revision,
    listings: u64,
}

/// An answer to a request, to be entered.
#[derive(Debug, Clone)]
pub(crate) enum Answer<R> {
    /// The object, as a write left it.
    Stored(Arc<R>),
    /// The object, as a read found it.
    Found(Arc<R>),
    /// The object is gone, by a delete of this revision.
    Removed { key: ObjectKey, revision: Revision, last: Option<Arc<R>> },
    /// Nothing is stored; this incarnation had been, before the request was sent.
    Absent { key: ObjectKey, uid: Uid },
}

impl<R: Resource> Cache<R> {
    pub(crate) fn new(number: u32, scope: Scope) -> Arc<Self> {
        Arc::new(Cache {
            number,
            scope,
            objects: DashMap::with_hasher_and_shard_amount(RandomState::default(), SHARDS),
            owners: OwnerIndex::new(),
            state: Mutex::new(State {
                outbox: Outbox::new(),
                subscribers: Arc::from([]),
                indexes: Arc::from([]),
                tombstones: Tombstones::default(),
                flags: HashMap::default(),
                epoch: 0,
                floor: Revision(0),
                highest: Revision(0),
                newest: Revision(0),
                listings: 0,
                listed: 0,
                fresh: false,
                seen: HashSet::default(),
                answered: HashSet::default(),
                synced: false,
            }),
            signals: Signals::new(),
            reflection: Reflection::default(),
            subscriber_panics: AtomicU64::new(0),
        })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    // ---- reading

    /// The object under a key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<R>> {
        self.objects.get(key).map(|entry| entry.value().clone())
    }

    /// All objects, in key order.
    pub(crate) fn list(&self) -> Vec<Arc<R>> {
        let mut objects: Vec<Arc<R>> = Vec::with_capacity(self.objects.len());
        objects.extend(self.objects.iter().map(|entry| entry.value().clone()));
        sort(&mut objects);
        objects
    }

    /// The objects that this incarnation controls, in key order.
    pub(crate) fn owned_by(&self, owner: &Uid) -> Vec<Arc<R>> {
        if owner.is_empty() { Vec::new() } else { self.owners.get(owner) }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// What is stored under the key, if it cannot be read.
    pub(crate) fn unreadable(&self, key: &ObjectKey) -> Option<Arc<Unreadable>> {
        self.lock().flags.get(key).cloned()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.signals.now().synced
    }

    /// The highest revision of a change of this kind that is known.
    pub(crate) fn newest(&self) -> Revision {
        self.lock().newest
    }

    fn signals(&self) -> &Signals {
        &self.signals
    }

    fn reflection(&self) -> &Reflection {
        &self.reflection
    }

    // ---- subscribers and indexes

    /// Tells `subscriber` of everything that is there, and of every change from then on, in order.
    pub(crate) fn subscribe(&self, subscriber: Arc<dyn Subscriber<R>>) {
        let replaced = {
            let mut state = self.lock();
            let subscribers: Subscribers<R> =
                state.subscribers.iter().cloned().chain([subscriber.clone()]).collect();
            // Under the lock, so that the replay and the changes that follow leave no gap and do not overlap.
            let objects: Vec<Arc<R>> = self.objects.iter().map(|entry| entry.value().clone()).collect();
            let flagged = state.flags.keys().filter_map(|key| self.get(key)).collect();
            if !objects.is_empty() {
                state.outbox.push(Item::Replay { to: subscriber, objects, flagged });
            }
            std::mem::replace(&mut state.subscribers, subscribers)
        };
        drop(replaced);
        drain_now(self);
    }

    /// Adds an index and fills it. Objects that change meanwhile are indexed by whoever changes them.
    pub(crate) fn add_index(&self, index: Arc<dyn AnyIndex<R>>) {
        let objects: Vec<(ObjectKey, Arc<R>)> = {
            let mut state = self.lock();
            state.indexes = state.indexes.iter().cloned().chain([index.clone()]).collect();
            self.objects.iter().map(|entry| (entry.key().clone(), entry.value().clone())).collect()
        };
        for chunk in objects.chunks(CHUNK) {
            let prepared: Vec<Prepaid> = chunk.iter().map(|(_, object)| index.prepare(object)).collect();
            let mut leftovers = Leftovers::for_entries(chunk.len());
            {
                let _state = self.lock();
                for ((key, object), values) in chunk.iter().zip(prepared) {
                    // Another version, or none, means that a writer came after the index was added.
                    let held = self.get(key);
                    if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, object)) {
                        leftovers.index(&index, key, Some((object, values)));
                    } else {
                        leftovers.garbage.add(values);
                    }
                    leftovers.versions.extend(held);
                }
            }
            leftovers.report();
        }
    }

    // ---- writing

    /// What is known now, to be remembered while a request is under way.
    pub(crate) fn begin(&self) -> Began {
        let state = self.lock();
        Began { epoch: state.epoch, floor: state.floor, listings: state.listings }
    }

    /// Enters an answer; the returned future ends when everything pushed so far is delivered.
    ///
    /// # Cancel safety
    ///
    /// The answer is in the cache when this returns; a dropped future loses no delivery.
    pub(crate) fn enter_answer(
        self: &Arc<Self>,
        answer: Answer<R>,
        began: Began,
    ) -> impl Future<Output = ()> + Send + use<R> {
        let (key, incoming) = match answer {
            Answer::Stored(object) => {
                self.suspect(began, object.meta().revision);
                self.in_scope(object)
            }
            Answer::Found(object) => self.in_scope(object),
            Answer::Removed { key, revision, last } => {
                self.suspect(began, revision);
                (key, Incoming::Removed { revision, last })
            }
            Answer::Absent { key, uid } => (key, Incoming::Absent { uid, listing: began.listings }),
        };
        self.enter(Origin::Answer(began), vec![(key, incoming)])
    }

    /// What the watch would say of an object: one out of the scope is gone.
    fn in_scope(&self, object: Arc<R>) -> (ObjectKey, Incoming<R>) {
        let key = object.key();
        if self.scope.contains(object.meta()) {
            (key, Incoming::Answer(object))
        } else {
            (key, Incoming::Removed { revision: object.meta().revision, last: Some(object) })
        }
    }

    /// Enters states; the returned future ends when everything pushed so far is delivered.
    fn enter(self: &Arc<Self>, origin: Origin, incoming: Vec<(ObjectKey, Incoming<R>)>) -> Delivered<Self> {
        let mut indexes = self.lock().indexes.clone();
        let mut entering: Vec<Entering<R>> = incoming
            .into_iter()
            .map(|(key, incoming)| Entering { key, values: prepare(&indexes, &incoming), incoming })
            .collect();
        loop {
            // Made before the lock, filled under it, dropped after it (invariant 2).
            let mut leftovers = Leftovers::for_entries(entering.len());
            let place = {
                let mut state = self.lock();
                if Arc::ptr_eq(&state.indexes, &indexes) {
                    for one in &mut entering {
                        self.enter_one(&mut state, origin, one, &mut leftovers);
                    }
                    state.outbox.sit()
                } else {
                    // An index was added since the values were computed: compute them again.
                    indexes = state.indexes.clone();
                    drop(state);
                    for one in &mut entering {
                        one.values = prepare(&indexes, &one.incoming);
                    }
                    continue;
                }
            };
            leftovers.report();
            return Delivered::new(self.clone(), place);
        }
    }

    fn enter_one(
        &self,
        state: &mut State<R>,
        origin: Origin,
        entering: &mut Entering<R>,
        leftovers: &mut Leftovers<R>,
    ) {
        let Entering { key, incoming, values } = entering;
        if let Origin::Answer(began) = origin
            && began.epoch != state.epoch
        {
            return; // invariant 5
        }
        // The map's own key shares its allocation with all tables that hold it.
        let (key, held) = match self.objects.get(key) {
            Some(entry) => (entry.key().clone(), Some(entry.value().clone())),
            None => (key.clone(), None),
        };
        let stale = state.is_stale(&key);
        state.note(&key, incoming);
        let verdict = {
            let (flag, tombstone) = (state.flags.get(&key), state.tombstones.get(&key));
            transition(&Held { object: held.as_ref(), flag, tombstone, stale }, incoming, state.floor)
        };
        match verdict.flag {
            Slot::Keep => {}
            Slot::Put(flag) => {
                state.flags.insert(key.clone(), flag);
            }
            Slot::Clear => {
                state.flags.remove(&key);
            }
        }
        match verdict.tombstone {
            Slot::Keep => {}
            Slot::Put(tombstone) => state.tombstones.set(key.clone(), tombstone),
            Slot::Clear => state.tombstones.clear(&key),
        }
        let first_listing = !state.synced && matches!(incoming, Incoming::Listed { .. });
        for news in verdict.news.into_iter().flatten() {
            if state.subscribers.is_empty() {
                continue; // what it holds is also held by `held` and `entering`
            }
            let to = state.subscribers.clone();
            state.outbox.push(match news {
                News::Changed { change, before, after } => {
                    let there = first_listing && matches!(change, Change::Added(_));
                    let initial = if there { Initial::Yes } else { Initial::No };
                    let step = Step { kind: self.number, before, after };
                    Item::Changed { to, key: key.clone(), change, step, initial }
                }
                News::Flagged(object) => Item::Flagged { to, object },
            });
        }
        match verdict.object {
            Slot::Keep => {}
            Slot::Put(object) => {
                self.objects.insert(key.clone(), object.clone());
                self.reindex(state, &key, held.as_ref(), Some((&object, std::mem::take(values))), leftovers);
                leftovers.versions.push(object);
            }
            Slot::Clear => {
                self.objects.remove(&key);
                self.reindex(state, &key, held.as_ref(), None, leftovers);
            }
        }
        leftovers.versions.extend(held);
    }

    fn reindex(
        &self,
        state: &State<R>,
        key: &ObjectKey,
        old: Option<&Arc<R>>,
        new: Option<(&Arc<R>, Vec<Prepaid>)>,
        leftovers: &mut Leftovers<R>,
    ) {
        self.owners.replace(key, old, new.as_ref().map(|(object, _)| *object));
        let (object, values) = match new {
            Some((object, values)) => (Some(object), values),
            None => (None, Vec::new()),
        };
        let mut values = values.into_iter();
        for index in state.indexes.iter() {
            leftovers.index(index, key, object.map(|object| (object, values.next().flatten())));
        }
    }

    /// A write that was sent when the reflector had passed `began.floor`, and whose revision is not above it,
    /// was made in another history: the store went back, and the reflector has to list again.
    fn suspect(&self, began: Began, revision: Revision) {
        if revision <= began.floor {
            self.want_listing();
        }
    }

    /// Asks for a listing that starts after this call; gives the number that it has at least.
    pub(crate) fn want_listing(&self) -> u64 {
        let next = self.lock().listings + 1;
        self.signals.want(next);
        next
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Resource> State<R> {
    /// Invariant 4.
    fn is_stale(&self, key: &ObjectKey) -> bool {
        self.fresh && !self.seen.contains(key) && !self.answered.contains(key)
    }

    /// Keeps the books on what comes in.
    fn note(&mut self, key: &ObjectKey, incoming: &Incoming<R>) {
        let (revision, from) = match incoming {
            Incoming::Listed { object, .. } => (object.meta().revision, From::Listing),
            Incoming::ListedUnreadable { item, .. } => (item.revision, From::Listing),
            Incoming::Missing { .. } => return,
            Incoming::Applied(object) => (object.meta().revision, From::Watch),
            Incoming::Unreadable(item) => (item.revision, From::Watch),
            Incoming::Deleted { revision, .. } => (*revision, From::Watch),
            Incoming::Answer(object) => (object.meta().revision, From::Answer),
            Incoming::Removed { revision, .. } => (*revision, From::Answer),
            Incoming::Absent { .. } => (Revision(0), From::Answer),
        };
        self.newest = self.newest.max(revision);
        self.highest = self.highest.max(revision);
        match from {
            From::Listing => {
                self.seen.insert(key.clone());
            }
            From::Answer if self.fresh => {
                self.answered.insert(key.clone());
            }
            From::Answer | From::Watch => {}
        }
    }
}

/// Where a state comes from.
enum From {
    Listing,
    Watch,
    Answer,
}

/// What a hold of the lock displaced or broke, to be dropped and reported after it (invariant 2).
struct Leftovers<R> {
    versions: Vec<Arc<R>>,
    garbage: Garbage,
    /// Indexes whose values' `Eq` panicked.
    panics: Vec<(Arc<dyn AnyIndex<R>>, String)>,
}

impl<R> Leftovers<R> {
    fn for_entries(count: usize) -> Self {
        // An entry leaves at most its old and its new version.
        Leftovers { versions: Vec::with_capacity(2 * count), garbage: Garbage::default(), panics: Vec::new() }
    }

    /// Changes an index. A panic of a value's `Eq` leaves the object out of the index and nothing else undone.
    fn index(&mut self, index: &Arc<dyn AnyIndex<R>>, key: &ObjectKey, new: Option<(&Arc<R>, Prepaid)>) {
        let garbage = &mut self.garbage;
        if let Err(text) = guarded(|| index.replace(key, new, garbage)) {
            self.panics.push((index.clone(), text));
        }
    }

    /// After the lock.
    fn report(self) {
        for (index, text) in &self.panics {
            index.panicked("comparing index values", text);
        }
    }
}

/// The values of the version that may be held from now on. Outside the lock.
fn prepare<R: Resource>(indexes: &Indexes<R>, incoming: &Incoming<R>) -> Vec<Prepaid> {
    match incoming {
        Incoming::Listed { object, .. } | Incoming::Applied(object) | Incoming::Answer(object) => {
            indexes.iter().map(|index| index.prepare(object)).collect()
        }
        _ => Vec::new(),
    }
}

/// By namespace and name, without making keys.
fn sort<R: Resource>(objects: &mut [Arc<R>]) {
    fn place(meta: &ObjectMeta) -> (Option<&str>, &str) {
        (meta.namespace.as_deref(), &meta.name)
    }
    objects.sort_unstable_by(|a, b| place(a.meta()).cmp(&place(b.meta())));
}

impl<R: Resource> Post for Cache<R> {
    type Item = Item<R>;

    fn with_outbox<T>(&self, f: impl FnOnce(&mut Outbox<Item<R>>) -> T) -> T {
        f(&mut self.lock().outbox)
    }

    fn deliver(&self, item: Item<R>) {
        let _delivering = Delivering::enter();
        match item {
            Item::Changed { to, key, change, step, initial } => {
                for subscriber in to.iter() {
                    self.tell(|| subscriber.changed(&key, &change, step, initial));
                }
            }
            Item::Flagged { to, object } => {
                for subscriber in to.iter() {
                    self.tell(|| subscriber.flagged(&object));
                }
            }
            Item::Replay { to, mut objects, mut flagged } => {
                sort(&mut objects);
                sort(&mut flagged); // they come from a hash map, and their order is the order of the signals
                for object in objects {
                    let after = object.meta().revision;
                    let step = Step { kind: self.number, before: Revision(0), after };
                    let key = object.key();
                    self.tell(|| to.changed(&key, &Change::Added(object), step, Initial::Yes));
                }
                for object in &flagged {
                    self.tell(|| to.flagged(object));
                }
            }
        }
    }
}

impl<R: Resource> Cache<R> {
    /// Calls a subscriber. It guards its user code itself, so a panic that comes through is a fault of this
    /// crate; it must not take the drainer's role down with it.
    fn tell(&self, call: impl FnOnce()) {
        if let Err(text) = guarded(call) {
            self.subscriber_panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(kind = R::KIND, panic = %text, "a subscriber of the cache panicked: it may have missed a change");
        }
    }
}
