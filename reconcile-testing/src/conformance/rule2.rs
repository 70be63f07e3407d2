//! Rule 2: an update cannot change the status, a status update changes nothing else, and only a changed spec or
//! the mark of deletion raises the generation.

use reconcile_core::{
    OwnerReference, StoreFault, Timestamp,
    store::{Preconditions, Write},
};

use super::{
    check::{Check, holds, ok, refused, same},
    lab::{Lab, delete_of, held, key_of, probe, stored, unchanged, update_of},
};

pub(super) async fn rule2_an_update_cannot_change_the_status(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let update = update_of(&object, |probe| {
        probe.spec.size = 2;
        probe.status.ready = 1;
    });
    let error = refused("update with another status", StoreFault::Invalid, lab.write(update).await)?;
    let named = error.faults().iter().any(|fault| fault.path == "status");
    holds("faults of an update with another status", "one at \"status\"", named, || error.to_string())?;
    let alone = update_of(&object, |probe| probe.status.ready = 1);
    refused("update with only another status", StoreFault::Invalid, lab.write(alone).await)?;
    same("get after refused updates", lab.present(&key_of(&object)).await?, object)
}

pub(super) async fn rule2_a_status_update_changes_nothing_else(lab: Lab) -> Check {
    let before = lab.create(probe("a").label("app", "web")).await?;
    let mut given = (*before).clone();
    given.status.ready = 5;
    given.spec.size = 99;
    given.meta.labels.insert("app".into(), "other".into());
    given.meta.annotations.insert("note".into(), "new".into());
    given.meta.finalizers.push("example.com/hold".into());
    let after = stored("status update", ok("status update", lab.write(Write::UpdateStatus(given)).await)?)?;
    let mut expected = (*before).clone();
    expected.status.ready = 5;
    expected.meta.revision = after.meta.revision;
    same("answer of a status update", &*after, &expected)?;
    holds("revision of a status update", "a higher one", after.meta.revision > before.meta.revision, || {
        after.meta.revision.to_string()
    })?;
    same("get after a status update", lab.present(&key_of(&before)).await?, after)
}

pub(super) async fn rule2_only_spec_and_deletion_raise_the_generation(lab: Lab) -> Check {
    let owner = lab.create(probe("owner")).await?;
    let mut object = lab.create(held("a", "example.com/hold")).await?;
    let expect =
        |what: &str, got: u64, expected: u64| same(format!("generation after {what}"), got, expected);
    object = lab.edit(&object, |probe| drop(probe.meta.labels.insert("app".into(), "web".into()))).await?;
    expect("a changed label", object.meta.generation, 1)?;
    object = lab.edit(&object, |probe| drop(probe.meta.annotations.insert("n".into(), "x".into()))).await?;
    expect("a changed annotation", object.meta.generation, 1)?;
    object = lab.edit(&object, |probe| probe.meta.finalizers.push("example.com/two".into())).await?;
    expect("a new finalizer", object.meta.generation, 1)?;
    let reference = OwnerReference::controller_of(&*owner);
    object = lab.edit(&object, |probe| probe.meta.owner_references.push(reference)).await?;
    expect("a new owner", object.meta.generation, 1)?;
    object = lab.report(&object, 3).await?;
    expect("a status update", object.meta.generation, 1)?;
    object = lab.resize(&object, 2).await?;
    expect("a changed spec", object.meta.generation, 2)?;
    object = lab.resize(&object, 1).await?;
    expect("a spec that was there before", object.meta.generation, 3)?;
    let delete = lab.write(delete_of(key_of(&object), Preconditions::none())).await;
    object = stored("delete", ok("delete with finalizers", delete)?)?;
    expect("the mark of deletion", object.meta.generation, 4)?;
    object = lab.edit(&object, |probe| drop(probe.meta.finalizers.pop())).await?;
    expect("one finalizer less", object.meta.generation, 4)
}

pub(super) async fn rule2_what_the_store_sets_cannot_be_updated(lab: Lab) -> Check {
    let object = lab.create(held("a", "example.com/hold")).await?;
    let update = update_of(&object, |probe| {
        probe.meta.generation = 77;
        probe.meta.created_at = Some(Timestamp::UNIX_EPOCH);
        probe.meta.deleted_at = Some(Timestamp::UNIX_EPOCH);
    });
    let after = unchanged("update", ok("update of what only the store sets", lab.write(update).await)?)?;
    same("answer of the update", &after, &object)?;
    let edited = lab
        .edit(&object, |probe| {
            probe.spec.size = 2;
            probe.meta.generation = 77;
            probe.meta.created_at = None;
            probe.meta.deleted_at = Some(Timestamp::UNIX_EPOCH);
        })
        .await?;
    same("generation", edited.meta.generation, 2)?;
    same("created_at", edited.meta.created_at, object.meta.created_at)?;
    same("deleted_at", edited.meta.deleted_at, None)
}
