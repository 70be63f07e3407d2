//! Rule 5: finalizers keep a deleted object, marked, until the last one goes; none is added meanwhile.

use futures::FutureExt;
use reconcile_core::{
    StoreFault,
    store::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Preconditions, Propagation, WatchEvent, Write, Written},
};

use super::{
    Probe,
    check::{Check, Failure, holds, ok, refused, same, told},
    lab::{Lab, at_once, delete_of, held, key_of, probe, removed, stored, unchanged, update_of},
    tail::{applied, deleted, exactly, trace},
};

const HOLD: &str = "example.com/hold";

/// How many writers edit finalizers at once.
const WRITERS: usize = 4;

async fn mark(lab: &Lab, object: &Probe) -> Check<std::sync::Arc<Probe>> {
    let delete = lab.write(delete_of(key_of(object), Preconditions::none())).await;
    stored("delete with finalizers", ok("delete with finalizers", delete)?)
}

pub(super) async fn rule5_a_delete_without_finalizers_removes(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let object = lab.create(probe("a")).await?;
    let (_, revision) = lab.remove(&key_of(&object)).await?;
    lab.absent(&key_of(&object)).await?;
    let events = lab.watch(&cursor).await?.until(revision).await?;
    let expected = [applied(&object), deleted(&key_of(&object), revision)];
    exactly("watch across a create and a delete", &events, &expected)
}

pub(super) async fn rule5_a_delete_with_finalizers_marks(lab: Lab) -> Check {
    let object = lab.create(held("a", HOLD)).await?;
    let cursor = lab.cursor().await?;
    let cx = lab.cx();
    let delete = delete_of(key_of(&object), Preconditions::none());
    let marked = stored("delete", ok("delete with finalizers", lab.write_as(delete, &cx).await)?)?;
    let mut expected = (*object).clone();
    expected.meta.deleted_at = Some(cx.now);
    expected.meta.generation += 1;
    expected.meta.revision = marked.meta.revision;
    same("answer of a delete with finalizers", &*marked, &expected)?;
    same("get after a delete with finalizers", &lab.present(&key_of(&object)).await?, &marked)?;
    let events = lab.watch(&cursor).await?.until(marked.meta.revision).await?;
    exactly("watch across a delete with finalizers", &events, &[applied(&marked)])
}

pub(super) async fn rule5_the_mark_cannot_be_taken_back(lab: Lab) -> Check {
    let object = lab.create(held("a", HOLD)).await?;
    let marked = mark(&lab, &object).await?;
    let update = update_of(&marked, |probe| probe.meta.deleted_at = None);
    let after = unchanged("update", ok("update without the mark", lab.write(update).await)?)?;
    same("answer of an update without the mark", &after, &marked)?;
    let edited = lab
        .edit(&marked, |probe| {
            probe.meta.deleted_at = None;
            probe.spec.size = 2;
        })
        .await?;
    same("deleted_at after an update", edited.meta.deleted_at, marked.meta.deleted_at)
}

pub(super) async fn rule5_a_deleting_object_can_be_written(lab: Lab) -> Check {
    let object = lab.create(held("a", HOLD)).await?;
    let object = mark(&lab, &object).await?;
    let object = lab.report(&object, 1).await?;
    let object = lab.resize(&object, 2).await?;
    let object =
        lab.edit(&object, |probe| drop(probe.meta.labels.insert("app".into(), "web".into()))).await?;
    let create = lab.write(Write::Create(probe("a"))).await;
    refused("create of a deleting object", StoreFault::AlreadyExists, create)?;
    same("get", lab.present(&key_of(&object)).await?, object)
}

pub(super) async fn rule5_no_finalizer_is_added_while_deleting(lab: Lab) -> Check {
    let object = lab.create(held("a", HOLD)).await?;
    let marked = mark(&lab, &object).await?;
    let add = update_of(&marked, |probe| probe.meta.finalizers.push("example.com/late".into()));
    let error = refused("adding a finalizer while deleting", StoreFault::Invalid, lab.write(add).await)?;
    let named = error.faults().iter().any(|fault| fault.path.starts_with("metadata.finalizers"));
    holds("faults of a late finalizer", "one at \"metadata.finalizers\"", named, || error.to_string())?;
    let swap = update_of(&marked, |probe| probe.meta.finalizers = vec!["example.com/late".into()]);
    refused("exchanging a finalizer while deleting", StoreFault::Invalid, lab.write(swap).await)?;
    same("get after refused updates", lab.present(&key_of(&object)).await?, marked)
}

pub(super) async fn rule5_foreground_and_orphan_set_their_finalizer(lab: Lab) -> Check {
    for (propagation, finalizer) in
        [(Propagation::Foreground, FOREGROUND_FINALIZER), (Propagation::Orphan, ORPHAN_FINALIZER)]
    {
        for held_already in [false, true] {
            let name = format!("{propagation}-{held_already}");
            let object = lab.create(if held_already { held(&name, HOLD) } else { probe(&name) }).await?;
            let cursor = lab.cursor().await?;
            let only_if = Preconditions::uid(object.meta.uid.clone()).revision(object.meta.revision);
            let delete = Write::Delete { key: key_of(&object), only_if, propagation };
            let operation = format!("delete, {propagation}");
            let marked = stored(&operation, ok(&operation, lab.write(delete).await)?)?;
            let marks = marked.meta.is_deleting() && marked.meta.has_finalizer(finalizer);
            holds(&operation, format!("deleted_at, and the finalizer {finalizer:?}"), marks, || {
                format!("{:?}", marked.meta)
            })?;
            // Both in one write: nobody sees the mark without the finalizer.
            let events = lab.watch(&cursor).await?.until(marked.meta.revision).await?;
            exactly(&format!("watch across a {operation}"), &events, &[applied(&marked)])?;
            let update = lab.write(update_of(&marked, |probe| probe.meta.finalizers.clear())).await;
            removed("update", ok("update without finalizers", update)?)?;
        }
    }
    Ok(())
}

pub(super) async fn t3_removing_the_last_finalizer_removes(lab: Lab) -> Check {
    let mut object = held("a", HOLD);
    object.meta.finalizers.push("example.com/two".into());
    let object = lab.create(object).await?;
    let cursor = lab.cursor().await?;
    let marked = mark(&lab, &object).await?;
    let one = lab.edit(&marked, |probe| probe.meta.finalizers.retain(|name| name == HOLD)).await?;
    lab.present(&key_of(&object)).await?;
    let update = lab.write(update_of(&one, |probe| probe.meta.finalizers.clear())).await;
    let (_, revision) = removed("removing the last finalizer", ok("removing the last finalizer", update)?)?;
    lab.absent(&key_of(&object)).await?;
    let events = lab.watch(&cursor).await?.until(revision).await?;
    let expected = [applied(&marked), applied(&one), deleted(&key_of(&object), revision)];
    exactly("watch across the removal of finalizers", &events, &expected)?;
    // Without the mark, an object without finalizers stays.
    let kept = lab.create(held("b", HOLD)).await?;
    lab.edit(&kept, |probe| probe.meta.finalizers.clear()).await?;
    lab.present(&key_of(&kept)).await?;
    Ok(())
}

pub(super) async fn g5_a_finalizer_races_with_a_delete(lab: Lab) -> Check {
    for round in 0..lab.races() {
        let object = lab.create(probe("a")).await?;
        let key = key_of(&object);
        let add = {
            let (lab, object) = (lab.clone(), object.clone());
            async move {
                let add = update_of(&object, |probe| probe.meta.finalizers.push(HOLD.into()));
                match lab.write(add).await {
                    Ok(Written::Stored(_)) => Ok(true),
                    Err(error) if matches!(error.fault(), StoreFault::NotFound | StoreFault::Conflict) => {
                        Ok(false)
                    }
                    other => Err(Failure::new(
                        "adding a finalizer beside a delete",
                        "Stored, NotFound or Conflict",
                        format!("{other:?}"),
                    )),
                }
            }
        };
        let delete = {
            let (lab, key) = (lab.clone(), key.clone());
            async move {
                match ok(
                    "delete beside a new finalizer",
                    lab.write(delete_of(key, Preconditions::none())).await,
                )? {
                    Written::Stored(_) => Ok(false),
                    Written::Removed { .. } => Ok(true),
                    other => Err(Failure::new(
                        "delete beside a new finalizer",
                        "Stored or Removed",
                        format!("{other:?}"),
                    )),
                }
            }
        };
        let came = at_once(vec![add.boxed(), delete.boxed()]).await?;
        let operation = format!("round {round} of adding a finalizer beside a delete");
        match came[..] {
            // Added first: the delete only marked, and the object is still there.
            [true, false] => {
                let marked = lab.present(&key).await?;
                let kept = marked.meta.is_deleting() && marked.meta.has_finalizer(HOLD);
                holds(operation, "the object, marked, with the finalizer", kept, || format!("{marked:?}"))?;
                let update = lab.write(update_of(&marked, |probe| probe.meta.finalizers.clear())).await;
                removed("update", ok("update without finalizers", update)?)?;
            }
            // Deleted first: the finalizer was refused, and the object is gone.
            [false, true] => lab.absent(&key).await?,
            _ => {
                return Err(Failure::new(
                    operation,
                    "either a confirmed finalizer and a mark, or a refused one and a removal",
                    format!("finalizer confirmed: {}, object removed: {}", came[0], came[1]),
                ));
            }
        }
    }
    Ok(())
}

pub(super) async fn rule5_finalizers_are_edited_by_many(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let object = lab.create(held("a", HOLD)).await?;
    let key = key_of(&object);
    let finalizers: Vec<String> = (0..WRITERS).map(|writer| format!("example.com/f{writer}")).collect();
    let jobs = finalizers.iter().cloned().map(|finalizer| {
        let (lab, key) = (lab.clone(), key.clone());
        async move {
            loop {
                let current = lab.present(&key).await?;
                let update = update_of(&current, |probe| probe.meta.finalizers.push(finalizer.clone()));
                match lab.write(update).await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.fault() == StoreFault::Conflict => {}
                    Err(error) => {
                        return Err(Failure::new("adding a finalizer", "success or Conflict", told(&error)));
                    }
                }
            }
        }
        .boxed()
    });
    at_once(jobs.collect()).await?;
    let full = lab.present(&key).await?;
    for finalizer in &finalizers {
        holds("finalizers after concurrent edits", finalizer, full.meta.has_finalizer(finalizer), || {
            format!("{:?}", full.meta.finalizers)
        })?;
    }
    mark(&lab, &full).await?;
    let mut jobs = Vec::new();
    for finalizer in finalizers.into_iter().chain([HOLD.to_owned()]) {
        let (lab, key) = (lab.clone(), key.clone());
        let job = async move {
            loop {
                let current = lab.present(&key).await?;
                let update =
                    update_of(&current, |probe| probe.meta.finalizers.retain(|name| *name != finalizer));
                match lab.write(update).await {
                    Ok(Written::Removed { .. }) => return Ok(1),
                    Ok(_) => return Ok(0),
                    Err(error) if error.fault() == StoreFault::Conflict => {}
                    Err(error) => {
                        return Err(Failure::new(
                            "removing a finalizer",
                            "success or Conflict",
                            told(&error),
                        ));
                    }
                }
            }
        };
        jobs.push(job.boxed());
    }
    let removals: usize = at_once(jobs).await?.into_iter().sum();
    same("number of writers that removed the last finalizer", removals, 1)?;
    lab.absent(&key).await?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(&cursor).await?.until(end.meta.revision).await?;
    let deletes = events.iter().filter(|event| matches!(event, WatchEvent::Deleted { .. })).count();
    holds("watch across the edits", "one delete", deletes == 1, || trace(&events))
}
