//! Whether the machine keeps its invariants: asked after every step of the tests.

use super::*;
use crate::queue::counters::Depth;

impl<K: Key> Machine<K> {
    /// Checks what can be seen from inside: the invariants of the queue, those of its parts, and its counts.
    pub(in crate::queue) fn check(&self) {
        let ids = self.ids();
        // Invariant 1: where a key stands is what its state says, and it stands nowhere else.
        let mut lists: Vec<(Id, &str)> = Vec::new();
        for (lane, name) in [(Lane::High, "high"), (Lane::Normal, "normal"), (Lane::Low, "low")] {
            lists.extend(self.lanes.ids(&self.places, lane).into_iter().map(|id| (id, name)));
        }
        lists.extend(self.timers.ids(&self.places).into_iter().map(|id| (id, "timers")));
        lists.extend(self.places.iter(self.running).map(|id| (id, "running")));
        lists.extend(self.places.iter(self.parked).map(|id| (id, "parked")));
        assert_eq!(lists.len(), ids.len(), "every live key stands in one list");
        assert_eq!(self.lanes.len() + self.timers.len() + self.running.len() + self.parked.len(), ids.len());
        let mut depth = Depth::default();
        for id in &ids {
            let slot = self.slot(*id);
            depth.enter(slot.state, slot.lane);
            let expected = match slot.state {
                State::Ready => match slot.lane {
                    Lane::High => "high",
                    Lane::Normal => "normal",
                    Lane::Low => "low",
                },
                State::Delayed(_) | State::Idle => "timers",
                State::Running | State::RunningDirty => "running",
                State::Parked(_) => "parked",
            };
            let actual: Vec<&str> =
                lists.iter().filter(|(other, _)| other == id).map(|(_, list)| *list).collect();
            assert_eq!(actual, [expected], "{:?} is {:?}", slot.key, slot.state);
            // Invariant 6: an idle key is only kept for its minimum interval.
            if slot.state == State::Idle {
                assert!(self.places.due(*id) > self.now, "{:?} is idle and kept", slot.key);
            }
            if let State::Delayed(_) = slot.state {
                assert!(self.places.due(*id) > self.now, "{:?} is due and still delayed", slot.key);
            }
            let run = slot.record.as_ref().and_then(|record| record.run.as_ref());
            assert_eq!(run.is_some(), slot.state.is_running(), "only a running key has a run");
            let pending = slot
                .record
                .as_ref()
                .and_then(|record| record.pending.as_ref())
                .is_some_and(|pending| pending.lane.is_some());
            assert_eq!(pending, slot.state == State::RunningDirty, "only a dirty key has pending signals");
            assert_eq!(self.find(slot.hash, &slot.key), Some(*id), "the table finds it");
        }
        assert_eq!(depth, self.counters.depth, "the counts are those of the states");
        assert_eq!(self.table.len(), ids.len());
        assert_eq!(self.free.len() + ids.len(), self.slots.len());
        assert!(self.history.len() <= crate::queue::history::REMEMBERED);
        // Invariant 7, within each lane: due time, then arrival.
        for lane in [Lane::High, Lane::Normal, Lane::Low] {
            let order: Vec<_> = self.lanes.ids(&self.places, lane);
            let order: Vec<_> =
                order.into_iter().map(|id| (self.places.due(id), self.places.sequence(id))).collect();
            assert!(order.is_sorted(), "lane {lane:?} is out of order: {order:?}");
        }
    }

    /// For how many keys there is memory, over all tables.
    pub(in crate::queue) fn capacity(&self) -> usize {
        [
            self.slots.capacity(),
            self.free.capacity(),
            self.table.capacity(),
            self.places.capacity(),
            self.fired.capacity(),
        ]
        .into_iter()
        .max()
        .unwrap_or_default()
    }
}
