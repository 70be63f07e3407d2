//! Every loop of the engine is restarted when it ends badly, and says so.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, stream};
use reconcile_runtime::{LoopRole, LoopStatus, ManagerHandle, Trigger};

use super::*;

fn loop_of(health: &ManagerHandle, role: LoopRole) -> LoopStatus {
    health.status().loops.into_iter().find(|one| one.role == role).expect("there is such a loop")
}

/// How the first two lives of a trigger end.
#[derive(Debug, Clone, Copy)]
enum Life {
    FactoryPanics,
    StreamPanics,
    StreamFails,
    StreamEnds,
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_ends_badly_is_made_again_and_is_heard() {
    for life in [Life::FactoryPanics, Life::StreamPanics, Life::StreamFails, Life::StreamEnds] {
        let (mut manager, env, _store) = world();
        let (log, made) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let count = made.clone();
        let make = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let bad = number < 2;
            assert!(!(bad && matches!(life, Life::FactoryPanics)), "no socket");
            let keys = [Ok(key(&format!("key-{number}"))), Err("connection reset")];
            let ends = !bad || matches!(life, Life::StreamEnds);
            let keys = stream::iter(keys).take(if ends { 1 } else { 2 });
            let keys = keys.map(move |item| {
                assert!(!(item.is_err() && matches!(life, Life::StreamPanics)), "bad frame");
                item
            });
            if bad { keys.left_stream() } else { keys.chain(stream::pending()).right_stream() }
        };
        let trigger = Trigger::new("socket", make);
        let again = matches!(life, Life::StreamEnds);
        let trigger = if again { trigger.restart_when_finished() } else { trigger };
        manager.add(Controller::for_keys("dns", runs_in(&log)).trigger_with(trigger)).unwrap();
        let health = manager.handle();
        run(manager, async {
            env.sleep(Duration::from_millis(50)).await;
            let status = loop_of(&health, LoopRole::Trigger);
            assert_eq!((status.running, status.restarting, status.restarts), (0, 1, 0), "{life:?}");
            assert_eq!(status.source.as_deref(), Some("socket"));
            // A source of the user that is down is told, and does not make the manager unready.
            assert!(health.readiness().is_ready());
            env.sleep(2 * SECOND).await;
            let status = loop_of(&health, LoopRole::Trigger);
            assert_eq!((status.running, status.restarting, status.restarts), (1, 0, 2), "{life:?}");
            let expected = match life {
                Life::FactoryPanics => "the factory of trigger `socket` panicked",
                Life::StreamPanics => "the stream of trigger `socket` panicked",
                Life::StreamFails => "connection reset",
                Life::StreamEnds => "it ended by itself",
            };
            assert_eq!(status.last_end.as_deref(), Some(expected));
            let heard = log.take();
            assert_eq!(heard.last().map(String::as_str), Some("run key-2"), "{life:?}: {heard:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_that_panics_or_fails_is_asked_again_with_backoff() {
    let (mut manager, env, _store) = world();
    let (log, asked) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    let list = move || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        assert_ne!(number, 0, "no inventory");
        async move {
            assert_ne!(number, 1, "no page");
            if number == 2 { Err("inventory is down".into()) } else { Ok(vec![key("a"), key("b")]) }
        }
    };
    manager.add(Controller::for_keys("dns", runs_in(&log)).resync_from(600 * SECOND, list)).unwrap();
    let health = manager.handle();
    run(manager, async {
        env.sleep(5 * SECOND).await;
        assert_eq!(
            (asked.load(Ordering::SeqCst), log.take()),
            (4, vec!["run a".to_owned(), "run b".to_owned()])
        );
        let status = loop_of(&health, LoopRole::Resync);
        assert_eq!((status.running, status.restarts), (1, 3));
        let sources = &health.status().controllers[0].sources;
        assert_eq!((sources[0].panics, sources[0].errors), (2, 1));
        env.sleep(600 * SECOND).await;
        assert_eq!(log.take(), ["run a", "run b"], "and the period goes on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_source_of_the_user_is_restarted_for_as_long_as_the_manager_runs() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let make = move || -> stream::Empty<ObjectKey> {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("never")
    };
    let log = Log::default();
    manager.add(Controller::for_objects("web", &webs, runs_in(&log)).trigger(make)).unwrap();
    run(manager.restart_limit(1), async {
        env.sleep(3600 * SECOND).await;
        let made = made.load(Ordering::SeqCst);
        // 200 milliseconds double to thirty seconds, with jitter down to the half of it.
        assert!((100..300).contains(&made), "{made} lives in an hour");
        webs.create(web("x", 1)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["run x"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_manager_names_a_kind_that_was_not_synced_in_time_and_ends() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let log = Log::default();
    manager.add(Controller::for_objects("web", &webs, runs_in(&log)).owns(&pods)).unwrap();
    manager.add(Controller::for_objects("alone", &webs, runs_in(&log)).needs_only([&webs])).unwrap();
    foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
    store.of::<Pod>().always(Op::List, Fault::Fails(StoreFault::Unavailable));
    let (health, began) = (manager.handle(), env.now());
    let mut running = Box::pin(manager.sync_limit(60 * SECOND).run_until(std::future::pending::<()>()));
    tokio::select! {
        biased;
        ended = &mut running => panic!("{ended:?}"),
        () = env.sleep(30 * SECOND) => {}
    }
    // Who needs only what is there has run, who needs the other kind has not.
    assert_eq!(log.take(), ["run x"]);
    let readiness = health.readiness();
    let waiting: Vec<_> = readiness.waiting.iter().map(|one| (&*one.controller, one.kinds.clone())).collect();
    assert_eq!(waiting, [("web", vec!["Pod"])]);
    let text = readiness.to_string();
    for part in ["kind `Pod` is not synced", "the test says so", "controller `web` waits for Pod"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let error = running.await.unwrap_err();
    assert_eq!(env.now().since(began), 60 * SECOND);
    let RunError::NotSynced { kind, last_error, .. } = &error else { panic!("{error:?}") };
    assert_eq!(&**kind, "Pod");
    assert!(last_error.as_deref().is_some_and(|error| error.contains("the test says so")), "{last_error:?}");
    assert!(error.to_string().contains("Manager::sync_limit"), "{error}");
}
