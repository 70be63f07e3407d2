//! Which objects an owner controls: the index that every kind has, by the uid in the controller reference.
//!
//! It needs no reverse table, since the value of an object is in its own metadata. Reads take one shard's lock
//! for as long as one owner's children are cloned.
//!
//! # Invariants
//!
//! 1. An object is listed under exactly the uid of its controller reference, in the version that the cache
//!    holds; only the holder of the cache's lock changes it.
//! 2. A shard's lock is taken under the cache's lock and never the other way round; nothing is called under it
//!    but accessors of metadata.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::BuildHasher,
    sync::{Arc, PoisonError, RwLock},
};

use foldhash::fast::RandomState;
use reconcile_core::{ObjectKey, Resource, Uid};

use super::postings::Postings;

/// Enough that the readers of different owners do not meet, and small for a kind without children.
const SHARDS: usize = 16;

type Shard<R> = RwLock<HashMap<Uid, Postings<R>, RandomState>>;

pub(super) struct OwnerIndex<R> {
    shards: Box<[Shard<R>]>,
    hasher: RandomState,
}

impl<R: Resource> OwnerIndex<R> {
    pub(super) fn new() -> Self {
        let hasher = RandomState::default();
        let shards = (0..SHARDS).map(|_| RwLock::new(HashMap::with_hasher(hasher.clone()))).collect();
        OwnerIndex { shards, hasher }
    }

    /// The objects that this incarnation controls, in key order.
    pub(super) fn get(&self, owner: &Uid) -> Vec<Arc<R>> {
        let shard = self.shard(owner).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(owner).map(Postings::objects).unwrap_or_default()
    }

    /// The version held under `key` changes from `old` to `new`. The caller keeps both alive, so nothing of
    /// the user's is dropped here.
    pub(super) fn replace(&self, key: &ObjectKey, old: Option<&Arc<R>>, new: Option<&Arc<R>>) {
        let old_owner = old.and_then(|object| object.meta().controller());
        let new_owner = new.and_then(|object| object.meta().controller());
        // The new list first: a reader may see the object under both owners, but never under none.
        if let (Some(owner), Some(object)) = (new_owner, new) {
            let mut shard = self.shard(&owner.uid).write().unwrap_or_else(PoisonError::into_inner);
            match shard.entry(owner.uid.clone()) {
                Entry::Occupied(mut children) => {
                    children.get_mut().set(key.clone(), object.clone());
                }
                Entry::Vacant(free) => {
                    free.insert(Postings::one(key.clone(), object.clone()));
                }
            }
        }
        if let Some(owner) = old_owner
            && new_owner.is_none_or(|new_owner| new_owner.uid != owner.uid)
        {
            let mut shard = self.shard(&owner.uid).write().unwrap_or_else(PoisonError::into_inner);
            if let Some(children) = shard.get_mut(&owner.uid) {
                children.remove(key);
                if children.is_empty() {
                    shard.remove(&owner.uid);
                }
            }
        }
    }

    fn shard(&self, owner: &Uid) -> &Shard<R> {
        let hash = usize::try_from(self.hasher.hash_one(owner) >> 48).unwrap_or(0);
        self.shards.get(hash % SHARDS).expect("the index has SHARDS shards")
    }
}
