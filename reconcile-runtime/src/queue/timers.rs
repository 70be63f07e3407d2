//! When delayed keys come due: a hierarchical timing wheel over the slots' own list nodes.
//!
//! Setting, moving and cancelling a timer are O(1) and allocate nothing; a key has one place and so at most
//! one timer. Ticks are about a microsecond, so that a bucket never holds more than what is due together.
//!
//! # Invariants
//!
//! 1. Every id in the wheel stands in the bucket that its due time and the wheel's tick select; its place
//!    names that bucket, so it can be taken out without a search.
//! 2. The bit of a bucket is set exactly while the bucket is not empty.
//! 3. [`expire`](Timers::expire) returns exactly the ids due at `now`, by due time, then arrival.
//! 4. No bucket that holds an id starts before `soonest`, so that nearly every look at the wheel is one comparison.
//! 5. What lies beyond the wheel's range waits in its last level and is placed again when that comes round,
//!    so nothing fires early and nothing is lost.
//!
//! Not here: sleeping. The driver asks for [`wake_at`](Timers::wake_at) and sleeps until then; it is a lower
//! bound of the next due time, exact within the nearest level.

use crate::environment::Time;

use super::places::{Id, List, Places};

/// Nanoseconds of a tick, as a power of two: 1,024 ns.
const TICK_BITS: u32 = 10;
/// Buckets of a level, as a power of two, so that one word is the level's bitmap.
const LEVEL_BITS: u32 = 6;
const BUCKETS: usize = 1 << LEVEL_BITS;
/// Eight levels of 64 buckets reach 2^(10+48) ns, about nine years.
const LEVELS: usize = 8;

/// The wheel.
#[derive(Debug)]
pub(super) struct Timers {
    buckets: Vec<List>,
    /// One word per level (invariant 2).
    occupied: [u64; LEVELS],
    /// The tick that the wheel has reached.
    tick: u64,
    /// The tick before which there is nothing to do (invariant 4).
    soonest: u64,
    len: usize,
    /// Ids that are due, while they are sorted; kept for its allocation.
    due: Vec<(Time, u64, Id)>,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            buckets: vec![List::default(); LEVELS * BUCKETS],
            occupied: [0; LEVELS],
            tick: 0,
            soonest: u64::MAX,
            len: 0,
            due: Vec::new(),
        }
    }
}

impl Timers {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether [`expire`](Self::expire) may have something to do; false says that nothing is due.
    #[inline]
    pub(super) fn may_expire(&self, now: Time) -> bool {
        now.as_nanos() >> TICK_BITS >= self.soonest
    }

    /// Gives back what the largest batch of due ids needed.
    pub(super) fn give_back(&mut self) {
        self.due = Vec::new();
    }

    /// The ids that have a timer, in no order.
    #[cfg(test)]
    pub(super) fn ids(&self, places: &Places) -> Vec<Id> {
        for (index, bucket) in self.buckets.iter().enumerate() {
            let bit = self.occupied[index / BUCKETS] >> (index % BUCKETS) & 1;
            assert_eq!(bit == 1, !bucket.is_empty(), "invariant 2 of bucket {index}");
        }
        self.buckets.iter().flat_map(|bucket| places.iter(*bucket)).collect()
    }

    /// Sets the timer of an id that has none.
    pub(super) fn insert(&mut self, places: &mut Places, id: Id, due: Time) {
        places.set_due(id, due);
        self.place(places, id);
        self.len += 1;
    }

    /// Cancels the timer of an id that has one.
    pub(super) fn remove(&mut self, places: &mut Places, id: Id) {
        self.take_out(places, id);
        self.len -= 1;
    }

    /// A lower bound of the next due time; none without timers.
    pub(super) fn wake_at(&self, places: &Places) -> Option<Time> {
        if self.len == 0 {
            return None;
        }
        let (level, slot, start) = self.next_bucket()?;
        if level > 0 {
            // The bucket's start, not its first due time: at that instant it is spread over the levels below.
            return Some(Time::from_nanos(start << TICK_BITS));
        }
        let bucket = self.buckets[level * BUCKETS + slot];
        places.iter(bucket).map(|id| places.due(id)).min()
    }

    /// Takes out what is due at `now`, in order (invariant 3), and hands each id to `fire`.
    pub(super) fn expire(&mut self, places: &mut Places, now: Time, mut fire: impl FnMut(&mut Places, Id)) {
        let target = now.as_nanos() >> TICK_BITS;
        if !self.may_expire(now) {
            self.tick = self.tick.max(target);
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        while let Some((level, slot, start)) = self.next_bucket()
            && start <= target
        {
            self.tick = self.tick.max(start);
            let index = level * BUCKETS + slot;
            if level > 0 {
                // Cascade: everything in it belongs to lower levels now.
                while let Some(id) = places.pop_front(&mut self.buckets[index]) {
                    self.clear_if_empty(index);
                    self.place(places, id);
                }
                continue;
            }
            let before = due.len();
            due.extend(
                places
                    .iter(self.buckets[index])
                    .filter(|id| places.due(*id) <= now)
                    .map(|id| (places.due(id), places.sequence(id), id)),
            );
            for (_, _, id) in &due[before..] {
                self.take_out(places, *id);
            }
            if !self.buckets[index].is_empty() {
                break; // the rest of this tick is not due yet
            }
        }
        self.tick = self.tick.max(target);
        self.soonest = self.next_bucket().map_or(u64::MAX, |(_, _, start)| start);
        self.len -= due.len();
        due.sort_unstable();
        for (_, _, id) in due.drain(..) {
            fire(places, id);
        }
        self.due = due;
    }

    /// Puts an id into the bucket that its due time selects (invariants 1 and 5).
    fn place(&mut self, places: &mut Places, id: Id) {
        let due = (places.due(id).as_nanos() >> TICK_BITS).max(self.tick);
        // The highest bit in which the due tick differs from the current one selects the level.
        let differing = (due ^ self.tick) | 1;
        let level = ((u64::BITS - 1 - differing.leading_zeros()) / LEVEL_BITS) as usize;
        let (level, slot) = if level < LEVELS {
            (level, bucket_of(due, level))
        } else {
            // The due time differs above the last level. Its own bucket there comes round no later than it is
            // due; if that is the current one, the bucket that comes round last is.
            let (own, current) = (bucket_of(due, LEVELS - 1), bucket_of(self.tick, LEVELS - 1));
            (LEVELS - 1, if own == current { (current + BUCKETS - 1) % BUCKETS } else { own })
        };
        let index = level * BUCKETS + slot;
        places.set_bucket(id, index as u16);
        places.push_back(&mut self.buckets[index], id);
        self.occupied[level] |= 1 << slot;
        let start = if differing >> (LEVEL_BITS * LEVELS as u32) == 0 {
            due >> (LEVEL_BITS * level as u32) << (LEVEL_BITS * level as u32)
        } else {
            self.tick // its bucket may come round at any time
        };
        self.soonest = self.soonest.min(start); // invariant 4
    }

    fn take_out(&mut self, places: &mut Places, id: Id) {
        let index = usize::from(places.bucket(id));
        places.remove(&mut self.buckets[index], id);
        self.clear_if_empty(index);
    }

    fn clear_if_empty(&mut self, index: usize) {
        if self.buckets[index].is_empty() {
            self.occupied[index / BUCKETS] &= !(1 << (index % BUCKETS));
        }
    }

    /// The occupied bucket that comes first: level, bucket, and the tick at which it starts.
    fn next_bucket(&self) -> Option<(usize, usize, u64)> {
        (0..LEVELS)
            .filter_map(|level| {
                let shift = LEVEL_BITS * level as u32;
                let current = bucket_of(self.tick, level);
                let rotated = self.occupied[level].rotate_right(current as u32);
                if rotated == 0 {
                    return None;
                }
                let ahead = rotated.trailing_zeros() as u64;
                let slot = (current + ahead as usize) % BUCKETS;
                let start = ((self.tick >> shift) + ahead) << shift;
                Some((level, slot, start.max(self.tick)))
            })
            // Of two buckets that start together, the higher level first: it may hold what is due earlier.
            .min_by_key(|(level, _, start)| (*start, LEVELS - level))
    }
}

/// The bucket of a tick in a level.
fn bucket_of(tick: u64, level: usize) -> usize {
    (tick >> (LEVEL_BITS * level as u32)) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, time::Duration};

    fn fired(timers: &mut Timers, places: &mut Places, now: Time) -> Vec<Id> {
        let mut ids = Vec::new();
        timers.expire(places, now, |_, id| ids.push(id));
        ids
    }

    #[test]
    fn b6_a_sooner_timer_shortens_the_sleep() {
        let (mut timers, mut places) = (Timers::default(), Places::default());
        places.admit(1);
        timers.insert(&mut places, 0, Time::after_start(Duration::from_secs(10)));
        timers.insert(&mut places, 1, Time::after_start(Duration::from_millis(600)));
        assert!(timers.wake_at(&places) <= Some(Time::after_start(Duration::from_millis(600))));
        assert_eq!(fired(&mut timers, &mut places, Time::after_start(Duration::from_millis(599))), [0; 0]);
        assert_eq!(fired(&mut timers, &mut places, Time::after_start(Duration::from_millis(600))), [1]);
        assert_eq!(fired(&mut timers, &mut places, Time::after_start(Duration::from_secs(10))), [0]);
        assert_eq!(timers.wake_at(&places), None);
    }

    #[test]
    fn b5_a_timer_that_is_due_and_not_yet_popped_can_be_moved_and_removed() {
        let at = |seconds| Time::after_start(Duration::from_secs(seconds));
        let (mut timers, mut places) = (Timers::default(), Places::default());
        places.admit(1);
        let set = |timers: &mut Timers, places: &mut Places, due| {
            timers.remove(places, 0);
            timers.insert(places, 0, due);
        };
        // Due at 10 s, and the clock stands there; others of its tick are popped in the same moment.
        timers.insert(&mut places, 0, at(10));
        timers.insert(&mut places, 1, Time::from_nanos(at(10).as_nanos() + 1));
        set(&mut timers, &mut places, at(15));
        assert_eq!(fired(&mut timers, &mut places, at(10)), [0; 0]);
        set(&mut timers, &mut places, at(11));
        assert_eq!(
            fired(&mut timers, &mut places, at(11)),
            [1, 0],
            "each once, at the last time that was set"
        );
        // The same once more, and removed: its place goes to another, which fires alone.
        timers.insert(&mut places, 0, at(20));
        set(&mut timers, &mut places, at(25));
        set(&mut timers, &mut places, at(21));
        timers.remove(&mut places, 0);
        assert_eq!((timers.len(), timers.wake_at(&places)), (0, None));
        timers.insert(&mut places, 1, at(21));
        assert_eq!(fired(&mut timers, &mut places, Time::MAX), [1]);
    }

    #[test]
    fn timers_beyond_the_range_neither_fire_early_nor_get_lost() {
        let (mut timers, mut places) = (Timers::default(), Places::default());
        places.admit(1);
        let years = Duration::from_secs(3600 * 24 * 365);
        timers.insert(&mut places, 0, Time::MAX);
        timers.insert(&mut places, 1, Time::after_start(years * 40));
        for year in 1..40 {
            assert_eq!(fired(&mut timers, &mut places, Time::after_start(years * year)), [0; 0]);
        }
        assert_eq!(fired(&mut timers, &mut places, Time::after_start(years * 40)), [1]);
        assert_eq!(fired(&mut timers, &mut places, Time::MAX), [0]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(Id, u64),
        Cancel(Id),
        Advance(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Delays of every magnitude, from within one tick to beyond the range.
        let delay = (0u32..62, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits));
        let step = prop_oneof![
            4 => (0u32..12, delay.clone()).prop_map(|(id, delay)| Step::Set(id, delay)),
            1 => (0u32..12).prop_map(Step::Cancel),
            3 => delay.prop_map(Step::Advance),
        ];
        prop::collection::vec(step, 1..120)
    }

    proptest! {
        /// The wheel against a sorted map: the same ids fire at the same instants in the same order, and the
        /// sleep is never too long.
        #[test]
        fn b6_the_wheel_equals_a_sorted_map(steps in steps()) {
            let (mut timers, mut places) = (Timers::default(), Places::default());
            let mut model: BTreeMap<(Time, u64), Id> = BTreeMap::new();
            let (mut now, mut arrivals) = (Time::ZERO, 0u64);
            for id in 0..12 {
                places.admit(id);
            }
            for step in steps {
                match step {
                    Step::Set(id, delay) => {
                        if let Some(key) = model.iter().find(|(_, other)| **other == id).map(|(key, _)| *key) {
                            model.remove(&key);
                            timers.remove(&mut places, id);
                        }
                        let due = now.saturating_add(Duration::from_nanos(delay));
                        arrivals += 1;
                        model.insert((due, arrivals), id);
                        timers.insert(&mut places, id, due);
                    }
                    Step::Cancel(id) => {
                        if let Some(key) = model.iter().find(|(_, other)| **other == id).map(|(key, _)| *key) {
                            model.remove(&key);
                            timers.remove(&mut places, id);
                        }
                    }
                    Step::Advance(delay) => {
                        now = now.saturating_add(Duration::from_nanos(delay));
                        let later = model.split_off(&(now, u64::MAX));
                        let expected: Vec<Id> = std::mem::replace(&mut model, later).into_values().collect();
                        prop_assert_eq!(fired(&mut timers, &mut places, now), expected);
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                let earliest = model.keys().next().map(|(due, _)| *due);
                let wake = timers.wake_at(&places);
                prop_assert_eq!(wake.is_some(), earliest.is_some());
                prop_assert!(wake <= earliest, "sleeps until {:?}, due at {:?}", wake, earliest);
            }
        }
    }
}
