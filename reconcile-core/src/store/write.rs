//! Writing to a store: what is asked for, under which conditions, and what came of it.
//!
//! Promises: a write carries everything that its decision needs beside what is stored, time and the new uid
//! included, so that a store owns no clock and no randomness; and an answer always says which state came of it.
//!
//! Not here: the rules, which are in [`decide`](super::decide).

use std::{fmt, sync::Arc};

use super::Unreadable;
use crate::{ObjectKey, Resource, Revision, Timestamp, Uid};

/// What must still be true for a delete.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Revision, Uid, store::Preconditions};
///
/// let this_very_version = Preconditions::uid(Uid::from("u1")).revision(Revision(7));
/// assert_eq!(this_very_version.revision, Some(Revision(7)));
/// assert_eq!(Preconditions::none(), Preconditions::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preconditions {
    /// This incarnation.
    pub uid: Option<Uid>,
    /// This version.
    pub revision: Option<Revision>,
}

impl Preconditions {
    /// No conditions: delete whatever is there.
    pub fn none() -> Self {
        Preconditions::default()
    }

    /// This incarnation, whatever its version.
    pub fn uid(uid: Uid) -> Self {
        Preconditions { uid: Some(uid), revision: None }
    }

    /// Also this version.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }
}

/// What happens to the children of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Propagation {
    /// The object goes at once; its children are collected afterwards.
    #[default]
    Background,
    /// The object stays, marked, until its blocking children are gone.
    Foreground,
    /// The children lose this owner and stay.
    Orphan,
}

/// A write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write<R> {
    /// A new object.
    Create(R),
    /// Spec and metadata of an object, decided on the uid and revision it carries.
    Update(R),
    /// The status of an object, decided on the uid and revision it carries.
    UpdateStatus(R),
    /// Delete, or mark for deletion if there are finalizers.
    Delete {
        /// The object.
        key: ObjectKey,
        /// What must still be true.
        only_if: Preconditions,
        /// What happens to the children.
        propagation: Propagation,
    },
}

impl<R: Resource> Write<R> {
    /// The key that is written.
    pub fn key(&self) -> ObjectKey {
        match self {
            Write::Create(object) | Write::Update(object) | Write::UpdateStatus(object) => object.key(),
            Write::Delete { key, .. } => key.clone(),
        }
    }

    /// The operation's name, as errors say it.
    pub fn operation(&self) -> &'static str {
        match self {
            Write::Create(_) => "create",
            Write::Update(_) => "update",
            Write::UpdateStatus(_) => "update status of",
            Write::Delete { .. } => "delete",
        }
    }
}

/// What came of a write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Written<R> {
    /// The object as it is now stored.
    Stored(Arc<R>),
    /// Nothing would have changed: the object as it was and is (rule 3).
    Unchanged(Arc<R>),
    /// Something that cannot be read is marked for deletion, and stays until its finalizers are gone (rule 8).
    Marked(Arc<Unreadable>),
    /// The object is gone.
    Removed {
        /// Its last committed state, if it could be read.
        last: Option<Arc<R>>,
        /// The delete's own revision.
        revision: Revision,
    },
}

impl<R> Written<R> {
    /// The object that is stored now, if there is one that can be read.
    pub fn object(&self) -> Option<&Arc<R>> {
        match self {
            Written::Stored(object) | Written::Unchanged(object) => Some(object),
            Written::Marked(_) | Written::Removed { .. } => None,
        }
    }
}

/// The right to write of one term of a lease: a store refuses it once another term has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fence {
    /// The lease.
    pub lease: Arc<str>,
    /// The term.
    pub token: Revision,
}

impl Fence {
    /// A fence.
    pub fn new(lease: impl Into<Arc<str>>, token: Revision) -> Self {
        Fence { lease: lease.into(), token }
    }
}

/// What a store needs for a write and has no source of: time, and a new uid.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteContext {
    /// The writer's wall time.
    pub now: Timestamp,
    /// The uid of an object that is created.
    pub new_uid: Uid,
    /// The writer's term, if it writes as a leader.
    pub fence: Option<Fence>,
}

impl WriteContext {
    /// A context without a fence.
    pub fn new(now: Timestamp, new_uid: Uid) -> Self {
        WriteContext { now, new_uid, fence: None }
    }

    /// The same with a fence.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

impl fmt::Display for Propagation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Propagation::Background => "background",
            Propagation::Foreground => "foreground",
            Propagation::Orphan => "orphan",
        })
    }
}
