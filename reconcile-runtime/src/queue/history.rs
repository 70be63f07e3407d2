//! How the last runs of idle keys ended: a bounded ring, so that `explain` can still say it.

use std::{collections::VecDeque, sync::Arc};

use super::slot::LastRun;

/// How many idle keys are remembered. At 40 bytes an entry the ring stays within a processor's cache, and a
/// person who asks does so within the last few thousand runs.
pub(crate) const REMEMBERED: usize = 4096;

#[derive(Debug)]
pub(super) struct History<K> {
    /// Oldest first. A key that was idle more than once stands here more than once; the newest one counts.
    ring: VecDeque<(u32, Arc<K>, LastRun)>,
}

impl<K> Default for History<K> {
    fn default() -> Self {
        History { ring: VecDeque::new() }
    }
}

impl<K: Eq> History<K> {
    /// Remembers a run; answers the key that fell out, to be dropped outside the lock.
    pub(super) fn push(&mut self, hash: u32, key: Arc<K>, last: LastRun) -> Option<Arc<K>> {
        let oldest = if self.ring.len() == REMEMBERED { self.ring.pop_front() } else { None };
        self.ring.push_back((hash, key, last));
        oldest.map(|(_, key, _)| key)
    }

    /// The newest run of a key. A walk: it is asked for by people.
    pub(super) fn find(&self, hash: u32, key: &K) -> Option<LastRun> {
        let mut newest_first = self.ring.iter().rev();
        newest_first.find(|(other, known, _)| *other == hash && **known == *key).map(|(_, _, last)| *last)
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn clear(&mut self) -> impl Iterator<Item = Arc<K>> + use<K> {
        std::mem::take(&mut self.ring).into_iter().map(|(_, key, _)| key)
    }
}
