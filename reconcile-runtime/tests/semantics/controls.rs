//! Pausing, and waiting for a key.

use reconcile_runtime::{Environment, KeyState, PAUSE_ANNOTATION, prelude::*};

use super::fixture::*;

/// A controller whose runs take ten seconds.
fn slow(env: &Environment, trace: &Trace<u32>) -> impl Reconciler<Key = u32> {
    let env = env.clone();
    scripted(trace, move |call: Call<u32>| {
        let env = env.clone();
        async move {
            if call.key == 3 {
                return Ok(Action::requeue_after(30 * SECOND));
            }
            env.sleep(10 * SECOND).await;
            Ok(Action::await_change())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_paused_controller_lets_runs_finish_and_keeps_what_comes_due() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let controller =
        Controller::for_keys("pauses", slow(&env, &trace)).enqueued_by_hand().no_requeue_spread();
    with(&env, controller, async |handle| {
        handle.enqueue(3); // looks again in 30 seconds
        handle.enqueue(1);
        env.sleep(SECOND).await;
        handle.pause();
        handle.enqueue(2);
        assert_eq!(handle.explain(&1).state, KeyState::Running);
        assert!(matches!(handle.converged(&1).await, Err(NotConverged::Paused)));
        env.sleep(HOUR).await;
        assert_eq!(trace.of(&1)[0].ended.unwrap(), 10 * SECOND, "what ran went on");
        assert_eq!((trace.of(&2).len(), trace.of(&3).len()), (0, 1), "nothing else began");
        for due in [2, 3] {
            assert_eq!(handle.explain(&due).state, KeyState::Paused, "{due}");
        }
        assert!(handle.explain(&2).to_string().contains("because of enqueued"), "{}", handle.explain(&2));
        handle.resume();
        handle.idle().await;
        assert_eq!((trace.of(&1).len(), trace.of(&2).len(), trace.of(&3).len()), (1, 1, 2));
        assert_eq!(trace.of(&3)[1].causes, "timer", "a resume is no signal of its own");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_paused_during_its_run_is_parked_when_the_run_ends() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let sleeps = env.clone();
    let works = scripted(&trace, move |_: Call<ObjectKey>| {
        let run = sleeps.sleep(10 * SECOND);
        async move {
            run.await;
            Ok(Action::requeue_now())
        }
    });
    let handle = manager.add(Controller::for_objects("works", &webs, works)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        let pause = |web: &mut Web| drop(web.meta.annotations.insert(PAUSE_ANNOTATION.into(), "true".into()));
        webs.modify(&key, pause).await.unwrap();
        assert_ne!(handle.explain(&key).state, KeyState::Paused, "it pauses runs that have not started");
        env.sleep(HOUR).await;
        assert_eq!(trace.len(), 1);
        assert_eq!(handle.explain(&key).state, KeyState::Paused);
        webs.modify(&key, |web| web.meta.annotations.clear()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(trace.len(), 2);
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn converged_waits_for_a_run_that_began_after_the_newest_input() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let controller = Controller::for_keys("converges", slow(&env, &trace)).enqueued_by_hand();
    with(&env, controller, async |handle| {
        // Never seen: only a run can tell.
        handle.converged(&1).await.unwrap();
        assert_eq!((trace.len(), trace.now()), (1, 10 * SECOND));
        // Not signalled since: no run is needed.
        handle.converged(&1).await.unwrap();
        assert_eq!(trace.len(), 1);
        // The run in flight began after the newest input.
        handle.enqueue(1);
        env.sleep(5 * SECOND).await;
        handle.converged(&1).await.unwrap();
        assert_eq!((trace.len(), trace.now()), (2, 20 * SECOND));
        // This one did not.
        handle.enqueue(1);
        env.sleep(5 * SECOND).await;
        handle.enqueue(1);
        handle.converged(&1).await.unwrap();
        assert_eq!((trace.len(), trace.now()), (4, 40 * SECOND));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_or_waiting_key_has_not_converged_and_a_permanent_failure_ends_the_wait() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let late = scripted(&trace, |call: Call<&'static str>| async move {
        match (call.key, call.nth) {
            ("wrong", _) => Err("no such size").permanent()?,
            ("fails", 1..=3) => failed(),
            ("waits", 1) => Ok(Action::wait_for("a volume").recheck_after(MINUTE)),
            _ => Ok(Action::await_change()),
        }
    });
    with(&env, Controller::for_keys("late", late).enqueued_by_hand(), async |handle| {
        handle.converged(&"fails").await.unwrap();
        assert_eq!(trace.of(&"fails").len(), 4);
        let began = trace.now();
        handle.converged(&"waits").await.unwrap();
        assert!(trace.now() - began >= MINUTE);
        match handle.converged(&"wrong").await {
            Err(NotConverged::Failed(error)) => assert_eq!(error.to_string(), "no such size"),
            other => panic!("{other:?}"),
        }
    })
    .await;
}
