//! Stopping: asked for, by a failure, and by being dropped.

use super::*;

/// The log's lines about a controller's end.
fn ends(log: &Log) -> Vec<String> {
    let lines = log.take().into_iter();
    lines.filter(|line| line.starts_with("close") || line.starts_with("abandon")).collect()
}

#[tokio::test(start_paused = true)]
async fn r3_a_stop_without_runs_is_over_at_once() {
    let (mut manager, env, log) = manager();
    let fake = Fake::new("web", &log);
    let alive = fake.alive();
    manager.controllers.add(Box::new(fake), Needs::All);
    let _webs = manager.api::<Object<Web>>(&MemoryStore::default());
    let (health, count) = (manager.handle(), alive.clone());
    let stop = async {
        env.sleep(SECOND).await;
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(health.status().loops.iter().all(|one| one.running == 1));
    };
    manager.run_until(stop).await.unwrap();
    assert!(health.status().loops.iter().all(|one| one.running == 0));
    assert_eq!(env.now().since(Default::default()), SECOND);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(ends(&log), ["close web"]);
}

#[tokio::test(start_paused = true)]
async fn r3_runs_get_the_grace_and_then_are_dropped_and_named() {
    let (mut manager, env, log) = manager();
    let fake = Fake::running("web", &log, &["shop/a", "shop/b"], Dropped::Unwinds);
    let alive = fake.alive();
    manager.controllers.add(Box::new(fake), Needs::All);
    let health = manager.handle();
    manager.grace(30 * SECOND).run_until(env.sleep(SECOND)).await.unwrap();
    assert_eq!(env.now().since(Default::default()), 31 * SECOND);
    assert_eq!(ends(&log), ["close web", "abandon web"]);
    assert_eq!(health.status().dropped, ["web/shop/a", "web/shop/b"]);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn r2_a_run_that_does_not_even_drop_does_not_keep_the_manager() {
    let (mut manager, env, log) = manager();
    let fake = Fake::running("web", &log, &["a"], Dropped::BlocksItsThread);
    manager.controllers.add(Box::new(fake), Needs::All);
    manager.grace(Duration::ZERO).run_until(env.sleep(SECOND)).await.unwrap();
    assert_eq!(env.now().since(Default::default()), SECOND + super::super::stop::DROP_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn sources_end_while_runs_have_their_grace() {
    let (mut manager, env, log) = manager();
    let fake = Fake::running("web", &log, &["a"], Dropped::Unwinds);
    let alive = fake.alive();
    manager.controllers.add(Box::new(fake), Needs::All);
    let mut run = Box::pin(manager.run_until(env.sleep(SECOND)));
    tokio::select! {
        biased;
        ended = &mut run => panic!("{ended:?}"),
        () = env.sleep(5 * SECOND) => {}
    }
    // The worker is left, the trigger is not.
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    run.await.unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn r2_a_kind_that_keeps_dying_ends_the_run_with_its_name_and_runs_get_their_grace() {
    let (mut manager, env, log) = manager();
    let store = Slow::new(Listing::Panics, &log);
    let _pods = manager.api::<Object<Pod>>(&store);
    manager
        .controllers
        .add(Box::new(Fake::running("web", &log, &["a"], Dropped::Unwinds)), Needs::Only(Vec::new()));
    let run = manager.restart_limit(2).grace(7 * SECOND).run_until(std::future::pending::<()>());
    let ended = env.before(env.now().saturating_add(60 * SECOND), run).await;
    let Ok(Err(RunError::LoopFailed { name, restarts, last_end })) = ended else { panic!("{ended:?}") };
    assert_eq!((name.as_str(), restarts), ("the reflector of kind `Pod`", 2));
    assert!(last_end.contains("bad page"));
    assert_eq!(ends(&log), ["close web", "abandon web"]);
    // Three lives, two backoffs below a second each, and the grace.
    let took = env.now().since(Default::default());
    assert!(took >= 7 * SECOND && took < 9 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_stops_all_tasks_and_closes_the_controllers() {
    let (mut manager, env, log) = manager();
    let store = Slow::new(Listing::Works, &log);
    let _webs = manager.api::<Object<Web>>(&store);
    let fake = Fake::running("web", &log, &["a"], Dropped::Unwinds);
    let alive = fake.alive();
    manager.controllers.add(Box::new(fake), Needs::All);
    let health = manager.handle();
    let run = manager.run_until(std::future::pending::<()>());
    assert!(env.before(env.now().saturating_add(SECOND), run).await.is_err());
    assert!(ends(&log).contains(&"close web".to_owned()));
    assert_eq!(health.readiness().phase, Phase::Stopped);
    env.sleep(SECOND).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_never_ran_closes_its_controllers_when_it_is_dropped() {
    let (mut manager, _env, log) = manager();
    manager.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    drop(manager);
    assert_eq!(ends(&log), ["close web"]);
}

#[tokio::test(start_paused = true)]
async fn c15_after_the_run_nothing_is_listed_and_a_new_manager_starts_anew() {
    let (mut first, env, log) = manager();
    let store = Slow::new(Listing::Fails, &log);
    let _pods = first.api::<Object<Pod>>(&store);
    let health = first.handle();
    first.run_until(env.sleep(10 * SECOND)).await.unwrap();
    let lists = store.lists();
    assert!(lists > 0);
    assert!(health.status().kinds.is_empty());
    env.sleep(3600 * SECOND).await;
    assert_eq!(store.lists(), lists);

    store.set(Listing::Works);
    let mut second = Manager::with_environment(env.clone());
    let pods = second.api::<Object<Pod>>(&store);
    second.run_until(env.sleep(SECOND)).await.unwrap();
    assert!(pods.is_synced());
}

#[tokio::test(start_paused = true)]
async fn two_managers_in_one_process_share_nothing() {
    let (mut one, env, log) = manager();
    let mut two = Manager::with_environment(env.clone());
    let store = MemoryStore::default();
    let (webs_of_one, webs_of_two) = (one.api::<Object<Web>>(&store), two.api::<Object<Web>>(&store));
    one.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    two.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    let long = two.run_until(async {
        env.sleep(60 * SECOND).await;
        assert!(webs_of_two.is_synced());
    });
    let (short, long) = tokio::join!(one.run_until(env.sleep(SECOND)), long);
    short.unwrap();
    long.unwrap();
    assert!(webs_of_one.is_synced());
}
