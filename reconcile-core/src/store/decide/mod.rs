//! The store rules, once: what a write does to what is stored. Pure.
//!
//! Rules 1 to 3, 5 and 7 of [`store`](super) live here and nowhere else. A backend reads what is stored, asks
//! [`decide`], and commits the answer if what it read is still what is stored; if not, it asks again.
//!
//! Promises: a decision follows from its three arguments alone; what only the store may set (uid, revision,
//! generation, timestamps) and what cannot change (name, namespace) is the same in every decision, whatever
//! the writer or a defaulting hook put there; and a refusal says what is stored, what was asked, and what to do.
//!
//! Not here: fences, which a backend checks before it asks, in the transaction in which it commits; and the
//! revision, which the backend gives. The revision of a [`Decision::Put`] is the one that was stored.

mod refused;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use refused::Refused;

use super::{Preconditions, Propagation, StoreFault, Write, WriteContext};
use crate::{
    Faults, ObjectMeta, Resource, Revision,
    object::{validate_meta, validate_meta_change},
};

/// Keeps a deleted object until its blocking children are gone.
pub const FOREGROUND_FINALIZER: &str = "foreground";
/// Keeps a deleted object until its children have lost this owner.
pub const ORPHAN_FINALIZER: &str = "orphan";

/// What is stored under the key of a write.
#[derive(Debug)]
pub enum Current<'a, R> {
    /// Nothing.
    Absent,
    /// An object. Defaults are applied, as on every read (rule 7), and its metadata carries the stored revision.
    Readable(&'a R),
    /// Something that cannot be read, with its metadata if that much can be (rule 8). The metadata carries the
    /// stored revision.
    Unreadable(Option<&'a ObjectMeta>),
}

/// What a backend has to commit. The revision is the backend's to give.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "one decision a write, taken apart at once; a box would cost more"
)]
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

/// What `write` does to `current`, by the rules.
///
/// A created object keeps the status that its creator gave it; everything the store sets is set here.
///
/// # Errors
///
/// [`Refused`] with the fault of the rule that is broken, and all faults of an invalid object:
///
/// | write | on | fault |
/// |---|---|---|
/// | create | anything stored, readable or not | `AlreadyExists` |
/// | update, status update, delete | nothing | `NotFound` |
/// | update, status update | something unreadable | `Unreadable` |
/// | update, status update | another uid or revision | `Conflict` |
/// | update, status update, delete | given an empty uid | `Invalid` |
/// | create, update | faults in metadata or spec; a changed status; a new finalizer while deleting | `Invalid` |
/// | delete | another uid or revision than the preconditions | `Conflict` |
/// | delete with preconditions, foreground or orphan | something whose metadata is unreadable | `Unreadable` |
///
/// # Examples
///
/// ```
/// use reconcile_core::store::{Current, Decision, Write, WriteContext, decide};
/// use reconcile_core::{Object, Spec, StoreFault, Timestamp, Uid};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Web { replicas: u32 }
/// impl Spec for Web {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
///
/// let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("u1"));
/// let create = Write::Create(Object::new("web", Web { replicas: 3 }));
/// let Ok(Decision::Put(web)) = decide(Current::Absent, &create, &cx) else { panic!("is a good object") };
/// assert_eq!((web.meta.uid.as_str(), web.meta.generation), ("u1", 1));
///
/// // The same again by somebody else: nothing is ever an upsert.
/// let cx = WriteContext::new(Timestamp::UNIX_EPOCH, Uid::from("u2"));
/// let refused = decide(Current::Readable(&web), &create, &cx).unwrap_err();
/// assert_eq!(refused.fault, StoreFault::AlreadyExists);
/// ```
pub fn decide<R: Resource>(
    current: Current<'_, R>,
    write: &Write<R>,
    cx: &WriteContext,
) -> Result<Decision<R>, Refused> {
    match write {
        Write::Create(object) => create(current, object, cx),
        Write::Update(object) => update(present(current)?, object),
        Write::UpdateStatus(object) => update_status(present(current)?, object),
        Write::Delete { only_if, propagation, .. } => delete(current, only_if, *propagation, cx),
    }
}

fn create<R: Resource>(
    current: Current<'_, R>,
    object: &R,
    cx: &WriteContext,
) -> Result<Decision<R>, Refused> {
    match current {
        Current::Absent => {}
        // Rule 9: a retried create whose reply was lost. Only the writer knows the uid, so it was this create.
        Current::Readable(stored) if stored.meta().uid == cx.new_uid && !cx.new_uid.is_empty() => {
            return Ok(Decision::Unchanged);
        }
        Current::Readable(stored) if stored.meta().is_deleting() => {
            return Err(Refused::because(
                StoreFault::AlreadyExists,
                format!("uid {} is being deleted: wait until it is gone", stored.meta().uid),
            ));
        }
        Current::Readable(stored) => {
            return Err(Refused::because(
                StoreFault::AlreadyExists,
                format!("with uid {}: read it and update it", stored.meta().uid),
            ));
        }
        Current::Unreadable(_) => {
            return Err(Refused::because(
                StoreFault::AlreadyExists,
                "what is stored cannot be read: delete it first, or repair it",
            ));
        }
    }
    let fresh = ObjectMeta {
        name: object.meta().name.clone(),
        namespace: object.meta().namespace.clone(),
        uid: cx.new_uid.clone(),
        revision: Revision::default(),
        generation: 1,
        created_at: Some(cx.now),
        ..ObjectMeta::default()
    };
    let new = with_defaults(object.clone(), &fresh);
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
    if !new.spec_eq(stored) {
        new = with_defaults(new, stored.meta());
    }
    let mut faults = Faults::default();
    if object.status() != stored.status() {
        faults.add("status", "an update cannot change the status: use a status update");
    }
    let spec_changed = !new.spec_eq(stored);
    let meta_changed = new.meta() != stored.meta();
    if !spec_changed && !meta_changed {
        refuse_if(faults)?;
        return Ok(Decision::Unchanged);
    }
    if stored.meta().is_deleting() {
        for (index, name) in new.meta().finalizers.iter().enumerate() {
            if !stored.meta().has_finalizer(name) {
                faults.add(
                    format!("metadata.finalizers[{index}]"),
                    format!("cannot add {name:?}: the object is being deleted"),
                );
            }
        }
    }
    if meta_changed {
        validate_meta_change(stored.meta(), new.meta(), &mut faults);
    }
    if spec_changed {
        new.validate(Some(stored), &mut faults);
    }
    refuse_if(faults)?;
    if new.meta().is_deleting() && new.meta().finalizers.is_empty() {
        return Ok(Decision::Remove);
    }
    if spec_changed {
        // Rule 2, also against a defaulting hook that touches the status.
        *new.status_mut() = stored.status().clone();
        let generation = &mut new.meta_mut().generation;
        *generation = generation.saturating_add(1);
        return Ok(Decision::Put(new));
    }
    // Metadata only: everything else is what is stored, also what `spec_eq` does not compare.
    let mut kept = stored.clone();
    *kept.meta_mut() = new.meta().clone();
    Ok(Decision::Put(kept))
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
        Current::Unreadable(None) => return delete_blindly(only_if, propagation),
    };
    only_if_matches(only_if, meta)?;
    let mut marked = meta.clone();
    if let Some(finalizer) = finalizer_of(propagation)
        && !marked.is_deleting() // rule 5: no new finalizers on a deleting object
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
    marked.generation = marked.generation.saturating_add(1);
    Ok(match current {
        Current::Readable(stored) => {
            let mut new = stored.clone();
            *new.meta_mut() = marked;
            Decision::Put(new)
        }
        Current::Absent | Current::Unreadable(_) => Decision::PutMeta(marked),
    })
}

/// Deletes something whose metadata cannot be read: the way out for a person who knows what they delete. A
/// condition cannot be checked and children cannot be waited for, so whoever asks for either is refused.
fn delete_blindly<R>(only_if: &Preconditions, propagation: Propagation) -> Result<Decision<R>, Refused> {
    if *only_if == Preconditions::none() && propagation == Propagation::Background {
        return Ok(Decision::Remove);
    }
    Err(Refused::because(
        StoreFault::Unreadable,
        "its metadata cannot be read: only a background delete without preconditions removes it",
    ))
}

// === the rules that several writes share ===

/// Rules 1 and 8: what an update is about has to be there, and has to be readable.
fn present<R>(current: Current<'_, R>) -> Result<&R, Refused> {
    match current {
        Current::Absent => Err(StoreFault::NotFound.into()),
        Current::Unreadable(_) => Err(StoreFault::Unreadable.into()),
        Current::Readable(stored) => Ok(stored),
    }
}

/// Rule 1: decided on this incarnation and this version. An empty uid names no incarnation.
fn same_version(stored: &ObjectMeta, given: &ObjectMeta) -> Result<(), Refused> {
    let mut faults = Faults::default();
    if given.uid.is_empty() {
        faults.add("metadata.uid", "is empty: read the object first, then change what was read");
    }
    // A backend looks up what it hands over by the write's own key; this catches one that does not.
    if stored.name != given.name {
        faults.add("metadata.name", "cannot change");
    }
    if stored.namespace != given.namespace {
        faults.add("metadata.namespace", "cannot change");
    }
    refuse_if(faults)?;
    if stored.uid != given.uid {
        return Err(other_uid(stored, &given.uid));
    }
    if stored.revision != given.revision {
        return Err(other_revision(stored, given.revision));
    }
    Ok(())
}

fn only_if_matches(only_if: &Preconditions, stored: &ObjectMeta) -> Result<(), Refused> {
    if let Some(uid) = &only_if.uid {
        if uid.is_empty() {
            let mut faults = Faults::default();
            faults.add("preconditions.uid", "is empty: read the object first, then delete what was read");
            refuse_if(faults)?;
        }
        if *uid != stored.uid {
            return Err(other_uid(stored, uid));
        }
    }
    match only_if.revision {
        Some(revision) if revision != stored.revision => Err(other_revision(stored, revision)),
        _ => Ok(()),
    }
}

fn other_uid(stored: &ObjectMeta, given: &crate::Uid) -> Refused {
    Refused::because(
        StoreFault::Conflict,
        format!("uid {given} is gone, uid {} has its name: read it and decide again", stored.uid),
    )
}

fn other_revision(stored: &ObjectMeta, given: Revision) -> Refused {
    Refused::because(
        StoreFault::Conflict,
        format!("decided on revision {given}, stored is {}: read it and decide again", stored.revision),
    )
}

fn finalizer_of(propagation: Propagation) -> Option<&'static str> {
    match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND_FINALIZER),
        Propagation::Orphan => Some(ORPHAN_FINALIZER),
    }
}

/// The object with defaults. They run when the store's fields are set, as they do on reading, and cannot
/// change those.
fn with_defaults<R: Resource>(mut object: R, stored: &ObjectMeta) -> R {
    keep_store_fields(object.meta_mut(), stored);
    object.set_defaults();
    keep_store_fields(object.meta_mut(), stored);
    object
}

/// What only the store may change, and what nobody may.
fn keep_store_fields(new: &mut ObjectMeta, stored: &ObjectMeta) {
    new.name.clone_from(&stored.name);
    new.namespace.clone_from(&stored.namespace);
    new.uid = stored.uid.clone();
    new.revision = stored.revision;
    new.generation = stored.generation;
    new.created_at = stored.created_at;
    new.deleted_at = stored.deleted_at;
}

fn refuse_if(faults: Faults) -> Result<(), Refused> {
    if faults.is_empty() { Ok(()) } else { Err(Refused::invalid(faults)) }
}
