//! Who waits for a key: registering, answering, forgetting.

use std::sync::Arc;

use reconcile_core::{Cause, CauseKind, Key, ReconcileError, Retry};

use super::{
    Lane,
    after_run::{Delay, Park},
    effects::{Answer, Effects},
    ended::OutcomeKind,
    machine::Machine,
    slot::{LastRun, Record, State, Waiter, Wants},
};
use crate::environment::Time;

impl<K: Key> Machine<K> {
    /// Registers who waits until a key has converged, or answers at once.
    pub(crate) fn wait_converged(&mut self, hash: u32, key: K, ticket: u64, now: Time, fx: &mut Effects<K>) {
        self.advance(now, fx);
        if self.closed || self.paused {
            let answer = if self.closed { Answer::Stopped } else { Answer::Paused };
            fx.answer(ticket, answer);
            fx.given_key = Some(key);
            return;
        }
        let Some(id) = self.find(hash, &key) else {
            if self.history.find(hash, &key).is_some_and(|last| last.outcome.is_converged()) {
                fx.answer(ticket, Answer::Converged);
                fx.given_key = Some(key);
                return;
            }
            // Never seen, or forgotten: only a run can tell.
            let id = self.insert(hash, Arc::new(key), Lane::Normal);
            self.counters.added(CauseKind::Enqueued);
            let run = self.runs + 1;
            let record = self.record(id);
            record.causes.add(Cause::new(CauseKind::Enqueued, "somebody waits for it"));
            record.make_aside().waiters.push(Waiter { ticket, wants: Wants::Converged { run } });
            self.enter_ready(id);
            return;
        };
        fx.given_key = Some(key);
        let converged = self.slot(id).last.is_some_and(|last| last.outcome.is_converged());
        let run = match self.slot(id).state {
            State::Idle | State::Delayed(Delay::Poll | Delay::Deadline) if converged => {
                fx.answer(ticket, Answer::Converged);
                return;
            }
            State::Parked(Park::Paused) => {
                fx.answer(ticket, Answer::Paused);
                return;
            }
            State::Parked(Park::Permanent) => {
                let error = self.record(id).error().cloned();
                let error = error.unwrap_or_else(|| ReconcileError::new(Retry::Never, "failed for good"));
                fx.answer(ticket, Answer::Failed(error));
                return;
            }
            // It started after the newest input.
            State::Running => self.record(id).run.as_ref().map_or(0, |(run, _)| *run),
            _ => self.runs + 1,
        };
        self.record(id).make_aside().waiters.push(Waiter { ticket, wants: Wants::Converged { run } });
    }

    /// Registers who waits for the end of a key's next run.
    pub(crate) fn wait_outcome(&mut self, hash: u32, key: K, ticket: u64, now: Time, fx: &mut Effects<K>) {
        self.advance(now, fx);
        if self.closed {
            fx.answer(ticket, Answer::Stopped);
            fx.given_key = Some(key);
            return;
        }
        let id = match self.find(hash, &key) {
            Some(id) => {
                fx.given_key = Some(key);
                id
            }
            None => {
                // Parked without a reason to run: it is kept only because somebody waits.
                let id = self.insert(hash, Arc::new(key), Lane::Normal);
                self.record(id).make_aside().reason = Some("a first signal".into());
                self.enter_parked(id, Park::Waiting);
                id
            }
        };
        self.record(id).make_aside().waiters.push(Waiter { ticket, wants: Wants::Outcome });
    }

    /// Forgets a waiter that is gone.
    pub(crate) fn forget_waiter(&mut self, hash: u32, key: &K, ticket: u64, fx: &mut Effects<K>) {
        let Some(id) = self.find(hash, key) else { return };
        let record = self.record(id);
        let waiters = &mut record.make_aside().waiters;
        waiters.retain(|waiter| waiter.ticket != ticket);
        let unwanted = waiters.is_empty();
        let slot = self.slot(id);
        if unwanted && slot.last.is_none() && slot.state == State::Parked(Park::Waiting) {
            // It never ran and was kept only for the waiters.
            self.leave_list(id);
            self.drop_slot(id, fx);
            return;
        }
        self.shed(id);
    }
}

/// Answers who waited for this run.
pub(super) fn answer<K>(
    record: &mut Record,
    run: u64,
    kind: OutcomeKind,
    last: LastRun,
    fx: &mut Effects<K>,
) {
    let Some(aside) = record.aside_mut() else { return };
    if aside.waiters.is_empty() {
        return;
    }
    let error = aside.error.clone();
    aside.waiters.retain(|waiter| {
        let answer = match waiter.wants {
            Wants::Outcome => Answer::Outcome { kind, error: error.clone(), took: last.took() },
            Wants::Converged { run: wanted } if run < wanted => return true,
            Wants::Converged { .. } if kind.is_converged() => Answer::Converged,
            Wants::Converged { .. } => match (kind, &error) {
                (OutcomeKind::Permanent, Some(error)) => Answer::Failed(error.clone()),
                _ => return true,
            },
        };
        fx.answer(waiter.ticket, answer);
        false
    });
}
