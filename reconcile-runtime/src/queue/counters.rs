//! What the queue counts. Plain numbers under the queue's lock; read as a [`QueueSnapshot`](super::QueueSnapshot).

use std::time::Duration;

use reconcile_core::CauseKind;

use super::{
    Lane,
    after_run::{Delay, Park},
    ended::OutcomeKind,
    slot::State,
};
use crate::metrics::Histogram;

/// The counters of one queue.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Signals taken in, by cause; a handful of different ones, so a walk beats a map.
    pub(super) added: Vec<(CauseKind, u64)>,
    /// Signals that were merged into a key that was known already.
    pub(super) deduplicated: u64,
    /// Runs that were not the first attempt.
    pub(super) retries: u64,
    /// Runs by outcome.
    pub(super) ended: Vec<(OutcomeKind, u64)>,
    /// From being due to being taken.
    pub(super) wait: Histogram,
    /// From being taken to being done.
    pub(super) run: Histogram,
    pub(super) depth: Depth,
}

impl Counters {
    #[inline]
    pub(super) fn added(&mut self, kind: CauseKind) {
        count(&mut self.added, kind);
    }

    #[inline]
    pub(super) fn ended(&mut self, kind: OutcomeKind, took: Duration) {
        count(&mut self.ended, kind);
        self.run.observe(took);
    }
}

fn count<T: PartialEq>(counts: &mut Vec<(T, u64)>, kind: T) {
    match counts.iter_mut().find(|(other, _)| *other == kind) {
        Some((_, count)) => *count += 1,
        None => counts.push((kind, 1)),
    }
}

/// How many keys are in each state, now.
///
/// It is counted at the one place where a state changes, so that it can neither drift nor go below zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Due, in the high lane.
    pub ready_high: usize,
    /// Due, in the normal lane.
    pub ready_normal: usize,
    /// Due, in the low lane.
    pub ready_low: usize,
    /// With a worker.
    pub running: usize,
    /// With a worker, and signalled since.
    pub running_dirty: usize,
    /// On the timer of a poll, a deadline or a recheck.
    pub scheduled: usize,
    /// On a timer after a failure or a conflict.
    pub backing_off: usize,
    /// Slowed down: they ran again and again without effect.
    pub spinning: usize,
    /// Signalled, but held by their minimum interval.
    pub held_back: usize,
    /// Waiting for something, without a timer.
    pub waiting: usize,
    /// Failed for good.
    pub permanent: usize,
    /// Paused.
    pub paused: usize,
    /// Idle, but still remembered for their minimum interval.
    pub idle: usize,
}

impl Depth {
    /// Due keys of all lanes.
    pub fn ready(&self) -> usize {
        self.ready_high + self.ready_normal + self.ready_low
    }

    /// Keys that a worker has.
    pub fn active(&self) -> usize {
        self.running + self.running_dirty
    }

    #[inline]
    pub(super) fn enter(&mut self, state: State, lane: Lane) {
        *self.of(state, lane) += 1;
    }

    #[inline]
    pub(super) fn leave(&mut self, state: State, lane: Lane) {
        *self.of(state, lane) -= 1;
    }

    #[inline]
    fn of(&mut self, state: State, lane: Lane) -> &mut usize {
        match (state, lane) {
            (State::Ready, Lane::High) => &mut self.ready_high,
            (State::Ready, Lane::Normal) => &mut self.ready_normal,
            (State::Ready, Lane::Low) => &mut self.ready_low,
            (State::Running, _) => &mut self.running,
            (State::RunningDirty, _) => &mut self.running_dirty,
            (State::Delayed(Delay::Poll | Delay::Deadline | Delay::Recheck), _) => &mut self.scheduled,
            (State::Delayed(Delay::Spin), _) => &mut self.spinning,
            (State::Delayed(Delay::Interval), _) => &mut self.held_back,
            (State::Delayed(_), _) => &mut self.backing_off,
            (State::Parked(Park::Waiting), _) => &mut self.waiting,
            (State::Parked(Park::Permanent), _) => &mut self.permanent,
            (State::Parked(Park::Paused), _) => &mut self.paused,
            (State::Idle, _) => &mut self.idle,
        }
    }
}
