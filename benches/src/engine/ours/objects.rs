//! Our synthetic objects: as many strings and maps as the peer's, so that making one costs about the same.

use std::{collections::BTreeMap, sync::Arc};

use reconcile_runtime::core::{Object, ObjectKey, Revision, Spec, Uid};

use super::super::{Change, Held, Objects, Part, names};

/// What the user wants: a map of text, like the data of a config map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThingSpec {
    pub(super) data: BTreeMap<String, String>,
}

impl ThingSpec {
    pub(super) fn at(revision: u64) -> Self {
        ThingSpec { data: [(String::from("key"), names::numbered("value-", revision, 1))].into() }
    }
}

/// What is seen of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ThingStatus {
    pub(super) seen: u64,
}

impl Spec for ThingSpec {
    const KIND: &'static str = "Thing";
    type Status = ThingStatus;
}

pub(super) type Thing = Object<ThingSpec>;

/// The generation of an object whose spec never changed.
const FIRST_GENERATION: u64 = 1;

pub(super) fn key(id: u32) -> ObjectKey {
    ObjectKey::namespaced(&names::namespace(id), &names::name(id))
}

/// An object as somebody creates it: its identity is the store's to give.
pub(super) fn draft(id: u32) -> Thing {
    Object::new(names::name(id), ThingSpec::at(0)).namespace(names::namespace(id)).label("app", "bench")
}

/// An object as a store has it after a change. A change of the status leaves the spec as it was listed: no
/// suite mixes the two on one object.
pub(super) fn stored(change: Change, revision: u64) -> Thing {
    let id = change.id;
    let (generation, spec, status) = match change.part {
        Part::Spec => (revision, ThingSpec::at(revision), ThingStatus::default()),
        Part::Status | Part::Deleted => {
            (FIRST_GENERATION, ThingSpec::at(revision_listed(id)), ThingStatus { seen: revision })
        }
    };
    let mut thing = Object::new(names::name(id), spec).namespace(names::namespace(id)).label("app", "bench");
    thing.meta.uid = names::uid(id, |uid| Uid::from(uid));
    thing.meta.revision = Revision(revision);
    thing.meta.generation = generation;
    thing.status = status;
    thing
}

/// An object as it is listed.
pub(super) fn listed(id: u32) -> Thing {
    let mut thing = stored(Change::spec(id), revision_listed(id));
    thing.meta.generation = FIRST_GENERATION;
    thing
}

/// Revisions start at one: zero is the revision of nothing.
pub(super) fn revision_listed(id: u32) -> u64 {
    u64::from(id) + 1
}

pub(in super::super) fn bare(objects: u32) -> Box<dyn Held> {
    Objects::boxed(objects, move |id, version| match version {
        0 => listed(id),
        _ => stored(Change::spec(id), u64::from(version) * u64::from(objects) + revision_listed(id)),
    })
}

pub(in super::super) fn build(change: Change, revision: u64) {
    std::hint::black_box(Arc::new(stored(change, revision)));
}
