//! What all handles of a store share, behind its one lock: kinds, leases, the revision and the epoch. Pure.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use reconcile_core::{
    ObjectKey, Resource, Revision, StoreError, StoreFault,
    store::{Cursor, Fence},
};

use super::{
    kind::{AnyKind, Kind, Parked},
    lease::LeaseBook,
};

/// One history of one store: what revisions belong to. Another store, or the same one after it went back in
/// time, has another.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    /// Unique in this process.
    number: u64,
    /// The number as cursors carry it: made once, since every batch of every watch has a cursor.
    check: Arc<[u8]>,
}

impl Epoch {
    /// An epoch that never was before.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Epoch { number, check: number.to_le_bytes().as_slice().into() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// Why a cursor or a page token is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stale {
    /// It was made by another store, or before this one went back in time.
    OtherHistory,
    /// Nothing of this revision was committed yet.
    Future,
    /// The changes after it are forgotten.
    Forgotten,
    /// It is no page token of this kind.
    NotOurs,
}

impl Stale {
    /// As the error of an operation on `kind`.
    pub(super) fn error(self, operation: &'static str, kind: &'static str) -> StoreError {
        StoreError::of_kind(operation, kind, StoreFault::Expired).because(match self {
            Stale::OtherHistory => "the position is of another store, or of a history that was given up",
            Stale::Future => "the position is of a revision that this store has not reached",
            Stale::Forgotten => "the position is from before the oldest change that the store remembers",
            Stale::NotOurs => "the page token was not made by a listing of this kind",
        })
    }
}

/// Two types claim one `KIND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clash {
    kind: &'static str,
    holder: &'static str,
    claimant: &'static str,
}

impl Clash {
    /// As the error of an operation.
    pub(super) fn error(self, operation: &'static str, key: Option<&ObjectKey>) -> StoreError {
        let error = match key {
            Some(key) => StoreError::new(operation, self.kind, key, StoreFault::Invalid),
            None => StoreError::of_kind(operation, self.kind, StoreFault::Invalid),
        };
        error.because(format!(
            "this store already holds {} objects of the type {}, so it cannot hold {} under the same KIND: \
             give one of the types another KIND",
            self.kind, self.holder, self.claimant
        ))
    }
}

/// Everything behind the lock.
pub(super) struct Shared {
    /// The newest revision of this epoch, over all kinds and leases.
    revision: Revision,
    /// The highest revision that any epoch has given out as a fencing token: a store that went back in time
    /// must not give it out again.
    highest_token: Revision,
    /// Which history `revision` counts in.
    epoch: Epoch,
    /// How many changes each kind remembers.
    history: usize,
    /// Every kind that was ever asked for, by its type; a `Kind<R>` under the type of `R`.
    kinds: HashMap<TypeId, Box<dyn AnyKind>, RandomState>,
    /// The types of `kinds` by `KIND`: one type each.
    names: BTreeMap<&'static str, (TypeId, &'static str)>,
    /// Who may write.
    leases: LeaseBook,
    /// How many watchers have parked so far: the name of the next one among the parked.
    watchers: u64,
}

/// A copy of everything, as of one instant. See [`MemoryStore::restore`](super::MemoryStore::restore).
pub(super) struct Copy {
    revision: Revision,
    kinds: Vec<Box<dyn AnyKind>>,
    leases: LeaseBook,
}

/// What a restore lets go of, to be woken and dropped outside the lock.
#[must_use]
pub(super) struct Replaced {
    parked: Vec<Parked>,
    kinds: HashMap<TypeId, Box<dyn AnyKind>, RandomState>,
}

impl Shared {
    pub(super) fn new(epoch: Epoch, history: usize) -> Self {
        Shared {
            revision: Revision(0),
            highest_token: Revision(0),
            epoch,
            history,
            kinds: HashMap::default(),
            names: BTreeMap::new(),
            leases: LeaseBook::default(),
            watchers: 0,
        }
    }

    /// A name for a watcher that no other one of this store has.
    pub(super) fn new_watcher(&mut self) -> u64 {
        self.watchers += 1;
        self.watchers
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    pub(super) fn leases(&self) -> &LeaseBook {
        &self.leases
    }

    pub(super) fn leases_mut(&mut self) -> &mut LeaseBook {
        &mut self.leases
    }

    /// The revision of the next commit. It counts only once it is given to [`Shared::reached`].
    pub(super) fn next_revision(&self) -> Revision {
        Revision(self.revision.0 + 1)
    }

    /// The revision of the next takeover of a lease: never a token that was given out before, in any epoch.
    pub(super) fn next_token(&self) -> Revision {
        Revision(self.revision.0.max(self.highest_token.0) + 1)
    }

    /// A commit has this revision (invariant 4: it is higher than all before).
    pub(super) fn reached(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// A takeover has this revision.
    pub(super) fn reached_token(&mut self, token: Revision) {
        self.highest_token = token;
        self.revision = token;
    }

    /// The token of a lease, if `fence` is not it.
    pub(super) fn check_fence(&self, fence: &Fence) -> Result<(), Option<Revision>> {
        let token = self.leases.token(&fence.lease);
        if token == Some(fence.token) { Ok(()) } else { Err(token) }
    }

    /// A cursor at a revision of this epoch.
    pub(super) fn cursor(&self, revision: Revision) -> Cursor {
        Cursor::new(revision, self.epoch.check.clone())
    }

    /// Whether a position is of this epoch, and not ahead of it.
    pub(super) fn check_position(&self, revision: Revision, check: &[u8]) -> Result<(), Stale> {
        if *check != *self.epoch.check {
            return Err(Stale::OtherHistory);
        }
        if revision > self.revision {
            return Err(Stale::Future);
        }
        Ok(())
    }

    /// A kind that was asked for before.
    pub(super) fn kind<R: Resource>(&self) -> Option<&Kind<R>> {
        let kind: &dyn Any = &**self.kinds.get(&TypeId::of::<R>())?;
        kind.downcast_ref()
    }

    /// As [`Shared::kind`].
    pub(super) fn kind_mut<R: Resource>(&mut self) -> Option<&mut Kind<R>> {
        let kind: &mut dyn Any = &mut **self.kinds.get_mut(&TypeId::of::<R>())?;
        kind.downcast_mut()
    }

    /// A kind, made if it was never asked for before.
    pub(super) fn kind_or_new<R: Resource>(&mut self) -> Result<&mut Kind<R>, Clash> {
        let id = TypeId::of::<R>();
        let claimant = std::any::type_name::<R>();
        let (holder_id, holder) = *self.names.entry(R::KIND).or_insert((id, claimant));
        if holder_id != id {
            return Err(Clash { kind: R::KIND, holder, claimant });
        }
        let history = self.history;
        let kind: &mut dyn Any = &mut **self
            .kinds
            .entry(id)
            // No object of the kind was ever here, so its history is complete from the start.
            .or_insert_with(|| Box::new(Kind::<R>::new(history, Revision(0))));
        Ok(kind.downcast_mut().expect("a kind is stored under the type of its objects"))
    }

    /// How many objects there are, by kind.
    pub(super) fn sizes(&self) -> BTreeMap<&'static str, usize> {
        let sizes = self.names.iter();
        sizes.filter_map(|(name, (id, _))| Some((*name, self.kinds.get(id)?.len()))).collect()
    }

    /// Forgets all histories; gives what was forgotten, to be dropped outside the lock.
    pub(super) fn forget(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.kinds.values_mut().map(|kind| kind.forget()).collect()
    }

    /// Starts a new epoch with the same contents; gives who has to hear of it.
    pub(super) fn start_epoch(&mut self, epoch: Epoch) -> Vec<Parked> {
        self.epoch = epoch;
        self.take_parked()
    }

    pub(super) fn copy(&self) -> Copy {
        let kinds = self.names.values().filter_map(|(id, _)| self.kinds.get(id));
        Copy {
            revision: self.revision,
            kinds: kinds.map(|kind| kind.copy(self.revision)).collect(),
            leases: self.leases.clone(),
        }
    }

    /// Goes back to a copy, in a new epoch.
    pub(super) fn restore(&mut self, copy: &Copy, epoch: Epoch) -> Replaced {
        let parked = self.start_epoch(epoch);
        let mut kinds: HashMap<TypeId, Box<dyn AnyKind>, RandomState> = HashMap::default();
        let mut names = BTreeMap::new();
        for kind in &copy.kinds {
            let (id, name, type_name) = kind.resource_type();
            names.insert(name, (id, type_name));
            kinds.insert(id, kind.copy(copy.revision));
        }
        // Kinds that came after the copy are known, and empty.
        for (name, (id, type_name)) in &self.names {
            if !names.contains_key(name)
                && let Some(kind) = self.kinds.get(id)
            {
                names.insert(name, (*id, *type_name));
                kinds.insert(*id, kind.emptied(copy.revision));
            }
        }
        self.names = names;
        self.leases = copy.leases.clone();
        self.revision = copy.revision;
        Replaced { parked, kinds: std::mem::replace(&mut self.kinds, kinds) }
    }

    /// By kind, in the order of their names: an order that does not depend on hashes.
    fn take_parked(&mut self) -> Vec<Parked> {
        let Shared { names, kinds, .. } = self;
        names.values().filter_map(|(id, _)| Some(kinds.get_mut(id)?.take_parked())).collect()
    }
}

impl Copy {
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }
}

impl Replaced {
    /// Wakes and drops. Not under the lock.
    pub(super) fn settle(self) {
        for parked in self.parked {
            parked.wake();
        }
        drop(self.kinds);
    }
}
