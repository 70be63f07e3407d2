//! Errors by their class, and what they count.

use reconcile_runtime::{
    BackoffSignals, Environment, KeyState, Lane, RetryBudget, Trigger, core::StoreFault, prelude::*,
};

use super::fixture::*;

#[tokio::test(start_paused = true)]
async fn retry_after_waits_as_long_as_it_says_and_never_less_than_the_base() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let busy = scripted(&trace, |call: Call<u32>| async move {
        match (call.key, call.nth) {
            (1, 1) => Err("busy").retry_after(30 * SECOND)?,
            (2, 1) => Err("busy").retry_after(MS)?,
            _ => Ok(Action::await_change()),
        }
    });
    let controller =
        Controller::for_keys("busy", busy).enqueued_by_hand().backoff(Backoff::new(2 * SECOND, MINUTE));
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        handle.enqueue(2);
        env.sleep(SECOND).await;
        assert_eq!(handle.explain(&1).failures, 1);
        env.sleep(HOUR).await;
        for (key, wait) in [(1, 30 * SECOND), (2, 2 * SECOND)] {
            let gaps = gaps(&trace.starts(&key));
            assert_eq!(gaps.len(), 1);
            assert!(gaps[0] >= wait && gaps[0] <= wait + TICK, "{key}: {gaps:?}");
            assert_eq!(trace.of(&key)[1].attempt, 2);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_have_a_count_of_their_own_and_are_retried_at_once_then_with_backoff() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let backoff = Backoff::new(SECOND, MINUTE);
    let races = scripted(&trace, |call: Call<u32>| async move {
        let faults = [StoreFault::Conflict, StoreFault::AlreadyExists, StoreFault::NotFound];
        match faults.get(call.nth - 1) {
            Some(fault) => Err(*fault)?,
            None => Ok(Action::await_change()),
        }
    });
    let controller = Controller::for_keys("races", races).enqueued_by_hand().backoff(backoff);
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        env.sleep(100 * MS).await;
        let told = handle.explain(&1);
        assert_eq!((told.state, told.failures), (KeyState::BackingOff, 0));
        handle.converged(&1).await.unwrap();
        assert!(trace.runs().iter().all(|ran| ran.attempt == 1), "no failure is counted");
        let gaps = gaps(&trace.starts(&1));
        assert_eq!(gaps.len(), 3);
        assert!(gaps[0] <= 10 * MS + TICK, "the first: {gaps:?}");
        for (repeated, gap) in (1..).zip(&gaps[1..]) {
            let ceiling = backoff.ceiling(repeated);
            assert!(*gap >= ceiling / 2 && *gap <= ceiling + TICK, "the next: {gaps:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_without_a_cause_is_a_failure_like_any_other() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let cancels = scripted(&trace, |_: Call<u32>| async { Err(Retry::Cancelled)? });
    let controller =
        Controller::for_keys("cancels", cancels).enqueued_by_hand().backoff(Backoff::new(MINUTE, MINUTE));
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        env.sleep(10 * SECOND).await;
        let told = handle.explain(&1);
        assert_eq!((told.state, told.failures), (KeyState::BackingOff, 1));
        assert_eq!(trace.len(), 1, "or it would be a hot loop");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_run_counts_no_failure_and_waits_for_the_next_term() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fenced = scripted(&trace, |_: Call<u32>| async { Err(StoreFault::Fenced)? });
    with(&env, Controller::for_keys("fenced", fenced).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(24 * HOUR).await;
        let told = handle.explain(&1);
        assert_eq!((told.state, told.failures, told.next_run), (KeyState::Waiting, 0, None));
        assert_eq!(told.waits_for.as_deref(), Some("the next term"));
        assert_eq!(trace.len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn classify_sets_the_class_of_errors_that_name_none() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |call: Call<u32>| async move {
        match call.key {
            1 => Err("no such size".into()),
            2 => Err("no such size").retry_after(HOUR)?,
            _ => Err("no luck".into()),
        }
    });
    let controller = Controller::for_keys("foreign", fails)
        .enqueued_by_hand()
        .classify(|error| (error.to_string() == "no such size").then_some(Retry::Never));
    with(&env, controller, async |handle| {
        (1..=3).for_each(|key| handle.enqueue(key));
        env.sleep(10 * MS).await;
        let state = |key| handle.explain(&key).state;
        assert_eq!(state(1), KeyState::Permanent);
        assert_eq!((state(2), state(3)), (KeyState::BackingOff, KeyState::BackingOff));
        assert!(
            handle.explain(&2).next_run.unwrap() > 59 * MINUTE,
            "what the error says of itself goes first"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_budget_is_one_for_all_keys_and_delays_only_retries() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |call: Call<u32>| async move {
        if call.key < 10 && call.nth == 1 { failed() } else { Ok(Action::await_change()) }
    });
    let controller = Controller::for_keys("budget", fails)
        .enqueued_by_hand()
        .backoff(Backoff::new(SECOND, SECOND))
        .retry_budget(RetryBudget::new(2, 10 * SECOND));
    with(&env, controller, async |handle| {
        (0..5).for_each(|key| handle.enqueue(key));
        env.sleep(MS).await;
        handle.enqueue(10);
        handle.idle().await;
        assert_eq!(trace.of(&10).len(), 1, "a first run costs nothing");
        env.sleep(MINUTE).await;
        let mut retries: Vec<_> = (0..5).map(|key| trace.starts(&key)[1]).collect();
        retries.sort_unstable();
        assert!(retries[1] <= SECOND + TICK, "two are the burst: {retries:?}");
        for (retry, seconds) in retries[2..].iter().zip([10, 20, 30]) {
            assert!(*retry >= seconds * SECOND && *retry <= seconds * SECOND + 2 * TICK, "{retries:?}");
        }
    })
    .await;
}

/// A key that fails for good, and then is signalled in one way.
async fn permanent_and_then(signal: &str) -> (Vec<std::time::Duration>, Vec<u32>) {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let fails = scripted(&trace, |_: Call<ObjectKey>| async { Err("wrong").permanent()? });
    let every = if signal == "resync" { 100 * SECOND } else { 24 * HOUR };
    let controller = Controller::for_objects("permanent", &webs, fails).resync_every(every);
    let handle = manager.add(controller).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(100 * MS).await;
        assert_eq!(handle.explain(&key).state, KeyState::Permanent);
        match signal {
            "input" => handle.enqueue(key.clone()),
            "observed" => {
                webs.modify_status(&key, |status| status.ready = 1).await.unwrap();
                // A signal more changes nothing about it.
                webs.modify_status(&key, |status| status.ready = 2).await.unwrap();
            }
            _ => {}
        }
        env.sleep(110 * SECOND).await;
    };
    manager.run_until(body).await.unwrap();
    (gaps(&trace.starts(&key)), trace.runs().iter().map(|ran| ran.attempt).collect())
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_runs_for_an_input_or_resync_at_once_and_for_an_observation_after_a_second() {
    let (waits, attempts) = permanent_and_then("input").await;
    assert_eq!((waits.len(), attempts), (1, vec![1, 1]));
    assert!(waits[0] <= 100 * MS + TICK, "{waits:?}");
    let (waits, attempts) = permanent_and_then("observed").await;
    assert_eq!((waits.len(), attempts), (1, vec![1, 1]));
    assert!(waits[0] >= SECOND && waits[0] <= SECOND + TICK, "{waits:?}");
    let (waits, _) = permanent_and_then("resync").await;
    assert_eq!(waits.len(), 1);
    assert!(waits[0] >= 90 * SECOND && waits[0] <= 100 * SECOND + TICK, "{waits:?}");
    let (waits, _) = permanent_and_then("nothing").await;
    assert!(waits.is_empty(), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn never_keeps_the_backoff_whatever_comes() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let backoff = Backoff::new(MINUTE, MINUTE);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let ticks = env.clone();
    let noise = Trigger::new("noise", move || {
        let env = ticks.clone();
        futures::stream::unfold((), move |()| {
            let wait = env.sleep(100 * MS);
            async move {
                wait.await;
                Some((1, ()))
            }
        })
    });
    let controller = Controller::for_keys("never", fails)
        .trigger_with(noise.lane(Lane::High))
        .backoff(backoff)
        .signals_during_backoff(BackoffSignals::Never);
    with(&env, controller, async |handle| {
        env.sleep(10 * MINUTE).await;
        let gaps = gaps(&trace.starts(&1));
        assert!((10..=20).contains(&gaps.len()), "{}", gaps.len());
        assert!(gaps.iter().all(|gap| *gap >= MINUTE / 2), "{gaps:?}");
        assert_eq!(handle.explain(&1).failures as usize, trace.len(), "inputs clear nothing either");
    })
    .await;
}
