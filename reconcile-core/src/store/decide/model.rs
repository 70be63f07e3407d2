//! Random writes against a store of one map: what must hold after any sequence of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Object, ObjectKey, Spec, Timestamp, Uid};

#[derive(Clone, Debug, PartialEq)]
struct Size(u8);

/// What the default makes of zero.
const DEFAULT: u8 = 1;
/// Stored only by a store that is older than this rule.
const FORBIDDEN: u8 = 3;

impl Spec for Size {
    const KIND: &'static str = "Sized";
    type Status = u8;

    fn set_defaults(&mut self, _meta: &ObjectMeta) {
        if self.0 == 0 {
            self.0 = DEFAULT;
        }
    }

    fn validate(&self, _meta: &ObjectMeta, _old: Option<&Self>, faults: &mut Faults) {
        if self.0 == FORBIDDEN {
            faults.add("spec", "must not be three");
        }
    }
}

type Sized = Object<Size>;

/// A change of the copy that a writer holds.
#[derive(Clone, Debug)]
enum Edit {
    Size(u8),
    Status(u8),
    Finalizers(Vec<u8>),
    Label(u8),
    /// Something that only the store may set.
    Generation(u64),
    NoUid,
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        name: u8,
        size: u8,
        retried: Option<usize>,
    },
    /// Decided on a version from the history, old or new.
    Update {
        name: u8,
        version: usize,
        edits: Vec<Edit>,
        status: bool,
    },
    Delete {
        name: u8,
        version: Option<usize>,
        propagation: Propagation,
    },
    /// The backend's bytes rot, or a rule becomes stricter.
    Forbid {
        name: u8,
    },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0u8..5).prop_map(Edit::Size),
        (0u8..3).prop_map(Edit::Status),
        prop::collection::vec(0u8..3, 0..3).prop_map(Edit::Finalizers),
        (0u8..3).prop_map(Edit::Label),
        any::<u64>().prop_map(Edit::Generation),
        Just(Edit::NoUid),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0u8..2;
    prop_oneof![
        3 => (name.clone(), 0u8..5, prop::option::weighted(0.3, 0usize..4))
            .prop_map(|(name, size, retried)| Step::Create { name, size, retried }),
        6 => (name.clone(), 0usize..3, prop::collection::vec(edit(), 0..3), any::<bool>())
            .prop_map(|(name, version, edits, status)| Step::Update { name, version, edits, status }),
        2 => (
            name.clone(),
            prop::option::of(0usize..3),
            prop_oneof![
                Just(Propagation::Background),
                Just(Propagation::Foreground),
                Just(Propagation::Orphan)
            ],
        )
            .prop_map(|(name, version, propagation)| Step::Delete { name, version, propagation }),
        1 => name.prop_map(|name| Step::Forbid { name }),
    ]
}

/// A store as small as it can be, and every version it ever held.
#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectKey, Sized>,
    history: Vec<Sized>,
    revision: u64,
    created: u64,
}

fn key(name: u8) -> ObjectKey {
    ObjectKey::new(&format!("object-{name}"))
}

impl Model {
    fn commit(&mut self, mut object: Sized) {
        self.revision += 1;
        object.meta.revision = Revision(self.revision);
        self.history.push(object.clone());
        self.objects.insert(object.key(), object);
    }

    /// A version of the name, `back` steps before the last.
    fn version(&self, name: u8, back: usize) -> Option<Sized> {
        self.history.iter().rev().filter(|object| object.key() == key(name)).nth(back).cloned()
    }

    fn write(&mut self, step: &Step) -> Option<(Write<Sized>, Uid)> {
        let fresh = Uid::from(format!("uid-{}", self.created));
        Some(match step {
            Step::Create { name, size, retried } => {
                let uid = retried.and_then(|back| self.version(*name, back)).map(|object| object.meta.uid);
                let object = Object::new(key(*name).name(), Size(*size));
                (Write::Create(object), uid.unwrap_or(fresh))
            }
            Step::Update { name, version, edits, status } => {
                let mut object = self.version(*name, *version)?;
                for edit in edits {
                    apply(&mut object, edit);
                }
                (if *status { Write::UpdateStatus(object) } else { Write::Update(object) }, fresh)
            }
            Step::Delete { name, version, propagation } => {
                let mut only_if = Preconditions::none();
                if let Some(back) = version {
                    let object = self.version(*name, *back)?;
                    only_if = Preconditions::uid(object.meta.uid).revision(object.meta.revision);
                }
                (Write::Delete { key: key(*name), only_if, propagation: *propagation }, fresh)
            }
            Step::Forbid { name } => {
                let mut object = self.objects.get(&key(*name))?.clone();
                object.spec = Size(FORBIDDEN);
                object.meta.generation += 1;
                self.commit(object);
                return None;
            }
        })
    }
}

fn apply(object: &mut Sized, edit: &Edit) {
    match edit {
        Edit::Size(size) => object.spec = Size(*size),
        Edit::Status(status) => object.status = *status,
        Edit::Finalizers(names) => object.meta.finalizers = names.iter().map(|n| format!("f{n}")).collect(),
        Edit::Label(value) => drop(object.meta.labels.insert("app".into(), value.to_string())),
        Edit::Generation(generation) => object.meta.generation = *generation,
        Edit::NoUid => object.meta.uid = Uid::default(),
    }
}

/// What must hold between what was stored and what is put in its place.
fn check_put(before: Option<&Sized>, write: &Write<Sized>, after: &Sized) -> Result<(), TestCaseError> {
    prop_assert_eq!(after.key(), write.key());
    prop_assert!(!after.meta.uid.is_empty());
    prop_assert!(
        !after.meta.is_deleting() || !after.meta.finalizers.is_empty(),
        "deleting, and nothing holds it"
    );
    let Some(before) = before else {
        prop_assert!(matches!(write, Write::Create(_)), "an upsert");
        prop_assert_eq!(after.meta.generation, 1);
        prop_assert!(after.spec.0 != 0 && after.spec.0 != FORBIDDEN);
        return Ok(());
    };
    prop_assert!(!matches!(write, Write::Create(_)), "a create over an object");
    prop_assert_ne!(before, after, "effective, and nothing changed");
    prop_assert_eq!(&before.meta.uid, &after.meta.uid);
    prop_assert_eq!(before.meta.created_at, after.meta.created_at);
    prop_assert_eq!(before.meta.revision, after.meta.revision, "the revision is the backend's to give");
    let spec_changed = before.spec != after.spec;
    let marked = !before.meta.is_deleting() && after.meta.is_deleting();
    prop_assert!(before.meta.is_deleting() <= after.meta.is_deleting(), "came back to life");
    prop_assert_eq!(after.meta.generation - before.meta.generation, u64::from(spec_changed || marked));
    prop_assert!(!spec_changed || (after.spec.0 != 0 && after.spec.0 != FORBIDDEN));
    let delete = matches!(write, Write::Delete { .. });
    prop_assert_eq!(marked, delete);
    prop_assert_eq!(before.status != after.status, matches!(write, Write::UpdateStatus(_)));
    if before.meta.is_deleting() {
        prop_assert!(after.meta.finalizers.iter().all(|name| before.meta.has_finalizer(name)));
    }
    if matches!(write, Write::UpdateStatus(_)) {
        prop_assert_eq!((&before.meta, &before.spec), (&after.meta, &after.spec));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_writes_keeps_the_rules(steps in prop::collection::vec(step(), 1..40)) {
        let mut model = Model::default();
        for (second, step) in steps.iter().enumerate() {
            let Some((write, uid)) = model.write(step) else { continue };
            let before = model.objects.get(&write.key()).cloned();
            let current = before.as_ref().map_or(Current::Absent, Current::Readable);
            let cx = WriteContext::new(Timestamp::from_second(second as i64).unwrap(), uid);
            match decide(current, &write, &cx) {
                Ok(Decision::Unchanged) => prop_assert!(before.is_some(), "nothing is unchanged"),
                Ok(Decision::Put(after)) => {
                    check_put(before.as_ref(), &write, &after)?;
                    model.created += u64::from(before.is_none());
                    model.commit(after);
                    // The very same write again is refused, or changes nothing: never a second effect.
                    let now = model.objects.get(&write.key()).map_or(Current::Absent, Current::Readable);
                    let again = decide(now, &write, &cx);
                    prop_assert!(matches!(again, Err(_) | Ok(Decision::Unchanged)), "{:?}", again);
                }
                Ok(Decision::Remove) => {
                    let before = before.expect("only what is there is removed");
                    let last = matches!(&write, Write::Update(new) if before.meta.is_deleting() && new.meta.finalizers.is_empty());
                    let unheld = before.meta.finalizers.is_empty() && matches!(&write, Write::Delete { .. });
                    prop_assert!(last || unheld);
                    model.revision += 1;
                    model.objects.remove(&write.key());
                }
                Ok(Decision::PutMeta(_)) => prop_assert!(false, "nothing here is unreadable"),
                Err(refused) => {
                    prop_assert_eq!(refused.fault == StoreFault::Invalid, !refused.faults.is_empty());
                    let create = matches!(&write, Write::Create(_));
                    prop_assert_eq!(refused.fault == StoreFault::NotFound, before.is_none() && !create);
                }
            }
        }
    }
}
