//! Writes whose run was dropped.

use std::time::Duration;

use reconcile_core::{Resource, Revision, StoreFault};

use super::{in_run, run};
use crate::cache::{
    AnyKind,
    test_store::{World, WriteFault, key, web},
};

#[tokio::test(start_paused = true)]
async fn a_started_write_outlives_its_run_and_holds_the_key_until_it_has_settled() {
    let world = World::synced().await;
    world.store.gates(|gates| gates.writes = false);
    let (run, scope) = run();
    let api = world.api();
    let inner = api.clone();
    let mut future = in_run(&run, async move { inner.create(web("a")).await });
    assert!(!future.poll());
    assert!(!scope.is_settled());
    drop(future);
    assert!(!scope.is_settled() && world.counts().writes_left == 1);
    world.settle().await;
    assert!(api.get(&key("a")).is_none());
    let (watched, settled) = (scope.clone(), world.environment.now());
    world.store.gates(|gates| gates.writes = true);
    watched.settled().await;
    assert_eq!(world.environment.now(), settled, "released as soon as it has settled");
    assert!(api.get(&key("a")).is_some());
    assert_eq!(world.told.take(), ["a added 1"]);
    let report = scope.report();
    assert_eq!((report.own.len(), report.effective_writes), (1, 1), "it was this run's");
    world.kind.clone().settle().await;
    assert_eq!(world.counts().writes_left, 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_never_polled_is_not_sent() {
    let world = World::synced().await;
    let (run, scope) = run();
    let api = world.api();
    let inner = api.clone();
    drop(in_run(&run, async move { inner.create(web("a")).await }));
    let inner = api.clone();
    drop(in_run(&run, async move {
        // A request that was made and not awaited.
        let write = inner.create(web("b"));
        drop(write);
        std::future::pending::<()>().await;
    }));
    world.settle().await;
    assert!(world.store.writes_sent().is_empty() && scope.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_key_is_released_after_one_time_limit_although_the_write_goes_on() {
    let world = World::with(|settings| settings.store_limit = Duration::from_secs(10));
    world.store.fail_gets(Some(StoreFault::Unavailable));
    world.store.next_write(WriteFault::Hangs);
    let (run, scope) = run();
    let inner = world.api();
    let mut future = in_run(&run, async move { inner.create(web("a")).await });
    assert!(!future.poll());
    world.pass(Duration::from_secs(5)).await;
    world.store.fail_gets(None);
    world.store.gates(|gates| gates.gets = false);
    drop(future);
    let since = world.environment.now();
    scope.settled().await;
    let held = world.environment.now().since(since);
    assert!(held <= Duration::from_secs(11), "{held:?}");
    // The live read after the lost answer is still under way.
    assert_eq!(world.counts().writes_left, 1);
    world.kind.clone().settle().await;
    assert_eq!(world.counts().writes_left, 0);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_a_dropped_run_still_refreshes_the_cache() {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.stop();
    let (run, scope) = run();
    let api = world.api();
    let mut new = (*api.get(&key("a")).unwrap()).clone();
    new.spec.replicas = 3;
    world.store.scale("a", 8).await;
    world.store.gates(|gates| gates.writes = false);
    let inner = api.clone();
    let mut future = in_run(&run, async move { inner.update(new).await });
    assert!(!future.poll());
    drop(future);
    world.store.gates(|gates| gates.writes = true);
    scope.settled().await;
    assert_eq!(api.get(&key("a")).unwrap().spec.replicas, 8);
    assert_eq!(scope.report().conflicts, 1);
}

#[tokio::test(start_paused = true)]
async fn aborted_writes_release_their_keys() {
    let world = World::synced().await;
    world.store.gates(|gates| gates.writes = false);
    let (run, scope) = run();
    for name in ["a", "b"] {
        let inner = world.api();
        let mut future = in_run(&run, async move { inner.create(web(name)).await });
        assert!(!future.poll());
        drop(future);
    }
    assert_eq!(world.counts().writes_left, 2);
    world.kind.abort_writes();
    world.settle().await;
    assert!(scope.is_settled());
    world.kind.clone().settle().await;
    assert_eq!(world.counts().writes_left, 0);
}

#[test]
fn a_write_dropped_outside_any_runtime_releases_its_key() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (run, scope) = run();
    let (world, mut future) = runtime.block_on(async {
        let world = World::new();
        world.store.gates(|gates| gates.writes = false);
        let inner = world.api();
        let mut future = in_run(&run, async move { inner.create(web("a")).await });
        assert!(!future.poll());
        (world, Some(future))
    });
    // No runtime to take it over, and no panic out of the drop.
    drop(future.take());
    assert!(scope.is_settled());
    assert_eq!(world.counts().writes_left, 0);
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_before_its_own_event_arrives_is_told_it_once() {
    let world = World::synced().await;
    let api = world.api();
    let a = api.create(web("a")).await.unwrap();
    world.settle().await;
    assert_eq!(world.told.take(), ["a added 1"], "the watch's event of the same revision is no news");
    assert_eq!((a.meta.revision, a.key()), (Revision(1), key("a")));
}
