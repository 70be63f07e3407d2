//! Counts runs per key, and tells when every key has had enough of them.
//!
//! The count is what proves that an engine did the work: an engine that merges more signals looks faster, so
//! each suite states how many runs happened, and fails when a key had too few.
//!
//! # Invariants
//! 1. Each key's counter only rises, and exactly one run sees it reach the goal.
//! 2. A block's counter rises once per key of the block that reached the goal; the run that completes the block
//!    lowers `blocks_left`, and the run that lowers it to zero wakes the waiter.
//!
//! Completion is counted in blocks of neighbouring keys instead of in one shared counter, because one cache
//! line that every run writes would cost two threads more than a whole run of a fast engine.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::sync::Notify;

use crate::clock;

/// Keys per block: their counters share four cache lines.
const BLOCK: usize = 64;

/// Reached when every key had its share.
#[derive(Debug)]
struct Goal {
    /// Runs of one key that count as its share.
    runs: u32,
    /// Keys with their share, per block of `BLOCK` keys.
    blocks: Box<[AtomicU32]>,
    /// Blocks in which a key still lacks runs.
    blocks_left: AtomicUsize,
    /// Stores one permit, so a waiter that comes late still wakes.
    reached: Notify,
}

impl Goal {
    fn new(keys: usize, runs: u32) -> Self {
        let blocks = keys.div_ceil(BLOCK);
        Goal {
            runs,
            blocks: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            blocks_left: AtomicUsize::new(blocks),
            reached: Notify::new(),
        }
    }

    fn note(&self, key: usize, keys: usize) {
        let at = key / BLOCK;
        let size = BLOCK.min(keys - at * BLOCK);
        let Some(block) = self.blocks.get(at) else { return };
        let had = block.fetch_add(1, Ordering::AcqRel) as usize + 1;
        if had == size && self.blocks_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.reached.notify_one();
        }
    }
}

/// Runs per key, with a first and a last goal.
#[derive(Debug)]
pub(crate) struct Tally {
    runs: Box<[AtomicU32]>,
    first: Goal,
    last: Goal,
}

impl Tally {
    /// For `keys` keys; every key is expected to run once, and `rounds` times in the end.
    pub(crate) fn new(keys: u32, rounds: u32) -> Self {
        Self::with_goals(keys, 1, rounds)
    }

    /// Every key is expected to run `first` times, and `last` times in the end.
    pub(crate) fn with_goals(keys: u32, first: u32, last: u32) -> Self {
        let keys = keys as usize;
        Tally {
            runs: (0..keys).map(|_| AtomicU32::new(0)).collect(),
            first: Goal::new(keys, first),
            last: Goal::new(keys, last),
        }
    }

    /// Counts a run and gives how many this key has had, this one included; zero for a number that is no key.
    pub(crate) fn record(&self, id: u32) -> u32 {
        let key = id as usize;
        let Some(counter) = self.runs.get(key) else { return 0 };
        let count = counter.fetch_add(1, Ordering::AcqRel) + 1;
        for goal in [&self.first, &self.last] {
            if count == goal.runs {
                goal.note(key, self.runs.len());
            }
        }
        count
    }

    /// Runs so far, of all keys.
    pub(crate) fn total(&self) -> u64 {
        self.runs.iter().map(|count| u64::from(count.load(Ordering::Acquire))).sum()
    }

    /// Runs so far of one key.
    pub(crate) fn of(&self, id: u32) -> u32 {
        self.runs.get(id as usize).map_or(0, |count| count.load(Ordering::Acquire))
    }

    /// Fewest and most runs of a key.
    pub(crate) fn extremes(&self) -> (u32, u32) {
        let counts = || self.runs.iter().map(|count| count.load(Ordering::Acquire));
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }

    /// Keys with at least this many runs.
    pub(crate) fn keys_with(&self, runs: u32) -> usize {
        self.runs.iter().filter(|count| count.load(Ordering::Acquire) >= runs).count()
    }

    /// Waits until every key has reached the first goal.
    ///
    /// # Errors
    /// When some key has not within `limit`; the message says how many.
    pub(crate) async fn first_goal(&self, limit: Duration) -> Result<()> {
        self.reach(&self.first, limit).await
    }

    /// Waits until every key has reached the last goal.
    ///
    /// # Errors
    /// When some key has not within `limit`; the message says how many.
    pub(crate) async fn last_goal(&self, limit: Duration) -> Result<()> {
        self.reach(&self.last, limit).await
    }

    async fn reach(&self, goal: &Goal, limit: Duration) -> Result<()> {
        if clock::within(limit, goal.reached.notified()).await.is_some() {
            return Ok(());
        }
        bail!(
            "only {} of {} keys had {} runs within {limit:?} ({} runs in all)",
            self.keys_with(goal.runs),
            self.runs.len(),
            goal.runs,
            self.total()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn goals_are_reached_by_the_last_missing_key_only() {
        // 130 keys: two full blocks and a short one.
        let tally = Tally::new(130, 2);
        for id in 0..129 {
            tally.record(id);
        }
        let error = tally.first_goal(LIMIT).await.unwrap_err().to_string();
        assert!(error.contains("129 of 130"), "{error}");
        tally.record(129);
        tally.first_goal(LIMIT).await.unwrap();
        assert!(tally.last_goal(LIMIT).await.is_err());
        for id in 0..130 {
            assert_eq!(tally.record(id), 2);
        }
        tally.last_goal(LIMIT).await.unwrap();
        assert_eq!((tally.total(), tally.extremes()), (260, (2, 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_beyond_the_goal_do_not_stand_in_for_missing_keys() {
        let tally = Tally::new(2, 1);
        for _ in 0..5 {
            tally.record(0);
        }
        assert!(tally.last_goal(LIMIT).await.is_err());
        assert_eq!(tally.record(7), 0, "a number that is no key is not counted");
        tally.record(1);
        tally.last_goal(LIMIT).await.unwrap();
    }
}
