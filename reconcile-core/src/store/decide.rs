//! The store rules, once: what a write does to what is stored. Pure.
//!
//! Rules 1 to 3, 5 and 7 of [`store`](super) live here and nowhere else. A backend reads what is stored, asks
//! [`decide`], and commits the answer if what it read is still what is stored; if not, it asks again.

use super::{Preconditions, Propagation, StoreError, StoreFault, Write, WriteContext};
use crate::{Faults, ObjectMeta, Resource, object::validate_meta};

/// Keeps a deleted object until its blocking children are gone.
pub const FOREGROUND_FINALIZER: &str = "foreground";
/// Keeps a deleted object until its children have lost this owner.
pub const ORPHAN_FINALIZER: &str = "orphan";

/// What is stored under the key of a write.
#[derive(Debug)]
pub enum Current<'a, R> {
    /// Nothing.
    Absent,
    /// An object. Defaults are applied, as on every read (rule 7).
    Readable(&'a R),
    /// Something that cannot be read, with its metadata if that much can be (rule 8).
    Unreadable(Option<&'a ObjectMeta>),
}

/// What a backend has to commit. The revision is the backend's to give.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Decision<R> {
    /// Nothing: what is stored is already as wanted (rule 3).
    Unchanged,
    /// Store this object.
    Put(R),
    /// Store this metadata beside content that cannot be read.
    PutMeta(ObjectMeta),
    /// Remove the object.
    Remove,
}

/// A write that is against the rules.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refused {
    /// Which rule.
    pub fault: StoreFault,
    /// What is wrong with the object, if it is `Invalid`.
    pub faults: Faults,
}

impl Refused {
    /// As the error of an operation.
    pub fn into_error<R: Resource>(self, write: &Write<R>) -> StoreError {
        StoreError::new(write.operation(), R::KIND, &write.key(), self.fault).with_faults(self.faults)
    }
}

impl From<StoreFault> for Refused {
    fn from(fault: StoreFault) -> Self {
        Refused { fault, faults: Faults::default() }
    }
}

/// What `write` does to `current`, by the rules.
///
/// # Errors
///
/// [`Refused`] with the fault of the rule that is broken, and all faults of an invalid object.
pub fn decide<R: Resource>(
    current: Current<'_, R>,
    write: &Write<R>,
    cx: &WriteContext,
) -> Result<Decision<R>, Refused> {
    match write {
        Write::Create(object) => create(current, object, cx),
        Write::Update(object) => match current {
            Current::Absent => Err(StoreFault::NotFound.into()),
            Current::Unreadable(_) => Err(StoreFault::Unreadable.into()),
            Current::Readable(stored) => update(stored, object),
        },
        Write::UpdateStatus(object) => match current {
            Current::Absent => Err(StoreFault::NotFound.into()),
            Current::Unreadable(_) => Err(StoreFault::Unreadable.into()),
            Current::Readable(stored) => update_status(stored, object),
        },
        Write::Delete { only_if, propagation, .. } => delete(current, only_if, *propagation, cx),
    }
}

fn create<R: Resource>(
    current: Current<'_, R>,
    object: &R,
    cx: &WriteContext,
) -> Result<Decision<R>, Refused> {
    if let Current::Readable(stored) = current
        && stored.meta().uid == cx.new_uid
        && !cx.new_uid.is_empty()
    {
        return Ok(Decision::Unchanged); // rule 9: a retried create whose reply was lost
    }
    if !matches!(current, Current::Absent) {
        return Err(StoreFault::AlreadyExists.into());
    }
    let mut new = object.clone();
    new.set_defaults();
    let meta = new.meta_mut();
    meta.uid = cx.new_uid.clone();
    meta.generation = 1;
    meta.created_at = Some(cx.now);
    meta.deleted_at = None;
    let mut faults = Faults::default();
    if cx.new_uid.is_empty() {
        faults.add("metadata.uid", "the writer gave no uid for the new object");
    }
    validate_meta(new.meta(), &mut faults);
    new.validate(None, &mut faults);
    refuse_if(faults)?;
    Ok(Decision::Put(new))
}

fn update<R: Resource>(stored: &R, object: &R) -> Result<Decision<R>, Refused> {
    same_version(stored.meta(), object.meta())?;
    let mut new = object.clone();
    keep_store_fields(new.meta_mut(), stored.meta());
    let mut faults = Faults::default();
    if object.status() != stored.status() {
        faults.add("status", "an update cannot change the status: use a status update");
    }
    if !new.spec_eq(stored) {
        new.set_defaults();
    }
    let spec_changed = !new.spec_eq(stored);
    let meta_changed = new.meta() != stored.meta();
    if !spec_changed && !meta_changed {
        refuse_if(faults)?;
        return Ok(Decision::Unchanged);
    }
    if stored.meta().is_deleting() {
        let added = new.meta().finalizers.iter().filter(|name| !stored.meta().has_finalizer(name));
        for name in added {
            faults.add("metadata.finalizers", format!("cannot add {name:?}: the object is being deleted"));
        }
    }
    if meta_changed {
        validate_meta(new.meta(), &mut faults);
    }
    if spec_changed {
        new.validate(Some(stored), &mut faults);
        new.meta_mut().generation = stored.meta().generation + 1;
    }
    refuse_if(faults)?;
    if new.meta().is_deleting() && new.meta().finalizers.is_empty() {
        return Ok(Decision::Remove);
    }
    Ok(Decision::Put(new))
}

fn update_status<R: Resource>(stored: &R, object: &R) -> Result<Decision<R>, Refused> {
    same_version(stored.meta(), object.meta())?;
    if object.status() == stored.status() {
        return Ok(Decision::Unchanged);
    }
    let mut new = stored.clone();
    *new.status_mut() = object.status().clone();
    Ok(Decision::Put(new))
}

fn delete<R: Resource>(
    current: Current<'_, R>,
    only_if: &Preconditions,
    propagation: Propagation,
    cx: &WriteContext,
) -> Result<Decision<R>, Refused> {
    let meta = match &current {
        Current::Absent => return Err(StoreFault::NotFound.into()),
        Current::Readable(stored) => stored.meta(),
        Current::Unreadable(Some(meta)) => meta,
        Current::Unreadable(None) if *only_if == Preconditions::none() => return Ok(Decision::Remove),
        Current::Unreadable(None) => return Err(StoreFault::Unreadable.into()),
    };
    let wrong_uid = only_if.uid.as_ref().is_some_and(|uid| *uid != meta.uid);
    let wrong_revision = only_if.revision.is_some_and(|revision| revision != meta.revision);
    if wrong_uid || wrong_revision {
        return Err(StoreFault::Conflict.into());
    }
    let mut marked = meta.clone();
    let finalizer = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND_FINALIZER),
        Propagation::Orphan => Some(ORPHAN_FINALIZER),
    };
    if !marked.is_deleting()
        && let Some(finalizer) = finalizer
        && !marked.has_finalizer(finalizer)
    {
        marked.finalizers.push(finalizer.to_owned());
    }
    if marked.finalizers.is_empty() {
        return Ok(Decision::Remove);
    }
    if marked.is_deleting() {
        return Ok(Decision::Unchanged);
    }
    marked.deleted_at = Some(cx.now);
    marked.generation += 1;
    Ok(match current {
        Current::Readable(stored) => {
            let mut new = stored.clone();
            *new.meta_mut() = marked;
            Decision::Put(new)
        }
        _ => Decision::PutMeta(marked),
    })
}

/// Rule 1: decided on this incarnation and this version. An empty uid names no incarnation.
fn same_version(stored: &ObjectMeta, given: &ObjectMeta) -> Result<(), Refused> {
    if given.uid.is_empty() {
        let mut faults = Faults::default();
        faults.add("metadata.uid", "is empty: read the object first, then change what was read");
        return Err(Refused { fault: StoreFault::Invalid, faults });
    }
    if stored.uid != given.uid || stored.revision != given.revision {
        return Err(StoreFault::Conflict.into());
    }
    Ok(())
}

/// What only the store may change.
fn keep_store_fields(new: &mut ObjectMeta, stored: &ObjectMeta) {
    new.uid = stored.uid.clone();
    new.revision = stored.revision;
    new.generation = stored.generation;
    new.created_at = stored.created_at;
    new.deleted_at = stored.deleted_at;
}

fn refuse_if(faults: Faults) -> Result<(), Refused> {
    if faults.is_empty() { Ok(()) } else { Err(Refused { fault: StoreFault::Invalid, faults }) }
}
