//! Behaviour bars: where other frameworks are weak, ours as a test. (The side by side figures are the benches'.)
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use fixture::*;
use futures::{StreamExt, stream};
use reconcile_runtime::{
    BackoffSignals, Client, Environment, KeyState, Lane, Trigger,
    core::{CauseKind, StoreFault},
    prelude::*,
};
use tracing::Level;

/// Concurrency 1, 200 keys that requeue at once: of 2,000 runs every key gets ten, one more or less.
#[tokio::test(start_paused = true)]
async fn bar_p1_every_key_gets_its_turn() {
    const KEYS: usize = 200;
    const RUNS: usize = 2_000;
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let turns = scripted(&trace, |call: Call<usize>| async move {
        call.run.progressed();
        Ok(Action::requeue_now())
    });
    let controller = Controller::for_keys("p1", turns)
        .resync_from(24 * HOUR, || async { Ok((0..KEYS).collect()) })
        .concurrency(1);
    with(&env, controller, async |_| {
        // Keys that always ask for more keep virtual time from moving: so no sleep here, but turns.
        while trace.len() < RUNS {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut runs: BTreeMap<usize, usize> = BTreeMap::new();
    trace.runs().iter().take(RUNS).for_each(|ran| *runs.entry(ran.key).or_default() += 1);
    assert_eq!(runs.len(), KEYS);
    assert!(runs.values().all(|runs| (9..=11).contains(runs)), "{runs:?}");
}

/// One object of three panics: the two others run on, the third backs off, counted, with its payload.
#[tokio::test(start_paused = true)]
async fn bar_p2_a_panic_harms_only_its_key() {
    let env = Environment::seeded(2);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    for web in ["one", "two", "bad"] {
        client.create(Web::new(web, WebSpec::default())).await.unwrap();
    }
    let logged = Logged::start();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let panics = scripted(&trace, |call: Call<ObjectKey>| async move {
        if call.key.name() == "bad" {
            panic!("index 7 of {}", call.key);
        }
        Ok(Action::requeue_after(10 * SECOND))
    });
    let controller = Controller::for_objects("p2", &webs, panics).concurrency(1);
    let handle = manager.add(controller).unwrap();
    let body = async {
        env.sleep(10 * MINUTE).await;
        for well in ["one", "two"] {
            assert!(trace.of(&ObjectKey::new(well)).len() >= 60, "{well} polls every 9 to 10 seconds");
        }
        let bad = ObjectKey::new("bad");
        let gaps = gaps(&trace.starts(&bad));
        for (failures, gap) in (1..).zip(&gaps) {
            let ceiling = Backoff::default().ceiling(failures);
            assert!(*gap >= ceiling / 2 && *gap <= ceiling + TICK, "{gaps:?}");
        }
        let told = handle.explain(&bad);
        assert_eq!((told.state, told.failures as usize), (KeyState::BackingOff, gaps.len() + 1));
        let error = told.last.unwrap().error.unwrap().to_string();
        assert!(error.ends_with("of bad by controller `p2`: panicked: index 7 of bad"), "{error}");
        let panicked = handle.snapshot().ended(OutcomeKind::Panicked);
        assert_eq!(panicked as usize, gaps.len() + 1);
        assert_eq!(logged.take(Level::ERROR).len(), gaps.len() + 1);
    };
    manager.run_until(body).await.unwrap();
}

/// Beside a watch that always fails, 200 events are handled as if it were not there.
#[tokio::test(start_paused = true)]
async fn bar_p3_a_failing_watch_slows_no_sibling() {
    let env = Environment::seeded(3);
    let store = Scripted::new();
    let failures = Arc::new(AtomicUsize::new(0));
    {
        let failures = failures.clone();
        store.script(move |op| {
            let fails = op == Op { verb: "watch", kind: "Pod" };
            failures.fetch_add(usize::from(fails), Ordering::SeqCst);
            async move { if fails { Err(StoreFault::Unavailable) } else { Ok(()) } }
        });
    }
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let quick = scripted(&trace, |_: Call<ObjectKey>| async { Ok(Action::await_change()) });
    manager.add(Controller::for_objects("p3", &webs, quick).owns(&pods)).unwrap();
    let body = async {
        env.sleep(MINUTE).await;
        assert!(failures.load(Ordering::SeqCst) > 3, "the sibling fails, and is tried again");
        let began = trace.now();
        for web in 0..200 {
            client.create(Web::new(name(web), WebSpec::default())).await.unwrap();
        }
        env.sleep(MINUTE).await;
        let runs = trace.runs();
        let keys: std::collections::BTreeSet<_> = runs.iter().map(|ran| ran.key.clone()).collect();
        assert_eq!(keys.len(), 200);
        let last = runs.iter().filter_map(|ran| ran.ended).max().unwrap();
        assert!(last - began < 50 * MS, "200 events took {:?}", last - began);
    };
    manager.run_until(body).await.unwrap();
}

/// A policy asked for 60 s, and 100 events come in a second.
#[tokio::test(start_paused = true)]
async fn bar_p7_events_do_not_defeat_backoff() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Events {
        OfStatus,
        OfSpec,
    }
    use BackoffSignals::{Always, Never, OnChange};
    // Policy, whether the error itself said when to come back, events, runs within the second of the events.
    let table = [
        (OnChange, false, Events::OfStatus, 1),
        (OnChange, true, Events::OfStatus, 0),
        (OnChange, false, Events::OfSpec, 1),
        (OnChange, true, Events::OfSpec, 1),
        (Never, false, Events::OfSpec, 0),
        (Always, false, Events::OfStatus, 100),
    ];
    for (policy, said, events, expected) in table {
        let env = Environment::seeded(7);
        let store = MemoryStore::default();
        let client = Client::<Web>::in_environment(store.clone(), env.clone());
        let key = ObjectKey::new("web");
        client.create(Web::new("web", WebSpec::default())).await.unwrap();
        let trace = Trace::new(&env);
        let mut manager = Manager::with_environment(env.clone());
        let webs = manager.api::<Web>(&store);
        let fails = scripted(&trace, move |_: Call<ObjectKey>| async move {
            if said { Err("throttled").retry_after(MINUTE)? } else { failed() }
        });
        let controller = Controller::for_objects("p7", &webs, fails)
            .backoff(Backoff::new(MINUTE, MINUTE))
            .signals_during_backoff(policy);
        manager.add(controller).unwrap();
        let body = async {
            env.sleep(10 * SECOND).await;
            assert_eq!(trace.len(), 1);
            for _ in 0..100 {
                match events {
                    Events::OfStatus => client.modify_status(&key, |status| status.ready += 1).await.unwrap(),
                    Events::OfSpec => client.modify(&key, |web| web.spec.replicas += 1).await.unwrap(),
                };
                env.sleep(10 * MS - TICK).await;
            }
            assert_eq!(trace.len() - 1, expected, "{policy:?}, said {said}, {events:?}");
        };
        manager.run_until(body).await.unwrap();
    }
}

/// With hot keys that are always ready in the high lane, a key of the lowest lane waits a bounded time.
#[tokio::test(start_paused = true)]
async fn bar_p8_no_lane_starves() {
    let env = Environment::seeded(8);
    let trace = Trace::new(&env);
    let turns = {
        let env = env.clone();
        scripted(&trace, move |call: Call<String>| {
            let env = env.clone();
            async move {
                env.sleep(MS).await;
                if call.key.starts_with("hot") {
                    call.run.progressed();
                    return Ok(Action::requeue_now());
                }
                Ok(Action::await_change())
            }
        })
    };
    let low = Trigger::new("low", || stream::iter((0..20).map(|nth| format!("low-{nth}")))).lane(Lane::Low);
    let normal = Trigger::new("normal", || stream::iter((0..20).map(|nth| format!("normal-{nth}"))));
    let controller = Controller::for_keys("p8", turns).trigger_with(low).trigger_with(normal).concurrency(1);
    with(&env, controller, async |handle| {
        handle.pause();
        (0..4).for_each(|nth| handle.enqueue(format!("hot-{nth}")));
        env.sleep(MS).await; // the triggers have said everything
        handle.resume();
        env.sleep(2 * SECOND).await;
        let runs = trace.runs();
        for lane in ["low", "normal"] {
            let turns: Vec<usize> = runs
                .iter()
                .enumerate()
                .filter(|(_, ran)| ran.key.starts_with(lane))
                .map(|(nth, _)| nth)
                .collect();
            assert_eq!(turns.len(), 20, "{lane}: all ran");
            // Passed over sixteen times in a row, and then one other lane may be owed its turn first.
            assert!(
                turns[0] <= 17 && turns.windows(2).all(|pair| pair[1] - pair[0] <= 18),
                "{lane}: {turns:?}"
            );
        }
        let hot = runs.iter().filter(|ran| ran.key.starts_with("hot")).count();
        assert!(hot > runs.len() * 8 / 10, "and the hot keys hardly notice: {hot} of {}", runs.len());
    })
    .await;
}

/// Deletes are real: of the object itself, for every controller of the kind, and also when they are found only by
/// listing again.
#[tokio::test(start_paused = true)]
async fn bar_p10_deletes_wake_every_reconciler() {
    let env = Environment::seeded(10);
    let store = Scripted::new();
    let (webs, pods) = (
        Client::<Web>::in_environment(store.inner().clone(), env.clone()),
        Client::<Pod>::in_environment(store.inner().clone(), env.clone()),
    );
    for owner in ["seen", "missed"] {
        let web = webs.create(Web::new(owner, WebSpec::default())).await.unwrap();
        pods.create_owned(&web, Pod::new(format!("{owner}-pod"), PodSpec)).await.unwrap();
    }
    let mut manager = Manager::with_environment(env.clone());
    let (web_api, pod_api) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let mut traces = Vec::new();
    for controller in ["one", "two"] {
        let trace = Trace::new(&env);
        let quick = scripted(&trace, |_: Call<ObjectKey>| async { Ok(Action::await_change()) });
        manager.add(Controller::for_objects(controller, &web_api, quick).owns(&pod_api)).unwrap();
        traces.push(trace);
    }
    let body = async {
        env.sleep(SECOND).await;
        let (seen, missed) = (ObjectKey::new("seen"), ObjectKey::new("missed"));
        let lasts = |key: &ObjectKey| -> Vec<(usize, String)> {
            traces
                .iter()
                .map(|trace| (trace.of(key).len(), trace.of(key).last().unwrap().causes.clone()))
                .collect()
        };
        let web = webs.get(&seen).await.unwrap().unwrap();
        webs.delete(&web).await.unwrap();
        env.sleep(SECOND).await;
        for (runs, causes) in lasts(&seen) {
            assert_eq!((runs, causes.as_str()), (2, "Web seen deleted"));
        }
        // Nobody watches while object and child go, and the history is gone when they look again.
        let away = env.clone();
        store.script(move |op| {
            let (gone, clock) = (op.verb == "watch" && away.now().as_nanos() < 60_000_000_000, away.clone());
            async move {
                clock.sleep(MS).await;
                if gone { Err(StoreFault::Expired) } else { Ok(()) }
            }
        });
        store.cut();
        let pod = pods.get(&ObjectKey::new("missed-pod")).await.unwrap().unwrap();
        pods.delete(&pod).await.unwrap();
        env.sleep(2 * MINUTE).await;
        for (runs, causes) in lasts(&missed) {
            assert_eq!((runs, causes.as_str()), (2, "Pod missed-pod deleted"), "the child's delete");
        }
        store.script(|_| async { Ok(()) });
        let web = webs.get(&missed).await.unwrap().unwrap();
        store.cut();
        webs.delete(&web).await.unwrap();
        env.sleep(2 * MINUTE).await;
        for (runs, causes) in lasts(&missed) {
            assert_eq!((runs, causes.as_str()), (3, "Web missed deleted"), "its own");
        }
        assert!(web_api.is_empty());
    };
    manager.run_until(body).await.unwrap();
}

/// A delayed add and an add of one key are one run.
#[tokio::test(start_paused = true)]
async fn bar_p12_a_delayed_add_and_an_add_are_one_run() {
    let env = Environment::seeded(12);
    let trace = Trace::new(&env);
    let polls = scripted(&trace, |call: Call<u32>| async move {
        Ok(if call.nth == 1 { Action::wait_for("it").recheck_after(10 * MS) } else { Action::await_change() })
    });
    with(&env, Controller::for_keys("p12", polls).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.idle().await;
        handle.pause();
        // The add before the timer fires, and one after it would have fired.
        handle.enqueue(1);
        env.sleep(20 * MS).await;
        handle.enqueue(1);
        let depth = handle.snapshot().depth;
        assert_eq!((depth.ready(), depth.scheduled), (1, 0));
        handle.resume();
        env.sleep(SECOND).await;
        assert_eq!(trace.len(), 2);
        assert!(!trace.runs()[1].causes.contains(CauseKind::Timer.as_str()), "{:?}", trace.runs()[1]);
    })
    .await;
}

/// A source that is always ready: runs start within its first batches, not after its last item.
#[tokio::test(start_paused = true)]
async fn bar_p15_a_source_that_is_always_ready_starves_no_run() {
    const ITEMS: usize = 1_000_000;
    /// What a source may give before the workers get their turn.
    const BATCH: usize = 256;
    let env = Environment::seeded(15);
    let given = Arc::new(AtomicUsize::new(0));
    let first = Arc::new(AtomicUsize::new(usize::MAX));
    let most = Arc::new(AtomicUsize::new(0));
    let counts = {
        let (given, first, most) = (given.clone(), first.clone(), most.clone());
        let seen = AtomicUsize::new(0);
        reconcile_fn(move |_: usize, _run| {
            let now = given.load(Ordering::SeqCst);
            first.fetch_min(now, Ordering::SeqCst);
            most.fetch_max(now - seen.swap(now, Ordering::SeqCst), Ordering::SeqCst);
            async { Ok(Action::await_change()) }
        })
    };
    let flood = {
        let given = given.clone();
        move || {
            let given = given.clone();
            stream::iter(0..ITEMS).map(move |item| {
                given.fetch_add(1, Ordering::SeqCst);
                item % 1_000
            })
        }
    };
    with(&env, Controller::for_keys("p15", counts).trigger(flood), async |handle| {
        env.sleep(SECOND).await;
        assert_eq!(handle.snapshot().added() as usize, ITEMS);
        let (first, most) = (first.load(Ordering::SeqCst), most.load(Ordering::SeqCst));
        assert!(first <= 2 * BATCH, "the first run came after {first} items");
        assert!(most <= 2 * BATCH, "no run between {most} items");
    })
    .await;
}
