//! A store that went back in time: what holds while the fresh listing runs, and after it.

use std::time::Duration;

use reconcile_core::{Revision, StoreFault};

use crate::cache::{
    Answer,
    test_store::{Cut, World, key, web},
};

/// A cache that knows a, b and c at revisions up to 3, and a store that went back to nothing and holds k and l.
/// The fresh listing, page by page, has shown k and waits.
async fn between_two_pages() -> World {
    let mut world = World::with(|settings| settings.page_size = 1);
    let empty = world.store.memory.snapshot();
    for name in ["a", "b", "c"] {
        world.store.create(name).await;
    }
    world.start().await;
    world.pass(Duration::from_secs(1)).await;
    world.told.take();
    world.store.memory.restore(&empty);
    world.store.create("k").await;
    world.store.create("l").await;
    world.store.hold_pages_after(2); // the page that shows the rewind, and the first one after it
    world.settle().await;
    assert_eq!((world.counts().epoch, world.names().len()), (1, 4));
    assert_eq!(world.told.take(), ["k added 1"]);
    world
}

/// Lets the pages through, and waits until the listing has ended, also if it has to start over.
async fn finish(world: &World) {
    world.store.gates(|gates| gates.pages = true);
    world.pass(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_behind_the_listed_pages_is_no_leftover_of_the_older_epoch() {
    let world = between_two_pages().await;
    world.api().create(web("behind")).await.unwrap();
    finish(&world).await;
    assert_eq!(world.names(), ["behind", "k", "l"]);
    let told = ["behind added 3", "l added 2", "a deleted 1", "b deleted 2", "c deleted 3"];
    assert_eq!(world.told.take(), told, "not deleted and added again");
}

#[tokio::test(start_paused = true)]
async fn after_the_listing_of_a_fresh_epoch_older_states_are_older_again() {
    let mut world = between_two_pages().await;
    finish(&world).await;
    world.told.take();
    world.stop();
    world.store.scale("k", 1).await;
    world.api().modify(&key("k"), |web| web.spec.replicas = 2).await.unwrap();
    assert_eq!(world.told.take(), ["k updated from 1 3", "k updated from 3 4"]);
    world.start().await;
    assert!(world.told.take().is_empty(), "the watch tells the same history, and nothing goes back");
    // What was known of the older epoch makes no later listing look rewound, and no barrier.
    world.kind.cache().want_listing();
    world.settle().await;
    let listings = world.counts().listings;
    world.kind.barrier().await.unwrap();
    assert_eq!((world.counts().epoch, world.counts().listings), (1, listings));
}

#[tokio::test(start_paused = true)]
async fn tombstones_of_an_older_epoch_bury_nothing_of_the_next() {
    let mut world = World::synced().await;
    for _ in 0..5 {
        world.store.create("x").await;
        world.store.remove("x").await;
    }
    let low = World::new().store.memory.snapshot();
    world.settle().await;
    world.stop();
    let api = world.api();
    let own = api.create(web("own")).await.unwrap();
    api.delete(&own).await.unwrap();
    assert_eq!(world.kind.cache().tombstones(), 1);
    world.store.memory.restore(&low);
    world.start().await;
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.kind.cache().tombstones(), 0);
    world.told.take();
    world.store.create("own").await;
    world.settle().await;
    assert_eq!(world.told.take(), ["own added 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_listing_that_starts_over_forgets_what_was_answered_to_its_first_try() {
    let world = between_two_pages().await;
    let before = world.store.memory.snapshot();
    let cache = world.kind.cache().clone();
    let (began, old_k) = (cache.begin(), world.store.read("k").await);
    world.api().create(web("own")).await.unwrap();
    world.store.scale("k", 7).await;
    world.told.take();
    // It went back once more, behind the own write, while the second page was on its way.
    world.store.memory.restore(&before);
    world.pass(Duration::from_secs(31)).await;
    finish(&world).await;
    assert_eq!(world.names(), ["k", "l"], "the own write is in no history of the store");
    assert_eq!(world.counts().epoch, 2);
    // An answer that was begun in the first try.
    world.store.scale("k", 8).await;
    world.settle().await;
    world.told.take();
    cache.enter_answer(Answer::Found(old_k), began).await;
    assert!(world.told.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_begun_before_a_fresh_listing_started_over_takes_nothing_back() {
    let world = between_two_pages().await;
    let cache = world.kind.cache().clone();
    let (began, old_k) = (cache.begin(), world.store.read("k").await);
    world.store.scale("k", 7).await;
    // The second page is given up; the next try shows the new k, and waits again.
    world.pass(Duration::from_secs(30)).await;
    world.store.hold_pages_after(1);
    world.store.gates(|gates| gates.pages = true);
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.told.take(), ["k updated from 1 3"]);
    cache.enter_answer(Answer::Found(old_k), began).await;
    assert!(world.told.take().is_empty());
    assert_eq!(cache.get(&key("k")).unwrap().spec.replicas, 7);
    finish(&world).await;
    assert_eq!(world.names(), ["k", "l"]);
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_without_a_revision_ends_with_a_later_listing() {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.stop();
    world.store.remove("a").await;
    let api = world.api();
    let gone = api.modify(&key("a"), |web| web.spec.replicas = 1).await;
    assert_eq!(gone.unwrap_err().fault(), StoreFault::NotFound);
    assert_eq!(world.kind.cache().tombstones(), 1);
    // The delete's own event is forgotten: only a listing can end it.
    world.store.memory.compact();
    world.start().await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.kind.cache().tombstones(), 0);
    assert_eq!(world.told.take(), ["a added 1", "a deleted 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_rewind_is_a_second_epoch() {
    let world = World::synced().await;
    let empty = world.store.memory.snapshot();
    for epoch in 1..4 {
        world.store.create("x").await;
        world.store.create("y").await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.names(), ["x", "y"]);
        world.store.memory.restore(&empty);
        world.pass(Duration::from_secs(1)).await;
        assert!(world.names().is_empty());
        let counts = world.counts();
        assert_eq!((counts.epoch, counts.revision), (epoch, Revision(0)));
        world.store.cut(Cut::End);
    }
}
