//! Writes that lose to another one, and answers that are lost.

use std::time::Duration;

use reconcile_core::{Revision, StoreFault, store::Preconditions};

use super::{fault, run};
use crate::{
    cache::test_store::{Web, World, WriteFault, key, web},
    store::Damage,
};

/// A world whose reflector is stopped with one object in its cache: what is known comes from answers alone.
async fn behind() -> World {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.stop();
    world.told.take();
    world
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_object_was_read_live() {
    let world = behind().await;
    world.store.scale("a", 7).await;
    let api = world.api();
    let old = api.get(&key("a")).unwrap();
    let mut new = (*old).clone();
    new.spec.replicas = 1;
    assert_eq!(fault(api.update(new).await), StoreFault::Conflict);
    assert_eq!(api.get(&key("a")).unwrap().spec.replicas, 7);
    assert_eq!(world.told.take(), ["a updated from 1 2"]);
}

#[tokio::test(start_paused = true)]
async fn after_an_already_exists_the_object_is_in_the_cache_as_foreign() {
    let world = behind().await;
    world.store.create("b").await;
    let (run, scope) = run();
    let api = world.api();
    let inner = api.clone();
    assert_eq!(
        fault(run.scope(async move { inner.create(web("b")).await }).await),
        StoreFault::AlreadyExists
    );
    assert!(api.get(&key("b")).is_some());
    let report = scope.report();
    assert_eq!((report.own.len(), report.effective_writes, report.conflicts), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn c13_after_a_not_found_the_object_is_gone_and_its_incarnation_does_not_come_back() {
    let world = behind().await;
    let old = world.store.scale("a", 1).await; // unseen
    world.store.remove("a").await;
    let api = world.api();
    let mut new = (*api.get(&key("a")).unwrap()).clone();
    new.spec.replicas = 4;
    assert_eq!(fault(api.update(new).await), StoreFault::NotFound);
    assert!(api.get(&key("a")).is_none());
    assert_eq!(world.told.take(), ["a deleted 1"]);
    // A late answer to somebody's earlier request.
    let cache = world.kind.cache();
    cache.enter_answer(crate::cache::Answer::Found(old), cache.begin()).await;
    assert!(api.get(&key("a")).is_none() && world.told.take().is_empty());
    // The reflector tells the same history; its delete ends the tombstone.
    let mut world = world;
    world.start().await;
    assert!(world.told.take().is_empty(), "nothing of it is news");
    assert_eq!(world.kind.cache().tombstones(), 0);
    world.store.create("a").await;
    world.settle().await;
    assert_eq!(world.told.take(), ["a added 4"]);
}

#[tokio::test(start_paused = true)]
async fn an_absence_says_nothing_about_an_incarnation_that_came_meanwhile() {
    let mut world = behind().await;
    world.store.remove("a").await;
    let api = world.api();
    world.store.gates(|gates| gates.gets = false);
    let reader = api.clone();
    let read = world.environment.spawn("read", async move {
        reader.get_live(&key("a")).await.unwrap();
    });
    world.settle().await;
    world.start().await;
    let new = world.store.create("a").await;
    world.settle().await;
    // The read was sent when the old one was cached; what it finds is the new one, entered already.
    world.store.gates(|gates| gates.gets = true);
    world.settle().await;
    assert_eq!(api.get(&key("a")).unwrap().meta.uid, new.meta.uid);
    drop(read);
}

#[tokio::test(start_paused = true)]
async fn a_live_read_enters_what_it_finds_and_what_it_does_not() {
    let world = behind().await;
    world.store.create("b").await;
    let api = world.api();
    assert_eq!(api.get_live(&key("b")).await.unwrap().unwrap().meta.revision, Revision(2));
    assert!(api.get(&key("b")).is_some());
    world.store.remove("a").await;
    assert!(api.get_live(&key("a")).await.unwrap().is_none());
    assert!(api.get(&key("a")).is_none());
    assert_eq!(world.told.take(), ["b added 2", "a deleted 1"]);
    world.store.fail_gets(Some(StoreFault::Unavailable));
    assert_eq!(fault(api.get_live(&key("b")).await), StoreFault::Unavailable);
    assert!(api.get(&key("b")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_found_by_its_uid() {
    let world = behind().await;
    let (run, scope) = run();
    world.store.next_write(WriteFault::AnswerLost);
    let api = world.api();
    let inner = api.clone();
    let created = run.scope(async move { inner.create(web("b")).await }).await.unwrap();
    assert_eq!(world.store.read("b").await.meta.uid, created.meta.uid);
    assert_eq!(world.told.take(), ["b added 2"]);
    let report = scope.report();
    // Nobody can tell whether the revision found is still the create's, so it is not claimed.
    assert_eq!((report.own.len(), report.effective_writes), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_create_that_did_not_land_stays_indeterminate() {
    let world = behind().await;
    world.store.next_write(WriteFault::Refused(StoreFault::Indeterminate));
    let api = world.api();
    assert_eq!(fault(api.create(web("b")).await), StoreFault::Indeterminate);
    // Somebody else's object of that name is not ours.
    world.store.create("c").await;
    world.store.next_write(WriteFault::Refused(StoreFault::Indeterminate));
    assert_eq!(fault(api.create(web("c")).await), StoreFault::Indeterminate);
    assert!(api.get(&key("c")).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_seen_all_the_same() {
    let world = behind().await;
    world.store.next_write(WriteFault::AnswerLost);
    let api = world.api();
    let mut new = (*api.get(&key("a")).unwrap()).clone();
    new.spec.replicas = 4;
    assert_eq!(fault(api.update(new).await), StoreFault::Indeterminate);
    assert_eq!(api.get(&key("a")).unwrap().spec.replicas, 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_over_the_limit_is_indeterminate_and_a_read_unavailable() {
    let world = behind().await;
    world.store.next_write(WriteFault::LandsAndHangs);
    let api = world.api();
    let since = world.environment.now();
    let created = api.create(web("b")).await.unwrap();
    assert_eq!(
        world.environment.now().since(since),
        Duration::from_secs(30),
        "one limit, then the live read"
    );
    assert_eq!(created.meta.revision, Revision(2));
    world.store.next_write(WriteFault::Hangs);
    let error = api.delete(&created).await.unwrap_err();
    assert_eq!(error.fault(), StoreFault::Indeterminate);
    assert!(error.to_string().contains("did not answer within 30s"), "{error}");
    world.store.gates(|gates| gates.gets = false);
    assert_eq!(fault(api.get_live(&key("a")).await), StoreFault::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn if_the_live_read_fails_too_the_run_remembers_it() {
    let world = behind().await;
    world.store.scale("a", 7).await;
    world.store.fail_gets(Some(StoreFault::Unavailable));
    let (run, scope) = run();
    let api = world.api();
    let inner = api.clone();
    let failed = run
        .scope(async move {
            let mut new = (*inner.get(&key("a")).unwrap()).clone();
            new.spec.replicas = 1;
            inner.update(new).await
        })
        .await;
    assert_eq!(fault(failed), StoreFault::Conflict, "the write's own error, not the read's");
    let refresh = scope.report().refresh;
    assert_eq!((refresh.len(), api.get(&key("a")).unwrap().spec.replicas), (1, 0));
    assert_eq!(fault(refresh[0].run().await), StoreFault::Unavailable, "it may be tried again");
    world.store.fail_gets(None);
    refresh[0].run().await.unwrap();
    assert_eq!(api.get(&key("a")).unwrap().spec.replicas, 7);
}

#[tokio::test(start_paused = true)]
async fn errors_that_say_nothing_about_the_object_read_nothing() {
    let world = behind().await;
    let api = world.api();
    for refused in [StoreFault::Unavailable, StoreFault::Fenced, StoreFault::TooLarge] {
        world.store.next_write(WriteFault::Refused(refused));
        assert_eq!(fault(api.create(web("b")).await), refused);
    }
    assert_eq!(world.store.gets(), 0);
}

#[tokio::test(start_paused = true)]
async fn modify_gives_up_after_eight_losses() {
    let world = behind().await;
    let api = world.api();
    for _ in 0..8 {
        world.store.next_write(WriteFault::Refused(StoreFault::Conflict));
    }
    let mut applied = 0;
    let error = api
        .modify(&key("a"), |web| {
            applied += 1;
            web.spec.replicas += 1;
        })
        .await
        .unwrap_err();
    assert_eq!((error.fault(), applied), (StoreFault::Conflict, 8));
    assert!(error.to_string().contains("8 times in a row"), "{error}");
    for _ in 0..7 {
        world.store.next_write(WriteFault::Refused(StoreFault::Conflict));
    }
    let modified = api.modify(&key("a"), |web| web.spec.replicas += 1).await.unwrap();
    assert_eq!(modified.spec.replicas, 1, "each try starts from what is stored");
}

#[tokio::test(start_paused = true)]
async fn modify_of_an_object_that_vanished_says_not_found() {
    let world = behind().await;
    world.store.scale("a", 3).await;
    let api = world.api();
    world.store.remove("a").await;
    world.store.next_write(WriteFault::Refused(StoreFault::Conflict));
    assert_eq!(fault(api.modify(&key("a"), |web| web.spec.replicas = 1).await), StoreFault::NotFound);
    assert!(api.get(&key("a")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_what_is_gone_tells_the_cache() {
    let world = behind().await;
    world.store.remove("a").await;
    let api = world.api();
    assert_eq!(fault(api.delete_key(&key("a"), Preconditions::none()).await), StoreFault::NotFound);
    assert_eq!(world.told.take(), ["a deleted 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_present_and_needs_no_second_look() {
    let world = behind().await;
    world.store.memory.damage::<Web>(&key("a"), Damage::Content, "not JSON").unwrap();
    let api = world.api();
    let (run, scope) = run();
    world.store.next_write(WriteFault::Refused(StoreFault::Conflict));
    let inner = api.clone();
    let lost = run.scope(async move { inner.modify(&key("a"), |web| web.spec.replicas = 1).await }).await;
    assert_eq!(fault(lost), StoreFault::Conflict);
    assert!(scope.report().refresh.is_empty());
    assert_eq!(api.get(&key("a")).unwrap().meta.revision, Revision(1), "its last good version stays");
    // Also if it is damaged between the failed read and the one that the next run does first.
    world.store.fail_gets(Some(StoreFault::Unavailable));
    world.store.next_write(WriteFault::Refused(StoreFault::Conflict));
    let (run, scope) = super::run();
    let inner = api.clone();
    let lost = run.scope(async move { inner.modify(&key("a"), |web| web.spec.replicas = 1).await }).await;
    assert_eq!(fault(lost), StoreFault::Conflict);
    world.store.fail_gets(None);
    scope.report().refresh[0].run().await.unwrap();
}
