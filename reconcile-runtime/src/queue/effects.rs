//! What an operation on the machine leaves to be done after the lock is released.
//!
//! No user code runs under the lock: keys, errors and what runs left behind are dropped here, answers are
//! given here, and runs are told here that they are superseded.

use std::{any::Any, sync::Arc, time::Duration};

use reconcile_core::{ReconcileError, RunControl};

use super::ended::OutcomeKind;
use crate::change::Step;

/// Collected under the lock, carried out by the driver outside it.
#[derive(Debug)]
pub(crate) struct Effects<K> {
    /// Whom to tell that a new input came, and which change it was.
    pub(super) supersede: Option<(RunControl, Option<Step>)>,
    /// Runs to be told that the controller stops.
    pub(super) stop: Vec<RunControl>,
    /// Who waits for what, and got it.
    pub(super) answers: Vec<(u64, Answer)>,
    /// To be dropped. The first is inline: most operations drop at most one key.
    pub(super) key: Option<Arc<K>>,
    pub(super) keys: Vec<Arc<K>>,
    /// The key of the run that ended.
    pub(super) spent: Option<Arc<K>>,
    pub(super) given_key: Option<K>,
    pub(super) error: Option<ReconcileError>,
    pub(super) carries: Vec<Box<dyn Any + Send + Sync>>,
}

impl<K> Default for Effects<K> {
    fn default() -> Self {
        Effects {
            supersede: None,
            stop: Vec::new(),
            answers: Vec::new(),
            key: None,
            keys: Vec::new(),
            spent: None,
            given_key: None,
            error: None,
            carries: Vec::new(),
        }
    }
}

impl<K> Effects<K> {
    pub(super) fn drop_key(&mut self, key: Arc<K>) {
        match &self.key {
            None => self.key = Some(key),
            Some(_) => self.keys.push(key),
        }
    }

    pub(super) fn drop_error(&mut self, error: Option<ReconcileError>) {
        match (&self.error, error) {
            (None, error) => self.error = error,
            (Some(_), Some(error)) => self.carries.push(Box::new(error)),
            (Some(_), None) => {}
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
