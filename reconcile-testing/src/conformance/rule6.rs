//! Rule 6, the stream: a watch gives every change, in order, none twice.

use std::{collections::BTreeMap, sync::Arc};

use futures::FutureExt;
use reconcile_core::{
    ObjectKey, Revision, StoreFault,
    store::{Preconditions, Scope, WatchEvent, Write, Written},
};

use super::{
    check::{Check, Failure, holds, ok, same, told},
    lab::{Lab, at_once, delete_of, gadget, key_of, probe, update_of},
    tail::{applied, deleted, exactly, trace},
};

/// How many writers write at once.
const WRITERS: usize = 4;
/// How many objects each of them makes, changes and deletes: several batches of any store's watch.
const OBJECTS: usize = 150;

/// Creates, changes and deletes; gives what a watch must show of it.
pub(super) async fn a_short_life(lab: &Lab, name: &str) -> Check<(Vec<String>, Revision)> {
    let first = lab.create(probe(name)).await?;
    let second = lab.resize(&first, 2).await?;
    let third = lab.report(&second, 3).await?;
    let (_, gone) = lab.remove(&key_of(&first)).await?;
    let told = vec![applied(&first), applied(&second), applied(&third), deleted(&key_of(&first), gone)];
    Ok((told, gone))
}

pub(super) async fn rule6_a_watch_sees_what_came_before_and_after_it_was_opened(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let mut early = lab.watch(&cursor).await?;
    let (mut expected, _) = a_short_life(&lab, "a").await?;
    let mut between = lab.watch(&cursor).await?;
    let (more, end) = a_short_life(&lab, "b").await?;
    expected.extend(more);
    let mut late = lab.watch(&cursor).await?;
    exactly("watch opened before the writes", &early.until(end).await?, &expected)?;
    exactly("watch opened between the writes", &between.until(end).await?, &expected)?;
    exactly("watch opened after the writes", &late.until(end).await?, &expected)?;
    // And on with all of them.
    let (expected, end) = a_short_life(&lab, "c").await?;
    for tail in [&mut early, &mut between, &mut late] {
        exactly("watch that goes on", &tail.until(end).await?, &expected)?;
    }
    Ok(())
}

pub(super) async fn rule6_events_are_exactly_the_writes(lab: Lab) -> Check {
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let mut expected = Vec::new();
    let mut end = Revision(0);
    for index in 0..100 {
        let (told, revision) = a_short_life(&lab, &format!("a{}", index % 7)).await?;
        expected.extend(told);
        end = revision;
    }
    exactly("watch across many writes", &tail.until(end).await?, &expected)
}

pub(super) async fn rule6_concurrent_writes_are_seen_once_and_in_order(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let mut early = lab.watch(&cursor).await?;
    let jobs = (0..WRITERS).map(|writer| {
        let lab = lab.clone();
        async move {
            let mut acknowledged = Vec::new();
            for index in 0..OBJECTS {
                let (told, _) = a_short_life(&lab, &format!("w{writer}-{index}")).await?;
                acknowledged.extend(told);
            }
            Ok(acknowledged)
        }
        .boxed()
    });
    let written = at_once(jobs.collect()).await?;
    let end = lab.create(probe("end")).await?;
    for (what, tail) in [("before", &mut early), ("after", &mut lab.watch(&cursor).await?)] {
        let operation = format!("watch opened {what} concurrent writes");
        let events = tail.until(end.meta.revision).await?;
        same(format!("{operation}, number of events"), events.len(), WRITERS * OBJECTS * 4 + 1)?;
        // All of each writer's own writes, in the order in which they were acknowledged.
        for (writer, acknowledged) in written.iter().enumerate() {
            let prefix = format!("w{writer}-");
            let own: Vec<_> =
                events.iter().filter(|event| event.key().name().starts_with(&prefix)).cloned().collect();
            exactly(&operation, &own, acknowledged)?;
        }
    }
    Ok(())
}

pub(super) async fn rule6_two_watches_are_independent(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let (mut fast, mut slow) = (lab.watch(&cursor).await?, lab.watch(&cursor).await?);
    let (mut expected, middle) = a_short_life(&lab, "a").await?;
    exactly("fast watch", &fast.until(middle).await?, &expected)?;
    let (more, end) = a_short_life(&lab, "b").await?;
    exactly("fast watch, further on", &fast.until(end).await?, &more)?;
    drop(fast);
    expected.extend(more);
    exactly("slow watch", &slow.until(end).await?, &expected)
}

pub(super) async fn rule6_kinds_do_not_mix(lab: Lab) -> Check {
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let object = lab.create(probe("a")).await?;
    let key = key_of(&object);
    let nothing = ok("get of a gadget of another kind's key", lab.gadgets().get(&key).await)?;
    holds("get of a gadget of another kind's key", "nothing", nothing.is_none(), || format!("{nothing:?}"))?;
    let made = ok("create of a gadget", lab.gadgets().write(Write::Create(gadget("a")), &lab.cx()).await)?;
    let gadget = match &made {
        Written::Stored(gadget) => gadget.clone(),
        other => return Err(Failure::new("create of a gadget", "Stored", format!("{other:?}"))),
    };
    let page = ok("list of gadgets", lab.gadgets().list(Default::default()).await)?;
    same("list of gadgets", page.items, vec![gadget])?;
    let delete = delete_of(key.clone(), Preconditions::none());
    ok("delete of the gadget", lab.gadgets().write(delete, &lab.cx()).await)?;
    same("get of the probe after the delete of the gadget", &lab.present(&key).await?, &object)?;
    let (_, gone) = lab.remove(&key).await?;
    exactly("watch of probes", &tail.until(gone).await?, &[applied(&object), deleted(&key, gone)])
}

pub(super) async fn rule6_a_cancelled_read_loses_nothing(lab: Lab) -> Check {
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    let mut end = Revision(0);
    for index in 0..20 {
        seen.extend(tail.cancelled()?);
        let (told, revision) = a_short_life(&lab, &format!("a{index}")).await?;
        expected.extend(told);
        end = revision;
        seen.extend(tail.cancelled()?);
    }
    seen.extend(tail.until(end).await?);
    exactly("watch whose reads were cancelled", &seen, &expected)
}

pub(super) async fn rule6_progress_reaches_the_revision(lab: Lab) -> Check {
    // What a reader collects from a watch is what is there, once it has reached the revision of the store.
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let jobs = (0..WRITERS).map(|writer| {
        let lab = lab.clone();
        async move {
            for index in 0..30 {
                let key = ObjectKey::new(&format!("shared{}", (index + writer) % 5));
                let result = match lab.get(&key).await? {
                    None => lab.write(Write::Create(probe(key.name()))).await,
                    Some(_) if index % 3 == 0 => lab.write(delete_of(key, Preconditions::none())).await,
                    Some(object) => lab.write(update_of(&object, |probe| probe.spec.size += 1)).await,
                };
                match result {
                    Ok(_) => {}
                    Err(error)
                        if matches!(
                            error.fault(),
                            StoreFault::AlreadyExists | StoreFault::NotFound | StoreFault::Conflict
                        ) => {}
                    Err(error) => {
                        return Err(Failure::new("concurrent writes", "success or a race", told(&error)));
                    }
                }
            }
            Ok(())
        }
        .boxed()
    });
    at_once(jobs.collect()).await?;
    let revision = lab.revision().await?;
    let mut collected = BTreeMap::new();
    let events = tail.until(revision).await?;
    for event in &events {
        match event {
            WatchEvent::Applied(object) => drop(collected.insert(event.key(), Arc::clone(object))),
            _ => drop(collected.remove(&event.key())),
        }
    }
    let stored = lab.list().await?.items;
    let collected: Vec<_> = collected.into_values().collect();
    if stored != collected {
        let stored: Vec<_> = stored.iter().map(|object| applied(object)).collect();
        return Err(Failure::new("what a watch gave, all together", stored.join(" "), trace(&events)));
    }
    // A second watch, from where the first one is, has nothing to say but what comes.
    let mut next = lab.watch_in(tail.cursor(), &Scope::all()).await?;
    let end = lab.create(probe("end")).await?;
    exactly("watch from the end of a watch", &next.until(end.meta.revision).await?, &[applied(&end)])
}
