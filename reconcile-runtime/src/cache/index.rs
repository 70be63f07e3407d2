//! Typed indexes: from a value to the objects that have it.
//!
//! An index function gives the values of an object. It runs outside every lock, as do the values' `Hash`,
//! `Clone` and `Drop`; only their `Eq` runs under a shard's lock, on equal hashes. A function that panics on an
//! object is caught and counted, and the object is then under no value of this index until its next version.
//!
//! # Invariants
//!
//! 1. `places` says, for every object of the cache that has values, under which values the shards list it.
//!    Both change together, under the cache's lock.
//! 2. A shard's lock, and that of `places`, is taken under the cache's lock, one at a time, and never the other
//!    way round. Readers take one shard's lock and no other.
//! 3. What is displaced goes to the [`Garbage`] and is dropped by the caller after the last lock.
//!
//! Not here: who owns whom; that index needs no function and no values ([`owner_index`](super::owner_index)).

use std::{
    any::Any,
    borrow::Borrow,
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hash},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use reconcile_core::{ObjectKey, Resource};

use super::{delivering::Delivering, postings::Postings};
use crate::panics::guarded;

/// Enough that the readers of different values do not meet.
const SHARDS: usize = 16;

/// A typed index over the cached objects of a kind: from a value to the objects that have it.
///
/// Made with the manager, before it starts; so an index that nobody keeps up cannot be asked. Cheap to clone.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::{Index, core::{Object, Spec}};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct PodSpec { node: Option<String> }
/// impl Spec for PodSpec {
///     const KIND: &'static str = "Pod";
///     type Status = ();
/// }
///
/// fn pods_on(by_node: &Index<Object<PodSpec>, String>, node: &str) -> usize {
///     by_node.get(node).len() // by a `&str`, without making a `String`
/// }
/// # let _ = pods_on;
/// ```
pub struct Index<R, V> {
    inner: Arc<TypedIndex<R, V>>,
}

impl<R, V> Clone for Index<R, V> {
    fn clone(&self) -> Self {
        Index { inner: self.inner.clone() }
    }
}

impl<R, V> fmt::Debug for Index<R, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl<R: Resource, V: Hash + Eq> Index<R, V> {
    /// The cached objects that have the value, in key order. A read from memory: nothing is asked of the store.
    pub fn get<Q>(&self, value: &Q) -> Vec<Arc<R>>
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.inner.hasher.hash_one(value);
        let shard = self.inner.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        shard
            .find(hash, |list| list.value.borrow() == value)
            .map(|list| list.objects.objects())
            .unwrap_or_default()
    }

    /// How many objects are under no value because the index function panicked on them, ever.
    pub fn panics(&self) -> u64 {
        self.inner.panics.load(Ordering::Relaxed)
    }
}

impl<R, V> Index<R, V> {
    pub(super) fn new(inner: Arc<TypedIndex<R, V>>) -> Self {
        Index { inner }
    }
}

/// The user's function.
type ValuesOf<R, V> = Box<dyn Fn(&R) -> Vec<V> + Send + Sync>;

/// A part of the lists, by the hash of their value.
type Shard<R, V> = RwLock<HashTable<List<R, V>>>;

/// The index as its cache keeps it.
pub(super) struct TypedIndex<R, V> {
    /// For logs: which index function panicked.
    name: Arc<str>,
    values_of: ValuesOf<R, V>,
    hasher: RandomState,
    shards: Box<[Shard<R, V>]>,
    /// Under which values each object is listed (invariant 1).
    places: Mutex<HashMap<ObjectKey, Values<V>, RandomState>>,
    panics: AtomicU64,
}

/// The objects under one value.
struct List<R, V> {
    /// The value's hash, so that no user code runs when the table grows.
    hash: u64,
    value: V,
    objects: Postings<R>,
}

/// Values with their hashes.
type Values<V> = Box<[(u64, V)]>;

/// What an index function gave for a version: two copies, one for the shards and one for `places`.
struct Prepared<V> {
    listed: Values<V>,
    kept: Values<V>,
}

/// What a write displaced, to be dropped outside all locks.
#[derive(Default)]
pub(crate) struct Garbage(Vec<Box<dyn Any + Send>>);

impl Garbage {
    pub(super) fn add(&mut self, thing: impl Any + Send) {
        self.0.push(Box::new(thing));
    }
}

/// The values of one version for one index; none if the function panicked.
pub(crate) type Prepaid = Option<Box<dyn Any + Send>>;

/// An index whatever its type of value.
pub(crate) trait AnyIndex<R>: Send + Sync {
    /// Calls the index function. Outside all locks.
    fn prepare(&self, object: &R) -> Prepaid;

    /// The version under `key` is another one now, or gone. Under the cache's lock.
    fn replace(&self, key: &ObjectKey, new: Option<(&Arc<R>, Prepaid)>, garbage: &mut Garbage);

    /// User code of this index panicked.
    fn panicked(&self, what: &str, text: &str);

    /// Panics so far.
    fn panics(&self) -> u64;
}

impl<R: Resource, V: Hash + Eq + Clone + Send + Sync + 'static> TypedIndex<R, V> {
    pub(super) fn new<I: IntoIterator<Item = V>>(
        name: Arc<str>,
        values_of: impl Fn(&R) -> I + Send + Sync + 'static,
    ) -> Self {
        TypedIndex {
            name,
            values_of: Box::new(move |object| values_of(object).into_iter().collect()),
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            places: Mutex::default(),
            panics: AtomicU64::new(0),
        }
    }

    fn unlist(&self, key: &ObjectKey, (hash, value): &(u64, V), garbage: &mut Garbage) {
        let mut shard = self.shard(*hash).write().unwrap_or_else(PoisonError::into_inner);
        let Ok(mut list) = shard.find_entry(*hash, |list| list.value == *value) else { return };
        garbage.add(list.get_mut().objects.remove(key));
        if list.get().objects.is_empty() {
            garbage.add(list.remove().0.value);
        }
    }

    fn list(&self, key: &ObjectKey, object: &Arc<R>, values: Values<V>, garbage: &mut Garbage) {
        for (hash, value) in values {
            let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
            match shard.find_mut(hash, |list| list.value == value) {
                Some(list) => {
                    garbage.add(list.objects.set(key.clone(), object.clone()));
                    garbage.add(value);
                }
                None => {
                    let objects = Postings::one(key.clone(), object.clone());
                    shard.insert_unique(hash, List { hash, value, objects }, |list| list.hash);
                }
            }
        }
    }
}

impl<R, V> TypedIndex<R, V> {
    fn shard(&self, hash: u64) -> &RwLock<HashTable<List<R, V>>> {
        // The table itself uses the low and the topmost bits.
        let index = usize::try_from((hash >> 40) & 0xff).unwrap_or(0);
        self.shards.get(index % SHARDS).expect("the index has SHARDS shards")
    }

    /// Only the holder of the cache's lock comes here, so this never waits.
    fn places(&self) -> MutexGuard<'_, HashMap<ObjectKey, Values<V>, RandomState>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Resource, V: Hash + Eq + Clone + Send + Sync + 'static> AnyIndex<R> for TypedIndex<R, V> {
    fn prepare(&self, object: &R) -> Prepaid {
        let values = guarded(|| {
            let _delivering = Delivering::enter();
            let values = (self.values_of)(object);
            let listed: Values<V> =
                values.into_iter().map(|value| (self.hasher.hash_one(&value), value)).collect();
            Prepared { kept: listed.clone(), listed }
        });
        match values {
            Ok(prepared) => Some(Box::new(prepared)),
            Err(text) => {
                self.panicked("an index function", &text);
                None
            }
        }
    }

    fn replace(&self, key: &ObjectKey, new: Option<(&Arc<R>, Prepaid)>, garbage: &mut Garbage) {
        let (object, prepared) = match new {
            Some((object, values)) => (Some(object), values.and_then(|values| values.downcast().ok())),
            None => (None, None),
        };
        let (listed, kept) = match prepared {
            Some(prepared) => {
                let Prepared { listed, kept } = *prepared;
                (listed, kept)
            }
            None => (Values::default(), Values::default()),
        };
        let before = self.places().remove(key).unwrap_or_default();
        // Listed under the new values first: a reader may see the object under an old and a new value at once,
        // but never under none.
        if let Some(object) = object {
            self.list(key, object, listed, garbage);
        }
        let stays = |old: &(u64, V)| kept.iter().any(|new| new == old);
        for old in before.iter().filter(|old| !stays(old)) {
            self.unlist(key, old, garbage);
        }
        garbage.add(before);
        if kept.is_empty() {
            return;
        }
        self.places().insert(key.clone(), kept);
    }

    fn panicked(&self, what: &str, text: &str) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(index = %self.name, panic = text, "{what} panicked: the object is not in this index");
    }

    fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}
