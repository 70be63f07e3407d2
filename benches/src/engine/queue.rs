//! An engine's queue by itself: keys go in, and come out again with nothing done for them.

use crate::clock::Spent;

/// How a queue is loaded: in each round `adds` additions of `keys` distinct keys, then everything comes out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) keys: u32,
    /// As many as `keys` for a plain cycle, and more for additions of keys that are in the queue already.
    pub(crate) adds: u32,
    pub(crate) rounds: usize,
}

impl Load {
    /// The keys in the order in which they are added, made before anything is measured.
    pub(super) fn keys<K: Clone>(self, make: impl Fn(u32) -> K) -> Vec<K> {
        let distinct: Vec<K> = (0..self.keys).map(make).collect();
        distinct.iter().cycle().take(self.adds as usize).cloned().collect()
    }
}

/// One round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// The additions by themselves, where the queue lets them be told from the rest.
    pub(crate) adding: Option<Spent>,
    /// From the first addition to the last key that came out.
    pub(crate) whole: Spent,
}
