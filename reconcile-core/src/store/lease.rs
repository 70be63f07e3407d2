//! Leases: who may write, and until when.
//!
//! Promises asked of a backend: a swap is one compare-and-set; the token is the revision of the last takeover,
//! so it rises with every new holder and stays while one renews; and whoever writes with an older token than
//! the stored one is refused in the same transaction ([`Fence`](super::Fence)).
//!
//! Not here: time. A lease ends when the others have seen no renewal for its duration by their own clocks, which
//! is the runtime's to watch; a store compares no timestamps.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Revision, store::StoreError};

/// What a holder of a lease publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRecord {
    /// Who holds it; none after a release.
    pub holder: Option<String>,
    /// How long the holder may be silent.
    pub duration: Duration,
    /// How often the holder changed.
    pub transitions: u64,
}

impl LeaseRecord {
    /// A record.
    pub fn new(holder: Option<String>, duration: Duration, transitions: u64) -> Self {
        LeaseRecord { holder, duration, transitions }
    }
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseState {
    /// What the holder published.
    pub record: LeaseRecord,
    /// The version of the record, raised by every swap.
    pub revision: Revision,
    /// The fencing token: the revision of the takeover. Stays the same while the holder renews.
    pub token: Revision,
}

impl LeaseState {
    /// A state.
    pub fn new(record: LeaseRecord, revision: Revision, token: Revision) -> Self {
        LeaseState { record, revision, token }
    }
}

/// A store that can hold leases.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// The lease as it is now.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store cannot answer.
    async fn lease(&self, name: &str) -> Result<Option<LeaseState>, StoreError>;

    /// Writes `next` if the stored lease still has the revision `seen` (none: if there is no lease yet).
    ///
    /// The fence key changes in the same transaction, and only when the holder changes.
    ///
    /// # Errors
    ///
    /// `Conflict` if the lease was changed meanwhile, `Indeterminate` if the reply was lost.
    async fn swap(
        &self,
        name: &str,
        seen: Option<Revision>,
        next: LeaseRecord,
    ) -> Result<LeaseState, StoreError>;
}
