//! All objects of one kind: the table, its order, its history, and who waits for its next change. Pure.
//!
//! A hash table finds an object in one look-up, and a B-tree of the same keys gives the order of listings: a
//! page then costs what it holds, wherever it begins, and writes between two pages cost nothing extra. A
//! table sorted when it is listed would need no tree, but would sort again for every page between writes.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    task::Waker,
};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, hash_map::Entry as TableEntry};
use reconcile_core::{ObjectKey, Resource, Revision};

use super::history::{Held, History, Recorded};

/// What is stored under one key.
pub(super) struct Entry<R> {
    /// The revision of what is held: kept beside the object so that comparing it needs no user code.
    pub(super) revision: Revision,
    /// The object, or what is left of it.
    pub(super) held: Held<R>,
}

/// All objects of one kind.
pub(super) struct Kind<R> {
    /// Every object, by key.
    table: HashMap<ObjectKey, Entry<R>, RandomState>,
    /// The keys of `table` in order (invariant 7).
    order: BTreeSet<ObjectKey>,
    /// How `table` came to be what it is.
    history: History<R>,
    /// The revision of the newest change, also of one that `history` has forgotten.
    newest: Revision,
    /// The wakers of watchers that have seen `newest`, by watcher, so that they wake in a fixed order
    /// (invariant 6).
    parked: BTreeMap<u64, Waker>,
}

/// The wakers to wake, outside the lock.
#[derive(Default)]
#[must_use]
pub(super) struct Parked(BTreeMap<u64, Waker>);

impl Parked {
    /// Wakes everybody, in the order of their watches. Not under the lock (invariant 3).
    pub(super) fn wake(self) {
        for waker in self.0.into_values() {
            waker.wake();
        }
    }
}

/// What a critical section leaves to be done after it: drops and wake-ups.
#[must_use]
pub(super) struct After<R> {
    /// The change that the history had to forget.
    forgotten: Option<Recorded<R>>,
    /// Who waited for this change.
    parked: Parked,
}

impl<R> After<R> {
    /// Wakes and drops. Not under the lock.
    pub(super) fn settle(self) {
        self.parked.wake();
        drop(self.forgotten);
    }
}

impl<R: Resource> Kind<R> {
    /// No objects, and none that we know of before `forgotten`: zero if there never was one.
    pub(super) fn new(history: usize, forgotten: Revision) -> Self {
        Kind {
            table: HashMap::default(),
            order: BTreeSet::new(),
            history: History::new(history, forgotten),
            newest: forgotten,
            parked: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Entry<R>> {
        self.table.get(key)
    }

    /// The revision of the newest change.
    pub(super) fn newest(&self) -> Revision {
        self.newest
    }

    pub(super) fn history(&self) -> &History<R> {
        &self.history
    }

    /// Stores something under a key, as a change of its own. `revision` is higher than every one before.
    pub(super) fn put(&mut self, key: &ObjectKey, revision: Revision, held: Held<R>) -> After<R> {
        let (key, before) = match self.table.entry(key.clone()) {
            TableEntry::Occupied(mut occupied) => {
                let key = occupied.key().clone(); // the table's allocation (invariant 7)
                let before = occupied.insert(Entry { revision, held: held.clone() });
                (key, Some(before.held))
            }
            TableEntry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Entry { revision, held: held.clone() });
                self.order.insert(key.clone());
                (key, None)
            }
        };
        self.record(Recorded { revision, key, before, after: Some(held) })
    }

    /// Removes what is under a key, as a change of its own.
    pub(super) fn remove(&mut self, key: &ObjectKey, revision: Revision) -> After<R> {
        let Some((key, entry)) = self.table.remove_entry(key) else {
            return After { forgotten: None, parked: Parked::default() };
        };
        self.order.remove(&key);
        self.record(Recorded { revision, key, before: Some(entry.held), after: None })
    }

    fn record(&mut self, change: Recorded<R>) -> After<R> {
        self.newest = change.revision;
        let forgotten = self.history.push(change);
        After { forgotten, parked: self.take_parked() }
    }

    /// At most `limit` objects after a bound, of one namespace or of all, in key order; and whether there
    /// are more.
    pub(super) fn page(
        &self,
        start: Bound<&ObjectKey>,
        namespace: Option<&str>,
        limit: usize,
    ) -> (Vec<(ObjectKey, Held<R>)>, bool) {
        let first_of_namespace = namespace.map(|namespace| ObjectKey::namespaced(namespace, ""));
        let start = match (start, &first_of_namespace) {
            (Bound::Excluded(after), Some(first)) if after > first => Bound::Excluded(after),
            (_, Some(first)) => Bound::Included(first),
            (start, None) => start,
        };
        let mut keys = self
            .order
            .range::<ObjectKey, _>((start, Bound::Unbounded))
            .take_while(|key| namespace.is_none() || key.namespace() == namespace);
        let mut found = Vec::new();
        for key in keys.by_ref().take(limit) {
            if let Some(entry) = self.table.get(key) {
                found.push((key.clone(), entry.held.clone()));
            }
        }
        (found, keys.next().is_some())
    }

    /// Parks a watcher that has seen `newest`; gives back its older waker, to be dropped outside the lock.
    pub(super) fn park(&mut self, watcher: u64, waker: Waker) -> Option<Waker> {
        self.parked.insert(watcher, waker)
    }

    /// How many watchers are parked.
    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// The watcher is gone; gives back its waker, to be dropped outside the lock.
    pub(super) fn unpark(&mut self, watcher: u64) -> Option<Waker> {
        self.parked.remove(&watcher)
    }
}

/// A kind whose type is not known: what concerns all kinds at once.
pub(super) trait AnyKind: Any + Send + Sync {
    /// The same objects at the same revisions, without history and watchers, in a store at `revision`.
    fn copy(&self, revision: Revision) -> Box<dyn AnyKind>;

    /// The same kind without objects, in a store at `revision`.
    fn emptied(&self, revision: Revision) -> Box<dyn AnyKind>;

    /// Forgets the history; gives what was forgotten, to be dropped outside the lock.
    fn forget(&mut self) -> Box<dyn Any + Send>;

    /// Everybody who waits for a change.
    fn take_parked(&mut self) -> Parked;

    /// How many objects there are.
    fn len(&self) -> usize;

    /// The type of the kind.
    fn resource_type(&self) -> (TypeId, &'static str, &'static str);
}

impl<R: Resource> AnyKind for Kind<R> {
    fn copy(&self, revision: Revision) -> Box<dyn AnyKind> {
        let table = self.table.iter();
        Box::new(Kind::<R> {
            table: table
                .map(|(key, entry)| {
                    (key.clone(), Entry { revision: entry.revision, held: entry.held.clone() })
                })
                .collect(),
            order: self.order.clone(),
            ..Kind::new(self.history.limit(), revision)
        })
    }

    fn emptied(&self, revision: Revision) -> Box<dyn AnyKind> {
        Box::new(Kind::<R>::new(self.history.limit(), revision))
    }

    fn forget(&mut self) -> Box<dyn Any + Send> {
        Box::new(self.history.forget(self.newest))
    }

    fn take_parked(&mut self) -> Parked {
        Parked(std::mem::take(&mut self.parked))
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn resource_type(&self) -> (TypeId, &'static str, &'static str) {
        (TypeId::of::<R>(), R::KIND, std::any::type_name::<R>())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use reconcile_core::{Object, Spec};

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Dot(u32);

    impl Spec for Dot {
        const KIND: &'static str = "Dot";
        type Status = ();
    }

    type Model = BTreeMap<ObjectKey, u32>;

    /// What a page of everything holds, as the model has it.
    fn contents(kind: &Kind<Object<Dot>>) -> Model {
        let (page, more) = kind.page(Bound::Unbounded, None, usize::MAX);
        assert!(!more);
        let value = |held: Held<Object<Dot>>| held.readable().map(|object| object.spec.0);
        page.into_iter().map(|(key, held)| (key, value(held).expect("nothing is damaged"))).collect()
    }

    proptest! {
        /// Puts, removals and forgetting, in any order: table and order hold the same (invariant 7), and the
        /// history leads from every state that it reaches back to, to what is there (invariant 5).
        #[test]
        fn any_run_of_changes_is_what_a_plain_map_holds_and_replays(
            steps in proptest::collection::vec((0_u8..12, 0_u32..6, any::<u32>()), 0..60),
            limit in 1_usize..12,
        ) {
            let mut kind = Kind::<Object<Dot>>::new(limit, Revision(0));
            let mut model = Model::new();
            let mut states = vec![(Revision(0), model.clone())];
            for (index, (step, name, value)) in steps.into_iter().enumerate() {
                let revision = Revision(index as u64 * 2 + 1);
                let namespace = (name % 2 == 0).then_some("even");
                let key = ObjectKey::in_namespace(namespace, &name.to_string());
                match step {
                    0 => drop(kind.forget()),
                    1..5 => {
                        if model.remove(&key).is_some() {
                            kind.remove(&key, revision).settle();
                        }
                    }
                    _ => {
                        model.insert(key.clone(), value);
                        kind.put(&key, revision, Held::Readable(Arc::new(Object::new("x", Dot(value))))).settle();
                    }
                }
                states.push((revision, model.clone()));
                prop_assert_eq!(kind.table.len(), kind.order.len());
                prop_assert_eq!(&contents(&kind), &model);
            }
            for (revision, mut state) in states {
                if !kind.history().reaches_back_to(revision) {
                    continue;
                }
                let mut last = revision;
                for change in kind.history().after(revision, usize::MAX) {
                    prop_assert!(change.revision > last);
                    last = change.revision;
                    let before = change.before.as_ref().and_then(Held::readable).map(|object| object.spec.0);
                    prop_assert_eq!(before, state.get(&change.key).copied());
                    match change.after.as_ref().and_then(Held::readable) {
                        Some(object) => drop(state.insert(change.key, object.spec.0)),
                        None => drop(state.remove(&change.key)),
                    }
                }
                prop_assert_eq!(&state, &model);
            }
            let mut copied = kind.copy(Revision(1_000));
            prop_assert_eq!(copied.len(), model.len());
            prop_assert_eq!(copied.emptied(Revision(1_000)).len(), 0);
            drop(copied.forget());
        }
    }
}
