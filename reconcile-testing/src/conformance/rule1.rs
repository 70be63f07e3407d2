//! Rule 1: create fails if the key exists; updates fail if it is absent, or if uid or revision differ.
//! Nothing is ever an upsert.

use futures::FutureExt;
use reconcile_core::{
    ObjectKey, Revision, StoreFault, Uid,
    store::{Preconditions, Write, WriteContext, Written},
};

use super::{
    Probe,
    check::{Check, Failure, holds, ok, refused, same},
    lab::{Lab, at_once, delete_of, key_of, probe, removed, status_of, stored, update_of},
};

/// How many writers write at once: more than there are cores on a small machine, so that some are always cut
/// off in the middle.
const WRITERS: usize = 4;
/// How often each of them writes.
const ROUNDS: usize = 25;

pub(super) async fn rule1_a_create_stores_what_it_was_given(lab: Lab) -> Check {
    let mut given = probe("a").namespace("default").label("app", "web");
    given.meta.annotations.insert("note".into(), "free text, as it is".into());
    given.meta.finalizers.push("example.com/hold".into());
    given.spec.text = "some text \u{e9}\u{1f980}\n".into();
    given.status.ready = 7;
    let cx = lab.cx();
    let written =
        stored("create default/a", ok("create", lab.write_as(Write::Create(given.clone()), &cx).await)?)?;
    let meta = &written.meta;
    same("create, the uid", &meta.uid, &cx.new_uid)?;
    same("create, the generation", meta.generation, 1)?;
    same("create, created_at", meta.created_at, Some(cx.now))?;
    same("create, deleted_at", meta.deleted_at, None)?;
    holds("create, the revision", "above zero", meta.revision > Revision(0), || meta.revision.to_string())?;
    same("create, the labels", &meta.labels, &given.meta.labels)?;
    same("create, the annotations", &meta.annotations, &given.meta.annotations)?;
    same("create, the finalizers", &meta.finalizers, &given.meta.finalizers)?;
    same("create, the text", &written.spec.text, &given.spec.text)?;
    same("create, the status", &written.status, &given.status)?;
    same("get after create", lab.present(&key_of(&given)).await?, written)
}

pub(super) async fn rule1_a_create_of_an_existing_key_is_refused(lab: Lab) -> Check {
    let first = lab.create(probe("a")).await?;
    let mut second = probe("a");
    second.spec.size = 2;
    let again = lab.write(Write::Create(second)).await;
    refused("create of an existing key", StoreFault::AlreadyExists, again)?;
    same("get after a refused create", lab.present(&key_of(&first)).await?, first)
}

pub(super) async fn rule1_a_create_sets_what_only_the_store_sets(lab: Lab) -> Check {
    let mut given = probe("a");
    given.meta.uid = Uid::from("mine");
    given.meta.revision = Revision(u64::MAX);
    given.meta.generation = 99;
    let cx = lab.cx();
    given.meta.deleted_at = Some(cx.now); // T3: nothing is born in the state of deletion
    let written = stored("create", ok("create", lab.write_as(Write::Create(given), &cx).await)?)?;
    same("create, the uid", &written.meta.uid, &cx.new_uid)?;
    same("create, the generation", written.meta.generation, 1)?;
    same("create, deleted_at", written.meta.deleted_at, None)?;
    let revision = written.meta.revision;
    holds("create, the revision", "one of the store", revision != Revision(u64::MAX), || revision.to_string())
}

pub(super) async fn rule1_an_update_creates_nothing(lab: Lab) -> Check {
    let mut given = probe("a");
    given.meta.uid = Uid::from("00000000-0000-4000-8000-999999999999");
    given.meta.revision = Revision(1);
    for write in [Write::Update(given.clone()), Write::UpdateStatus(given.clone())] {
        let operation = format!("{} an object that is not there", write.operation());
        refused(operation, StoreFault::NotFound, lab.write(write).await)?;
    }
    lab.absent(&key_of(&given)).await
}

pub(super) async fn rule1_an_old_version_is_a_conflict(lab: Lab) -> Check {
    let old = lab.create(probe("a")).await?;
    let new = lab.resize(&old, 2).await?;
    let update = lab.write(update_of(&old, |probe| probe.spec.size = 3)).await;
    refused("update of an old version", StoreFault::Conflict, update)?;
    let status = lab.write(status_of(&old, 3)).await;
    refused("status update of an old version", StoreFault::Conflict, status)?;
    same("get after conflicts", lab.present(&key_of(&old)).await?, new.clone())?;
    // A status update makes the version older, too.
    lab.report(&new, 1).await?;
    let update = lab.write(update_of(&new, |probe| probe.spec.size = 3)).await;
    refused("update of a version from before a status update", StoreFault::Conflict, update)?;
    Ok(())
}

pub(super) async fn rule1_an_empty_uid_is_invalid(lab: Lab) -> Check {
    let stored = lab.create(probe("a")).await?;
    let nameless = |probe: &mut Probe| probe.meta.uid = Uid::default();
    let update = lab.write(update_of(&stored, nameless)).await;
    refused("update with an empty uid", StoreFault::Invalid, update)?;
    let mut status = (*stored).clone();
    nameless(&mut status);
    let status = lab.write(Write::UpdateStatus(status)).await;
    refused("status update with an empty uid", StoreFault::Invalid, status)?;
    let cx = WriteContext::new(lab.cx().now, Uid::default());
    let create = lab.write_as(Write::Create(probe("b")), &cx).await;
    refused("create with an empty new uid", StoreFault::Invalid, create)?;
    lab.absent(&ObjectKey::new("b")).await
}

pub(super) async fn rule1_another_incarnation_is_a_conflict(lab: Lab) -> Check {
    let first = lab.create(probe("a")).await?;
    lab.remove(&key_of(&first)).await?;
    let second = lab.create(probe("a")).await?;
    // The revision of the one, the uid of the other: only the uid tells.
    let mixed = |probe: &mut Probe| {
        probe.meta.uid = first.meta.uid.clone();
        probe.spec.size = 2;
    };
    let update = lab.write(update_of(&second, mixed)).await;
    refused("update with the uid of an earlier incarnation", StoreFault::Conflict, update)?;
    let only_if = Preconditions::uid(first.meta.uid.clone());
    let delete = lab.write(delete_of(key_of(&first), only_if)).await;
    refused("delete of an earlier incarnation", StoreFault::Conflict, delete)?;
    same("get after conflicts", lab.present(&key_of(&second)).await?, second)
}

pub(super) async fn rule1_keys_differ_by_namespace_and_name(lab: Lab) -> Check {
    let long = "x".repeat(253);
    let keys = [
        ObjectKey::new("a"),
        ObjectKey::new("a.b"),
        ObjectKey::new("a-b"),
        ObjectKey::new(&long),
        ObjectKey::namespaced("a", "a"),
        ObjectKey::namespaced("a", "b"),
        ObjectKey::namespaced("b", "a"),
        ObjectKey::namespaced("a-b", "c"),
        ObjectKey::namespaced("a", "b-c"),
    ];
    let mut made = Vec::new();
    for key in &keys {
        let mut object = probe(key.name());
        object.meta.namespace = key.namespace().map(str::to_owned);
        made.push(lab.create(object).await?);
    }
    for (key, made) in keys.iter().zip(&made) {
        same(format!("get {key}"), &lab.present(key).await?, made)?;
    }
    lab.remove(&ObjectKey::namespaced("a", "a")).await?;
    lab.absent(&ObjectKey::namespaced("a", "a")).await?;
    lab.present(&ObjectKey::new("a")).await?;
    lab.present(&ObjectKey::namespaced("b", "a")).await?;
    same("number of objects", lab.list().await?.items.len(), keys.len() - 1)
}

/// What came of a write when several are tried at once.
fn won(
    operation: &str,
    loser: &[StoreFault],
    written: Result<Written<Probe>, reconcile_core::StoreError>,
) -> Check<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if loser.contains(&error.fault()) => Ok(false),
        Err(error) => {
            Err(Failure::new(operation, format!("success, or one of {loser:?}"), super::check::told(&error)))
        }
    }
}

pub(super) async fn rule1_one_of_many_creates_wins(lab: Lab) -> Check {
    for round in 0..ROUNDS {
        let name = format!("a{round}");
        let jobs = (0..WRITERS).map(|_| {
            let (lab, object) = (lab.clone(), probe(&name));
            async move {
                let created = lab.write(Write::Create(object)).await;
                won("concurrent create", &[StoreFault::AlreadyExists], created)
            }
            .boxed()
        });
        let wins = at_once(jobs.collect()).await?.into_iter().filter(|won| *won).count();
        same(format!("number of creates of {name} that succeeded"), wins, 1)?;
    }
    Ok(())
}

pub(super) async fn rule1_one_of_many_updates_of_a_version_wins(lab: Lab) -> Check {
    let mut object = lab.create(probe("a")).await?;
    for round in 0..ROUNDS {
        let jobs = (0..WRITERS).map(|writer| {
            let (lab, object) = (lab.clone(), object.clone());
            async move {
                let write = if writer % 2 == 0 {
                    update_of(&object, |probe| probe.spec.size += 1)
                } else {
                    status_of(&object, object.status.ready + 1)
                };
                won("concurrent update of one version", &[StoreFault::Conflict], lab.write(write).await)
            }
            .boxed()
        });
        let wins = at_once(jobs.collect()).await?.into_iter().filter(|won| *won).count();
        same(format!("number of updates that succeeded in round {round}"), wins, 1)?;
        object = lab.present(&key_of(&object)).await?;
    }
    same("size and status, together", object.spec.size + object.status.ready, 1 + ROUNDS as u32)
}

pub(super) async fn rule1_no_update_is_lost_between_writers(lab: Lab) -> Check {
    let first = lab.create(probe("a")).await?;
    let key = key_of(&first);
    let jobs = (0..WRITERS).map(|_| {
        let (lab, key) = (lab.clone(), key.clone());
        async move {
            let mut done = 0;
            while done < ROUNDS {
                let current = lab.present(&key).await?;
                let update = lab.write(update_of(&current, |probe| probe.spec.size += 1)).await;
                done += usize::from(won("concurrent update", &[StoreFault::Conflict], update)?);
            }
            Ok(())
        }
        .boxed()
    });
    at_once(jobs.collect()).await?;
    let last = lab.present(&key).await?;
    let updates = WRITERS * ROUNDS;
    same("size after concurrent increments", last.spec.size as usize, 1 + updates)?;
    same("generation after concurrent increments", last.meta.generation as usize, 1 + updates)
}

pub(super) async fn rule1_one_of_many_deletes_wins(lab: Lab) -> Check {
    for round in 0..ROUNDS {
        let object = lab.create(probe("a")).await?;
        let jobs = (0..WRITERS).map(|writer| {
            let (lab, object) = (lab.clone(), object.clone());
            async move {
                // With and without conditions.
                let only_if = if writer % 2 == 0 {
                    Preconditions::none()
                } else {
                    Preconditions::uid(object.meta.uid.clone()).revision(object.meta.revision)
                };
                let delete = lab.write(delete_of(key_of(&object), only_if)).await;
                won("concurrent delete", &[StoreFault::NotFound], delete)
            }
            .boxed()
        });
        let wins = at_once(jobs.collect()).await?.into_iter().filter(|won| *won).count();
        same(format!("number of deletes that succeeded in round {round}"), wins, 1)?;
    }
    lab.absent(&ObjectKey::new("a")).await
}

pub(super) async fn t3_a_write_to_nothing_is_not_found(lab: Lab) -> Check {
    let gone = lab.create(probe("a")).await?;
    lab.remove(&key_of(&gone)).await?;
    let writes = [
        update_of(&gone, |probe| probe.spec.size = 2),
        status_of(&gone, 2),
        delete_of(key_of(&gone), Preconditions::none()),
        delete_of(key_of(&gone), Preconditions::uid(gone.meta.uid.clone())),
        delete_of(ObjectKey::namespaced("never", "was"), Preconditions::none()),
    ];
    for write in writes {
        let operation = format!("{} something that is gone", write.operation());
        refused(operation, StoreFault::NotFound, lab.write(write).await)?;
    }
    lab.absent(&key_of(&gone)).await
}

pub(super) async fn t4_a_wrong_uid_or_revision_is_a_conflict(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let (uid, revision) = (object.meta.uid.clone(), object.meta.revision);
    let (other_uid, other_revision) = (Uid::from("somebody-else"), Revision(revision.0 + 1));
    for (what, uid, revision) in [
        ("uid", &other_uid, revision),
        ("revision", &uid, other_revision),
        ("revision", &uid, Revision(0)),
        ("uid and revision", &other_uid, other_revision),
    ] {
        let wrong = |probe: &mut Probe| (probe.meta.uid, probe.meta.revision) = (uid.clone(), revision);
        let mut status = (*object).clone();
        status.status.ready = 9;
        wrong(&mut status);
        let writes = [
            update_of(&object, |probe| {
                probe.spec.size = 9;
                wrong(probe);
            }),
            Write::UpdateStatus(status),
            delete_of(key_of(&object), Preconditions::uid(uid.clone()).revision(revision)),
        ];
        for write in writes {
            let operation = format!("{} with a wrong {what}", write.operation());
            refused(operation, StoreFault::Conflict, lab.write(write).await)?;
        }
        // A wrong version is a conflict also for a write that asks for nothing.
        let empty = lab.write(update_of(&object, wrong)).await;
        refused(format!("an empty update with a wrong {what}"), StoreFault::Conflict, empty)?;
    }
    same("get after conflicts", &lab.present(&key_of(&object)).await?, &object)?;
    let object = lab.resize(&object, 2).await?;
    let object = lab.report(&object, 3).await?;
    let only_if = Preconditions::uid(object.meta.uid.clone()).revision(object.meta.revision);
    removed(
        "delete",
        ok("delete of the right version", lab.write(delete_of(key_of(&object), only_if)).await)?,
    )?;
    lab.absent(&key_of(&object)).await
}
