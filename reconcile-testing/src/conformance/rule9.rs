//! Rule 9: no acknowledged write is lost; a reply lost on the way is `Indeterminate`; a create can be retried.

use std::time::Duration;

use reconcile_core::{
    ObjectKey, Revision, StoreFault,
    store::{LeaseRecord, Preconditions, Scope, Write, Written},
};

use super::{
    check::{Check, Failure, holds, ok, refused, same},
    lab::{Lab, delete_of, held, key_of, probe, removed, stored, unchanged, update_of},
    rule6::a_short_life,
    tail::{Tail, applied, deleted, exactly, trace},
};

pub(super) async fn rule9_the_same_create_again_is_a_success(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let cx = lab.cx();
    let create = || Write::Create(probe("a"));
    let first = stored("create", ok("create", lab.write_as(create(), &cx).await)?)?;
    let again = ok("the same create with the same new uid", lab.write_as(create(), &cx).await)?;
    same("answer of the same create", &unchanged("the same create again", again)?, &first)?;
    let other = lab.write(create()).await;
    refused("the same create with another uid", StoreFault::AlreadyExists, other)?;
    // Also after others have changed the object.
    let changed = lab.resize(&first, 2).await?;
    let again = ok("the same create, after an update", lab.write_as(create(), &cx).await)?;
    same("answer of the same create", &unchanged("the same create after an update", again)?, &changed)?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(&cursor).await?.until(end.meta.revision).await?;
    exactly("watch across retried creates", &events, &[applied(&first), applied(&changed), applied(&end)])
}

pub(super) async fn rule9_a_create_with_a_lost_reply_can_be_retried(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let cx = lab.cx();
    lab.lose_next_reply().await?;
    let lost = lab.write_as(Write::Create(probe("a")), &cx).await;
    refused("create with a lost reply", StoreFault::Indeterminate, lost)?;
    let object = match ok("the create again", lab.write_as(Write::Create(probe("a")), &cx).await)? {
        Written::Stored(object) | Written::Unchanged(object) => object,
        other => return Err(Failure::new("the create again", "Stored or Unchanged", format!("{other:?}"))),
    };
    same("uid", &object.meta.uid, &cx.new_uid)?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(&cursor).await?.until(end.meta.revision).await?;
    exactly("watch across a retried create", &events, &[applied(&object), applied(&end)])
}

pub(super) async fn rule9_an_update_with_a_lost_reply_landed_once(lab: Lab) -> Check {
    let first = lab.create(probe("a")).await?;
    let cursor = lab.cursor().await?;
    lab.lose_next_reply().await?;
    let lost = lab.write(update_of(&first, |probe| probe.spec.size = 2)).await;
    refused("update with a lost reply", StoreFault::Indeterminate, lost)?;
    let landed = lab.present(&key_of(&first)).await?;
    same("size after the update", landed.spec.size, 2)?;
    let again = lab.write(update_of(&first, |probe| probe.spec.size = 2)).await;
    refused("the same update again", StoreFault::Conflict, again)?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(&cursor).await?.until(end.meta.revision).await?;
    exactly("watch across a retried update", &events, &[applied(&landed), applied(&end)])
}

pub(super) async fn rule9_a_delete_with_a_lost_reply_landed_once(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let cursor = lab.cursor().await?;
    let delete = || delete_of(key_of(&object), Preconditions::uid(object.meta.uid.clone()));
    lab.lose_next_reply().await?;
    refused("delete with a lost reply", StoreFault::Indeterminate, lab.write(delete()).await)?;
    refused("the same delete again", StoreFault::NotFound, lab.write(delete()).await)?;
    lab.absent(&key_of(&object)).await?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(&cursor).await?.until(end.meta.revision).await?;
    holds("watch across a retried delete", "the delete, and the end", events.len() == 2, || trace(&events))
}

pub(super) async fn rule9_acknowledged_writes_survive_a_kill(lab: Lab) -> Check {
    let mut lab = lab;
    let mut newest = Revision(0);
    for round in 0..3_u32 {
        let kept = lab.create(held(&format!("kept-{round}"), "example.com/hold")).await?;
        let kept = lab.report(&kept, round).await?;
        let marked = lab.write(delete_of(key_of(&kept), Preconditions::none())).await;
        let marked = stored("delete", ok("delete with finalizers", marked)?)?;
        let gone = lab.create(probe(&format!("gone-{round}"))).await?;
        let (_, revision) = lab.remove(&key_of(&gone)).await?;
        lab.kill().await?;
        lab = lab.reopened().await;
        same("get after a kill", &lab.present(&key_of(&kept)).await?, &marked)?;
        lab.absent(&key_of(&gone)).await?;
        let reached = lab.cursor().await?.revision();
        holds("revision after a kill", format!("{revision} or later"), reached >= revision, || {
            reached.to_string()
        })?;
        let next = lab.create(probe(&format!("next-{round}"))).await?;
        let (before, after) = (revision.max(newest), next.meta.revision);
        holds("revision of a write after a kill", format!("above {before}"), after > before, || {
            after.to_string()
        })?;
        newest = after;
        // What was written before can be written on.
        let last = lab.write(update_of(&marked, |probe| probe.meta.finalizers.clear())).await;
        removed("update", ok("update of what was written before a kill", last)?)?;
        lab.absent(&ObjectKey::new(&format!("kept-{round}"))).await?;
    }
    same("number of objects", lab.list().await?.items.len(), 3)
}

pub(super) async fn rule9_a_cursor_survives_a_kill_or_expires(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let cursor = lab.cursor().await?;
    let (mut expected, _) = a_short_life(&lab, "b").await?;
    let (_, gone) = lab.remove(&key_of(&object)).await?;
    expected.push(deleted(&key_of(&object), gone));
    lab.kill().await?;
    let lab = lab.reopened().await;
    let (more, end) = a_short_life(&lab, "c").await?;
    expected.extend(more);
    let mut tail = match lab.probes().watch(cursor.clone(), &Scope::all()).await {
        Err(error) if error.fault() == StoreFault::Expired => return Ok(()),
        opened => Tail::new(ok("watch from before a kill", opened)?, cursor, lab.doing()),
    };
    let mut seen = Vec::new();
    while tail.cursor().revision() < end {
        match tail.expired_or_more().await? {
            Some(events) => seen.extend(events),
            None if seen.is_empty() => return Ok(()),
            None => {
                return Err(Failure::new("watch from before a kill", "all of it, or Expired", trace(&seen)));
            }
        }
    }
    exactly("watch from before a kill", &seen, &expected)
}

pub(super) async fn rule9_leases_survive_a_kill(lab: Lab) -> Check {
    let record = |holder: &str| LeaseRecord::new(Some(holder.to_owned()), Duration::from_secs(15), 0);
    let before = ok("swap", lab.leases()?.swap("main", None, record("a")).await)?;
    lab.kill().await?;
    let lab = lab.reopened().await;
    let after = ok("lease after a kill", lab.leases()?.lease("main").await)?;
    same("lease after a kill", after.as_ref(), Some(&before))?;
    let next =
        ok("takeover after a kill", lab.leases()?.swap("main", Some(before.revision), record("b")).await)?;
    let token = next.token;
    holds("token after a kill", format!("above {}", before.token), token > before.token, || token.to_string())
}
