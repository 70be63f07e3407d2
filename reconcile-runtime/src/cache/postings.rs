//! The objects under one value of an index, in key order.
//!
//! Most values have a handful of objects (the children of one owner), a few have very many (all objects of a
//! phase). A sorted vector is the smallest form for the former and quadratic for the latter, so a long list
//! turns into a tree, and stays one.
//!
//! Not here: values, locks, and who decides what belongs here.

use std::{collections::BTreeMap, sync::Arc};

use reconcile_core::ObjectKey;

/// From how many objects on the tree is used. An insert into a vector of 64 pairs moves at most 1.5 KiB, about
/// what a walk down a tree costs.
const LONGEST_VECTOR: usize = 64;

/// Objects in key order.
pub(super) enum Postings<R> {
    Few(Vec<(ObjectKey, Arc<R>)>),
    Many(BTreeMap<ObjectKey, Arc<R>>),
}

impl<R> Postings<R> {
    pub(super) fn one(key: ObjectKey, object: Arc<R>) -> Self {
        Postings::Few(vec![(key, object)])
    }

    /// Holds `object` under `key`; gives back what was there.
    pub(super) fn set(&mut self, key: ObjectKey, object: Arc<R>) -> Option<Arc<R>> {
        match self {
            Postings::Many(tree) => tree.insert(key, object),
            Postings::Few(few) => match few.binary_search_by(|(known, _)| known.cmp(&key)) {
                Ok(at) => few.get_mut(at).map(|(_, known)| std::mem::replace(known, object)),
                Err(at) if few.len() < LONGEST_VECTOR => {
                    few.insert(at, (key, object));
                    None
                }
                Err(_) => {
                    let mut tree: BTreeMap<_, _> = std::mem::take(few).into_iter().collect();
                    tree.insert(key, object);
                    *self = Postings::Many(tree);
                    None
                }
            },
        }
    }

    /// Holds nothing under `key` any more; gives back what was there.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<R>> {
        match self {
            Postings::Many(tree) => tree.remove(key),
            Postings::Few(few) => {
                let at = few.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
                Some(few.remove(at).1)
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Postings::Few(few) => few.is_empty(),
            Postings::Many(tree) => tree.is_empty(),
        }
    }

    pub(super) fn objects(&self) -> Vec<Arc<R>> {
        match self {
            Postings::Few(few) => few.iter().map(|(_, object)| object.clone()).collect(),
            Postings::Many(tree) => tree.values().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn postings_are_a_sorted_map(steps in prop::collection::vec((0_u16..200, any::<bool>()), 0..600)) {
            let mut model = BTreeMap::new();
            let mut postings = Postings::Few(Vec::new());
            for (number, (name, present)) in steps.into_iter().enumerate() {
                let key = ObjectKey::new(&format!("{name:03}"));
                let (expected, got) = if present {
                    (model.insert(key.clone(), number), postings.set(key, Arc::new(number)))
                } else {
                    (model.remove(&key), postings.remove(&key))
                };
                prop_assert_eq!(expected, got.map(|object| *object));
            }
            let objects: Vec<usize> = postings.objects().into_iter().map(|object| *object).collect();
            prop_assert_eq!(objects, model.values().copied().collect::<Vec<_>>());
            prop_assert_eq!(postings.is_empty(), model.is_empty());
        }
    }
}
