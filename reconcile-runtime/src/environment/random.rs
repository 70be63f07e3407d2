//! The one source of randomness of an environment.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use rand::{Rng, SeedableRng, TryRng, rngs::SmallRng, rngs::SysRng};

/// A shared, seeded source of random bits. Clones draw from the same source.
#[derive(Clone)]
pub struct Random {
    source: Arc<Mutex<SmallRng>>,
}

impl Random {
    /// A source that gives the same bits for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Random { source: Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))) }
    }

    /// A source seeded by the operating system.
    ///
    /// # Panics
    ///
    /// If the operating system has no random bits to give, as uids could then repeat.
    pub fn from_system() -> Self {
        let mut sys = SysRng;
        Random::seeded(sys.try_next_u64().expect("the operating system gives random bits"))
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A generator of its own, seeded from this source: for a part that draws under its own lock.
    pub(crate) fn fork(&self) -> Fork {
        Fork(SmallRng::seed_from_u64(self.next_u64()))
    }
}

/// A generator that one owner draws from, without a lock of its own.
pub(crate) struct Fork(SmallRng);

impl Fork {
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
