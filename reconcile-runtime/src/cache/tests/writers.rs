//! One writer discipline: order, replay, readers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use reconcile_core::{ObjectKey, Resource, Revision, store::Scope};

use crate::{
    Change, Environment,
    cache::{
        Answer, Cache,
        test_store::{Told, Web, World, key, stored_web},
        test_task::task,
    },
    change::{Initial, Step, Subscriber},
    store::Damage,
};

fn cache() -> (Arc<Cache<Web>>, Arc<Told>) {
    let cache = Cache::new(7, Scope::all());
    let told = Arc::new(Told::default());
    cache.subscribe(told.clone());
    (cache, told)
}

#[tokio::test]
async fn a_change_is_delivered_before_the_call_returns_with_its_step() {
    let (cache, told) = cache();
    cache.enter_answer(Answer::Stored(stored_web("a", "u", 5)), cache.begin()).await;
    assert_eq!(told.take(), ["a added 5"]);
    assert_eq!(told.last_step(), Step { kind: 7, before: Revision(0), after: Revision(5) });
    cache.enter_answer(Answer::Stored(stored_web("a", "u", 7)), cache.begin()).await;
    assert_eq!(told.last_step(), Step { kind: 7, before: Revision(5), after: Revision(7) });
    let removed = Answer::Removed { key: key("a"), revision: Revision(9), last: None };
    cache.enter_answer(removed, cache.begin()).await;
    assert_eq!(told.take(), ["a updated from 5 7", "a deleted 7"]);
    assert_eq!(told.last_step(), Step { kind: 7, before: Revision(7), after: Revision(9) });
}

#[tokio::test]
async fn a_subscriber_of_a_filled_cache_gets_a_replay_and_then_what_follows() {
    let (cache, _) = cache();
    for (name, revision) in [("b", 1), ("a", 2), ("c", 3)] {
        cache.enter_answer(Answer::Stored(stored_web(name, "u", revision)), cache.begin()).await;
    }
    let late = Arc::new(Told::default());
    cache.subscribe(late.clone());
    assert_eq!(late.take(), ["a initial 2", "b initial 1", "c initial 3"]);
    cache.enter_answer(Answer::Stored(stored_web("d", "u", 4)), cache.begin()).await;
    assert_eq!(late.take(), ["d added 4"]);
}

/// Subscribes another one while the first change is being delivered to it.
struct Recruits {
    cache: Arc<Cache<Web>>,
    recruit: Arc<Told>,
    done: AtomicBool,
}

impl Subscriber<Web> for Recruits {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        if !self.done.swap(true, Ordering::SeqCst) {
            self.cache.subscribe(self.recruit.clone());
            assert!(self.recruit.lines.lock().unwrap().is_empty(), "its replay comes after this change");
            let write = Answer::Stored(stored_web("b", "u", 2));
            assert!(!task(self.cache.enter_answer(write, self.cache.begin())).poll());
        }
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

#[tokio::test]
async fn a_replay_leaves_no_gap_and_no_overlap_with_the_changes_around_it() {
    let (cache, told) = cache();
    let recruit = Arc::new(Told::default());
    let recruits = Recruits { cache: cache.clone(), recruit: recruit.clone(), done: AtomicBool::new(false) };
    cache.subscribe(Arc::new(recruits));
    cache.enter_answer(Answer::Stored(stored_web("a", "u", 1)), cache.begin()).await;
    // `a` was there when it came; `b` came afterwards, by a writer whose future was dropped.
    assert_eq!(recruit.take(), ["a initial 1", "b added 2"]);
    assert_eq!(told.take(), ["a added 1", "b added 2"]);
}

struct Panics(AtomicUsize);

impl Subscriber<Web> for Panics {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the test says so");
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

#[tokio::test]
async fn a_panicking_subscriber_takes_nothing_from_the_others_and_is_counted() {
    let (cache, _) = cache();
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    cache.subscribe(panics.clone());
    let behind = Arc::new(Told::default());
    cache.subscribe(behind.clone());
    for revision in 1..4 {
        cache.enter_answer(Answer::Stored(stored_web("a", "u", revision)), cache.begin()).await;
    }
    assert_eq!(panics.0.load(Ordering::SeqCst), 3);
    assert_eq!(behind.take(), ["a added 1", "a updated from 1 2", "a updated from 2 3"]);
    assert_eq!(cache.snapshot(crate::Time::ZERO, 0).subscriber_panics, 3);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_keeps_its_last_good_version_and_is_flagged() {
    let world = World::synced().await;
    world.store.create("x").await;
    world.settle().await;
    world.told.take();
    world.store.memory.damage::<Web>(&key("x"), Damage::Content, "not JSON").unwrap();
    world.settle().await;
    let api = world.api();
    assert_eq!(world.told.take(), ["x flagged"]);
    assert_eq!(api.get(&key("x")).unwrap().meta.revision, Revision(1));
    assert_eq!(&*api.unreadable(&key("x")).unwrap().fault, "not JSON");
    assert_eq!(world.counts().unreadable, 1);
    // Also by a listing, and a subscriber that comes later hears of it.
    world.kind.cache().want_listing();
    world.settle().await;
    assert!(world.told.take().is_empty());
    let late = Arc::new(Told::default());
    world.kind.subscribe(late.clone());
    assert_eq!(late.take(), ["x initial 1", "x flagged"]);
    world.store.memory.repair::<Web>(&key("x")).unwrap();
    world.settle().await;
    assert_eq!(world.told.take(), ["x updated from 1 3", "x flagged"]);
    assert!(api.unreadable(&key("x")).is_none());
}

#[tokio::test]
async fn listings_are_in_key_order() {
    let (cache, _) = cache();
    for (revision, name) in (1..).zip(["c", "a", "b"]) {
        let mut web = (*stored_web(name, "u", revision)).clone();
        web.meta.namespace = (name == "a").then(|| "n".to_owned());
        cache.enter_answer(Answer::Stored(Arc::new(web)), cache.begin()).await;
    }
    let keys: Vec<String> = cache.list().iter().map(|web| web.key().to_string()).collect();
    assert_eq!(keys, ["b", "c", "n/a"], "those without a namespace come first");
}

/// The structure of bar P9: a writer beside readers that list without a pause. It ends only if the writer gets
/// its turn between them, and every reader its own; how fast is the benchmark's to say.
#[test]
fn p9_listing_readers_do_not_starve_a_writer() {
    let (cache, told) = cache();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for number in 0..2_000 {
            let web = stored_web(&format!("x{number}"), "u", number + 1);
            cache.enter_answer(Answer::Stored(web), cache.begin()).await;
        }
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut listings = 0;
                    while !done.load(Ordering::SeqCst) || listings == 0 {
                        let names = cache.list();
                        assert_eq!(names.len(), 2_000, "an update takes nothing out, not for an instant");
                        listings += 1;
                    }
                    listings
                })
            })
            .collect();
        runtime.block_on(async {
            for number in 0..5_000 {
                let web = stored_web(&format!("x{}", number % 2_000), "u", 10_000 + number);
                cache.enter_answer(Answer::Stored(web), cache.begin()).await;
            }
        });
        done.store(true, Ordering::SeqCst);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
    assert_eq!(told.take().len(), 7_000);
}

/// Many writers on many threads: whatever the interleaving, every writer's change is delivered when its call
/// returns, and the changes of each key are told in order.
#[test]
fn writers_on_many_threads_are_told_in_order() {
    let (cache, told) = cache();
    let revision = Arc::new(AtomicUsize::new(1));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let environment = Environment::seeded(1);
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (cache, told, revision) = (cache.clone(), told.clone(), revision.clone());
            runtime.spawn(async move {
                for number in 0..300 {
                    let at = u64::try_from(revision.fetch_add(1, Ordering::SeqCst)).unwrap();
                    let web = stored_web(&format!("x{writer}"), "u", at);
                    let entered = cache.enter_answer(Answer::Stored(web), cache.begin());
                    if number % 7 == 3 {
                        drop(entered); // a caller that does not wait: its item is still delivered, once
                        continue;
                    }
                    entered.await;
                    let line = format!(" {at}");
                    let lines = told.lines.lock().unwrap();
                    assert!(lines.iter().rev().any(|told| told.ends_with(&line)), "not told on return");
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for writer in writers {
            writer.await.unwrap();
        }
        // The last dropped ones may be another writer's to deliver.
        while told.lines.lock().unwrap().len() < 2_400 {
            environment.sleep(Duration::from_millis(1)).await;
        }
    });
    for writer in 0..8 {
        let name = format!("x{writer} ");
        let lines: Vec<String> =
            told.lines.lock().unwrap().iter().filter(|l| l.starts_with(&name)).cloned().collect();
        let revisions: Vec<u64> =
            lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(revisions.len(), 300);
        assert!(revisions.is_sorted());
    }
}
