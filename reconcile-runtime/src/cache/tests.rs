mod indexes;
mod reflector;
mod relisting;
mod writers;

use std::sync::Arc;

use reconcile_core::ObjectKey;

use crate::{
    Change,
    cache::test_store::Web,
    change::{Initial, Step, Subscriber},
};

/// Calls a function at every change.
pub(super) struct Looks(pub(super) Box<dyn Fn() + Send + Sync>);

impl Subscriber<Web> for Looks {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        (self.0)();
    }

    fn flagged(&self, _: &Arc<Web>) {}
}
