mod epochs;
mod indexes;
mod reflector;
mod relisting;
mod writers;

use std::sync::Arc;

use reconcile_core::ObjectKey;

use crate::{
    Change,
    cache::{Cache, test_store::Web},
    change::{Initial, Step, Subscriber},
};

/// Calls a function at every change.
pub(crate) struct Looks(pub(crate) Box<dyn Fn() + Send + Sync>);

impl Subscriber<Web> for Looks {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        (self.0)();
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

impl Cache<Web> {
    /// How many tombstones there are.
    pub(crate) fn tombstones(&self) -> usize {
        self.lock().tombstones.len()
    }
}
