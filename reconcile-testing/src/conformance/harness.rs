//! What a store's author gives to the suite: a fresh store, and what can be done to it from outside.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use reconcile_core::{BoxError, ObjectKey, Store, store::Leases};
use reconcile_runtime::store::Damage;

use super::{Gadget, Probe};

/// Handles on one store, for both kinds.
#[derive(Clone)]
pub struct Stores {
    /// The first kind.
    pub probes: Arc<dyn Store<Probe>>,
    /// The second kind, of the same store.
    pub gadgets: Arc<dyn Store<Gadget>>,
    /// Its leases, if it holds any.
    pub leases: Option<Arc<dyn Leases>>,
}

impl Stores {
    /// A store that holds both kinds, and no leases.
    pub fn of<S: Store<Probe> + Store<Gadget> + Clone>(store: S) -> Self {
        Stores { probes: Arc::new(store.clone()), gadgets: Arc::new(store), leases: None }
    }

    /// With leases.
    #[must_use]
    pub fn with_leases(mut self, leases: impl Leases) -> Self {
        self.leases = Some(Arc::new(leases));
        self
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("guarantees", &self.probes.guarantees()).finish_non_exhaustive()
    }
}

/// What can be done to a store from outside. A harness that cannot has to [say so](Harness::missing).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Power {
    /// [`Harness::compact`].
    Compact,
    /// [`Harness::damage`].
    Damage,
    /// [`Harness::undefault`].
    Undefault,
    /// [`Harness::kill`].
    Kill,
    /// [`Harness::lose_next_reply`].
    LoseReply,
    /// [`Harness::save`] and [`Harness::restore`].
    Restore,
    /// [`Stores::leases`], and a store that refuses old fencing tokens.
    Leases,
}

impl Power {
    /// All of them.
    pub const ALL: [Power; 7] = [
        Power::Compact,
        Power::Damage,
        Power::Undefault,
        Power::Kill,
        Power::LoseReply,
        Power::Restore,
        Power::Leases,
    ];
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Power::Compact => "forgetting its history",
            Power::Damage => "damaging an object",
            Power::Undefault => "storing an object without its defaults",
            Power::Kill => "being killed and started again",
            Power::LoseReply => "losing the reply to a write",
            Power::Restore => "going back to a backup",
            Power::Leases => "leases and fencing",
        })
    }
}

/// A power that a harness does not have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The power.
    pub power: Power,
    /// Why: it is printed with every case that could not run.
    pub why: &'static str,
}

impl Missing {
    /// A missing power, and why it is missing.
    pub fn new(power: Power, why: &'static str) -> Self {
        Missing { power, why }
    }
}

/// Why a power was not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PowerError {
    /// The harness does not have it.
    #[error("the harness does not have this power")]
    NotSupported,
    /// The harness has it, and it failed.
    #[error("the harness failed")]
    Failed(#[source] BoxError),
}

impl PowerError {
    /// The harness has the power, and it failed.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        PowerError::Failed(error.into())
    }
}

/// Which clock the runtime of a case has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockMode {
    /// The system's: for every store that waits for something outside the runtime of the case, such as a
    /// thread, a file or a socket.
    #[default]
    Real,
    /// Tokio's paused clock, so that a store which never answers is found out at once: for stores in memory.
    Paused,
}

/// One fresh, empty store, and what can be done to it from outside.
///
/// The suite asks for a new harness for each case, and for a second one where a case needs two stores: two
/// harnesses must not share a store. All methods are called on the runtime of the case.
///
/// # Examples
///
/// See the [module](crate::conformance).
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The powers that this harness does not have, each with the reason. A case that needs one of them cannot
    /// run, and says so; a power that is neither here nor working fails the cases that need it.
    fn missing(&self) -> Vec<Missing>;

    /// Which clock the runtime of a case has.
    fn clock(&self) -> ClockMode {
        ClockMode::Real
    }

    /// How often a case tries what depends on a race, such as a finalizer beside a delete. More finds rarer
    /// faults; every turn costs some writes.
    fn races(&self) -> usize {
        300
    }

    /// Handles on the store. Asked again, they are other handles on the same store; after a
    /// [`kill`](Harness::kill), on the one that was started again.
    async fn stores(&self) -> Stores;

    /// Forgets the history up to now: a watch from before cannot have what it asks for.
    ///
    /// # Errors
    ///
    /// `NotSupported` unless overridden, as for all powers; `Failed` if it could not be done.
    async fn compact(&self) -> Result<(), PowerError> {
        Err(PowerError::NotSupported)
    }

    /// Replaces the probe under a key by something that cannot be read, as a change of its own.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn damage(&self, key: &ObjectKey, damage: Damage) -> Result<(), PowerError> {
        let _ = (key, damage);
        Err(PowerError::NotSupported)
    }

    /// Takes the `tone` out of the stored probe, as if it had been stored before there was a default for it.
    /// Nothing else changes, not even the revision.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn undefault(&self, key: &ObjectKey) -> Result<(), PowerError> {
        let _ = key;
        Err(PowerError::NotSupported)
    }

    /// Ends the store without notice, as a lost process or a power cut does, and starts it again on what it
    /// had stored.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn kill(&self) -> Result<(), PowerError> {
        Err(PowerError::NotSupported)
    }

    /// Lets the next write of a probe land, and answers it with `Indeterminate`.
    ///
    /// [`LossyReplies`](super::LossyReplies) gives this power to any store.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn lose_next_reply(&self) -> Result<(), PowerError> {
        Err(PowerError::NotSupported)
    }

    /// Takes a backup.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn save(&self) -> Result<(), PowerError> {
        Err(PowerError::NotSupported)
    }

    /// Goes back to the backup, and with it to its revision. Handles stay good.
    ///
    /// # Errors
    ///
    /// As [`Harness::compact`].
    async fn restore(&self) -> Result<(), PowerError> {
        Err(PowerError::NotSupported)
    }
}
