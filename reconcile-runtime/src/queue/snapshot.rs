//! A queue in numbers.

use std::time::Duration;

use reconcile_core::{CauseKind, Key};

use super::{counters::Depth, ended::OutcomeKind, machine::Machine, slot::State};
use crate::{environment::Time, metrics::Histogram};

/// A queue in numbers: what a metrics page shows. Taken under one lock, so its figures belong together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// Signals taken in, by cause.
    pub adds: Vec<(CauseKind, u64)>,
    /// Signals that were merged into a key that was known already.
    pub deduplicated: u64,
    /// Keys by state and lane, now.
    pub depth: Depth,
    /// Runs by outcome.
    pub outcomes: Vec<(OutcomeKind, u64)>,
    /// Runs that were not the first attempt.
    pub retries: u64,
    /// How long keys were due before a worker took them.
    pub wait: Histogram,
    /// How long runs took.
    pub run: Histogram,
    /// How long the longest-waiting due key has been due; zero if none is.
    pub oldest_ready: Duration,
    /// How long the longest run has been running; zero if none is.
    pub longest_running: Duration,
    /// How long all current runs have been running, together: what shows a stuck worker.
    pub unfinished: Duration,
    /// How many idle keys are remembered for `explain`.
    pub remembered: usize,
}

impl QueueSnapshot {
    /// Signals taken in.
    pub fn added(&self) -> u64 {
        self.adds.iter().map(|(_, count)| count).sum()
    }

    /// Runs that ended.
    pub fn runs(&self) -> u64 {
        self.outcomes.iter().map(|(_, count)| count).sum()
    }

    /// Runs that ended in this way.
    pub fn ended(&self, outcome: OutcomeKind) -> u64 {
        self.outcomes.iter().find(|(other, _)| *other == outcome).map_or(0, |(_, count)| *count)
    }
}

impl<K: Key> Machine<K> {
    pub(crate) fn snapshot(&self, now: Time) -> QueueSnapshot {
        let now = self.now.max(now);
        let mut adds = self.counters.added.clone();
        adds.sort_unstable();
        let mut outcomes = self.counters.ended.clone();
        outcomes.sort_unstable();
        let age = |id| now.since(self.places.due(id));
        QueueSnapshot {
            adds,
            deduplicated: self.counters.deduplicated,
            depth: self.counters.depth,
            outcomes,
            retries: self.counters.retries,
            wait: self.counters.wait.clone(),
            run: self.counters.run.clone(),
            oldest_ready: self.lanes.heads().map(age).max().unwrap_or_default(),
            longest_running: self.running.head().map(age).unwrap_or_default(),
            unfinished: self.places.iter(self.running).map(age).sum(),
            remembered: self.history.len(),
        }
    }

    /// The keys that workers have, longest first.
    pub(crate) fn running_keys(&self) -> Vec<std::sync::Arc<K>> {
        self.places.iter(self.running).map(|id| self.slot(id).key.clone()).collect()
    }

    /// The keys that fail, by their slots' order, with their last errors.
    pub(crate) fn failing(&self) -> Vec<(std::sync::Arc<K>, Option<reconcile_core::ReconcileError>)> {
        let failing = |id: &u32| {
            let slot = self.slot(*id);
            let failures = slot.record.as_ref().is_some_and(|record| record.tally.failures > 0);
            failures || slot.state == State::Parked(super::after_run::Park::Permanent)
        };
        let ids = self.ids().into_iter().filter(failing);
        ids.map(|id| {
            let slot = self.slot(id);
            (slot.key.clone(), slot.record.as_ref().and_then(|record| record.error().cloned()))
        })
        .collect()
    }
}
