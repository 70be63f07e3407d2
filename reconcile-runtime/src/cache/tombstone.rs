//! What is known to be gone, until nothing older can come any more.
//!
//! A delete that the cache heard of by a writer's answer is followed by older states of the same object: those
//! that the reflector had not delivered yet. A tombstone keeps them from resurrecting it, until the reflector
//! has passed the delete.
//!
//! # Invariants
//!
//! 1. `by_revision` holds exactly the keys whose tombstone has a revision, under that revision.
//! 2. A tombstone goes when the reflector passes its revision, when a listing that was asked for after it has
//!    ended, when a newer state of its key is accepted, or with its epoch. So their number is bounded by the
//!    deletes that the reflector has not seen.
//!
//! Not here: what a tombstone does to an incoming state; see [`transition`](super::transition).

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use reconcile_core::{ObjectKey, Revision, Uid};

/// What is known to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tombstone {
    /// A delete with its revision: whatever is not newer is older than the delete, of any incarnation.
    Deleted {
        /// The delete's own revision.
        revision: Revision,
    },
    /// A live read found nothing where this incarnation had been. The delete's revision is unknown, but an
    /// incarnation never comes back.
    Absent {
        /// The incarnation.
        uid: Uid,
        /// The listing that had been asked for last: a later one cannot contain the incarnation.
        listing: u64,
    },
}

impl Tombstone {
    /// Whether a state of this incarnation and revision is older than the delete.
    pub(super) fn covers(&self, uid: Option<&Uid>, revision: Revision) -> bool {
        match self {
            Tombstone::Deleted { revision: deleted } => revision <= *deleted,
            Tombstone::Absent { uid: absent, .. } => uid == Some(absent),
        }
    }
}

/// The tombstones of a cache.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_key: HashMap<ObjectKey, Tombstone, RandomState>,
    /// The order in which the reflector passes them (invariant 1). Several keys may share a revision only in
    /// a store that deletes in bulk.
    by_revision: BTreeMap<(Revision, ObjectKey), ()>,
}

impl Tombstones {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Tombstone> {
        self.by_key.get(key)
    }

    pub(super) fn set(&mut self, key: ObjectKey, tombstone: Tombstone) {
        self.clear(&key);
        if let Tombstone::Deleted { revision } = &tombstone {
            self.by_revision.insert((*revision, key.clone()), ());
        }
        self.by_key.insert(key, tombstone);
    }

    pub(super) fn clear(&mut self, key: &ObjectKey) {
        if let Some(Tombstone::Deleted { revision }) = self.by_key.remove(key) {
            self.by_revision.remove(&(revision, key.clone()));
        }
    }

    /// The reflector has passed `revision`.
    pub(super) fn passed(&mut self, revision: Revision) {
        while let Some(first) = self.by_revision.first_entry() {
            let (deleted, key) = first.key();
            if *deleted > revision {
                return;
            }
            self.by_key.remove(key);
            first.remove();
        }
    }

    /// A listing has ended: what was absent before it was asked for is over.
    pub(super) fn listed(&mut self, listing: u64) {
        self.by_key.retain(|_, tombstone| match tombstone {
            Tombstone::Absent { listing: at, .. } => *at >= listing,
            Tombstone::Deleted { .. } => true,
        });
    }

    /// Another epoch has begun.
    pub(super) fn forget(&mut self) {
        self.by_key.clear();
        self.by_revision.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name)
    }

    fn deleted(revision: u64) -> Tombstone {
        Tombstone::Deleted { revision: Revision(revision) }
    }

    #[test]
    fn a_tombstone_goes_when_the_reflector_passes_it() {
        let mut tombstones = Tombstones::default();
        tombstones.set(key("a"), deleted(5));
        tombstones.set(key("b"), deleted(7));
        tombstones.set(key("a"), deleted(6));
        tombstones.passed(Revision(5));
        assert_eq!(tombstones.len(), 2);
        tombstones.passed(Revision(6));
        assert_eq!((tombstones.get(&key("a")), tombstones.get(&key("b"))), (None, Some(&deleted(7))));
        tombstones.clear(&key("b"));
        assert_eq!((tombstones.len(), tombstones.by_revision.len()), (0, 0));
    }

    #[test]
    fn an_absence_goes_with_a_listing_that_was_asked_for_later() {
        let mut tombstones = Tombstones::default();
        tombstones.set(key("a"), Tombstone::Absent { uid: "u".into(), listing: 3 });
        tombstones.passed(Revision(1000));
        tombstones.listed(3);
        assert_eq!(tombstones.len(), 1);
        tombstones.listed(4);
        assert_eq!(tombstones.len(), 0);
    }

    #[test]
    fn a_delete_covers_older_states_of_any_incarnation_and_an_absence_its_own_for_ever() {
        let absent = Tombstone::Absent { uid: "u".into(), listing: 0 };
        assert!(absent.covers(Some(&"u".into()), Revision(u64::MAX)));
        assert!(!absent.covers(Some(&"v".into()), Revision(1)) && !absent.covers(None, Revision(1)));
        assert!(deleted(5).covers(None, Revision(5)) && !deleted(5).covers(None, Revision(6)));
    }
}
