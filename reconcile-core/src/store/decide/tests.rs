//! The rules as a table: each row is what is stored, what is written, and what has to come of it.

use std::collections::BTreeMap;

use super::*;
use crate::{ObjectKey, OwnerReference, Timestamp, Uid, store::Fence};

/// A kind with everything that decides: a default, a rule, a status, and a field that `spec_eq` ignores.
#[derive(Clone, Debug, PartialEq)]
struct Web {
    meta: ObjectMeta,
    replicas: u32,
    /// Empty becomes `nginx`.
    image: String,
    /// Not part of the wanted state.
    cache: u32,
    status: u32,
}

const FORBIDDEN: u32 = 13;

impl Resource for Web {
    const KIND: &'static str = "Web";
    type Status = u32;

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn status(&self) -> &u32 {
        &self.status
    }

    fn status_mut(&mut self) -> &mut u32 {
        &mut self.status
    }

    fn spec_eq(&self, other: &Self) -> bool {
        (self.replicas, &self.image) == (other.replicas, &other.image)
    }

    fn set_defaults(&mut self) {
        if self.image.is_empty() {
            self.image = "nginx".into();
            // The hook sees the store's fields as they will be stored.
            self.cache = u32::try_from(self.meta.generation).unwrap();
            // And does what it must not.
            self.meta.uid = Uid::from("from the hook");
            self.meta.name = "from-the-hook".into();
            self.meta.generation = 99;
            self.status += 1000;
        }
    }

    fn validate(&self, old: Option<&Self>, faults: &mut Faults) {
        if self.replicas == FORBIDDEN {
            faults.add("spec.replicas", "must not be thirteen");
        }
        if self.image.contains(' ') {
            faults.add("spec.image", "must not contain white space");
        }
        if old.is_some_and(|old| old.image != "nginx" && self.image != old.image) {
            faults.add("spec.image", "cannot change");
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cx() -> WriteContext {
    WriteContext::new(at(100), Uid::from("new"))
}

/// What a person would write.
fn typed() -> Web {
    Web { meta: ObjectMeta::new("web"), replicas: 3, image: String::new(), cache: 0, status: 0 }
}

/// What is stored: revision 5, generation 2.
fn stored() -> Web {
    let mut web = typed();
    web.image = "nginx".into();
    web.status = 7;
    web.cache = 1;
    web.meta.uid = Uid::from("old");
    web.meta.revision = Revision(5);
    web.meta.generation = 2;
    web.meta.created_at = Some(at(1));
    web.meta.labels = BTreeMap::from([("app".into(), "web".into())]);
    web
}

fn with(base: Web, change: impl FnOnce(&mut Web)) -> Web {
    let mut web = base;
    change(&mut web);
    web
}

fn deleting(finalizers: &[&str]) -> Web {
    with(stored(), |web| {
        web.meta.deleted_at = Some(at(50));
        web.meta.finalizers = finalizers.iter().map(ToString::to_string).collect();
    })
}

/// What is stored, as data.
#[derive(Debug)]
enum Now {
    Absent,
    Is(Web),
    Broken(Option<ObjectMeta>),
}

/// What has to come of a write.
#[derive(Debug)]
enum Then {
    Unchanged,
    Put(Web),
    PutMeta(ObjectMeta),
    Remove,
    Refused(StoreFault),
    /// `Invalid`, with faults at exactly these paths.
    Invalid(&'static [&'static str]),
}
use Then::{Invalid, Put, PutMeta, Remove, Unchanged};

fn check(row: &str, now: Now, write: Write<Web>, then: Then) {
    check_in(row, now, write, then, &cx());
}

#[track_caller]
fn check_in(row: &str, now: Now, write: Write<Web>, then: Then, cx: &WriteContext) {
    let current = match &now {
        Now::Absent => Current::Absent,
        Now::Is(web) => Current::Readable(web),
        Now::Broken(meta) => Current::Unreadable(meta.as_ref()),
    };
    let got = decide(current, &write, cx);
    match (got, then) {
        (Ok(got), then) => {
            let wanted = match then {
                Unchanged => Decision::Unchanged,
                Put(web) => Decision::Put(web),
                PutMeta(meta) => Decision::PutMeta(meta),
                Remove => Decision::Remove,
                refused => panic!("{row}: {got:?} instead of {refused:?}"),
            };
            assert_eq!(got, wanted, "{row}");
        }
        (Err(refused), Then::Refused(fault)) => {
            assert_eq!(refused.fault, fault, "{row}: {refused}");
            assert!(refused.faults.is_empty(), "{row}: {refused}");
        }
        (Err(refused), Invalid(paths)) => {
            assert_eq!(refused.fault, StoreFault::Invalid, "{row}: {refused}");
            let got: Vec<&str> = refused.faults.iter().map(|fault| fault.path.as_str()).collect();
            assert_eq!(got, paths, "{row}: {refused}");
            let error = refused.into_error(&write).to_string();
            assert!(error.contains("Web") && paths.iter().all(|path| error.contains(path)), "{row}: {error}");
        }
        (Err(refused), then) => panic!("{row}: {refused} instead of {then:?}"),
    }
}

fn delete_if(only_if: Preconditions, propagation: Propagation) -> Write<Web> {
    Write::Delete { key: ObjectKey::new("web"), only_if, propagation }
}

fn delete_with(propagation: Propagation) -> Write<Web> {
    delete_if(Preconditions::none(), propagation)
}

fn delete_now() -> Write<Web> {
    delete_with(Propagation::Background)
}

/// What a good create stores.
fn created() -> Web {
    with(typed(), |web| {
        web.image = "nginx".into();
        (web.status, web.cache) = (1000, 1); // the hook's
        web.meta.uid = Uid::from("new");
        web.meta.generation = 1;
        web.meta.created_at = Some(at(100));
    })
}

#[test]
fn create_stores_a_new_object_with_defaults_and_the_stores_own_fields() {
    let create = Write::Create;
    check("plain", Now::Absent, create(typed()), Put(created()));
    let brought = with(typed(), |web| {
        web.meta.uid = Uid::from("mine");
        web.meta.revision = Revision(40);
        web.meta.generation = 40;
        web.meta.created_at = Some(at(7));
        web.meta.deleted_at = Some(at(8));
    });
    check("store fields brought along are ignored", Now::Absent, create(brought), Put(created()));
    let kept = |web: &mut Web| {
        web.image = "caddy".into();
        web.status = 4;
        web.cache = 9;
        web.meta.namespace = Some("x".into());
        web.meta.finalizers = vec!["volumes".into()];
        web.meta.annotations = BTreeMap::from([("note".into(), "n".into())]);
    };
    check(
        "what the creator says is kept",
        Now::Absent,
        create(with(typed(), kept)),
        Put(with(created(), kept)),
    );
}

#[test]
fn create_is_never_an_upsert() {
    let create = || Write::Create(typed());
    let exists = || Then::Refused(StoreFault::AlreadyExists);
    check("over an object", Now::Is(stored()), create(), exists());
    check("over a deleting object", Now::Is(deleting(&["f"])), create(), exists());
    check("over an unreadable object", Now::Broken(None), create(), exists());
    check("over one with metadata", Now::Broken(Some(stored().meta)), create(), exists());
    let bad = with(typed(), |web| web.replicas = FORBIDDEN);
    check("an invalid one over an object", Now::Is(stored()), Write::Create(bad), exists());
}

#[test]
fn a_retried_create_counts_as_success() {
    let retried = WriteContext::new(at(200), Uid::from("old"));
    let check = |row, now, then| check_in(row, now, Write::Create(typed()), then, &retried);
    check("as it was", Now::Is(stored()), Unchanged);
    check("changed meanwhile", Now::Is(with(stored(), |web| web.replicas = 9)), Unchanged);
    check("deleted meanwhile", Now::Is(deleting(&["f"])), Unchanged);
    check("unreadable", Now::Broken(Some(stored().meta)), Then::Refused(StoreFault::AlreadyExists));
    let empty = WriteContext::new(at(200), Uid::default());
    let nameless = with(stored(), |web| web.meta.uid = Uid::default());
    let exists = Then::Refused(StoreFault::AlreadyExists);
    check_in("an empty uid is nobody's", Now::Is(nameless), Write::Create(typed()), exists, &empty);
    check_in("without a new uid", Now::Absent, Write::Create(typed()), Invalid(&["metadata.uid"]), &empty);
}

#[test]
fn create_answers_with_all_faults_at_once() {
    let bad = with(typed(), |web| {
        web.replicas = FORBIDDEN;
        web.image = "a b".into();
        web.meta.name = "Web".into();
        web.meta.finalizers = vec![String::new()];
        let owner = |uid| OwnerReference {
            controller: true,
            ..OwnerReference::plain(&with(stored(), |w| w.meta.uid = Uid::from(uid)))
        };
        web.meta.owner_references = vec![owner("a"), owner("b")];
    });
    let paths = &[
        "metadata.uid",
        "metadata.name",
        "metadata.finalizers[0]",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.image",
    ];
    let no_uid = WriteContext::new(at(1), Uid::default());
    check_in("everything wrong", Now::Absent, Write::Create(bad), Invalid(paths), &no_uid);
}

#[test]
fn update_is_decided_on_one_version_of_one_incarnation() {
    for write in [Write::Update as fn(Web) -> Write<Web>, Write::UpdateStatus] {
        let changed = |change: fn(&mut Web)| write(with(stored(), change));
        let conflict = || Then::Refused(StoreFault::Conflict);
        check("absent", Now::Absent, write(stored()), Then::Refused(StoreFault::NotFound));
        check("unreadable", Now::Broken(None), write(stored()), Then::Refused(StoreFault::Unreadable));
        let broken = Now::Broken(Some(stored().meta));
        check("unreadable with metadata", broken, write(stored()), Then::Refused(StoreFault::Unreadable));
        check("other uid", Now::Is(stored()), changed(|w| w.meta.uid = Uid::from("x")), conflict());
        check("older", Now::Is(stored()), changed(|w| w.meta.revision = Revision(4)), conflict());
        check("newer", Now::Is(stored()), changed(|w| w.meta.revision = Revision(6)), conflict());
        check("never stored", Now::Is(stored()), write(typed()), Invalid(&["metadata.uid"]));
        check("absent, never stored", Now::Absent, write(typed()), Then::Refused(StoreFault::NotFound));
        let stale_and_changed = |w: &mut Web| {
            w.meta.revision = Revision(4);
            w.replicas = FORBIDDEN;
            w.status = 9;
        };
        check("stale beats invalid", Now::Is(stored()), write(with(stored(), stale_and_changed)), conflict());
        let renamed = |w: &mut Web| {
            w.meta.name = "other".into();
            w.meta.namespace = Some("x".into());
        };
        let both = Invalid(&["metadata.name", "metadata.namespace"]);
        check("another name", Now::Is(stored()), write(with(stored(), renamed)), both);
    }
}

#[test]
fn a_write_that_changes_nothing_is_unchanged() {
    check("update", Now::Is(stored()), Write::Update(stored()), Unchanged);
    check("status", Now::Is(stored()), Write::UpdateStatus(stored()), Unchanged);
    check("while deleting", Now::Is(deleting(&["f"])), Write::Update(deleting(&["f"])), Unchanged);
    let store_fields = |web: &mut Web| {
        web.meta.generation = 77;
        web.meta.created_at = None;
        web.meta.deleted_at = Some(at(77));
    };
    check("only store fields", Now::Is(stored()), Write::Update(with(stored(), store_fields)), Unchanged);
    let undeleted = with(deleting(&["f"]), |web| web.meta.deleted_at = None);
    check("the mark cannot be taken off", Now::Is(deleting(&["f"])), Write::Update(undeleted), Unchanged);
    let undefaulted = |web: &mut Web| web.image = String::new();
    check(
        "what defaults fill in again",
        Now::Is(stored()),
        Write::Update(with(stored(), undefaulted)),
        Unchanged,
    );
    let invalid = || with(stored(), |web| web.replicas = FORBIDDEN);
    check("an old object that is invalid today", Now::Is(invalid()), Write::Update(invalid()), Unchanged);
    let ignored = with(stored(), |web| web.cache = 50);
    check("only what spec_eq does not compare", Now::Is(stored()), Write::Update(ignored), Unchanged);
}

#[test]
fn only_a_changed_spec_raises_the_generation() {
    let row = |row, change: fn(&mut Web), generation| {
        let wanted = with(with(stored(), change), |web| web.meta.generation = generation);
        check(row, Now::Is(stored()), Write::Update(with(stored(), change)), Put(wanted));
    };
    row("spec", |w| w.replicas = 4, 3);
    row("label", |w| drop(w.meta.labels.insert("tier".into(), "front".into())), 2);
    row("annotation", |w| drop(w.meta.annotations.insert("note".into(), "x".into())), 2);
    row("finalizer", |w| w.meta.finalizers.push("f".into()), 2);
    row("label gone", |w| w.meta.labels.clear(), 2);
    let both: fn(&mut Web) = |w| {
        w.replicas = 4;
        w.meta.finalizers.push("f".into());
    };
    row("spec and metadata", both, 3);
    let top = || with(stored(), |web| web.meta.generation = u64::MAX);
    let changed = with(top(), |web| web.replicas = 4);
    check("no overflow", Now::Is(top()), Write::Update(changed.clone()), Put(changed));
}

#[test]
fn update_applies_defaults_to_a_changed_spec_and_to_nothing_else() {
    let change = |web: &mut Web| {
        web.replicas = 4;
        web.image = String::new();
    };
    let wanted = with(stored(), |web| {
        (web.replicas, web.cache) = (4, 2);
        web.meta.generation = 3;
    });
    check(
        "store fields and status stand",
        Now::Is(stored()),
        Write::Update(with(stored(), change)),
        Put(wanted),
    );
    // Stored before there was the default: reading would have filled it in, so this backend forgot to.
    let old = || with(stored(), |web| web.image = String::new());
    let labelled = |web: &mut Web| web.meta.labels.clear();
    check("metadata only", Now::Is(old()), Write::Update(with(old(), labelled)), Put(with(old(), labelled)));
}

#[test]
fn a_metadata_update_changes_nothing_else() {
    let change = |web: &mut Web| {
        web.meta.labels.clear();
        web.cache = 50; // what `spec_eq` does not compare must not slip in without a generation
    };
    let wanted = with(stored(), |web| web.meta.labels.clear());
    check("the rest stands", Now::Is(stored()), Write::Update(with(stored(), change)), Put(wanted));
}

#[test]
fn update_cannot_change_the_status() {
    let status = |web: &mut Web| web.status = 8;
    check("alone", Now::Is(stored()), Write::Update(with(stored(), status)), Invalid(&["status"]));
    let more = |web: &mut Web| {
        web.status = 8;
        web.replicas = FORBIDDEN;
        web.meta.labels.insert("a b".into(), String::new());
    };
    let paths = &["status", r#"metadata.labels["a b"]"#, "spec.replicas"];
    check("with other faults", Now::Is(stored()), Write::Update(with(stored(), more)), Invalid(paths));
    let last = |web: &mut Web| {
        web.status = 8;
        web.meta.finalizers.clear();
    };
    let then = Invalid(&["status"]);
    check(
        "with the last finalizer",
        Now::Is(deleting(&["f"])),
        Write::Update(with(deleting(&["f"]), last)),
        then,
    );
}

#[test]
fn a_status_update_changes_nothing_else() {
    let everything = |web: &mut Web| {
        web.status = 8;
        web.replicas = FORBIDDEN;
        web.image = "a b".into();
        web.cache = 50;
        web.meta.labels.clear();
        web.meta.finalizers = vec![String::new()];
        web.meta.generation = 50;
        web.meta.deleted_at = Some(at(50));
    };
    let wanted = with(stored(), |web| web.status = 8);
    check(
        "the rest is ignored",
        Now::Is(stored()),
        Write::UpdateStatus(with(stored(), everything)),
        Put(wanted),
    );
    let invalid = || with(deleting(&["f"]), |web| web.replicas = FORBIDDEN);
    let wanted = with(invalid(), |web| web.status = 8);
    check("invalid and deleting", Now::Is(invalid()), Write::UpdateStatus(wanted.clone()), Put(wanted));
}

#[test]
fn validation_is_never_in_the_way_of_metadata_or_finalizers() {
    let ancient = || {
        with(deleting(&["f", "g", "bad one"]), |web| {
            web.replicas = FORBIDDEN;
            web.meta.labels.insert("bad label".into(), "-".into());
        })
    };
    let row = |row, change: fn(&mut Web)| {
        check(row, Now::Is(ancient()), Write::Update(with(ancient(), change)), Put(with(ancient(), change)));
    };
    row("a finalizer removed", |w| drop(w.meta.finalizers.remove(0)));
    row("the bad finalizer removed", |w| drop(w.meta.finalizers.pop()));
    row("a label", |w| drop(w.meta.labels.insert("app".into(), "x".into())));
    let last = with(ancient(), |w| w.meta.finalizers.clear());
    check("all finalizers removed", Now::Is(ancient()), Write::Update(last), Remove);
    let spec = with(ancient(), |w| w.image = "caddy".into());
    check(
        "but a changed spec is judged",
        Now::Is(ancient()),
        Write::Update(spec),
        Invalid(&["spec.replicas"]),
    );
    let repaired = with(ancient(), |w| w.replicas = 1);
    let wanted = with(repaired.clone(), |w| w.meta.generation = 3);
    check("and can be repaired", Now::Is(ancient()), Write::Update(repaired), Put(wanted));
}

#[test]
fn validation_sees_what_is_stored() {
    let old = || with(stored(), |web| web.image = "caddy".into());
    let moved = with(old(), |web| web.image = "httpd".into());
    check("an immutable field", Now::Is(old()), Write::Update(moved), Invalid(&["spec.image"]));
}

#[test]
fn g5_no_new_finalizers_on_a_deleting_object() {
    let now = || Now::Is(deleting(&["f", "g"]));
    let row = |row, finalizers: &[&str], then| check(row, now(), Write::Update(deleting(finalizers)), then);
    row("one more", &["f", "g", "h"], Invalid(&["metadata.finalizers[2]"]));
    row("exchanged", &["f", "h"], Invalid(&["metadata.finalizers[1]"]));
    row("two more", &["h", "f", "g", "i"], Invalid(&["metadata.finalizers[0]", "metadata.finalizers[3]"]));
    row("the same twice", &["f", "f"], Invalid(&["metadata.finalizers[1]"]));
    row("one less", &["g"], Put(deleting(&["g"])));
    row("in another order", &["g", "f"], Put(deleting(&["g", "f"])));
    row("none left", &[], Remove);
    let spec = |web: &mut Web| web.replicas = 4;
    let wanted = with(deleting(&["f", "g"]), |web| {
        web.replicas = 4;
        web.meta.generation = 3;
    });
    check("its spec may change", now(), Write::Update(with(deleting(&["f", "g"]), spec)), Put(wanted));
    let last = with(deleting(&[]), |web| web.replicas = FORBIDDEN);
    check("an invalid spec goes with no finalizer", now(), Write::Update(last), Invalid(&["spec.replicas"]));
}

#[test]
fn delete_removes_at_once_or_marks_in_one_write() {
    let marked = |finalizers: &[&str]| {
        with(deleting(finalizers), |web| {
            web.meta.deleted_at = Some(at(100));
            web.meta.generation = 3;
        })
    };
    let guarded = || Now::Is(with(stored(), |web| web.meta.finalizers = vec!["f".into()]));
    use Propagation::{Background, Foreground, Orphan};
    check("absent", Now::Absent, delete_now(), Then::Refused(StoreFault::NotFound));
    check("plain", Now::Is(stored()), delete_now(), Remove);
    check("guarded", guarded(), delete_with(Background), Put(marked(&["f"])));
    check("foreground", Now::Is(stored()), delete_with(Foreground), Put(marked(&["foreground"])));
    check("orphan", Now::Is(stored()), delete_with(Orphan), Put(marked(&["orphan"])));
    check("guarded foreground", guarded(), delete_with(Foreground), Put(marked(&["f", "foreground"])));
    let already = Now::Is(with(stored(), |web| web.meta.finalizers = vec!["foreground".into()]));
    check("the finalizer is there", already, delete_with(Foreground), Put(marked(&["foreground"])));
}

#[test]
fn a_second_delete_changes_nothing_whatever_its_propagation() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        for finalizers in [&["f"] as &[&str], &["foreground"], &["orphan"]] {
            let row = format!("{propagation} over {finalizers:?}");
            check(&row, Now::Is(deleting(finalizers)), delete_with(propagation), Unchanged);
            let broken = Now::Broken(Some(deleting(finalizers).meta));
            check(&row, broken, delete_with(propagation), Unchanged);
        }
        check("nothing holds it any more", Now::Is(deleting(&[])), delete_with(propagation), Remove);
    }
}

#[test]
fn g9_delete_keeps_its_preconditions() {
    let row = |row, only_if: &Preconditions, then: fn() -> Then| {
        let write = || delete_if(only_if.clone(), Propagation::Background);
        check(row, Now::Is(stored()), write(), then());
        check(row, Now::Broken(Some(stored().meta)), write(), then());
    };
    let conflict = || Then::Refused(StoreFault::Conflict);
    let of = |uid: &str| Preconditions::uid(Uid::from(uid));
    row("uid", &of("old"), || Remove);
    row("uid and revision", &of("old").revision(Revision(5)), || Remove);
    row("revision", &Preconditions::none().revision(Revision(5)), || Remove);
    row("other uid", &of("x"), conflict);
    row("older revision", &of("old").revision(Revision(4)), conflict);
    row("newer revision", &Preconditions::none().revision(Revision(6)), conflict);
    row("other uid, same revision", &of("x").revision(Revision(5)), conflict);
    row("never stored", &of(""), || Invalid(&["preconditions.uid"]));
    let stale = delete_if(of("x"), Propagation::Background);
    check("conflict also while deleting", Now::Is(deleting(&["f"])), stale, conflict());
}

#[test]
fn delete_of_an_unreadable_object() {
    let meta = || with(stored(), |web| web.meta.finalizers = vec!["f".into()]).meta;
    let marked = |finalizers: &[&str]| {
        let mut meta = meta();
        meta.deleted_at = Some(at(100));
        meta.generation = 3;
        meta.finalizers = finalizers.iter().map(ToString::to_string).collect();
        PutMeta(meta)
    };
    let unreadable = || Then::Refused(StoreFault::Unreadable);
    check("with finalizers", Now::Broken(Some(meta())), delete_now(), marked(&["f"]));
    let foreground = delete_with(Propagation::Foreground);
    check("in the foreground", Now::Broken(Some(meta())), foreground, marked(&["f", "foreground"]));
    check("without", Now::Broken(Some(stored().meta)), delete_now(), Remove);
    check("without metadata", Now::Broken(None), delete_now(), Remove);
    for propagation in [Propagation::Foreground, Propagation::Orphan] {
        check("children cannot be spared blindly", Now::Broken(None), delete_with(propagation), unreadable());
    }
    for only_if in [Preconditions::uid(Uid::from("old")), Preconditions::none().revision(Revision(5))] {
        let write = delete_if(only_if, Propagation::Background);
        check("a condition cannot be checked blindly", Now::Broken(None), write, unreadable());
    }
}

#[test]
fn a_second_controller_owner_is_a_fault() {
    let owned = |uids: &[&str]| {
        with(stored(), |web| {
            web.meta.owner_references = uids
                .iter()
                .map(|uid| OwnerReference::controller_of(&with(stored(), |w| w.meta.uid = Uid::from(*uid))))
                .collect();
        })
    };
    let then = || Invalid(&["metadata.ownerReferences"]);
    check("one", Now::Is(stored()), Write::Update(owned(&["a"])), Put(owned(&["a"])));
    check("both at once", Now::Is(stored()), Write::Update(owned(&["a", "b"])), then());
    check("a second one", Now::Is(owned(&["a"])), Write::Update(owned(&["a", "b"])), then());
    check("another one", Now::Is(owned(&["a"])), Write::Update(owned(&["b"])), Put(owned(&["b"])));
}

#[test]
fn a_fence_decides_nothing_here() {
    let fenced = cx().fenced(Fence::new("lease", Revision(1)));
    check_in("created", Now::Absent, Write::Create(typed()), Put(created()), &fenced);
}

#[test]
fn a_refusal_says_what_is_stored_and_what_to_do() {
    let stale = Write::Update(with(stored(), |web| web.meta.revision = Revision(4)));
    let refused = decide(Current::Readable(&stored()), &stale, &cx()).unwrap_err();
    assert_eq!(
        refused.into_error(&stale).to_string(),
        "cannot update Web web: decided on revision 4, stored is 5: read it and decide again"
    );
    let refused = decide(Current::Readable(&deleting(&["f"])), &Write::Create(typed()), &cx()).unwrap_err();
    assert_eq!(refused.to_string(), "refused: uid old is being deleted: wait until it is gone");
}
