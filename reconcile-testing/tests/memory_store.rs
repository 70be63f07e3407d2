//! The store in memory keeps the nine rules.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reconcile_runtime::{
    MemoryStore,
    core::ObjectKey,
    store::{Damage, MemorySnapshot},
};
use reconcile_testing::{
    conformance::{ClockMode, Harness, LossyReplies, Missing, Power, PowerError, Probe, Stores},
    store_conformance,
};

struct InMemory {
    clock: ClockMode,
    store: MemoryStore,
    replies: LossyReplies<MemoryStore>,
    saved: Mutex<Option<MemorySnapshot>>,
}

fn in_memory_on(clock: ClockMode) -> InMemory {
    let store = MemoryStore::default();
    InMemory { clock, replies: LossyReplies::new(store.clone()), store, saved: Mutex::new(None) }
}

fn in_memory() -> InMemory {
    in_memory_on(ClockMode::Paused)
}

#[async_trait]
impl Harness for InMemory {
    fn missing(&self) -> Vec<Missing> {
        vec![
            Missing::new(Power::Kill, "what is in memory ends with its process"),
            Missing::new(Power::Undefault, "objects are held as they were defaulted, never decoded again"),
        ]
    }

    fn clock(&self) -> ClockMode {
        self.clock
    }

    fn races(&self) -> usize {
        if self.clock == ClockMode::Paused { 10_000 } else { 100 }
    }

    async fn stores(&self) -> Stores {
        Stores::of(self.replies.clone()).with_leases(self.store.clone())
    }

    async fn compact(&self) -> Result<(), PowerError> {
        self.store.compact();
        Ok(())
    }

    async fn damage(&self, key: &ObjectKey, damage: Damage) -> Result<(), PowerError> {
        self.store.damage::<Probe>(key, damage, "damaged by a test").map(drop).map_err(PowerError::failed)
    }

    async fn lose_next_reply(&self) -> Result<(), PowerError> {
        self.replies.lose_next();
        Ok(())
    }

    async fn save(&self) -> Result<(), PowerError> {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.store.snapshot());
        Ok(())
    }

    async fn restore(&self) -> Result<(), PowerError> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.store.restore(&saved.ok_or_else(|| PowerError::failed("there is no backup"))?);
        Ok(())
    }
}

store_conformance!(in_memory);

/// The suite as durable stores run it: on the system's clock.
mod on_the_systems_clock {
    fn in_memory() -> super::InMemory {
        super::in_memory_on(super::ClockMode::Real)
    }

    super::store_conformance!(in_memory);
}
