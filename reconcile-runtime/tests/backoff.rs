//! Scenarios B1 to B13: timers and backoff under a whole engine. (B2's arithmetic is tested beside `Backoff`,
//! B5 and B13 beside the queue's timers and machine, B12 is a matter of interleavings: see the loom models.)
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fixture::*;
use reconcile_runtime::{
    Api, Client, Environment, KeyState, RetryBudget,
    core::{CauseKind, StoreFault},
    prelude::*,
};

/// Whether a delay is what the backoff gives after so many failures, but for a timer's tick.
fn in_bounds(delay: Duration, backoff: Backoff, failures: u32) -> bool {
    let ceiling = backoff.ceiling(failures);
    delay >= ceiling / 2 && delay <= ceiling + TICK
}

#[tokio::test(start_paused = true)]
async fn b1_success_with_a_timed_requeue_clears_failures() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let backoff = Backoff::new(SECOND, HOUR);
    // Fails five times, polls well twenty times, fails once more, and polls well again.
    let fails = scripted(&trace, |call: Call<u32>| async move {
        if call.nth <= 5 || call.nth == 26 { failed() } else { Ok(Action::requeue_after(30 * SECOND)) }
    });
    let controller = Controller::for_keys("b1", fails).enqueued_by_hand().backoff(backoff);
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        while trace.len() < 27 {
            env.sleep(SECOND).await;
        }
        let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
        assert_eq!(attempts[..7], [1, 2, 3, 4, 5, 6, 1]);
        assert_eq!(attempts[24..27], [1, 1, 2]);
        let gaps = gaps(&trace.starts(&1));
        for failures in 1..=5 {
            assert!(in_bounds(gaps[failures - 1], backoff, failures as u32), "{failures}: {gaps:?}");
        }
        assert!(in_bounds(gaps[25], backoff, 1), "from the base again: {:?}", gaps[25]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b2_ten_thousand_failures_wait_the_cap() {
    let env = Environment::seeded(2);
    let trace = Trace::new(&env);
    let backoff = Backoff::new(5 * MS, 1_000 * SECOND);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let controller = Controller::for_keys("b2", fails).enqueued_by_hand().backoff(backoff);
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        while trace.len() <= 10_000 {
            env.sleep(24 * HOUR).await;
        }
        // 5 ms, doubled at every failure, is above the cap at the nineteenth.
        for (failures, gap) in (1_u32..).zip(gaps(&trace.starts(&1))) {
            let ceiling = 5 * MS * if failures < 19 { 1 << (failures - 1) } else { 200_000 };
            let expected = ceiling / 2..=ceiling + TICK;
            assert!(expected.contains(&gap), "after {failures} failures {gap:?}");
        }
        assert_eq!(handle.explain(&1).failures as usize, trace.len());
    })
    .await;
}

/// A timer far ahead costs nothing while others come and go.
#[tokio::test(start_paused = true)]
async fn b3_a_timer_far_ahead_piles_nothing_up() {
    const DAY: u32 = 24 * 3600;
    let (env, live, peak) = CountingClock::environment(3);
    let trace = Trace::new(&env);
    // The second key sets a timer in each run; every other one is sooner than the one before.
    let polls = scripted(&trace, |call: Call<u32>| async move {
        Ok(match (call.key, call.nth % 2) {
            (0, _) => Action::requeue_after(30 * 24 * HOUR),
            _ if call.nth >= DAY as usize => Action::await_change(),
            (_, 0) => Action::wait_for("it").recheck_after(5 * SECOND),
            (..) => Action::wait_for("it").recheck_after(10 * SECOND),
        })
    });
    let controller = Controller::for_keys("b3", polls).enqueued_by_hand().no_requeue_spread();
    with(&env, controller, async |handle| {
        handle.enqueue(0);
        env.sleep(SECOND).await;
        let at_start = live.load(Ordering::SeqCst);
        for _ in 0..DAY {
            handle.enqueue(1);
            env.sleep(SECOND).await;
        }
        assert_eq!(trace.of(&1).len(), DAY as usize);
        let queue = handle.snapshot();
        assert_eq!((queue.depth.scheduled, queue.depth.ready()), (1, 0));
        assert_eq!(live.load(Ordering::SeqCst), at_start, "as many sleeps as before");
        // Beside them: this test's own, and one that takes another's place before that is dropped.
        let peak = peak.load(Ordering::SeqCst);
        assert!(peak <= at_start + 2, "{peak} sleeps at once, {at_start} at the start");
        assert_eq!(trace.of(&0).len(), 1);
        env.sleep(30 * 24 * HOUR).await;
        assert_eq!(trace.of(&0).len(), 2, "and it fires in the end");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b4_a_limit_and_merged_signals_do_not_add_up() {
    let env = Environment::seeded(4);
    let trace = Trace::new(&env);
    let quick = scripted(&trace, |_: Call<u32>| async { Ok(Action::await_change()) });
    let controller = Controller::for_keys("b4", quick).enqueued_by_hand().min_interval(200 * MS);
    with(&env, controller, async |handle| {
        for _ in 0..6_000 {
            handle.enqueue(1);
            env.sleep(100 * MS).await;
        }
        let gaps = gaps(&trace.starts(&1));
        assert!((2_990..=3_001).contains(&gaps.len()), "{}", gaps.len());
        assert!(gaps.iter().all(|gap| *gap >= 200 * MS && *gap <= 201 * MS), "{:?}", gaps.iter().max());
    })
    .await;
}

/// The retry budget's side of B4: what is merged into a waiting retry spends nothing.
#[tokio::test(start_paused = true)]
async fn b4_a_merged_signal_spends_no_retry() {
    let env = Environment::seeded(4);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let controller = Controller::for_keys("b4", fails)
        .enqueued_by_hand()
        .backoff(Backoff::new(10 * SECOND, 10 * SECOND))
        .retry_budget(RetryBudget::new(1, 20 * SECOND));
    with(&env, controller, async |handle| {
        for _ in 0..6_000 {
            handle.enqueue(1);
            env.sleep(100 * MS).await;
        }
        // Key 1 ran once per second and reserved a retry each time, but signals within a second reserved none:
        // had all 6,000 done so, key 2 would wait for more than a day.
        let runs = trace.of(&1).len();
        assert!((595..=605).contains(&runs), "{runs}");
        handle.enqueue(2);
        handle.idle().await;
        let wait = handle.explain(&2).next_run.unwrap();
        assert!(wait <= 20 * SECOND * (runs as u32 + 1), "{wait:?} after {runs} runs");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b6_a_sooner_timer_is_not_late() {
    let env = Environment::seeded(6);
    let trace = Trace::new(&env);
    let waits = scripted(&trace, |call: Call<u32>| async move {
        let delay = if call.key == 1 { 10 * SECOND } else { 600 * MS };
        Ok(if call.nth == 1 { Action::wait_for("it").recheck_after(delay) } else { Action::await_change() })
    });
    with(&env, Controller::for_keys("b6", waits).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(SECOND).await; // the loop sleeps for ten seconds now
        handle.enqueue(2);
        env.sleep(MINUTE).await;
        let (one, two) = (gaps(&trace.starts(&1))[0], gaps(&trace.starts(&2))[0]);
        assert!(two >= 600 * MS && two <= 600 * MS + TICK, "{two:?}");
        assert!(one >= 10 * SECOND && one <= 10 * SECOND + TICK, "{one:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b7_a_key_has_one_timer_at_most() {
    let env = Environment::seeded(7);
    let trace = Trace::new(&env);
    let sometimes = scripted(&trace, |call: Call<u32>| async move {
        if call.nth.is_multiple_of(4) { failed() } else { Ok(Action::requeue_after(60 * SECOND)) }
    });
    let controller = Controller::for_keys("b7", sometimes).enqueued_by_hand().no_requeue_spread();
    with(&env, controller, async |handle| {
        for second in 0..60 {
            handle.enqueue(1);
            env.sleep(SECOND).await;
            let depth = handle.snapshot().depth;
            assert!(depth.scheduled + depth.backing_off <= 1, "second {second}: {depth:?}");
        }
        // Each signal is a run, and so is each retry of a failure that came before the next signal: no timer
        // of an earlier run fired in between.
        let runs = trace.of(&1);
        let timed = runs.iter().filter(|ran| ran.causes.contains("timer")).count();
        let retried = runs.iter().filter(|ran| ran.causes.contains("retry")).count();
        let failures = (1..=runs.len()).filter(|nth| nth.is_multiple_of(4)).count();
        assert_eq!((timed, runs.len()), (0, 60 + retried));
        assert!(retried <= failures);
        let last = *trace.starts(&1).last().unwrap();
        env.sleep(59 * SECOND).await;
        assert_eq!(trace.of(&1).len(), runs.len(), "no timer of an earlier run is left");
        env.sleep(3 * SECOND).await;
        let next = trace.starts(&1)[runs.len()];
        assert!(next - last >= 60 * SECOND && next - last <= 60 * SECOND + TICK, "{:?}", next - last);
    })
    .await;
}

/// An invalid object: its reconciler says so with or without a class, and reports it in the status, as it should.
async fn invalid(
    permanent: bool,
    check: impl AsyncFnOnce(&Environment, &Client<Web>, &Handle<ObjectKey>, &Trace<ObjectKey>),
) {
    let env = Environment::seeded(8);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    client.create(Web::new("web", WebSpec::default())).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let validates = {
        let webs = webs.clone();
        scripted(&trace, move |call: Call<ObjectKey>| validate(webs.clone(), call, permanent))
    };
    let handle = manager.add(Controller::for_objects("b8", &webs, validates)).unwrap();
    manager.run_until(check(&env, &client, &handle, &trace)).await.unwrap();
}

async fn validate(webs: Api<Web>, call: Call<ObjectKey>, permanent: bool) -> Result<Action, Error> {
    let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
    if web.spec.replicas > 0 {
        webs.update_status(&web, |status| status.note = "valid".into()).await?;
        return Ok(Action::await_change());
    }
    webs.update_status(&web, |status| status.note = "no replicas".into()).await?;
    if permanent { Err("no replicas").permanent()? } else { Err("no replicas".into()) }
}

#[tokio::test(start_paused = true)]
async fn b8_a_terminal_error_stops_until_the_object_is_edited() {
    invalid(true, async |env, client, handle, trace| {
        let key = ObjectKey::new("web");
        env.sleep(HOUR).await;
        assert_eq!(trace.of(&key).len(), 1, "its own status write is no news to a permanent failure");
        let told = handle.explain(&key);
        assert_eq!((told.state, told.next_run), (KeyState::Permanent, None));
        let edited = trace.now();
        client.modify(&key, |web| web.spec.replicas = 1).await.unwrap();
        env.sleep(MS).await; // the watch brings it
        handle.converged(&key).await.unwrap();
        let run = &trace.of(&key)[1];
        assert_eq!((run.started, run.attempt), (edited, 1), "at once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b8_an_invalid_object_backs_off_until_it_is_edited() {
    invalid(false, async |env, client, handle, trace| {
        let (key, backoff) = (ObjectKey::new("web"), Backoff::default());
        env.sleep(HOUR).await;
        let gaps = gaps(&trace.starts(&key));
        for (failures, gap) in (1..).zip(&gaps) {
            assert!(in_bounds(*gap, backoff, failures), "after {failures} failures {gap:?}");
        }
        // Eleven doublings to the cap, then one run per 150 to 300 seconds.
        assert!((20..=36).contains(&gaps.len()), "{} runs in an hour", gaps.len());
        let edited = trace.now();
        client
            .modify(&key, |web| web.meta.labels = [("edited".into(), "badly".into())].into())
            .await
            .unwrap();
        client.modify(&key, |web| web.spec.replicas = 1).await.unwrap();
        env.sleep(MS).await;
        handle.converged(&key).await.unwrap();
        let runs = trace.of(&key);
        let run = runs.iter().find(|run| run.started >= edited).unwrap();
        assert_eq!((run.started, run.attempt), (edited, 1), "at once, with a cleared failure count");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b9_a_sick_store_is_not_hammered() {
    const WATCHERS: usize = 100;
    /// The reflector's own backoff: see the settings of a kind.
    const CAP: Duration = Duration::from_secs(30);
    let env = Environment::seeded(9);
    let sick = Arc::new(AtomicBool::new(true));
    let mut watchers = Vec::new();
    let mut apis = Vec::new();
    for _ in 0..WATCHERS {
        let store = Scripted::new();
        let attempts = Arc::new(Mutex::new(Vec::<Duration>::new()));
        {
            let (env, sick, attempts) = (env.clone(), sick.clone(), attempts.clone());
            store.script(move |op| {
                assert!(matches!(op.verb, "list" | "watch"));
                attempts.lock().unwrap().push(env.now().since(reconcile_runtime::Time::ZERO));
                let ill = sick.load(Ordering::SeqCst);
                async move { if ill { Err(StoreFault::Unavailable) } else { Ok(()) } }
            });
        }
        let client = Client::<Web>::in_environment(store.inner().clone(), env.clone());
        client.create(Web::new("web", WebSpec::default())).await.unwrap();
        let mut manager = Manager::with_environment(env.clone()).no_sync_limit();
        let webs = manager.api::<Web>(&store);
        let quick = reconcile_fn(|_: ObjectKey, _| async { Ok(Action::await_change()) });
        manager.add(Controller::for_objects("b9", &webs, quick)).unwrap();
        watchers.push((manager, attempts));
        apis.push(webs);
    }
    let attempts: Vec<_> = watchers.iter().map(|(_, attempts)| attempts.clone()).collect();
    let running = watchers.into_iter().map(|(manager, _)| manager.run_until(std::future::pending::<()>()));
    let all = futures::future::join_all(running);
    let body = async {
        env.sleep(10 * MINUTE).await;
        let mut firsts = Vec::new();
        for attempts in &attempts {
            let attempts = attempts.lock().unwrap().clone();
            let gaps = gaps(&attempts);
            // At the cap a watcher tries once per 15 to 30 seconds; the way there is short.
            assert!((20..=60).contains(&gaps.len()), "{} attempts in ten minutes", gaps.len());
            assert!(gaps.iter().all(|gap| *gap <= CAP + TICK), "{gaps:?}");
            let late = &gaps[gaps.len() / 2..];
            assert!(late.iter().all(|gap| *gap >= CAP / 2), "half of the cap at least: {late:?}");
            assert!(gaps[0] < gaps[gaps.len() - 1] / 4, "it grows: {gaps:?}");
            firsts.push(gaps[5]);
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > WATCHERS / 2, "jittered, so that they do not come together: {firsts:?}");
        sick.store(false, Ordering::SeqCst);
        env.sleep(CAP + SECOND).await;
        assert!(apis.iter().all(|webs| webs.is_synced() && webs.len() == 1));
    };
    let raced = futures::future::select(Box::pin(body), all).await;
    assert!(matches!(raced, futures::future::Either::Left(_)), "no manager gave up");
}

/// The starts of a thousand polling keys after a start of the process.
async fn polls(seed: u64) -> Vec<(usize, Duration)> {
    let env = Environment::seeded(seed);
    let trace = Trace::new(&env);
    let polls = scripted(&trace, |_: Call<usize>| async { Ok(Action::requeue_after(10 * MINUTE)) });
    let controller =
        Controller::for_keys("b10", polls).resync_from(24 * HOUR, || async { Ok((0..1_000).collect()) });
    with(&env, controller, async |_| env.sleep(30 * MINUTE).await).await;
    trace.runs().into_iter().map(|ran| (ran.key, ran.started)).collect()
}

#[tokio::test(start_paused = true)]
async fn b10_polls_spread_out_after_a_restart() {
    let runs = polls(10).await;
    let mut buckets = [0_usize; 30 * 60];
    let polled = runs.iter().filter(|(_, start)| *start > MS);
    polled.clone().for_each(|(_, start)| buckets[start.as_secs() as usize] += 1);
    // A period begins at once, so a key polls three or four times in three periods: 1.7 to 1.8 per second.
    let total: usize = buckets.iter().sum();
    assert!((3_000..=3_500).contains(&total), "{total}");
    let busiest = buckets.iter().max().unwrap();
    assert!(*busiest <= 12, "the busiest second has {busiest} polls");
    let quiet = buckets[60..].iter().filter(|polls| **polls == 0).count();
    assert!(quiet < buckets.len() / 3, "{quiet} seconds without a poll");
    assert_eq!(runs, polls(10).await, "the jitter is seeded");
    assert_ne!(runs, polls(11).await);
}

#[tokio::test(start_paused = true)]
async fn b11_limits_combine() {
    let env = Environment::seeded(11);
    let trace = Trace::new(&env);
    let backoff = Backoff::new(100 * MS, HOUR);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let controller =
        Controller::for_keys("b11", fails).enqueued_by_hand().backoff(backoff).min_interval(SECOND);
    with(&env, controller, async |handle| {
        handle.enqueue(1);
        while trace.len() <= 10 {
            env.sleep(SECOND).await;
        }
        for (failures, gap) in (1..).zip(gaps(&trace.starts(&1))) {
            let ceiling = backoff.ceiling(failures);
            let (low, high) = ((ceiling / 2).max(SECOND), ceiling.max(SECOND) + TICK);
            assert!(gap >= low && gap <= high, "attempt {}: {gap:?}", failures + 1);
        }
    })
    .await;
}

/// B13's and B12's end: a timer that fired, or that waits, is cancelled by the deletion, as often as one likes.
#[tokio::test(start_paused = true)]
async fn b13_a_deleted_object_leaves_no_timer() {
    let env = Environment::seeded(13);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let runs = Arc::new(AtomicUsize::new(0));
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let polls = {
        let (webs, runs) = (webs.clone(), runs.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            runs.fetch_add(1, Ordering::SeqCst);
            let there = webs.get(&call.key).is_some();
            async move { Ok(if there { Action::requeue_after(10 * SECOND) } else { Action::await_change() }) }
        })
    };
    let controller = Controller::for_objects("b13", &webs, polls).no_requeue_spread().no_resync();
    let handle = manager.add(controller).unwrap();
    let body = async {
        for round in 1..=3 {
            let web = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
            // In the second round the timer has fired when the object goes; in the others it has not.
            let wait = if round == 2 { 10 * SECOND + TICK } else { 5 * SECOND };
            env.sleep(wait).await;
            let before = runs.load(Ordering::SeqCst);
            webs.delete(&web).await.unwrap();
            env.sleep(HOUR).await;
            assert_eq!(runs.load(Ordering::SeqCst), before + 1, "round {round}: one run for the deletion");
            let depth = handle.snapshot().depth;
            assert_eq!(depth, Default::default(), "round {round}: nothing is left of the key");
        }
        let deleted =
            trace.runs().iter().filter(|ran| ran.causes.contains(CauseKind::Deleted.as_str())).count();
        assert_eq!(deleted, 3);
    };
    manager.run_until(body).await.unwrap();
}
