//! Rule 4: revisions rise strictly; a delete has a revision of its own, and its event the last committed state.

use reconcile_core::{
    Revision,
    store::{Preconditions, WatchEvent, Write, Written},
};

use super::{
    Gadget,
    check::{Check, Failure, holds, ok, same},
    lab::{Lab, delete_of, gadget, held, key_of, probe, removed, stored, update_of},
    tail::{applied, deleted, exactly, trace},
};

/// Revisions that must each be higher than the one before.
struct Rising(Revision);

impl Rising {
    fn next(&mut self, operation: &str, revision: Revision) -> Check {
        let before = self.0;
        holds(format!("revision of {operation}"), format!("above {before}"), revision > before, || {
            revision.to_string()
        })?;
        self.0 = revision;
        Ok(())
    }
}

pub(super) async fn rule4_revisions_rise_with_every_change(lab: Lab) -> Check {
    let mut rising = Rising(Revision(0));
    for _ in 0..3 {
        let object = lab.create(held("a", "example.com/hold")).await?;
        rising.next("a create", object.meta.revision)?;
        let other = lab.create(probe("b")).await?;
        rising.next("a create of another object", other.meta.revision)?;
        let object = lab.resize(&object, 2).await?;
        rising.next("an update", object.meta.revision)?;
        let object = lab.report(&object, 2).await?;
        rising.next("a status update", object.meta.revision)?;
        let delete = lab.write(delete_of(key_of(&object), Preconditions::none())).await;
        let object = stored("delete", ok("delete with finalizers", delete)?)?;
        rising.next("the mark of deletion", object.meta.revision)?;
        let update = lab.write(update_of(&object, |probe| probe.meta.finalizers.clear())).await;
        let (_, revision) = removed("update", ok("update without finalizers", update)?)?;
        rising.next("the removal of the last finalizer", revision)?;
        rising.next("a delete", lab.remove(&key_of(&other)).await?.1)?;
    }
    Ok(())
}

/// A write of a gadget that must store.
async fn put_gadget(lab: &Lab, write: Write<Gadget>) -> Check<std::sync::Arc<Gadget>> {
    let operation = format!("{} a gadget", write.operation());
    match ok(operation.as_str(), lab.gadgets().write(write, &lab.cx()).await)? {
        Written::Stored(gadget) => Ok(gadget),
        other => Err(Failure::new(operation, "Stored", format!("{other:?}"))),
    }
}

pub(super) async fn rule4_revisions_are_ordered_across_kinds_if_promised(lab: Lab) -> Check {
    if !lab.probes().guarantees().store_wide_order {
        return Ok(());
    }
    let mut rising = Rising(Revision(0));
    for index in 0..5 {
        let name = format!("a{index}");
        let object = lab.create(probe(&name)).await?;
        rising.next("a probe", object.meta.revision)?;
        let other = put_gadget(&lab, Write::Create(gadget(&name))).await?;
        rising.next("a gadget", other.meta.revision)?;
        rising.next("a deleted probe", lab.remove(&key_of(&object)).await?.1)?;
    }
    Ok(())
}

pub(super) async fn rule4_a_delete_gives_the_last_state(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let object = lab.create(probe("a")).await?;
    let object = lab.resize(&object, 2).await?;
    let object = lab.report(&object, 7).await?;
    let (last, revision) = lab.remove(&key_of(&object)).await?;
    same("last state in the answer of a delete", last.as_ref(), Some(&object))?;
    holds("revision of a delete", "one of its own", revision > object.meta.revision, || {
        revision.to_string()
    })?;
    let events = lab.watch(&cursor).await?.until(revision).await?;
    let Some(WatchEvent::Deleted { key, uid, revision: told, last }) = events.last() else {
        return Err(Failure::new("watch across a delete", "the delete as last event", trace(&events)));
    };
    same("key in the event of a delete", key, &key_of(&object))?;
    same("uid in the event of a delete", uid.as_ref(), Some(&object.meta.uid))?;
    same("revision in the event of a delete", *told, revision)?;
    same("last state in the event of a delete", last.as_ref(), Some(&object))
}

pub(super) async fn rule4_a_finalized_delete_gives_the_last_state(lab: Lab) -> Check {
    let object = lab.create(held("a", "example.com/hold")).await?;
    let delete = lab.write(delete_of(key_of(&object), Preconditions::none())).await;
    let marked = stored("delete", ok("delete with finalizers", delete)?)?;
    let cursor = lab.cursor().await?;
    let update = update_of(&marked, |probe| probe.meta.finalizers.clear());
    let (last, revision) = removed("update", ok("update without finalizers", lab.write(update).await)?)?;
    same("last state in the answer of the removal", last.as_ref(), Some(&marked))?;
    let events = lab.watch(&cursor).await?.until(revision).await?;
    exactly("watch across the removal", &events, &[deleted(&key_of(&marked), revision)])?;
    match &events[..] {
        [WatchEvent::Deleted { last, .. }] => same("last state in the event", last.as_ref(), Some(&marked)),
        _ => Err(Failure::new("watch across the removal", "one delete", trace(&events))),
    }
}

pub(super) async fn rule4_the_revision_covers_every_write_before_it(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let mut tail = lab.watch(&cursor).await?;
    let first = lab.create(probe("a")).await?;
    let (_, gone) = lab.remove(&key_of(&first)).await?;
    let revision = lab.revision().await?;
    holds("revision of the store after a delete", format!("{gone} or later"), revision >= gone, || {
        revision.to_string()
    })?;
    // Another kind's write may move it on; the watch of this kind reaches it all the same.
    put_gadget(&lab, Write::Create(gadget("a"))).await?;
    let revision = lab.revision().await?;
    let events = tail.until(revision).await?;
    let expected = [applied(&first), deleted(&key_of(&first), gone)];
    exactly("watch up to the revision of the store", &events, &expected)
}

pub(super) async fn rule4_a_recreated_object_is_another(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let first = lab.create(probe("a")).await?;
    let (_, gone) = lab.remove(&key_of(&first)).await?;
    let second = lab.create(probe("a")).await?;
    holds("uid after recreation", "another one", first.meta.uid != second.meta.uid, || {
        second.meta.uid.to_string()
    })?;
    same("generation after recreation", second.meta.generation, 1)?;
    holds("revision after recreation", format!("above {gone}"), second.meta.revision > gone, || {
        second.meta.revision.to_string()
    })?;
    let events = lab.watch(&cursor).await?.until(second.meta.revision).await?;
    let expected = [applied(&first), deleted(&key_of(&first), gone), applied(&second)];
    exactly("watch across a recreation", &events, &expected)
}

pub(super) async fn t1_a_delete_after_a_listing_is_seen_from_it(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let listing = lab.list().await?;
    same("list", listing.keys(), vec!["a".to_owned()])?;
    let (_, gone) = lab.remove(&key_of(&object)).await?;
    let cursor = listing.cursor;
    holds(
        "revision of a delete after a listing",
        format!("above that of the listing, {cursor}"),
        gone > cursor.revision(),
        || gone.to_string(),
    )?;
    let events = lab.watch(&cursor).await?.until(gone).await?;
    exactly("watch from the listing", &events, &[deleted(&key_of(&object), gone)])
}
