//! The controllers of a manager, and their end whatever happens to the manager.
//!
//! # Invariants
//!
//! 1. When this is dropped, every controller is closed: who waits on a handle hears that it stopped, also when
//!    the manager never ran, or its run was dropped.

use std::sync::Arc;

use super::start::Needs;
use crate::controller::{AnyController, Control};

#[derive(Default)]
pub(super) struct Controllers(Vec<Entry>);

/// A controller, and what it waits for.
pub(super) struct Entry {
    pub(super) controller: Box<dyn AnyController>,
    pub(super) control: Arc<dyn Control>,
    pub(super) needs: Needs,
    pub(super) start: Start,
}

/// Whether a controller has been started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Waiting,
    Started,
}

impl Controllers {
    pub(super) fn add(&mut self, controller: Box<dyn AnyController>, needs: Needs) {
        let control = controller.control();
        self.0.push(Entry { controller, control, needs, start: Start::Waiting });
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|entry| **entry.control.name() == *name)
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|entry| entry.control.name().clone()).collect()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Entry> {
        self.0.iter_mut()
    }

    /// Ends intake everywhere.
    pub(super) fn close(&self) {
        for entry in &self.0 {
            entry.control.close();
        }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.close(); // invariant 1
    }
}
