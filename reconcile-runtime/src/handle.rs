//! The handle of a controller.
use crate::queue::Queue;
use reconcile_core::Key;
/// The handle of a controller.
#[derive(Clone)]
pub struct Handle<K: Key> {
    queue: Queue<K>,
}
impl<K: Key> Handle<K> {
    pub(crate) fn new(queue: Queue<K>) -> Self {
        Handle { queue }
    }
}
impl<K: Key> std::fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = &self.queue;
        f.write_str("Handle")
    }
}
