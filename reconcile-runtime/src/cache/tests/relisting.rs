//! Listings of a cache that holds something already.

use std::{sync::Arc, time::Duration};

use reconcile_core::{Resource, Revision, StoreFault};

use crate::cache::{
    RestartCause,
    test_store::{Cut, World, key, web},
};

#[tokio::test(start_paused = true)]
async fn c1_a_recreated_object_is_a_delete_and_an_add_and_readers_see_one_or_the_other() {
    let world = World::synced().await;
    let old = world.store.create("x").await;
    world.settle().await;
    world.told.take();
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    world.store.remove("x").await;
    let new = world.store.create("x").await;
    world.store.memory.compact();
    world.store.silence(false);

    // A reader that looks at every delivered change: the entry goes from one to the other in one step.
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (cache, looks) = (world.kind.cache().clone(), seen.clone());
    world.kind.subscribe(Arc::new(crate::cache::tests::Looks(Box::new(move || {
        looks.lock().unwrap().push(cache.get(&key("x")).map(|web| web.meta.uid.clone()));
    }))));
    assert_eq!(*seen.lock().unwrap(), [Some(old.meta.uid.clone())]);
    world.kind.cache().want_listing();
    world.settle().await;
    assert_eq!(world.told.take(), ["x deleted 1", "x added 3"]);
    let expected = [&old, &new, &new].map(|web| Some(web.meta.uid.clone()));
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn c2_an_object_that_vanished_unseen_is_deleted_with_its_last_known_state() {
    let world = World::synced().await;
    world.store.create("x").await;
    world.store.create("y").await;
    world.settle().await;
    world.told.take();
    world.store.fail_watches(Some(StoreFault::Unavailable));
    world.store.cut(Cut::Error(StoreFault::Unavailable));
    world.settle().await;
    world.store.remove("x").await;
    world.store.memory.compact();
    world.store.fail_watches(None);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.told.take(), ["x deleted 1"]);
    assert_eq!(world.names(), ["y"]);
    assert_eq!(world.told.last_step().before, Revision(1));
}

#[tokio::test(start_paused = true)]
async fn c4_a_listing_is_entered_page_by_page_and_readers_never_see_an_empty_cache() {
    let mut world = World::with(|settings| settings.page_size = 10);
    for number in 0..95 {
        world.store.create(&format!("x{number:02}")).await;
    }
    world.start().await;
    world.told.take();
    assert_eq!((world.store.largest_page(), world.counts().list_attempts), (10, 10));
    for number in 0..5 {
        world.store.silence(true);
        world.store.cut(Cut::End);
        world.pass(Duration::from_secs(60)).await; // longer than the backoff of a few ended streams
        world.store.remove(&format!("x{number:02}")).await;
        world.store.create(&format!("y{number:02}")).await;
        // Page after page, the reader counts.
        world.store.silence(false);
        world.store.gates(|gates| gates.pages = false);
        world.kind.cache().want_listing();
        for _ in 0..30 {
            world.store.gates(|gates| gates.pages = true);
            tokio::task::yield_now().await;
            world.store.gates(|gates| gates.pages = false);
            let objects = world.kind.cache().len();
            assert!((95..=96).contains(&objects), "a reader saw {objects} objects");
        }
        world.store.gates(|gates| gates.pages = true);
        world.settle().await;
        assert_eq!(world.kind.cache().len(), 95);
        assert_eq!(world.told.take().len(), 2);
    }
    assert_eq!(world.store.largest_page(), 10);
    let state = world.kind.cache().lock();
    assert!(state.seen.is_empty() && state.answered.is_empty(), "the set of keys goes with the listing");
}

#[tokio::test(start_paused = true)]
async fn a_write_during_a_listing_outlives_its_end() {
    let mut world = World::with(|settings| settings.page_size = 1);
    for name in ["b", "c", "d"] {
        world.store.create(name).await;
    }
    world.start().await;
    world.told.take();
    // The watch is silent, so only the listing and the own writes can tell.
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    let api = world.api();
    world.store.hold_pages_after(1);
    world.kind.cache().want_listing();
    world.settle().await;
    // Behind the page that was listed, so no page of this listing can have it.
    api.create(web("a")).await.unwrap();
    let d = api.get(&key("d")).unwrap();
    api.delete(&d).await.unwrap();
    api.modify(&key("c"), |web| web.spec.replicas = 9).await.unwrap();
    world.store.gates(|gates| gates.pages = true);
    world.settle().await;
    assert_eq!(world.names(), ["a", "b", "c"]);
    assert_eq!(api.get(&key("c")).unwrap().spec.replicas, 9);
    assert_eq!(world.told.take(), ["a added 4", "d deleted 3", "c updated from 2 6"]);
}

#[tokio::test(start_paused = true)]
async fn c5_rewound_store_is_relisted() {
    let world = World::synced().await;
    world.store.create("kept").await;
    world.store.create("changed").await;
    let backup = world.store.memory.snapshot();
    world.store.scale("changed", 5).await;
    world.store.create("lost").await;
    world.store.remove("kept").await;
    world.settle().await;
    world.told.take();
    world.store.memory.restore(&backup);
    world.settle().await;
    // The difference, as changes; and the store is behind what was known, so this is a new epoch.
    let told = world.told.take();
    assert_eq!(told, ["changed updated from 3 2", "kept added 1", "lost deleted 4"]);
    let counts = world.counts();
    assert_eq!((counts.epoch, counts.revision), (1, Revision(2)));
    assert_eq!(counts.restarts.of(RestartCause::Rewound), 1);
    // What is written now has revisions that were known before, and is news all the same.
    world.store.scale("changed", 6).await;
    world.settle().await;
    assert_eq!(world.told.take(), ["changed updated from 2 3"]);
    let api = world.api();
    api.modify(&key("kept"), |web| web.spec.replicas = 4).await.unwrap();
    assert_eq!(world.told.take(), ["kept updated from 1 4"]);
}

#[tokio::test(start_paused = true)]
async fn c5_another_history_that_is_already_further_is_found_by_its_contents() {
    let world = World::synced().await;
    let x = world.store.create("x").await;
    world.store.create("y").await;
    let backup = world.store.memory.snapshot();
    world.store.scale("x", 5).await;
    world.settle().await;
    world.told.take();
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    // The same revision with another content, and the store goes on beyond everything that was known.
    world.store.memory.restore(&backup);
    world.store.scale("x", 6).await;
    for number in 0..5 {
        world.store.scale("y", number + 1).await;
    }
    world.store.silence(false);
    world.pass(Duration::from_secs(301)).await;
    assert_eq!(world.kind.cache().get(&key("x")).unwrap().spec.replicas, 6);
    assert_eq!(world.kind.cache().get(&key("x")).unwrap().meta.uid, x.meta.uid);
    assert_eq!(world.told.take(), ["x updated from 3 3", "y updated from 2 8"]);
}

#[tokio::test(start_paused = true)]
async fn c5_an_answer_from_before_the_rewind_is_ignored() {
    let world = World::synced().await;
    world.store.create("x").await;
    world.settle().await;
    let backup = world.store.memory.snapshot();
    world.told.take();
    let cache = world.kind.cache();
    let began = cache.begin();
    let late = world.store.scale("x", 5).await;
    world.settle().await;
    world.store.memory.restore(&backup);
    world.settle().await;
    assert_eq!(world.told.take(), ["x updated from 1 2", "x updated from 2 1"]);
    cache.enter_answer(crate::cache::Answer::Stored(late), began).await;
    assert_eq!(cache.get(&key("x")).unwrap().meta.revision, Revision(1));
    assert!(world.told.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn c5_a_write_that_is_behind_what_was_passed_makes_the_reflector_list() {
    let world = World::synced().await;
    let empty = world.store.memory.snapshot();
    for name in ["a", "b", "c"] {
        world.store.create(name).await;
    }
    world.settle().await;
    // A half-open watch: it will not say that the store was restored.
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    world.store.memory.restore(&empty);
    world.api().create(web("z")).await.unwrap();
    world.settle().await;
    assert_eq!(world.names(), ["z"]);
    assert_eq!(world.counts().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn c5_a_listing_of_a_fresh_epoch_that_fails_starts_over_and_loses_no_answer() {
    let mut world = World::with(|settings| settings.page_size = 1);
    let empty = world.store.memory.snapshot();
    for name in ["a", "b", "c"] {
        world.store.create(name).await;
    }
    world.start().await;
    world.told.take();
    world.pass(Duration::from_secs(1)).await;
    world.store.memory.restore(&empty);
    world.store.create("k").await;
    world.store.create("l").await;
    world.store.hold_pages_after(2);
    world.settle().await;
    // The fresh listing has shown its first page and hangs; a write of the new history is in the cache at once.
    let api = world.api();
    api.create(web("own")).await.unwrap();
    assert_eq!(world.names(), ["a", "b", "c", "k", "own"]);
    world.pass(Duration::from_secs(31)).await;
    world.store.gates(|gates| gates.pages = true);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.names(), ["k", "l", "own"]);
    let told = world.told.take();
    let expected = ["k added 1", "own added 3", "l added 2", "a deleted 1", "b deleted 2", "c deleted 3"];
    assert_eq!(told, expected);
    assert!(world.kind.cache().get(&key("own")).unwrap().key() == key("own"));
}

#[tokio::test(start_paused = true)]
async fn tombstones_go_when_the_reflector_has_passed_them() {
    let world = World::synced().await;
    let api = world.api();
    for name in ["a", "b", "c"] {
        let web = api.create(web(name)).await.unwrap();
        api.delete(&web).await.unwrap();
    }
    assert_eq!(world.kind.cache().tombstones(), 3);
    world.settle().await;
    assert_eq!(world.kind.cache().tombstones(), 0);
    let told = ["a added 1", "a deleted 1", "b added 3", "b deleted 3", "c added 5", "c deleted 5"];
    assert_eq!(world.told.take(), told);
}
