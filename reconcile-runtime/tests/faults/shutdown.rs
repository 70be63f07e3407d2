//! Stops, supersessions, and what happens to runs in the middle of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use reconcile_runtime::{NotConverged, RunReport};

use super::*;

/// Counts the futures that are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn r2_a_watch_that_cannot_be_mended_ends_the_run_with_its_name_within_the_grace() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let alive = Arc::new(AtomicUsize::new(0));
    let (count, sleeps) = (alive.clone(), env.clone());
    let long = reconcile_fn(move |_: ObjectKey, _run| {
        let (guard, wait) = (Alive::new(&count), sleeps.sleep(3600 * SECOND));
        async move {
            wait.await;
            drop(guard);
            Ok(Action::await_change())
        }
    });
    manager.add(Controller::for_objects("pod", &pods, long)).unwrap();
    foreign::<Pod>(&store, &env).create(pod("p", "n")).await.unwrap();
    let (script, health) = (store.of::<Web>(), manager.handle());
    script.always(Op::Watch, Fault::Panics);
    let began = env.now();
    let ended = manager.restart_limit(3).grace(10 * SECOND).run_until(std::future::pending::<()>()).await;
    let Err(RunError::LoopFailed { name, restarts: 3, last_end }) = ended else { panic!("{ended:?}") };
    assert_eq!(name, "the reflector of kind `Web`");
    assert!(last_end.contains("the store panics on Watch"), "{last_end}");
    // Four lives with three short pauses, and then the run in flight had its grace.
    let took = env.now().since(began);
    assert!((10 * SECOND..12 * SECOND).contains(&took), "{took:?}");
    assert_eq!(health.status().dropped, ["pod/p"]);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(store.of::<Pod>().open_streams(), 0, "the healthy kind is not watched either");
    drop(webs);
}

#[tokio::test(start_paused = true)]
async fn r3_a_stop_lets_runs_finish_drops_what_is_queued_and_waits_for_no_timer() {
    let (mut manager, env, _store) = world();
    let log = Log::default();
    let (runs, sleeps) = (log.clone(), env.clone());
    // Even keys take ten seconds, odd ones none and look again in an hour.
    let reconciler = reconcile_fn(move |key: u32, _run| {
        let (runs, env) = (runs.clone(), sleeps.clone());
        async move {
            if key % 2 == 1 {
                return Ok(Action::requeue_after(3600 * SECOND));
            }
            runs.add(format!("{key} begins"));
            env.sleep(10 * SECOND).await;
            runs.add(format!("{key} ends"));
            Ok(Action::await_change())
        }
    });
    let controller =
        Controller::for_keys("sleep", reconciler).enqueued_by_hand().concurrency(2).no_requeue_spread();
    let handle = manager.add(controller).unwrap();
    for timer in [1, 3, 5, 7, 9] {
        handle.enqueue(timer);
    }
    let began = env.now();
    run(manager, async {
        env.sleep(SECOND).await;
        for queued in [2, 4, 6, 8, 10] {
            handle.enqueue(queued);
        }
        env.sleep(SECOND).await;
        let depth = handle.snapshot().depth;
        assert_eq!((depth.running, depth.ready(), depth.scheduled), (2, 3, 5));
    })
    .await;
    assert_eq!(log.take(), ["2 begins", "4 begins", "2 ends", "4 ends"]);
    assert_eq!(env.now().since(began), 11 * SECOND, "over at once after the last run");
    // Nothing of it is left, and what is asked of it later is answered.
    handle.enqueue(12);
    env.sleep(7200 * SECOND).await;
    assert!(log.take().is_empty());
    assert!(matches!(handle.converged(&2).await, Err(NotConverged::Stopped)));
    assert!(handle.next_outcome(&1).await.is_err());
}

/// Waits for a peer that never comes, as long as the run is not cancelled.
struct WaitsForPeer {
    webs: Api<Web>,
    log: Log,
}

impl Reconciler for WaitsForPeer {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, run: &Run) -> Result<Action, Error> {
        let replicas = self.webs.get(key).map_or(0, |web| web.spec.replicas);
        self.log.add(format!("begins with {replicas}, attempt {}", run.attempt()));
        if replicas == 1 {
            let peer = run.until_cancelled(std::future::pending::<()>()).await;
            let cancelled = peer.expect_err("the peer never comes");
            self.log.add(format!("cancelled: {cancelled}"));
            peer?;
        }
        Ok(Action::await_change())
    }
}

#[tokio::test(start_paused = true)]
async fn r6_a_long_wait_ends_when_its_input_changes_and_the_next_run_has_the_new_state() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let reconciler = WaitsForPeer { webs: webs.clone(), log: log.clone() };
    let handle = manager.add(Controller::for_objects("web", &webs, reconciler)).unwrap();
    run(manager, async {
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        env.sleep(60 * SECOND).await;
        assert_eq!(log.take(), ["begins with 1, attempt 1"]);
        // What is no new wanted state leaves it alone.
        foreign::<Web>(&store, &env).modify_status(&key("x"), |status| status.ready = 1).await.unwrap();
        env.sleep(SECOND).await;
        assert!(log.take().is_empty());
        foreign::<Web>(&store, &env).modify(&key("x"), |web| web.spec.replicas = 2).await.unwrap();
        env.sleep(Duration::from_millis(1)).await;
        assert_eq!(log.take(), ["cancelled: superseded by a new input", "begins with 2, attempt 1"]);
        let snapshot = handle.snapshot();
        assert_eq!((snapshot.ended(OutcomeKind::Cancelled), snapshot.retries), (1, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r6_a_long_wait_ends_at_a_stop_and_not_only_with_the_grace() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let reconciler = WaitsForPeer { webs: webs.clone(), log: log.clone() };
    manager.add(Controller::for_objects("web", &webs, reconciler)).unwrap();
    foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
    let (began, health) = (env.now(), manager.handle());
    run(manager, env.sleep(SECOND)).await;
    assert_eq!(log.take(), ["begins with 1, attempt 1", "cancelled: stopped"]);
    assert_eq!(env.now().since(began), SECOND);
    assert!(health.status().dropped.is_empty());
}

#[tokio::test(start_paused = true)]
async fn r10_a_cancelled_run_runs_again_whatever_the_filters_say_of_the_stale_cache() {
    let (mut manager, env, store) = world();
    let (webs, templates) = (manager.api::<Web>(&store), manager.api::<Template>(&store));
    let log = Log::default();
    let (runs, reads) = (log.clone(), templates.clone());
    let reconciler = reconcile_fn(move |_: ObjectKey, run: Run| {
        let (runs, templates) = (runs.clone(), reads.clone());
        async move {
            let text =
                templates.get(&ObjectKey::new("t")).map_or_else(String::new, |found| found.spec.text.clone());
            runs.add(format!("begins with {text}"));
            if text == "one" {
                run.until_cancelled(std::future::pending::<()>()).await?;
            }
            Ok(Action::await_change())
        }
    });
    // A filter that judges every later change of the primary as done already.
    let handle = manager
        .add(
            Controller::for_objects("web", &webs, reconciler)
                .filter(|change| matches!(change, Change::Added(_)))
                .watches_with(Watch::new(&templates, |_: &Template| [ObjectKey::new("x")]).as_input()),
        )
        .unwrap();
    run(manager, async {
        foreign::<Template>(&store, &env).create(template("t", "one")).await.unwrap();
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["begins with one"]);
        // The cache shows the web as it was when the run began, and goes on doing so.
        store.of::<Web>().hold_streams();
        foreign::<Web>(&store, &env).modify_status(&key("x"), |status| status.ready = 1).await.unwrap();
        foreign::<Template>(&store, &env)
            .modify(&key("t"), |found| found.spec.text = "two".into())
            .await
            .unwrap();
        env.sleep(Duration::from_millis(1)).await;
        assert_eq!(log.take(), ["begins with two"], "at once, and not by a retry");
        store.of::<Web>().release_streams();
        env.sleep(3600 * SECOND).await;
        assert!(log.take().is_empty(), "exactly one more run");
        assert_eq!(handle.snapshot().ended(OutcomeKind::Cancelled), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_managers_future_stops_every_task_of_it() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let _pods = manager.api::<Pod>(&store);
    let alive = Arc::new(AtomicUsize::new(0));
    let (count, ticks) = (alive.clone(), alive.clone());
    let hangs = reconcile_fn(move |_: ObjectKey, _run| {
        let guard = Alive::new(&count);
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Action::await_change())
        }
    });
    let handle = manager
        .add(Controller::for_objects("web", &webs, hangs).trigger(move || {
            let guard = Alive::new(&ticks);
            futures::stream::poll_fn(move |_| {
                let _held = &guard;
                std::task::Poll::<Option<ObjectKey>>::Pending
            })
        }))
        .unwrap();
    foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
    let health = manager.handle();
    let mut running = Box::pin(manager.run_until(std::future::pending::<()>()));
    tokio::select! {
        biased;
        ended = &mut running => panic!("{ended:?}"),
        () = env.sleep(SECOND) => {}
    }
    assert_eq!(alive.load(Ordering::SeqCst), 2, "a run and a trigger");
    assert_eq!((store.of::<Web>().open_streams(), store.of::<Pod>().open_streams()), (1, 1));
    let waiting = handle.clone();
    let waits = env.spawn("waits", async move {
        let outcome: Result<RunReport, _> = waiting.next_outcome(&key("x")).await;
        assert!(outcome.is_err(), "who waits hears of it: {outcome:?}");
    });
    env.sleep(SECOND).await;
    drop(running);
    // Aborted tasks are dropped when their runtime next looks at them, without any time passing.
    tokio::task::yield_now().await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!((store.of::<Web>().open_streams(), store.of::<Pod>().open_streams()), (0, 0));
    let mut waits = waits;
    waits.join().await;
    assert_eq!(health.readiness().phase, reconcile_runtime::Phase::Stopped);
    let asked = store.of::<Web>().count(Op::Watch);
    env.sleep(3600 * SECOND).await;
    assert_eq!(store.of::<Web>().count(Op::Watch), asked);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_run_that_a_stop_dropped_is_carried_through_before_the_manager_ends() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let writes = webs.clone();
    let reconciler = reconcile_fn(move |key: ObjectKey, _run| {
        let webs = writes.clone();
        async move {
            webs.modify(&key, |web| web.spec.replicas = 7).await?;
            Ok(Action::await_change())
        }
    });
    manager.add(Controller::for_objects("web", &webs, reconciler)).unwrap();
    let others = foreign::<Web>(&store, &env);
    others.create(web("x", 1)).await.unwrap();
    let script = store.of::<Web>();
    script.hold(Op::Write);
    let (release, wakes) = (script.clone(), env.clone());
    let _later = env.spawn("release", async move {
        // The stop comes at one second, the grace ends at three; the write goes on a moment later.
        wakes.sleep(3 * SECOND + Duration::from_millis(500)).await;
        release.release(Op::Write);
    });
    let health = manager.handle();
    manager.grace(2 * SECOND).run_until(env.sleep(SECOND)).await.unwrap();
    assert_eq!(health.status().dropped, ["web/x"]);
    assert_eq!(others.get(&key("x")).await.unwrap().unwrap().spec.replicas, 7);
}
