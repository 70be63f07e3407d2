//! Rule 6, positions: a watch resumes from where it was, or answers `Expired`; it never leaves a gap.

use futures::FutureExt;
use reconcile_core::{
    Revision, StoreFault,
    store::{Cursor, Preconditions, Scope, WatchEvent},
};

use super::{
    check::{Check, Failure, holds, ok, refused, same},
    lab::{Lab, at_once, delete_of, key_of, probe, update_of},
    rule6::a_short_life,
    tail::{applied, deleted, exactly, trace},
};

/// A revision that no case reaches.
const FAR: u64 = 1_000_000_000;

/// A watch from here must be refused, at once or as the first item that is no progress.
async fn expired(lab: &Lab, operation: &str, cursor: &Cursor) -> Check {
    let mut changes = match lab.probes().watch(cursor.clone(), &Scope::all()).await {
        Err(error) if error.fault() == StoreFault::Expired => return Ok(()),
        opened => super::tail::Tail::new(ok(operation, opened)?, cursor.clone(), lab.doing()),
    };
    // A store that lets it open may say so with the first thing it has to say; so there has to be something.
    let end = lab.create(probe("end-of-an-expired-watch")).await?;
    let came = changes.expired_or_more().await;
    lab.remove(&key_of(&end)).await?;
    match came? {
        None => Ok(()),
        Some(events) => Err(Failure::new(operation, "the fault Expired", trace(&events))),
    }
}

pub(super) async fn rule6_a_watch_resumes_from_every_cursor(lab: Lab) -> Check {
    let first = lab.cursor().await?;
    let mut tail = lab.watch(&first).await?;
    let mut cursors = vec![(first, 0)];
    let mut expected = Vec::new();
    let mut end = Revision(0);
    for index in 0..10 {
        let object = lab.create(probe(&format!("a{index}"))).await?;
        expected.push(applied(&object));
        tail.until(object.meta.revision).await?;
        cursors.push((tail.cursor().clone(), expected.len()));
        let (_, gone) = lab.remove(&key_of(&object)).await?;
        expected.push(deleted(&key_of(&object), gone));
        cursors.push((lab.cursor().await?, expected.len()));
        end = gone;
    }
    for (cursor, seen) in cursors {
        let events = lab.watch(&cursor).await?.until(end).await?;
        exactly(&format!("watch resumed from {cursor}"), &events, &expected[seen..])?;
    }
    Ok(())
}

pub(super) async fn rule6_a_dropped_watch_resumes_while_writes_go_on(lab: Lab) -> Check {
    let mut cursor = lab.cursor().await?;
    let writer = {
        let lab = lab.clone();
        async move {
            let (mut told, mut end) = (Vec::new(), Revision(0));
            for index in 0..100 {
                let (more, revision) = a_short_life(&lab, &format!("a{index}")).await?;
                told.extend(more);
                end = revision;
            }
            Ok((told, end))
        }
    };
    // Opened, read once and dropped, again and again, while the writer writes.
    let reader = async {
        let mut seen = Vec::new();
        while seen.len() < 200 {
            let mut tail = lab.watch(&cursor).await?;
            seen.extend(tail.batch().await?);
            cursor = tail.cursor().clone();
        }
        Ok((seen, cursor))
    };
    let (written, read) = futures::join!(at_once(vec![writer.boxed()]), reader);
    let (mut seen, cursor) = read?;
    for (told, end) in written? {
        seen.extend(lab.watch(&cursor).await?.until(end).await?);
        exactly("watch dropped and resumed after every batch", &seen, &told)?;
    }
    Ok(())
}

pub(super) async fn rule6_the_future_is_expired(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let now = lab.cursor().await?;
    for ahead in [1_000, FAR] {
        let future = Cursor::new(Revision(now.revision().0 + ahead), now.check());
        expired(&lab, &format!("watch from {ahead} revisions ahead"), &future).await?;
    }
    same("get", lab.present(&key_of(&object)).await?, object)
}

pub(super) async fn rule6_another_history_is_expired(lab: Lab) -> Check {
    let other = lab.elsewhere().await;
    for store in [&lab, &other] {
        for name in ["a", "b", "c"] {
            store.create(probe(name)).await?;
        }
    }
    expired(&lab, "watch from a cursor of another store", &other.cursor().await?).await?;
    expired(&other, "watch from a cursor of another store", &lab.cursor().await?).await
}

pub(super) async fn c3_what_was_compacted_is_expired(lab: Lab) -> Check {
    let old = lab.cursor().await?;
    let (_, _) = a_short_life(&lab, "a").await?;
    let kept = lab.create(probe("b")).await?;
    lab.compact().await?;
    expired(&lab, "watch from before a compaction", &old).await?;
    // One listing is enough to go on.
    let listing = lab.list().await?;
    same("list after a compaction", listing.items, vec![kept])?;
    let (expected, end) = a_short_life(&lab, "c").await?;
    let events = lab.watch(&listing.cursor).await?.until(end).await?;
    let events: Vec<_> = events.into_iter().filter(|event| event.key().name() == "c").collect();
    exactly("watch from a listing after a compaction", &events, &expected)
}

pub(super) async fn c9_compaction_swallows_no_delete(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let cursor = lab.cursor().await?;
    let (_, gone) = lab.remove(&key_of(&object)).await?;
    lab.compact().await?;
    let mut tail = match lab.probes().watch(cursor.clone(), &Scope::all()).await {
        Err(error) if error.fault() == StoreFault::Expired => return Ok(()),
        opened => super::tail::Tail::new(ok("watch", opened)?, cursor, lab.doing()),
    };
    // Either the delete comes, or the watch says that it is gone.
    let end = lab.create(probe("end")).await?;
    while tail.cursor().revision() < end.meta.revision {
        let Some(events) = tail.expired_or_more().await? else { return Ok(()) };
        if events
            .iter()
            .any(|event| matches!(event, WatchEvent::Deleted { revision, .. } if *revision == gone))
        {
            return Ok(());
        }
    }
    Err(Failure::new("watch from before a compacted delete", "the delete, or the fault Expired", "neither"))
}

pub(super) async fn c9_an_open_watch_is_never_left_with_a_gap(lab: Lab) -> Check {
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let mut expected = Vec::new();
    let mut end = Revision(0);
    for index in 0..5 {
        let (told, revision) = a_short_life(&lab, &format!("a{index}")).await?;
        expected.extend(told);
        lab.compact().await?;
        end = revision;
    }
    let mut seen = Vec::new();
    while tail.cursor().revision() < end {
        match tail.expired_or_more().await? {
            Some(events) => seen.extend(events),
            // What came before the refusal must still be the beginning, without a gap.
            None => {
                return exactly(
                    "watch across compactions",
                    &seen,
                    &expected[..seen.len().min(expected.len())],
                );
            }
        }
    }
    exactly("watch across compactions", &seen, &expected)
}

/// A store that was saved at one probe, went on, and is back. Gives a cursor of the future that it gave up.
async fn gone_back(lab: &Lab) -> Check<Cursor> {
    lab.create(probe("a")).await?;
    lab.save().await?;
    for index in 0..5 {
        lab.create(probe(&format!("given-up-{index}"))).await?;
    }
    let future = lab.cursor().await?;
    lab.restore().await?;
    same("list of a restored store", lab.list().await?.keys(), vec!["a".to_owned()])?;
    Ok(future)
}

pub(super) async fn c5_a_restored_store_expires_the_future_it_gave_up(lab: Lab) -> Check {
    let future = gone_back(&lab).await?;
    expired(&lab, "watch from a future that was given up", &future).await?;
    // The revision comes again, with other contents; the old cursor must not fit then, either.
    let mut reached = lab.cursor().await?.revision();
    while reached <= future.revision() {
        reached = a_short_life(&lab, "new").await?.1;
    }
    expired(&lab, "watch from a given-up future whose revision came again", &future).await?;
    let (expected, end) = {
        let cursor = lab.cursor().await?;
        let (told, end) = a_short_life(&lab, "fresh").await?;
        (exactly("watch of a restored store", &lab.watch(&cursor).await?.until(end).await?, &told), end)
    };
    expected?;
    holds("revision of a restored store", "one that rises", end > reached, || end.to_string())
}

pub(super) async fn c5_a_restored_store_ends_open_watches(lab: Lab) -> Check {
    lab.create(probe("a")).await?;
    lab.save().await?;
    let cursor = lab.cursor().await?;
    let mut tail = lab.watch(&cursor).await?;
    let mut last = Revision(0);
    for index in 0..5 {
        last = lab.create(probe(&format!("given-up-{index}"))).await?.meta.revision;
    }
    tail.until(last).await?;
    lab.restore().await?;
    for index in 0..20 {
        a_short_life(&lab, &format!("new-{index}")).await?;
    }
    let after = tail.until_expired(Revision(FAR)).await?;
    holds("open watch of a store that went back", "nothing but the fault Expired", after.is_empty(), || {
        trace(&after)
    })
}

pub(super) async fn c5_a_restored_store_refuses_old_versions(lab: Lab) -> Check {
    let before = lab.create(probe("a")).await?;
    lab.save().await?;
    let given_up = lab.resize(&before, 2).await?;
    lab.restore().await?;
    same("get after a restore", &lab.present(&key_of(&before)).await?, &before)?;
    let update = lab.write(update_of(&given_up, |probe| probe.spec.size = 3)).await;
    refused("update of a version that was given up", StoreFault::Conflict, update)?;
    let only_if = Preconditions::uid(given_up.meta.uid.clone()).revision(given_up.meta.revision);
    let delete = lab.write(delete_of(key_of(&before), only_if)).await;
    refused("delete of a version that was given up", StoreFault::Conflict, delete)?;
    lab.resize(&before, 4).await?;
    Ok(())
}
