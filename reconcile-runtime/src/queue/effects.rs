//! What an operation on the machine leaves to be done after the lock is released.
//!
//! No user code runs under the lock: keys, errors and what runs left behind are dropped here, answers are
//! given here, and runs are told here that they are superseded.

use std::{any::Any, sync::Arc, time::Duration};

use reconcile_core::{ReconcileError, RunControl};

use super::ended::OutcomeKind;
use crate::change::Step;

/// Collected under the lock, carried out by the driver outside it.
///
/// What most operations leave is inline; everything else is behind one pointer, since an operation on the hot
/// path must not pay for moving and dropping a row of empty lists.
#[derive(Debug)]
pub(crate) struct Effects<K> {
    /// Keys to be dropped: of the run that ended, and one that the history forgot.
    keys: [Option<Arc<K>>; 2],
    /// The key that came with a signal for a slot that has one already.
    pub(super) given_key: Option<K>,
    rare: Option<Box<Rare<K>>>,
}

/// What few operations leave behind.
#[derive(Debug)]
pub(super) struct Rare<K> {
    /// Whom to tell that a new input came, and which change it was.
    pub(super) supersede: Option<(RunControl, Option<Step>)>,
    /// Runs to be told that the controller stops.
    pub(super) stop: Vec<RunControl>,
    /// Who waits for what, and got it.
    pub(super) answers: Vec<(u64, Answer)>,
    /// To be dropped.
    keys: Vec<Arc<K>>,
    errors: Vec<ReconcileError>,
    carries: Vec<Box<dyn Any + Send + Sync>>,
}

impl<K> Default for Effects<K> {
    fn default() -> Self {
        Effects { keys: [None, None], given_key: None, rare: None }
    }
}

impl<K> Effects<K> {
    /// The rare part, made if there is none.
    pub(super) fn rare_mut(&mut self) -> &mut Rare<K> {
        self.rare.get_or_insert_with(|| {
            Box::new(Rare {
                supersede: None,
                stop: Vec::new(),
                answers: Vec::new(),
                keys: Vec::new(),
                errors: Vec::new(),
                carries: Vec::new(),
            })
        })
    }

    /// The rare part, if there is one.
    pub(super) fn rare(&self) -> Option<&Rare<K>> {
        self.rare.as_deref()
    }

    pub(super) fn answer(&mut self, ticket: u64, answer: Answer) {
        self.rare_mut().answers.push((ticket, answer));
    }

    pub(super) fn drop_key(&mut self, key: Arc<K>) {
        match self.keys.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(key),
            None => self.rare_mut().keys.push(key),
        }
    }

    pub(super) fn drop_error(&mut self, error: Option<ReconcileError>) {
        if let Some(error) = error {
            self.rare_mut().errors.push(error);
        }
    }

    pub(super) fn drop_carry(&mut self, carry: Option<Box<dyn Any + Send + Sync>>) {
        if let Some(carry) = carry {
            self.rare_mut().carries.push(carry);
        }
    }
}

/// What a waiter gets.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Converged,
    /// Failed for good.
    Failed(ReconcileError),
    Paused,
    Stopped,
    /// How the next run ended.
    Outcome {
        kind: OutcomeKind,
        error: Option<ReconcileError>,
        took: Duration,
    },
}
