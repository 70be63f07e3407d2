//! Starting: sources, caches, controllers, in this order; and what holds a start back.

use reconcile_core::{Action, reconcile_fn};

use super::*;

#[tokio::test(start_paused = true)]
async fn q4_sources_are_open_before_the_first_listing_and_runs_start_after_it() {
    let (mut manager, env, log) = manager();
    let store = Slow::new(Listing::Hangs, &log);
    let _webs = manager.api::<Object<Web>>(&store);
    let _pods = manager.api::<Object<Pod>>(&store);
    manager.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    let health = manager.handle();
    let stop = async {
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["open web", "list Web", "list Pod"]);
        store.set(Listing::Works);
        assert!(health.started().await.is_ready());
        assert_eq!(log.take(), ["start web"]);
    };
    manager.run_until(stop).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn r11_a_kind_that_cannot_be_listed_holds_back_only_who_waits_for_it_and_then_ends_the_run() {
    let (mut manager, env, log) = manager();
    let (good, bad) = (Slow::new(Listing::Works, &log), Slow::new(Listing::Fails, &log));
    let _webs = manager.api::<Object<Web>>(&good);
    let _pods = manager.api::<Object<Pod>>(&bad);
    manager.controllers.add(Box::new(Fake::new("all", &log)), Needs::All);
    manager.controllers.add(Box::new(Fake::new("webs only", &log)), Needs::Only(vec![0]));
    let health = manager.handle();
    let mut run = Box::pin(manager.sync_limit(60 * SECOND).run_until(std::future::pending::<()>()));
    tokio::select! {
        biased;
        ended = &mut run => panic!("{ended:?}"),
        () = env.sleep(30 * SECOND) => {}
    }
    let started: Vec<String> = log.take().into_iter().filter(|line| line.starts_with("start")).collect();
    assert_eq!(started, ["start webs only"]);
    let readiness = health.readiness();
    assert!(!readiness.is_ready());
    assert_eq!(readiness.waiting.len(), 1);
    assert_eq!((&*readiness.waiting[0].controller, &*readiness.waiting[0].kinds), ("all", &["Pod"][..]));
    assert_eq!(readiness.unsynced.len(), 1);
    let error = readiness.unsynced[0].last_error.clone();
    assert!(error.is_some_and(|error| error.contains("permission denied")), "{readiness}");

    let Err(RunError::NotSynced { kind, waited, last_error, others }) = run.await else {
        panic!("an unsynced kind must end the run");
    };
    assert_eq!((&*kind, waited, others.len()), ("Pod", 60 * SECOND, 0));
    assert!(last_error.is_some_and(|error| error.contains("permission denied")));
    assert_eq!(env.now().since(Default::default()), 60 * SECOND);
    assert_eq!(health.readiness().phase, Phase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn without_a_sync_limit_a_late_kind_starts_its_controllers_late() {
    let (mut manager, env, log) = manager();
    let store = Slow::new(Listing::Fails, &log);
    let _pods = manager.api::<Object<Pod>>(&store);
    manager.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    let stop = async {
        env.sleep(3600 * SECOND).await;
        assert!(!log.take().contains(&"start web".to_owned()));
        store.set(Listing::Works);
        env.sleep(60 * SECOND).await;
        assert!(log.take().contains(&"start web".to_owned()));
    };
    manager.no_sync_limit().run_until(stop).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_without_kinds_starts_its_controllers_at_once_and_is_ready() {
    let (mut manager, _env, log) = manager();
    manager.controllers.add(Box::new(Fake::new("web", &log)), Needs::All);
    let health = manager.handle();
    manager.run_until(async { assert!(health.started().await.is_ready()) }).await.unwrap();
    assert_eq!(log.take(), ["open web", "start web", "close web"]);
}

#[tokio::test(start_paused = true)]
async fn c7_a_reflector_that_panics_is_red_until_it_lives_again() {
    let (mut manager, env, log) = manager();
    let store = Slow::new(Listing::Panics, &log);
    let pods = manager.api::<Object<Pod>>(&store);
    let health = manager.handle();
    let stop = async {
        env.sleep(SECOND).await;
        let failing = health.readiness().failing;
        assert_eq!((failing.len(), failing[0].role, &*failing[0].owner), (1, LoopRole::Reflector, "Pod"));
        assert!(failing[0].last_end.as_ref().is_some_and(|end| end.contains("bad page")));
        store.set(Listing::Works);
        env.sleep(30 * SECOND).await;
        assert!(health.readiness().is_ready() && pods.is_synced(), "{}", health.readiness());
        let reflector = health.status().loops.into_iter().find(|one| one.role == LoopRole::Reflector);
        assert!(reflector.is_some_and(|reflector| reflector.restarts >= 1));
    };
    manager.run_until(stop).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn needs_only_runs_keys_while_a_kind_that_is_not_named_hangs() {
    let (mut manager, env, log) = manager();
    let hanging = Slow::new(Listing::Hangs, &log);
    let webs = manager.api::<Object<Web>>(&MemoryStore::default());
    let _pods = manager.api::<Object<Pod>>(&hanging);
    let note = |log: Log| {
        reconcile_fn(move |key: String, _| {
            log.add(format!("run {key}"));
            async { Ok(Action::await_change()) }
        })
    };
    let named = Controller::for_keys("named", note(log.clone())).enqueued_by_hand().needs_only([&webs]);
    let all = Controller::for_keys("all", note(log.clone())).enqueued_by_hand();
    let (named, all) = (manager.add(named).unwrap(), manager.add(all).unwrap());
    let stop = async {
        // Intake is open from the beginning; equal signals are merged until the workers start.
        for _ in 0..3 {
            named.enqueue("named".to_owned());
            all.enqueue("all".to_owned());
        }
        env.sleep(SECOND).await;
        let runs = || log.take().into_iter().filter(|line| line.starts_with("run")).collect::<Vec<_>>();
        assert_eq!(runs(), ["run named"]);
        hanging.set(Listing::Works);
        env.sleep(SECOND).await;
        assert_eq!(runs(), ["run all"]);
    };
    manager.run_until(stop).await.unwrap();
}
