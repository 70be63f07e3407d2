//! The due keys, by urgency.
//!
//! # Invariants
//!
//! 1. Within a lane, ids leave in the order of their due time, then of their arrival: ids are pushed in that
//!    order, because due timers are moved here before anything newer arrives.
//! 2. A lower lane goes first only when it was passed over [`PATIENCE`] times in a row, so its wait is bounded.

use super::{
    Lane,
    places::{Id, List, Places},
};

/// How often a lower lane is passed over before it gets a turn. With 16, background work keeps about a
/// seventeenth of the runs under a flood of urgent keys: enough that a resync of thousands of keys ends in
/// time, too little for the urgent ones to notice.
pub(crate) const PATIENCE: u32 = 16;

const LANES: usize = 3;

/// The lanes, strongest first.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lists: [List; LANES],
    /// How often each lane was passed over in a row while it had something.
    passed: [u32; LANES],
    /// Over all lists.
    len: usize,
}

impl Lanes {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The ids of a lane, first to last.
    #[cfg(test)]
    pub(super) fn ids(&self, places: &Places, lane: Lane) -> Vec<Id> {
        let list = self.lists[index(lane)];
        let ids: Vec<Id> = places.iter(list).collect();
        assert_eq!(ids.len(), list.len(), "a list counts what it holds");
        ids
    }

    #[inline]
    pub(super) fn push(&mut self, places: &mut Places, lane: Lane, id: Id) {
        places.push_back(&mut self.lists[index(lane)], id);
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, places: &mut Places, lane: Lane, id: Id) {
        places.remove(&mut self.lists[index(lane)], id);
        self.len -= 1;
        if self.lists[index(lane)].is_empty() {
            self.passed[index(lane)] = 0;
        }
    }

    /// The next id to run.
    #[inline]
    pub(super) fn pop(&mut self, places: &mut Places) -> Option<Id> {
        let strongest = self.lists.iter().position(|list| !list.is_empty())?;
        // Invariant 2. Of two lanes that are owed a turn, the one that waits longer goes first.
        let owed = (strongest + 1..LANES)
            .filter(|lane| !self.lists[*lane].is_empty() && self.passed[*lane] >= PATIENCE)
            .max_by_key(|lane| (self.passed[*lane], LANES - lane));
        let chosen = owed.unwrap_or(strongest);
        for lane in 0..LANES {
            if lane == chosen || self.lists[lane].is_empty() {
                self.passed[lane] = 0;
            } else if lane > strongest {
                self.passed[lane] += 1;
            }
        }
        self.len -= 1;
        places.pop_front(&mut self.lists[chosen])
    }

    /// The ids that are first in their lanes.
    pub(super) fn heads(&self) -> impl Iterator<Item = Id> + '_ {
        self.lists.iter().filter_map(|list| list.head())
    }
}

/// Bounded by the number of lanes, so that indexing with it cannot fail.
#[inline]
fn index(lane: Lane) -> usize {
    match lane {
        Lane::High => 0,
        Lane::Normal => 1,
        Lane::Low => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(lanes: &mut Lanes, places: &mut Places, entries: &[(Lane, Id)]) {
        for (lane, id) in entries {
            places.admit(*id);
            lanes.push(places, *lane, *id);
        }
    }

    #[test]
    fn p8_a_lower_lane_waits_no_longer_than_its_patience() {
        let (mut lanes, mut places) = (Lanes::default(), Places::default());
        fill(&mut lanes, &mut places, &[(Lane::Low, 0), (Lane::Normal, 1)]);
        let mut order = Vec::new();
        for urgent in 2..60 {
            fill(&mut lanes, &mut places, &[(Lane::High, urgent)]);
            order.push(lanes.pop(&mut places).expect("something is ready"));
        }
        let at = |id| order.iter().position(|other| *other == id);
        assert_eq!(at(1), Some(PATIENCE as usize), "the normal lane is owed its turn first");
        assert_eq!(at(0), Some(PATIENCE as usize + 1), "then the low lane");
    }

    #[test]
    fn a_lane_that_ran_empty_starts_its_patience_anew() {
        let (mut lanes, mut places) = (Lanes::default(), Places::default());
        fill(&mut lanes, &mut places, &[(Lane::Low, 0)]);
        for id in 1..PATIENCE {
            fill(&mut lanes, &mut places, &[(Lane::High, id)]);
            assert_eq!(lanes.pop(&mut places), Some(id));
        }
        lanes.remove(&mut places, Lane::Low, 0);
        fill(&mut lanes, &mut places, &[(Lane::Low, 0), (Lane::High, 90), (Lane::High, 91)]);
        assert_eq!(lanes.pop(&mut places), Some(90));
        assert_eq!(lanes.pop(&mut places), Some(91));
        assert_eq!(lanes.pop(&mut places), Some(0));
        assert_eq!(lanes.len(), 0);
    }
}
