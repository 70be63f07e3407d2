//! The store in memory keeps the nine rules.

use std::sync::Mutex;

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
    store: MemoryStore,
    replies: LossyReplies<MemoryStore>,
    saved: Mutex<Option<MemorySnapshot>>,
}

fn in_memory() -> InMemory {
    let store = MemoryStore::default();
    InMemory { replies: LossyReplies::new(store.clone()), store, saved: Mutex::new(None) }
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
        ClockMode::Paused
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
        *self.saved.lock().unwrap() = Some(self.store.snapshot());
        Ok(())
    }

    async fn restore(&self) -> Result<(), PowerError> {
        let saved = self.saved.lock().unwrap().clone();
        self.store.restore(&saved.ok_or_else(|| PowerError::failed("there is no backup"))?);
        Ok(())
    }
}

store_conformance!(in_memory);
