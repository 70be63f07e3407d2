//! Watches that end badly: expired, silent, broken, panicking, and those whose manager is gone.

use reconcile_runtime::{LoopRole, ManagerHandle, Phase, RestartCause};

use super::*;

/// The state of a kind.
fn kind(health: &ManagerHandle, name: &str) -> reconcile_runtime::CacheSnapshot {
    let kinds = health.status().kinds;
    kinds.into_iter().find(|kind| kind.kind == name).expect("the manager knows the kind")
}

#[tokio::test(start_paused = true)]
async fn c3_expiry_inside_of_the_stream_is_one_new_listing_and_the_watch_goes_on() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let others = foreign::<Web>(&store, &env);
    let health = manager.handle();
    run(manager, async {
        let script = store.of::<Web>();
        others.create(web("a", 1)).await.unwrap();
        env.sleep(SECOND).await;
        let (lists, watches) = (script.count(Op::List), script.count(Op::Watch));
        script.hold_streams();
        others.create(web("b", 1)).await.unwrap();
        store.memory().compact();
        script.release_streams();
        env.sleep(60 * SECOND).await;
        assert_eq!(webs.len(), 2);
        assert_eq!((script.count(Op::List), script.count(Op::Watch)), (lists + 1, watches + 1));
        assert_eq!(kind(&health, "Web").restarts.of(RestartCause::Expired), 1);
        // And it goes on from there, without another listing.
        others.create(web("c", 1)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!((webs.len(), script.count(Op::List)), (3, lists + 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c3_a_store_whose_cursors_are_always_expired_is_listed_with_backoff() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let script = store.of::<Web>();
    script.always(Op::Watch, Fault::Fails(StoreFault::Expired));
    foreign::<Web>(&store, &env).create(web("a", 1)).await.unwrap();
    run(manager, async {
        env.sleep(3600 * SECOND).await;
        // Half a second doubles to thirty, with jitter down to half of it: 7 to reach the cap, then 120 to 240.
        let lists = script.count(Op::List);
        assert!((100..300).contains(&lists), "{lists} listings in an hour");
        assert_eq!(webs.len(), 1);
        script.heal(Op::Watch);
        foreign::<Web>(&store, &env).create(web("b", 1)).await.unwrap();
        env.sleep(60 * SECOND).await;
        assert_eq!((webs.len(), script.open_streams()), (2, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c6_a_silent_stream_is_opened_again_from_where_it_was_within_the_idle_limit() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let (others, health) = (foreign::<Web>(&store, &env), manager.handle());
    run(manager, async {
        let script = store.of::<Web>();
        env.sleep(SECOND).await;
        let lists = script.count(Op::List);
        script.silence_open_streams();
        others.create(web("x", 1)).await.unwrap();
        foreign::<Pod>(&store, &env).create(pod("p", "n")).await.unwrap();
        env.sleep(295 * SECOND).await;
        // Another kind is not disturbed, and the age of the last sign of life shows what is wrong.
        assert_eq!((webs.len(), pods.len()), (0, 1));
        assert!(kind(&health, "Web").idle_for.unwrap() >= 295 * SECOND);
        env.sleep(10 * SECOND).await;
        assert_eq!(webs.len(), 1, "within the idle limit of 300 seconds");
        assert_eq!(script.count(Op::List), lists, "it caught up from its cursor, without a listing");
        assert_eq!(kind(&health, "Web").restarts.of(RestartCause::Idle), 1);
        assert!(kind(&health, "Web").idle_for.unwrap() <= 10 * SECOND);
        assert_eq!(script.open_streams(), 1, "the silent one is closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c6_a_store_that_never_answers_is_given_up_and_asked_again() {
    for op in [Op::List, Op::Watch] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let script = store.of::<Web>();
        let health = manager.handle();
        script.hold(op);
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        run(manager, async {
            env.sleep(29 * SECOND).await;
            assert_eq!(script.count(op), 1, "{op:?}");
            env.sleep(5 * SECOND).await;
            assert_eq!(script.count(op), 2, "{op:?}: the first was given up after 30 seconds");
            let error = kind(&health, "Web").last_error.expect("it is told");
            assert!(error.contains("did not answer within 30s"), "{error}");
            script.release(op);
            env.sleep(5 * SECOND).await;
            foreign::<Web>(&store, &env).create(web("y", 1)).await.unwrap();
            env.sleep(SECOND).await;
            assert_eq!((webs.len(), kind(&health, "Web").last_error), (2, None), "{op:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c7_a_watch_that_panics_is_red_while_it_is_down_and_disturbs_no_other_kind() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let log = Log::default();
    manager.add(Controller::for_objects("pod", &pods, runs_in(&log))).unwrap();
    let health = manager.handle();
    run(manager, async {
        assert!(health.started().await.is_ready());
        let script = store.of::<Web>();
        env.sleep(SECOND).await;
        let lists = script.count(Op::List);
        script.break_open_streams(Break::Panics);
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        // The first restart comes after 100 to 200 milliseconds.
        env.sleep(Duration::from_millis(50)).await;
        let readiness = health.readiness();
        assert!(!readiness.is_ready());
        assert_eq!((readiness.failing.len(), readiness.failing[0].role), (1, LoopRole::Reflector));
        let text = readiness.to_string();
        for part in ["reflector of `Web` is down", "the stream of Web breaks"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        foreign::<Pod>(&store, &env).create(pod("p", "n")).await.unwrap();
        env.sleep(Duration::from_millis(1)).await;
        assert_eq!(log.take(), ["run p"], "other kinds go on");

        env.sleep(SECOND).await;
        assert!(health.readiness().is_ready(), "{}", health.readiness());
        assert_eq!((webs.len(), script.count(Op::List)), (1, lists), "it went on from its cursor");
        let loops = health.status().loops;
        let reflector = loops.iter().find(|one| one.role == LoopRole::Reflector && &*one.owner == "Web");
        assert_eq!(reflector.expect("it has a reflector").restarts, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c7_a_stream_that_ends_or_fails_is_watched_again_from_its_cursor() {
    for how in [Break::Ends, Break::Fails(StoreFault::Unavailable)] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let health = manager.handle();
        run(manager, async {
            let script = store.of::<Web>();
            env.sleep(SECOND).await;
            let lists = script.count(Op::List);
            script.break_open_streams(how);
            script.next(Op::Watch, 3, Fault::Fails(StoreFault::Unavailable));
            foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
            env.sleep(Duration::from_millis(100)).await;
            assert!(kind(&health, "Web").last_error.is_some());
            env.sleep(30 * SECOND).await;
            assert_eq!((webs.len(), script.count(Op::List)), (1, lists), "{how:?}");
            assert_eq!(kind(&health, "Web").last_error, None);
            let restarts = kind(&health, "Web").restarts;
            let ended = u64::from(matches!(how, Break::Ends));
            assert_eq!(
                (restarts.of(RestartCause::Ended), restarts.of(RestartCause::Failed)),
                (ended, 4 - ended),
                "{how:?}"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c15_after_its_manager_nothing_is_watched_listed_or_held_and_a_new_one_starts_again() {
    let (mut first, env, store) = world();
    let (webs, pods) = (first.api::<Web>(&store), first.api::<Pod>(&store));
    let log = Log::default();
    let handle = first.add(Controller::for_objects("web", &webs, runs_in(&log)).owns(&pods)).unwrap();
    let (web_script, pod_script) = (store.of::<Web>(), store.of::<Pod>());
    // One kind cannot be watched: its reflector is in its backoff when the manager ends.
    pod_script.always(Op::Watch, Fault::Fails(StoreFault::Unavailable));
    let health = first.handle();
    let others = foreign::<Web>(&store, &env);
    let stored = others.create(web("x", 1)).await.unwrap();
    let holders = Arc::strong_count(&stored);
    run(first, async {
        env.sleep(60 * SECOND).await;
        assert_eq!((log.take(), web_script.open_streams()), (vec!["run x".to_owned()], 1));
        assert!(Arc::strong_count(&stored) > holders, "it is cached");
        assert_eq!(health.status().kinds.len(), 2);
    })
    .await;
    let asked = || [&web_script, &pod_script].map(|script| (script.count(Op::List), script.count(Op::Watch)));
    let before = asked();
    others.modify(&key("x"), |web| web.spec.replicas = 2).await.unwrap();
    env.sleep(24 * 3600 * SECOND).await;
    assert_eq!(asked(), before, "nothing is asked for any more");
    assert_eq!((web_script.open_streams(), pod_script.open_streams()), (0, 0));
    assert!(log.take().is_empty());
    let status = health.status();
    assert!(status.kinds.is_empty() && status.controllers.is_empty());
    assert_eq!(status.readiness.phase, Phase::Stopped);
    // Handles may outlive their manager; its caches go with the last `Api`.
    drop((webs, pods));
    drop(handle);
    let current = others.get(&key("x")).await.unwrap().unwrap();
    let version_holders = Arc::strong_count(&stored);
    assert!(
        version_holders <= holders + 1,
        "{version_holders} hold the old version: the history and this test"
    );
    drop(current);

    pod_script.heal(Op::Watch);
    let mut second = Manager::with_environment(env.clone());
    let webs = second.api::<Web>(&store);
    let _pods = second.api::<Pod>(&store);
    second.add(Controller::for_objects("web", &webs, runs_in(&log))).unwrap();
    run(second, async {
        env.sleep(SECOND).await;
        assert_eq!((log.take(), webs.get(&key("x")).unwrap().spec.replicas), (vec!["run x".to_owned()], 2));
        assert_eq!((web_script.open_streams(), pod_script.open_streams()), (1, 1));
    })
    .await;
}
