//! Lines of `docs/semantics.md` that no scenario and no row of the outcome table proves, each as a small test of a
//! whole engine on a paused clock: order, budget, objects that come and go, pausing, waiting.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::sync::{Arc, Mutex};

use fixture::*;
use reconcile_runtime::{
    Client, Environment, KeyState, Lane, PAUSE_ANNOTATION, RetryBudget,
    core::{StoreFault, Uid},
    prelude::*,
};

// === order and limits

#[tokio::test(start_paused = true)]
async fn what_is_enqueued_before_the_start_runs_then() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let done = scripted(&trace, |_: Call<u32>| async { Ok(Action::await_change()) });
    let mut manager = Manager::with_environment(env.clone());
    let handle = manager.add(Controller::for_keys("early", done).enqueued_by_hand()).unwrap();
    handle.enqueue(1);
    handle.enqueue(1);
    env.sleep(HOUR).await;
    assert_eq!(trace.len(), 0);
    manager.run_until(handle.idle()).await.unwrap();
    assert_eq!(trace.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stronger_signal_lifts_a_queued_key_and_an_equal_or_weaker_one_moves_nothing() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let done = scripted(&trace, |call: Call<u32>| async move {
        Ok(if call.key == 4 { Action::requeue_after(HOUR) } else { Action::await_change() })
    });
    let controller = Controller::for_keys("lanes", done)
        .resync_from(HOUR, || async { Ok(vec![1, 2, 3, 4, 5]) })
        .concurrency(1);
    with(&env, controller, async |handle| {
        handle.pause();
        env.sleep(SECOND).await; // the list is in the low lane
        handle.enqueue(4);
        handle.enqueue(3);
        handle.enqueue(4); // again: it stays where it is
        env.sleep(HOUR).await; // the next resync is weaker
        assert_eq!(handle.explain(&4).lane, Lane::High);
        assert_eq!(handle.snapshot().depth.ready_low, 3);
        handle.resume();
        handle.idle().await;
        let order: Vec<u32> = trace.runs().iter().map(|ran| ran.key).collect();
        assert_eq!(order, [4, 3, 1, 2, 5]);
        // It ran well, so its poll is no more urgent than news.
        let told = handle.explain(&4);
        assert_eq!((told.state, told.lane), (KeyState::Scheduled, Lane::Normal));
    })
    .await;
}

/// What the budget is for is the failures' retries.
#[tokio::test(start_paused = true)]
async fn a_retry_budget_delays_neither_first_runs_nor_conflicts_nor_polls() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let spends = scripted(&trace, |call: Call<&'static str>| async move {
        match (call.key, call.nth) {
            ("fails" | "fails too", 1) => failed(),
            ("races", 1) => Err(StoreFault::Conflict)?,
            ("polls", 1) => Ok(Action::requeue_after(SECOND)),
            _ => Ok(Action::await_change()),
        }
    });
    let controller = Controller::for_keys("budget", spends)
        .enqueued_by_hand()
        .backoff(Backoff::new(SECOND, SECOND))
        .retry_budget(RetryBudget::new(1, HOUR));
    with(&env, controller, async |handle| {
        for key in ["fails", "fails too", "races", "polls", "rests"] {
            handle.enqueue(key);
            env.sleep(20 * MS).await;
        }
        env.sleep(2 * SECOND).await;
        let runs = |key| trace.of(&key).len();
        assert_eq!(
            (runs("fails"), runs("fails too")),
            (2, 1),
            "one retry is the burst, the next is in an hour"
        );
        assert_eq!((runs("races"), runs("polls"), runs("rests")), (2, 2, 1));
    })
    .await;
}

// === objects

/// What the runs of one controller found under their key.
type Found = Arc<Mutex<Vec<Option<Uid>>>>;

/// A controller of webs that notes what it finds, in a manager that is paused while `body` changes the store.
async fn queued(body: impl AsyncFnOnce(&Environment, &Client<Web>)) -> Vec<Option<Uid>> {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    let found = Found::default();
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let (api, notes) = (webs.clone(), found.clone());
    let looks = reconcile_fn(move |key: ObjectKey, _run| {
        notes.lock().unwrap().push(api.get(&key).map(|web| web.meta.uid.clone()));
        async { Ok(Action::await_change()) }
    });
    let handle = manager.add(Controller::for_objects("looks", &webs, looks)).unwrap();
    let story = async {
        handle.pause();
        body(&env, &client).await;
        env.sleep(SECOND).await;
        handle.resume();
        handle.idle().await;
    };
    manager.run_until(story).await.unwrap();
    let found = found.lock().unwrap();
    found.clone()
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_while_it_is_queued_runs_once_and_finds_nothing() {
    let found = queued(async |env, webs| {
        let web = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        webs.delete(&web).await.unwrap();
    })
    .await;
    assert_eq!(found, [None]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_and_made_again_while_it_is_queued_runs_once_and_finds_the_new_object() {
    let made = Mutex::new(None);
    let found = queued(async |env, webs| {
        let web = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        webs.delete(&web).await.unwrap();
        let again = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        assert_ne!(web.meta.uid, again.meta.uid);
        *made.lock().unwrap() = Some(again.meta.uid.clone());
    })
    .await;
    assert_eq!(found, [made.into_inner().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn an_own_status_write_is_one_more_run_and_then_quiet() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let api = webs.clone();
    let reports = scripted(&trace, move |call: Call<ObjectKey>| {
        let webs = api.clone();
        async move {
            if let Some(web) = webs.get(&call.key) {
                webs.update_status(&web, |status| status.ready = web.spec.replicas).await?;
            }
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_objects("reports", &webs, reports).no_resync()).unwrap();
    let body = async {
        webs.create(Web::new("web", WebSpec { replicas: 3 })).await.unwrap();
        handle.converged(&ObjectKey::new("web")).await.unwrap();
        env.sleep(HOUR).await;
        assert_eq!(trace.len(), 2, "the second one finds nothing to do, and writes nothing");
    };
    manager.run_until(body).await.unwrap();
}

/// A run that deletes its own primary and then fails runs again at once: the deletion is an input, whoever made it.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_the_primary_is_an_input_even_if_its_own_run_made_it() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let api = webs.clone();
    let deletes = scripted(&trace, move |call: Call<ObjectKey>| {
        let webs = api.clone();
        async move {
            let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
            webs.delete(&web).await?;
            failed()
        }
    });
    let controller = Controller::for_objects("deletes", &webs, deletes).backoff(Backoff::new(HOUR, HOUR));
    manager.add(controller).unwrap();
    let body = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
        assert_eq!(attempts, [1, 1], "at once, with its failures cleared");
    };
    manager.run_until(body).await.unwrap();
}

// === pausing and waiting

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
