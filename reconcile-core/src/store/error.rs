//! What a store answers when it does not do what it was asked for.
//!
//! Promises: an error names the operation, the kind and the object; its class is reachable by walking
//! `source()`, since the fault is a node of the chain; and `Display` prints one level.
//!
//! Not here: what a backend itself says. It goes into [`because`](StoreError::because) as text, so that a
//! backend's types never appear in a signature.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::{Faults, ObjectKey, Retry};

/// What went wrong with an operation on a store. A node of every [`StoreError`]'s chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFault {
    /// There is no such object.
    NotFound,
    /// There is already an object of that key.
    AlreadyExists,
    /// The object is not the version, or not the incarnation, that the write was decided on.
    Conflict,
    /// The changes or the page asked for are no longer, or not in this history: list again.
    Expired,
    /// The object breaks a rule; the faults say which.
    Invalid,
    /// The store cannot answer now.
    Unavailable,
    /// Something is stored there that cannot be read.
    Unreadable,
    /// The reply was lost: the write may have landed.
    Indeterminate,
    /// The writer's term is over.
    Fenced,
    /// The object is larger than the store takes.
    TooLarge,
    /// Store I/O was polled inside a mapper, filter or index function.
    Reentrant,
}

impl StoreFault {
    /// The class of retry that helps.
    pub fn retry(&self) -> Retry {
        match self {
            StoreFault::NotFound | StoreFault::AlreadyExists | StoreFault::Conflict => Retry::Conflict,
            StoreFault::Invalid | StoreFault::TooLarge | StoreFault::Reentrant => Retry::Never,
            StoreFault::Fenced => Retry::NextTerm,
            StoreFault::Expired
            | StoreFault::Unavailable
            | StoreFault::Unreadable
            | StoreFault::Indeterminate => Retry::Backoff,
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreFault::NotFound => "there is no such object",
            StoreFault::AlreadyExists => "the object already exists",
            StoreFault::Conflict => "the object was changed meanwhile",
            StoreFault::Expired => "the history asked for is gone, list again",
            StoreFault::Invalid => "the object is invalid",
            StoreFault::Unavailable => "the store cannot answer now",
            StoreFault::Unreadable => "what is stored cannot be read",
            StoreFault::Indeterminate => "the reply was lost, the write may have landed",
            StoreFault::Fenced => "the writer is no longer the leader",
            StoreFault::TooLarge => "the object is too large for the store",
            StoreFault::Reentrant => "a mapper, filter or index function must not use the store",
        })
    }
}

impl StdError for StoreFault {}

/// An operation on a store failed: which, on what, and why. Cheap to clone.
///
/// # Examples
///
/// ```
/// use reconcile_core::{ObjectKey, StoreError, StoreFault};
///
/// let error = StoreError::new("update", "Web", &ObjectKey::namespaced("default", "web"), StoreFault::Conflict);
/// assert_eq!(error.to_string(), "cannot update Web default/web");
/// assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the object was changed meanwhile");
/// ```
#[derive(Debug, Clone)]
pub struct StoreError {
    /// A verb that goes in front of `kind`.
    operation: &'static str,
    /// The kind that `key` is a name in.
    kind: &'static str,
    /// None where the operation is about the whole kind.
    key: Option<ObjectKey>,
    /// The next node of the chain; it has the class.
    fault: StoreFault,
    /// Printed last, behind `faults`.
    detail: Option<Arc<str>>,
    /// Empty unless `fault` is `Invalid`.
    faults: Faults,
}

impl StoreError {
    /// An operation on one object failed.
    pub fn new(operation: &'static str, kind: &'static str, key: &ObjectKey, fault: StoreFault) -> Self {
        StoreError { key: Some(key.clone()), ..StoreError::of_kind(operation, kind, fault) }
    }

    /// An operation on a whole kind failed, such as a list or a watch.
    pub fn of_kind(operation: &'static str, kind: &'static str, fault: StoreFault) -> Self {
        StoreError { operation, kind, key: None, fault, detail: None, faults: Faults::default() }
    }

    /// Adds what the backend said, or what to do about it.
    #[must_use]
    pub fn because(mut self, detail: impl Into<Arc<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the faults of an invalid object.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What went wrong.
    pub fn fault(&self) -> StoreFault {
        self.fault
    }

    /// What was asked for: `get`, `list`, `watch`, `create`, `update`, `update status`, `delete`.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The kind of object.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The object, if it was about one.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.key.as_ref()
    }

    /// What is wrong with the object, if the fault is `Invalid`.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.operation, self.kind)?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        if !self.faults.is_empty() {
            write!(f, ": {}", self.faults)?;
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.fault)
    }
}
