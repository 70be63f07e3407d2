//! The loop: when it lists, when it watches, how long it waits.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use reconcile_core::{Backoff, LabelSelector, ObjectKey, Revision, StoreFault, store::Scope};

use crate::{
    Change,
    cache::{
        AnyKind, RestartCause,
        test_store::{Cut, Faulty, Web, World, key},
    },
    change::{Initial, Step, Subscriber},
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_first_listing_is_initial_and_what_follows_is_news() {
    let mut world = World::new();
    world.store.create("b").await;
    world.store.create("a").await;
    assert!(!world.kind.cache().is_synced());
    world.start().await;
    assert!(world.kind.cache().is_synced());
    assert_eq!(world.told.take(), ["a initial 2", "b initial 1"]);
    world.store.create("c").await;
    world.store.scale("a", 3).await;
    world.store.remove("b").await;
    world.settle().await;
    assert_eq!(world.told.take(), ["c added 3", "a updated from 2 4", "b deleted 1"]);
    assert_eq!(world.names(), ["a", "c"]);
    let counts = world.counts();
    assert_eq!((counts.objects, counts.listings, counts.watch_attempts), (2, 1, 1));
    assert_eq!((counts.revision, counts.restarts.total()), (Revision(5), 0));
}

#[tokio::test(start_paused = true)]
async fn c3_an_expired_watch_lists_once_and_goes_on() {
    let world = World::synced().await;
    world.pass(Duration::from_secs(1)).await;
    world.store.cut(Cut::Error(StoreFault::Expired));
    world.store.create("a").await;
    world.settle().await;
    assert_eq!(world.told.take(), ["a added 1"]);
    let counts = world.counts();
    assert_eq!((counts.listings, counts.restarts.of(RestartCause::Expired), counts.epoch), (2, 1, 0));
    world.store.scale("a", 1).await;
    world.settle().await;
    assert_eq!(world.told.take(), ["a updated from 1 2"]);
    assert_eq!(world.counts().listings, 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_always_says_expired_is_not_listed_in_a_tight_loop() {
    let world = World::synced().await;
    world.store.fail_watches(Some(StoreFault::Expired));
    world.store.cut(Cut::Error(StoreFault::Expired));
    world.pass(10 * MINUTE).await;
    let lists = world.store.list_times().len();
    assert!((15..60).contains(&lists), "{lists} listings in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn b9_a_sick_store_is_asked_with_capped_growing_jittered_delays() {
    let mut starts = Vec::new();
    let mut recovered = Vec::new();
    for seed in 0..20 {
        let mut world = World::seeded(seed, |_| {});
        world.store.create("a").await;
        world.store.fail_lists(Some(StoreFault::Unavailable));
        world.reflect();
        world.pass(10 * MINUTE).await;
        let times = world.store.list_times();
        let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        let backoff = Backoff::new(base, cap);
        for (failures, gap) in (1..).zip(&gaps) {
            let ceiling = backoff.ceiling(failures);
            // A millisecond of slack: tokio's timer rounds up to its tick.
            let slack = Duration::from_millis(2);
            assert!(*gap >= ceiling / 2 && *gap <= ceiling + slack, "gap {failures} is {gap:?}");
        }
        assert!(gaps.len() < 50, "{} attempts in ten minutes", gaps.len());
        starts.push(gaps[5]);
        assert!(world.counts().last_error.is_some_and(|error| error.contains("cannot answer now")));
        world.store.fail_lists(None);
        let since = world.environment.now();
        world.kind.clone().wait_synced().await;
        recovered.push(world.environment.now().since(since));
        assert_eq!(world.counts().last_error, None);
    }
    starts.dedup();
    assert!(starts.len() > 10, "the delays of different reflectors differ");
    assert!(recovered.iter().all(|time| *time <= Duration::from_secs(31)));
    recovered.sort_unstable();
    recovered.dedup();
    assert!(recovered.len() > 10, "they do not come back in one instant");
}

#[tokio::test(start_paused = true)]
async fn a_failing_watch_goes_on_from_its_last_cursor_and_a_batch_forgets_the_failures() {
    let world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.store.fail_watches(Some(StoreFault::Unavailable));
    world.store.cut(Cut::Error(StoreFault::Unavailable));
    world.pass(10 * MINUTE).await;
    world.store.create("b").await;
    world.store.fail_watches(None);
    while world.names().len() < 2 {
        world.settle().await;
    }
    assert_eq!(world.counts().listings, 1, "no cursor was lost");
    assert!(world.store.watched_from().iter().skip(1).all(|(_, from)| *from == Revision(1)));
    // The failures are forgotten: the next one waits no longer than the base.
    let before = world.store.watched_from().len();
    world.store.cut(Cut::End);
    world.pass(Duration::from_millis(510)).await;
    assert_eq!(world.store.watched_from().len(), before + 1);
    assert_eq!(world.counts().restarts.of(RestartCause::Ended), 1);
}

#[tokio::test(start_paused = true)]
async fn c6_a_silent_stream_is_opened_again_within_the_idle_limit() {
    let world = World::synced().await;
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    // Open, and silent: half a connection.
    world.store.silence(false);
    world.store.create("a").await;
    world.pass(4 * MINUTE).await;
    assert!(world.names().is_empty());
    assert!(world.counts().idle_for.is_some_and(|idle| idle > 4 * MINUTE), "the age is visible");
    world.pass(MINUTE).await;
    assert_eq!(world.names(), ["a"]);
    let counts = world.counts();
    assert_eq!((counts.restarts.of(RestartCause::Idle), counts.listings), (1, 1));
    assert!(counts.idle_for.is_some_and(|idle| idle < MINUTE));
}

#[tokio::test(start_paused = true)]
async fn c7_a_reflector_that_panicked_is_started_again_and_goes_on() {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.store.panic_once();
    world.kind.cache().want_listing();
    world.settle().await;
    world.store.create("b").await;
    world.settle().await;
    assert_eq!(world.names(), ["a"], "the reflector is dead");
    world.start().await;
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(world.told.take(), ["a added 1", "b added 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_that_was_stopped_goes_on_from_its_cursor() {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.stop();
    world.store.remove("a").await;
    world.store.create("b").await;
    world.start().await;
    assert_eq!(world.told.take(), ["a added 1", "a deleted 1", "b added 3"]);
    assert_eq!(world.counts().listings, 1);
}

#[tokio::test(start_paused = true)]
async fn c15_a_dropped_reflector_asks_nothing_any_more() {
    let mut world = World::synced().await;
    world.stop();
    let (lists, watches) = (world.store.list_times().len(), world.store.watched_from().len());
    world.store.create("a").await;
    world.pass(60 * MINUTE).await;
    assert_eq!((world.store.list_times().len(), world.store.watched_from().len()), (lists, watches));
    assert!(world.names().is_empty());
    // While a listing fails, too.
    let mut world = World::new();
    world.store.fail_lists(Some(StoreFault::Unavailable));
    world.reflect();
    world.pass(MINUTE).await;
    world.stop();
    let lists = world.store.list_times().len();
    world.pass(60 * MINUTE).await;
    assert_eq!(world.store.list_times().len(), lists);
}

#[tokio::test(start_paused = true)]
async fn a_scoped_cache_holds_nothing_else_whoever_writes_it() {
    let mut world = World::with(|settings| {
        settings.scope = Scope::all().labels(LabelSelector::default().with("app", "x"));
    });
    let in_scope = |name: &str| crate::cache::test_store::web(name).label("app", "x");
    world.store.create("outside").await;
    world.start().await;
    let api = world.api();
    let a = api.create(in_scope("a")).await.unwrap();
    api.create(crate::cache::test_store::web("b")).await.unwrap();
    assert_eq!(world.names(), ["a"]);
    // Out of the scope by an own write, before the watch says so, and back again.
    let out = api.modify(&key("a"), |web| web.meta.labels.clear()).await.unwrap();
    assert!(world.names().is_empty());
    world.settle().await;
    let mut back = (*out).clone();
    back.meta.labels = a.meta.labels.clone();
    api.update(back).await.unwrap();
    assert_eq!(world.names(), ["a"]);
    world.settle().await;
    let told = ["a added 2", "a updated from 2 4", "a deleted 4", "a added 5"];
    assert_eq!(world.told.take(), told);
}

#[tokio::test(start_paused = true)]
async fn a_barrier_waits_for_the_watch_and_not_longer() {
    let world = World::synced().await;
    world.store.fail_watches(Some(StoreFault::Unavailable));
    world.store.cut(Cut::Error(StoreFault::Unavailable));
    world.pass(Duration::from_secs(3)).await;
    world.store.create("a").await;
    world.store.fail_watches(None);
    world.kind.clone().barrier().await.unwrap();
    assert_eq!(world.names(), ["a"]);
    assert_eq!(world.counts().listings, 1);
    // Nothing new: nothing to wait for.
    let now = world.environment.now();
    world.kind.clone().barrier().await.unwrap();
    assert_eq!(world.environment.now(), now);
}

#[tokio::test(start_paused = true)]
async fn a_barrier_before_a_silent_watch_lists_after_the_store_limit() {
    let world = World::synced().await;
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    world.store.create("a").await;
    let since = world.environment.now();
    world.kind.clone().barrier().await.unwrap();
    assert_eq!(world.names(), ["a"]);
    let waited = world.environment.now().since(since);
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(31), "{waited:?}");
    assert_eq!(world.counts().restarts.of(RestartCause::Asked), 1);
}

#[tokio::test(start_paused = true)]
async fn c5_a_barrier_sees_that_the_store_went_back_before_the_watch_does() {
    let world = World::synced().await;
    let empty = world.store.memory.snapshot();
    world.store.create("a").await;
    world.settle().await;
    world.store.silence(true);
    world.store.cut(Cut::End);
    world.pass(Duration::from_secs(1)).await;
    world.store.memory.restore(&empty);
    world.kind.clone().barrier().await.unwrap();
    assert!(world.names().is_empty());
    assert_eq!(world.counts().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_hangs_is_given_up_after_the_store_limit() {
    let mut world = World::new();
    world.store.gates(|gates| gates.pages = false);
    world.reflect();
    world.pass(Duration::from_secs(29)).await;
    assert_eq!(world.counts().restarts.of(RestartCause::Failed), 0);
    world.pass(Duration::from_secs(2)).await;
    assert!(world.counts().last_error.is_some_and(|error| error.contains("did not answer within 30s")));
    world.store.gates(|gates| gates.pages = true);
    world.kind.clone().wait_synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_that_lasts_forgets_the_failures_before_it() {
    let world = World::synced().await;
    world.store.fail_watches(Some(StoreFault::Unavailable));
    world.store.cut(Cut::Error(StoreFault::Unavailable));
    world.pass(10 * MINUTE).await;
    world.store.fail_watches(None);
    world.pass(2 * MINUTE).await; // no batch, no progress mark, and no failure
    let before = world.store.watched_from().len();
    world.store.cut(Cut::End);
    world.pass(Duration::from_millis(510)).await;
    assert_eq!(world.store.watched_from().len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_repeats_a_page_is_no_endless_listing() {
    let mut world = World::with(|settings| settings.page_size = 2);
    for name in ["a", "b", "c", "d", "e"] {
        world.store.create(name).await;
    }
    world.store.repeat_pages();
    world.reflect();
    world.pass(MINUTE).await;
    assert!(!world.kind.cache().is_synced());
    assert!(world.counts().last_error.is_some_and(|error| error.contains("the same page again and again")));
}

/// Writes once more whenever it is told of a change, so that the watch is never without a batch.
struct Feeds {
    store: Faulty,
    left: AtomicUsize,
    /// What `others` and the listings were when the last write was made.
    at_the_end: Mutex<Option<(usize, usize)>>,
    others: Arc<AtomicUsize>,
}

impl Subscriber<Web> for Feeds {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left == 1 {
            let seen = (self.others.load(Ordering::SeqCst), self.store.list_times().len());
            *self.at_the_end.lock().unwrap() = Some(seen);
        } else if left > 1 {
            self.store.scale("x", left).now_or_never().expect("a store in memory does not wait");
        }
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_always_ready_leaves_turns_to_others_and_to_a_wanted_listing() {
    let world = World::synced().await;
    let others = Arc::new(AtomicUsize::new(0));
    let feeds = Arc::new(Feeds {
        store: world.store.clone(),
        left: AtomicUsize::new(1_000),
        at_the_end: Mutex::default(),
        others: others.clone(),
    });
    world.kind.subscribe(feeds.clone());
    let cache = world.kind.cache().clone();
    let other = world.environment.spawn("other", async move {
        loop {
            if others.fetch_add(1, Ordering::SeqCst) == 10 {
                cache.want_listing();
            }
            tokio::task::yield_now().await;
            if others.load(Ordering::SeqCst) > 100_000 {
                return;
            }
        }
    });
    world.store.create("x").await;
    world.settle().await;
    let (turns, listings) = feeds.at_the_end.lock().unwrap().expect("all was told");
    assert!(turns > 30, "{turns} turns for others during a thousand batches");
    assert_eq!(listings, 2, "the wanted one came between the batches");
    drop(other);
}
