//! Where each slot stands: an arena of list nodes, and the lists made of them.
//!
//! A slot is in at most one list at a time (a lane, a timer bucket, the running or the parked ones), so one
//! pair of links per slot serves them all: moving a key from one state to another allocates nothing.
//!
//! # Invariants
//!
//! 1. An id is in at most one [`List`]; the caller that removes it names that very list.
//! 2. Lists are in the order in which their ids were pushed.
//!
//! Not here: what a list means; see [`lanes`](super::lanes) and [`timers`](super::timers).

use crate::environment::Time;

/// The number of a slot. Slots are reused, so an id is only good while the slot is in a list.
pub(super) type Id = u32;

/// No id: the end of a list.
const NONE: Id = u32::MAX;

/// The bits of a packed word that hold the bucket; the rest holds the sequence number, which is good for
/// 2^48 moves: nine years at a million moves a second.
const BUCKET_BITS: u32 = 16;

/// Where one slot stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// In a lane: since when the key is due. In a timer bucket: when it will be.
    due: Time,
    /// The sequence number of the last move, above the bucket that the id is in.
    packed: u64,
    prev: Id,
    next: Id,
}

impl Place {
    const NOWHERE: Place = Place { due: Time::ZERO, packed: 0, prev: NONE, next: NONE };
}

/// The nodes of all lists, by id.
#[derive(Debug, Default)]
pub(super) struct Places {
    nodes: Vec<Place>,
    moves: u64,
}

/// The two ends and the length of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: Id,
    tail: Id,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    #[cfg(test)]
    #[inline]
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn head(self) -> Option<Id> {
        (self.head != NONE).then_some(self.head)
    }
}

impl Places {
    /// Makes room for an id.
    #[inline]
    pub(super) fn admit(&mut self, id: Id) {
        let wanted = id as usize + 1;
        if self.nodes.len() < wanted {
            self.nodes.resize(wanted, Place::NOWHERE);
        }
    }

    /// Gives the memory of the nodes back; no id is in a list. The arrival order goes on where it was.
    pub(super) fn give_back(&mut self) {
        self.nodes = Vec::new();
    }

    #[inline]
    pub(super) fn due(&self, id: Id) -> Time {
        self.node(id).due
    }

    /// Arrival order: the number of the move that put the id where it is.
    #[inline]
    pub(super) fn sequence(&self, id: Id) -> u64 {
        self.node(id).packed >> BUCKET_BITS
    }

    #[inline]
    pub(super) fn bucket(&self, id: Id) -> u16 {
        (self.node(id).packed & u64::from(u16::MAX)) as u16
    }

    /// Says when an id is due, with a new place in the arrival order.
    #[inline]
    pub(super) fn set_due(&mut self, id: Id, due: Time) {
        self.moves += 1;
        let moves = self.moves;
        let node = self.node_mut(id);
        node.due = due;
        node.packed = moves << BUCKET_BITS;
    }

    #[inline]
    pub(super) fn set_bucket(&mut self, id: Id, bucket: u16) {
        let node = self.node_mut(id);
        node.packed = (node.packed & !u64::from(u16::MAX)) | u64::from(bucket);
    }

    #[inline]
    pub(super) fn push_back(&mut self, list: &mut List, id: Id) {
        let tail = list.tail;
        let node = self.node_mut(id);
        node.prev = tail;
        node.next = NONE;
        if tail == NONE {
            list.head = id;
        } else {
            self.node_mut(tail).next = id;
        }
        list.tail = id;
        list.len += 1;
    }

    /// Takes an id out of the list it is in (invariant 1).
    #[inline]
    pub(super) fn remove(&mut self, list: &mut List, id: Id) {
        let Place { prev, next, .. } = *self.node(id);
        if prev == NONE {
            list.head = next;
        } else {
            self.node_mut(prev).next = next;
        }
        if next == NONE {
            list.tail = prev;
        } else {
            self.node_mut(next).prev = prev;
        }
        list.len -= 1;
    }

    #[inline]
    pub(super) fn pop_front(&mut self, list: &mut List) -> Option<Id> {
        let id = list.head()?;
        self.remove(list, id);
        Some(id)
    }

    /// The ids of a list, front to back.
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = Id> + '_ {
        std::iter::successors(list.head(), |id| {
            let next = self.node(*id).next;
            (next != NONE).then_some(next)
        })
    }

    /// For how many ids there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    #[inline]
    fn node(&self, id: Id) -> &Place {
        self.nodes.get(id as usize).expect("an id in a list was admitted")
    }

    #[inline]
    fn node_mut(&mut self, id: Id) -> &mut Place {
        self.nodes.get_mut(id as usize).expect("an id in a list was admitted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_leave_a_list_from_any_position_and_keep_their_order() {
        let mut places = Places::default();
        let mut list = List::default();
        for id in 0..5 {
            places.admit(id);
            places.push_back(&mut list, id);
        }
        places.remove(&mut list, 2);
        places.remove(&mut list, 0);
        places.remove(&mut list, 4);
        assert_eq!(places.iter(list).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(list.len(), 2);
        assert_eq!(places.pop_front(&mut list), Some(1));
        assert_eq!(places.pop_front(&mut list), Some(3));
        assert_eq!(places.pop_front(&mut list), None);
        assert!(list.is_empty());
    }

    #[test]
    fn a_bucket_shares_the_word_with_the_sequence_number() {
        let mut places = Places::default();
        places.admit(1);
        places.set_due(0, Time::from_nanos(9));
        places.set_due(1, Time::from_nanos(3));
        places.set_bucket(1, u16::MAX);
        assert_eq!((places.sequence(0), places.sequence(1)), (1, 2));
        assert_eq!((places.bucket(0), places.bucket(1)), (0, u16::MAX));
        assert_eq!(places.due(1), Time::from_nanos(3));
    }
}
