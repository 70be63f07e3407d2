//! What a signal does, by the state in which it finds its key.

use std::time::Duration;

use reconcile_runtime::{Api, BackoffSignals, Environment, KeyState, Lane, prelude::*};

use super::fixture::*;

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
    let done = scripted(&trace, |_: Call<u32>| async { Ok(Action::await_change()) });
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
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn during_backoff_the_first_input_runs_at_once_and_further_ones_once_per_second() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let controller =
        Controller::for_keys("inputs", fails).enqueued_by_hand().backoff(Backoff::new(HOUR, HOUR));
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        env.sleep(500 * MS).await;
        for _ in 0..40 {
            handle.enqueue(1);
            env.sleep(100 * MS).await;
        }
        let gaps = gaps(&trace.starts(&1));
        assert!(gaps[0] <= 500 * MS + TICK, "the first one at once: {gaps:?}");
        assert!(gaps[1..].iter().all(|gap| *gap >= SECOND && *gap <= SECOND + 2 * TICK), "{gaps:?}");
        assert_eq!(gaps.len(), 1 + 3);
        assert!(trace.runs().iter().all(|ran| ran.attempt == 1), "a new input did not fail yet");
        assert_eq!(handle.explain(&1).failures, 0, "the last input is still to be run");
    })
    .await;
}

/// A web whose runs fail after `takes`, under a policy; `body` changes the web.
async fn failing(
    signals: BackoffSignals,
    takes: Duration,
    body: impl AsyncFnOnce(&Environment, &Api<Web>, &ObjectKey),
) -> (Vec<Duration>, Vec<u32>) {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let sleeps = env.clone();
    let fails = scripted(&trace, move |_: Call<ObjectKey>| {
        let run = sleeps.sleep(takes);
        async move {
            run.await;
            failed()
        }
    });
    let controller = Controller::for_objects("failing", &webs, fails)
        .backoff(Backoff::new(MINUTE, MINUTE))
        .signals_during_backoff(signals);
    manager.add(controller).unwrap();
    let key = ObjectKey::new("web");
    let story = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        body(&env, &webs, &key).await;
    };
    manager.run_until(story).await.unwrap();
    (gaps(&trace.starts(&key)), trace.runs().iter().map(|ran| ran.attempt).collect())
}

async fn observe(webs: &Api<Web>, key: &ObjectKey) {
    webs.modify_status(key, |status| status.ready += 1).await.unwrap();
}

/// Bar P7: a hundred changes in a second are one run.
#[tokio::test(start_paused = true)]
async fn during_backoff_observations_bring_the_retry_forward_to_a_second_after_the_run() {
    let (gaps, attempts) = failing(BackoffSignals::OnChange, 0 * MS, async |env, webs, key| {
        env.sleep(5 * MS).await;
        for _ in 0..100 {
            observe(webs, key).await;
            env.sleep(10 * MS).await;
        }
    })
    .await;
    assert_eq!(attempts, [1, 2], "one run, and its failures stay");
    assert!(gaps[0] >= SECOND && gaps[0] <= SECOND + TICK, "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn always_lets_every_foreign_change_run_a_failing_key_at_once() {
    let (gaps, attempts) = failing(BackoffSignals::Always, 0 * MS, async |env, webs, key| {
        for _ in 0..5 {
            env.sleep(100 * MS).await;
            observe(webs, key).await;
        }
        env.sleep(100 * MS).await;
        webs.modify(key, |web| web.spec.replicas = 7).await.unwrap();
        env.sleep(100 * MS).await;
    })
    .await;
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 1], "only the new input clears the failures");
    assert!(gaps.iter().all(|gap| *gap <= 100 * MS + 2 * TICK), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn signals_that_came_during_a_failing_run_count_at_its_end() {
    let (gaps, attempts) = failing(BackoffSignals::OnChange, 5 * SECOND, async |env, webs, key| {
        env.sleep(2 * SECOND).await;
        webs.modify(key, |web| web.spec.replicas = 7).await.unwrap();
        env.sleep(5 * SECOND).await; // in the middle of the second run
        observe(webs, key).await;
        env.sleep(10 * SECOND).await;
    })
    .await;
    assert_eq!(attempts, [1, 1, 2]);
    assert!(gaps[0] <= 5 * SECOND + TICK, "the input: at once: {gaps:?}");
    assert!(gaps[1] >= 6 * SECOND && gaps[1] <= 6 * SECOND + 2 * TICK, "the observation: {gaps:?}");
    let (gaps, attempts) = failing(BackoffSignals::Never, 5 * SECOND, async |env, webs, key| {
        env.sleep(2 * SECOND).await;
        webs.modify(key, |web| web.spec.replicas = 7).await.unwrap();
        env.sleep(MINUTE + 5 * SECOND).await;
    })
    .await;
    assert_eq!(attempts, [1, 2]);
    assert!(gaps[0] >= 5 * SECOND + MINUTE / 2, "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn after_retry_after_observations_count_for_nothing_and_an_input_runs_at_once() {
    for policy in [BackoffSignals::OnChange, BackoffSignals::Always] {
        let env = Environment::seeded(1);
        let store = MemoryStore::default();
        let trace = Trace::new(&env);
        let mut manager = Manager::with_environment(env.clone());
        let webs = manager.api::<Web>(&store);
        let busy = scripted(&trace, |_: Call<ObjectKey>| async { Err("busy").retry_after(HOUR)? });
        let controller = Controller::for_objects("busy", &webs, busy).signals_during_backoff(policy);
        let handle = manager.add(controller).unwrap();
        let key = ObjectKey::new("web");
        let body = async {
            webs.create(Web::new("web", WebSpec::default())).await.unwrap();
            env.sleep(SECOND).await;
            observe(&webs, &key).await;
            env.sleep(MINUTE).await;
            assert_eq!(trace.len(), 1, "{policy:?}");
            assert_eq!(handle.explain(&key).state, KeyState::BackingOff);
            webs.modify(&key, |web| web.spec.replicas = 7).await.unwrap();
            env.sleep(MS).await;
            assert_eq!(trace.len(), 2, "{policy:?}");
        };
        manager.run_until(body).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_changes_nothing_about_a_backoff() {
    for policy in [BackoffSignals::OnChange, BackoffSignals::Always] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let fails = scripted(&trace, |_: Call<u32>| async { failed() });
        let controller = Controller::for_keys("resync", fails)
            .resync_from(SECOND, || async { Ok(vec![1]) })
            .backoff(Backoff::new(10 * MINUTE, 10 * MINUTE))
            .signals_during_backoff(policy);
        with(&env, controller, async |handle| {
            env.sleep(4 * MINUTE).await;
            assert_eq!((trace.len(), handle.explain(&1).failures), (1, 1), "{policy:?}");
        })
        .await;
    }
}
