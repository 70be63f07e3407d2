//! What an incoming state does to one key of a cache. Pure: no lock, no clock, no user code but accessors.
//!
//! One function, [`transition`], takes what is held under a key and what came in, and says what to hold from
//! then on and what to tell the subscribers. Every rule about the order of states is here and nowhere else.
//!
//! # Rules
//!
//! 1. Within an epoch, of two states of a key the one with the higher revision is newer. Older or equal ones
//!    change nothing.
//! 2. What is held from an older epoch (*stale*) is older than everything that comes in.
//! 3. The reflector has brought everything up to its floor; an answer to a write or a live read that is not
//!    above the floor says nothing new, even if nothing is held under its key.
//! 4. A listing is the truth about everything up to its first page's cursor: it beats what is held there, also
//!    tombstones, since only another history could contradict it. What is newer than that cursor, it leaves.
//! 5. A new uid under an old name is a delete and an add; the entry goes from one to the other in one step.
//! 6. A delete whose last state differs from the held one is an update and a delete.
//! 7. An unreadable state keeps the last good version, flagged, unless it is known to be another incarnation.
//!
//! Not here: how the verdict is stored and delivered; see [`Cache`](super::Cache).

use std::sync::Arc;

use reconcile_core::{Resource, Revision, Uid, store::Unreadable};

use super::tombstone::Tombstone;
use crate::change::Change;

/// What a cache holds under a key.
pub(super) struct Held<'a, R> {
    /// The last good version.
    pub(super) object: Option<&'a Arc<R>>,
    /// What is stored there now, if it cannot be read.
    pub(super) flag: Option<&'a Arc<Unreadable>>,
    pub(super) tombstone: Option<&'a Tombstone>,
    /// Whether all of this is of an older epoch (rule 2).
    pub(super) stale: bool,
}

/// What came in for a key.
#[derive(Debug, Clone)]
pub(super) enum Incoming<R> {
    /// In a page of a listing.
    Listed {
        object: Arc<R>,
        listing: Listing,
        /// A held version of the same revision that differs from the listed one: another history.
        contradicts: Option<Arc<R>>,
    },
    /// In a page of a listing, and cannot be read.
    ListedUnreadable { item: Arc<Unreadable>, listing: Listing },
    /// Not in any page of a listing that has ended.
    Missing { cursor: Revision },
    /// From the watch: created or changed.
    Applied(Arc<R>),
    /// From the watch: changed to something that cannot be read.
    Unreadable(Arc<Unreadable>),
    /// From the watch: gone.
    Deleted { revision: Revision, last: Option<Arc<R>> },
    /// The answer to a write or a live read.
    Answer(Arc<R>),
    /// The answer to a delete.
    Removed { revision: Revision, last: Option<Arc<R>> },
    /// A live read found nothing. The incarnation is what was known before the read was sent.
    Absent { uid: Uid, listing: u64 },
}

/// Which listing a state is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    /// Its number.
    pub(super) number: u64,
    /// The cursor of its first page.
    pub(super) cursor: Revision,
}

/// What becomes of one thing that is held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slot<T> {
    Keep,
    Put(T),
    Clear,
}

/// What to tell the subscribers.
#[derive(Debug)]
pub(super) enum News<R> {
    Changed { change: Change<R>, before: Revision, after: Revision },
    Flagged(Arc<R>),
}

/// What becomes of a key.
#[derive(Debug)]
pub(super) struct Verdict<R> {
    pub(super) object: Slot<Arc<R>>,
    pub(super) flag: Slot<Arc<Unreadable>>,
    pub(super) tombstone: Slot<Tombstone>,
    /// In order; the most there can be are a delete, an add and a flag.
    pub(super) news: [Option<News<R>>; 3],
}

impl<R> Verdict<R> {
    fn nothing() -> Self {
        Verdict { object: Slot::Keep, flag: Slot::Keep, tombstone: Slot::Keep, news: [None, None, None] }
    }

    fn tell(&mut self, news: News<R>) {
        if let Some(free) = self.news.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(news);
        }
    }

    fn change(&mut self, change: Change<R>, before: Revision, after: Revision) {
        self.tell(News::Changed { change, before, after });
    }
}

/// No revision is known: nothing was there before, or a delete whose own revision nobody told.
const NONE: Revision = Revision(0);

/// What `incoming` does to what is `held`. `floor` is the revision that the reflector has passed.
///
/// Takes the incoming state by reference, so that it is not dropped here: the caller holds the lock.
pub(super) fn transition<R: Resource>(
    held: &Held<'_, R>,
    incoming: &Incoming<R>,
    floor: Revision,
) -> Verdict<R> {
    match incoming {
        Incoming::Listed { object, listing, contradicts } => {
            match judge_listed(held, Some(&object.meta().uid), object.meta().revision, *listing) {
                Judged::Newer => accept(held, object),
                Judged::Known => match (held.object, contradicts) {
                    (Some(old), Some(seen)) if Arc::ptr_eq(old, seen) => accept(held, object),
                    _ => Verdict::nothing(),
                },
                Judged::Older => Verdict::nothing(),
            }
        }
        Incoming::ListedUnreadable { item, listing } => {
            match judge_listed(held, uid_of(item), item.revision, *listing) {
                Judged::Newer => flag(held, item),
                Judged::Known | Judged::Older => Verdict::nothing(),
            }
        }
        Incoming::Missing { cursor } => missing(held, *cursor),
        Incoming::Applied(object) => apply(held, object),
        Incoming::Unreadable(item) => {
            if is_newer(held, uid_of(item), item.revision, Readable::No) {
                flag(held, item)
            } else {
                Verdict::nothing()
            }
        }
        Incoming::Deleted { revision, last } => delete(held, *revision, last.as_ref()),
        // Rule 3.
        Incoming::Answer(object) if object.meta().revision <= floor => Verdict::nothing(),
        Incoming::Removed { revision, .. } if *revision <= floor => Verdict::nothing(),
        Incoming::Answer(object) => apply(held, object),
        Incoming::Removed { revision, last } => delete(held, *revision, last.as_ref()),
        Incoming::Absent { uid, listing } => absent(held, uid, *listing),
    }
}

fn apply<R: Resource>(held: &Held<'_, R>, object: &Arc<R>) -> Verdict<R> {
    let meta = object.meta();
    if is_newer(held, Some(&meta.uid), meta.revision, Readable::Yes) {
        accept(held, object)
    } else {
        Verdict::nothing()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Readable {
    Yes,
    No,
}

/// Rules 1 and 2, for everything but listings.
fn is_newer<R: Resource>(
    held: &Held<'_, R>,
    uid: Option<&Uid>,
    revision: Revision,
    readable: Readable,
) -> bool {
    if held.stale {
        return true;
    }
    let above_object = held.object.is_none_or(|object| object.meta().revision < revision);
    // What was unreadable at this very revision may be readable now: it is the better news.
    let above_flag = held.flag.is_none_or(|flag| {
        flag.revision < revision || (flag.revision == revision && readable == Readable::Yes)
    });
    let covered = held.tombstone.is_some_and(|tombstone| tombstone.covers(uid, revision));
    above_object && above_flag && !covered
}

enum Judged {
    Newer,
    /// The same incarnation and revision, in whatever epoch: the same object, unless a comparison of their
    /// contents says otherwise.
    Known,
    Older,
}

/// Rules 2 and 4.
fn judge_listed<R: Resource>(
    held: &Held<'_, R>,
    uid: Option<&Uid>,
    revision: Revision,
    listing: Listing,
) -> Judged {
    let same = match (held.object, held.flag) {
        (Some(object), None) => object.meta().revision == revision && uid == Some(&object.meta().uid),
        // What is flagged is no match: it can be read now, or is flagged anew.
        _ => false,
    };
    if same {
        return Judged::Known;
    }
    if held.stale {
        return Judged::Newer;
    }
    let buried = held.tombstone.is_some_and(|tombstone| match tombstone {
        Tombstone::Deleted { revision: deleted } => *deleted > listing.cursor && revision <= *deleted,
        Tombstone::Absent { uid: absent, listing: at } => *at >= listing.number && uid == Some(absent),
    });
    if buried {
        return Judged::Older;
    }
    let older_than = |known: Revision| known > listing.cursor && known > revision;
    if held.object.is_some_and(|object| older_than(object.meta().revision))
        || held.flag.is_some_and(|flag| older_than(flag.revision))
    {
        return Judged::Older;
    }
    Judged::Newer
}

/// A new version is held from now on (rule 5).
fn accept<R: Resource>(held: &Held<'_, R>, object: &Arc<R>) -> Verdict<R> {
    let mut verdict = Verdict::nothing();
    let revision = object.meta().revision;
    match held.object {
        None => verdict.change(Change::Added(object.clone()), NONE, revision),
        Some(old) if old.meta().uid == object.meta().uid => {
            let change = Change::Updated { old: old.clone(), new: object.clone() };
            verdict.change(change, old.meta().revision, revision);
        }
        Some(old) => {
            verdict.change(Change::Deleted(old.clone()), old.meta().revision, NONE);
            verdict.change(Change::Added(object.clone()), NONE, revision);
        }
    }
    if held.flag.is_some() {
        verdict.flag = Slot::Clear;
        verdict.tell(News::Flagged(object.clone()));
    }
    if held.tombstone.is_some() {
        verdict.tombstone = Slot::Clear;
    }
    verdict.object = Slot::Put(object.clone());
    verdict
}

/// Something unreadable is stored there now (rule 7).
fn flag<R: Resource>(held: &Held<'_, R>, item: &Arc<Unreadable>) -> Verdict<R> {
    let mut verdict = Verdict::nothing();
    if let Some(old) = held.object {
        let another = uid_of(item).is_some_and(|uid| *uid != old.meta().uid);
        if another {
            verdict.change(Change::Deleted(old.clone()), old.meta().revision, NONE);
            verdict.object = Slot::Clear;
        } else if held.flag.is_none() {
            verdict.tell(News::Flagged(old.clone()));
        }
    }
    if held.tombstone.is_some() {
        verdict.tombstone = Slot::Clear;
    }
    verdict.flag = Slot::Put(item.clone());
    verdict
}

/// A delete of this revision is known (rule 6).
fn delete<R: Resource>(held: &Held<'_, R>, revision: Revision, last: Option<&Arc<R>>) -> Verdict<R> {
    let mut verdict = Verdict::nothing();
    let newer_held = held.object.is_some_and(|object| object.meta().revision >= revision)
        || held.flag.is_some_and(|flag| flag.revision >= revision);
    let buried_later = held.tombstone.is_some_and(|tombstone| match tombstone {
        Tombstone::Deleted { revision: deleted } => *deleted >= revision,
        Tombstone::Absent { .. } => false,
    });
    if !held.stale && (newer_held || buried_later) {
        return verdict;
    }
    if let Some(old) = held.object {
        let last = last.filter(|last| {
            let (last, old) = (last.meta(), old.meta());
            last.uid == old.uid && (held.stale || last.revision > old.revision)
        });
        let before = old.meta().revision;
        match last {
            Some(last) => {
                let at = last.meta().revision;
                verdict.change(Change::Updated { old: old.clone(), new: last.clone() }, before, at);
                verdict.change(Change::Deleted(last.clone()), at, revision);
            }
            None => verdict.change(Change::Deleted(old.clone()), before, revision),
        }
        verdict.object = Slot::Clear;
    }
    if held.flag.is_some() {
        verdict.flag = Slot::Clear;
    }
    verdict.tombstone = Slot::Put(Tombstone::Deleted { revision });
    verdict
}

/// A listing has ended without the key (rule 4).
fn missing<R: Resource>(held: &Held<'_, R>, cursor: Revision) -> Verdict<R> {
    let mut verdict = Verdict::nothing();
    let covered = |revision: Revision| held.stale || revision <= cursor;
    if held.flag.is_some_and(|flag| !covered(flag.revision)) {
        return verdict; // something newer than the listing is there, though it cannot be read
    }
    if held.flag.is_some() {
        verdict.flag = Slot::Clear;
    }
    if let Some(old) = held.object
        && covered(old.meta().revision)
    {
        verdict.change(Change::Deleted(old.clone()), old.meta().revision, cursor);
        verdict.object = Slot::Clear;
    }
    verdict
}

/// A live read found nothing where the incarnation had been.
fn absent<R: Resource>(held: &Held<'_, R>, uid: &Uid, listing: u64) -> Verdict<R> {
    let mut verdict = Verdict::nothing();
    if let Some(old) = held.object
        && old.meta().uid == *uid
    {
        verdict.change(Change::Deleted(old.clone()), old.meta().revision, NONE);
        verdict.object = Slot::Clear;
        if held.flag.is_some() {
            verdict.flag = Slot::Clear;
        }
        verdict.tombstone = Slot::Put(Tombstone::Absent { uid: uid.clone(), listing });
    }
    verdict
}

fn uid_of(item: &Unreadable) -> Option<&Uid> {
    item.meta.as_ref().map(|meta| &meta.uid)
}

#[cfg(test)]
mod tests;
