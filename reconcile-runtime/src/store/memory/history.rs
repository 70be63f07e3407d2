//! What happened to one kind, as far back as it is remembered. Pure.
//!
//! A history is a bounded queue of changes, each with what was there before and after it, so that a scoped
//! watch can tell whether an object entered, changed in, or left its scope. Readers are positions into it.

use std::{collections::VecDeque, sync::Arc};

use reconcile_core::{ObjectKey, ObjectMeta, Resource, Revision, store::Unreadable};

/// What is stored under a key. Cheap to clone.
pub(super) enum Held<R> {
    /// An object.
    Readable(Arc<R>),
    /// Something that cannot be read.
    Damaged(Arc<Damaged<R>>),
}

/// Something that cannot be read.
pub(super) struct Damaged<R> {
    /// What readers are told.
    pub(super) item: Unreadable,
    /// The last version that could be read: what a repair brings back.
    pub(super) good: Arc<R>,
}

/// One change.
pub(super) struct Recorded<R> {
    /// The change's own revision.
    pub(super) revision: Revision,
    /// What it happened to.
    pub(super) key: ObjectKey,
    /// What was there before; none if it was created.
    pub(super) before: Option<Held<R>>,
    /// What is there since; none if it was removed.
    pub(super) after: Option<Held<R>>,
}

/// The changes of one kind.
pub(super) struct History<R> {
    /// The newest changes, oldest first; at most `limit`.
    changes: VecDeque<Recorded<R>>,
    /// Changes up to this revision may be missing from `changes`; none after it is (invariant 5).
    forgotten: Revision,
    /// At least one.
    limit: usize,
}

impl<R> History<R> {
    /// An empty history that knows everything after `forgotten`.
    pub(super) fn new(limit: usize, forgotten: Revision) -> Self {
        History { changes: VecDeque::new(), forgotten, limit }
    }

    /// Adds a change, and gives the one that had to go for it, to be dropped outside the lock.
    pub(super) fn push(&mut self, change: Recorded<R>) -> Option<Recorded<R>> {
        let gone = if self.changes.len() >= self.limit { self.changes.pop_front() } else { None };
        if let Some(gone) = &gone {
            self.forgotten = gone.revision;
        }
        self.changes.push_back(change);
        gone
    }

    /// Forgets everything up to `revision`, and gives what was forgotten, to be dropped outside the lock.
    pub(super) fn forget(&mut self, revision: Revision) -> VecDeque<Recorded<R>> {
        self.forgotten = self.forgotten.max(revision);
        let keep = self.changes.partition_point(|change| change.revision <= self.forgotten);
        let kept = self.changes.split_off(keep);
        std::mem::replace(&mut self.changes, kept)
    }

    /// Whether the changes after `position` are all remembered.
    pub(super) fn reaches_back_to(&self, position: Revision) -> bool {
        position >= self.forgotten
    }

    /// At most `limit` changes after `position`, oldest first.
    pub(super) fn after(&self, position: Revision, limit: usize) -> Vec<Recorded<R>> {
        let start = self.changes.partition_point(|change| change.revision <= position);
        self.changes.range(start..).take(limit).cloned().collect()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }
}

impl<R> Held<R> {
    /// The object, if it can be read.
    pub(super) fn readable(&self) -> Option<&Arc<R>> {
        match self {
            Held::Readable(object) => Some(object),
            Held::Damaged(_) => None,
        }
    }
}

impl<R: Resource> Held<R> {
    /// Puts the revision of what is stored into it, wherever it is told. Nobody else holds it yet.
    ///
    /// For an object this calls `meta_mut`: the one piece of user code that may run under the lock.
    pub(super) fn set_revision(&mut self, revision: Revision) {
        const UNSHARED: &str = "what is not stored yet has one holder";
        match self {
            Held::Readable(object) => {
                Arc::get_mut(object).expect(UNSHARED).meta_mut().revision = revision;
            }
            Held::Damaged(damaged) => {
                let item = &mut Arc::get_mut(damaged).expect(UNSHARED).item;
                item.revision = revision;
                if let Some(meta) = &mut item.meta {
                    meta.revision = revision;
                }
            }
        }
    }

    /// The metadata, if that much can be read. Calls into user code: not under the lock.
    pub(super) fn meta(&self) -> Option<&ObjectMeta> {
        match self {
            Held::Readable(object) => Some(object.meta()),
            Held::Damaged(damaged) => damaged.item.meta.as_ref(),
        }
    }
}

// Derived, these would ask for `R: Clone`.
impl<R> Clone for Held<R> {
    fn clone(&self) -> Self {
        match self {
            Held::Readable(object) => Held::Readable(object.clone()),
            Held::Damaged(damaged) => Held::Damaged(damaged.clone()),
        }
    }
}

impl<R> Clone for Recorded<R> {
    fn clone(&self) -> Self {
        Recorded {
            revision: self.revision,
            key: self.key.clone(),
            before: self.before.clone(),
            after: self.after.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: u64) -> Recorded<()> {
        Recorded { revision: Revision(revision), key: ObjectKey::new("x"), before: None, after: None }
    }

    fn revisions(history: &History<()>, position: u64, limit: usize) -> Vec<u64> {
        history.after(Revision(position), limit).iter().map(|change| change.revision.0).collect()
    }

    #[test]
    fn a_reader_gets_what_is_after_its_position_and_no_more_than_it_asked_for() {
        let mut history = History::new(10, Revision(0));
        for revision in [2, 5, 9] {
            assert!(history.push(change(revision)).is_none());
        }
        assert_eq!(revisions(&history, 0, 10), [2, 5, 9]);
        assert_eq!(revisions(&history, 2, 10), [5, 9]);
        assert_eq!(revisions(&history, 3, 1), [5]);
        assert_eq!(revisions(&history, 9, 10), [] as [u64; 0]);
    }

    #[test]
    fn a_full_history_forgets_the_oldest_and_knows_that_it_did() {
        let mut history = History::new(2, Revision(0));
        history.push(change(3));
        history.push(change(4));
        assert!(history.reaches_back_to(Revision(0)));
        let gone = history.push(change(7)).expect("the history was full");
        assert_eq!(gone.revision, Revision(3));
        assert!(!history.reaches_back_to(Revision(2)));
        assert!(history.reaches_back_to(Revision(3)));
        assert_eq!(revisions(&history, 3, 10), [4, 7]);
    }

    #[test]
    fn forgetting_keeps_what_is_newer() {
        let mut history = History::new(10, Revision(0));
        for revision in [2, 5, 9] {
            history.push(change(revision));
        }
        assert_eq!(history.forget(Revision(5)).len(), 2);
        assert!(!history.reaches_back_to(Revision(4)));
        assert_eq!(revisions(&history, 5, 10), [9]);
        assert_eq!(history.forget(Revision(1)).len(), 0);
        assert!(history.reaches_back_to(Revision(5)));
    }
}
