//! Scenarios Q1 to Q10: the queue under a whole engine. (Q6 is a matter of interleavings: see the loom models
//! beside the queue.)

mod fixture;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fixture::*;
use futures::FutureExt;
use reconcile_runtime::{Client, Environment, KeyState, Lane, Trigger, prelude::*};

#[tokio::test(start_paused = true)]
async fn q1_parked_key_wakes_again() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let slow = {
        let env = env.clone();
        scripted(&trace, move |_: Call<u32>| {
            let env = env.clone();
            async move {
                env.sleep(SECOND).await;
                Ok(Action::await_change())
            }
        })
    };
    let controller = Controller::for_keys("q1", slow).enqueued_by_hand().concurrency(1);
    with(&env, controller, async |handle| {
        handle.enqueue(7);
        env.sleep(500 * MS).await;
        handle.enqueue(7); // while the first run is on
        env.sleep(SECOND).await;
        assert_eq!(handle.explain(&7).state, KeyState::Running, "the signal made a second run");
        handle.enqueue(7); // while the second run is on
        handle.idle().await;
        assert_eq!(trace.starts(&7).len(), 3);
        assert_eq!(gaps(&trace.starts(&7)), [SECOND, SECOND]);
    })
    .await;
}

/// Any burst of signals: at quiet, every key has a run that started at its last signal or later.
#[tokio::test(start_paused = true)]
async fn q1_no_signal_of_any_burst_is_lost() {
    for seed in 0..20 {
        let env = Environment::seeded(seed);
        let trace = Trace::new(&env);
        let slow = {
            let env = env.clone();
            scripted(&trace, move |call: Call<u64>| {
                let env = env.clone();
                async move {
                    env.sleep((1 + below(&env, 9)) as u32 * MS).await;
                    if (call.nth + seed as usize).is_multiple_of(5) {
                        failed()
                    } else {
                        Ok(Action::await_change())
                    }
                }
            })
        };
        let controller = Controller::for_keys("q1", slow)
            .enqueued_by_hand()
            .concurrency(1 + (seed % 3) as usize)
            .backoff(Backoff::new(5 * MS, 20 * MS));
        with(&env, controller, async |handle| {
            let mut last = [None; 6];
            for _ in 0..200 {
                let key = below(&env, 6);
                last[key as usize] = Some(trace.now());
                handle.enqueue(key);
                env.sleep(below(&env, 6) as u32 * MS).await;
            }
            env.sleep(SECOND).await; // past every backoff
            for (key, signalled) in (0..).zip(last) {
                let started = trace.starts(&key).last().copied();
                assert!(signalled <= started, "seed {seed}, key {key}: {signalled:?} > {started:?}");
                assert_eq!(handle.explain(&key).state, KeyState::Idle, "seed {seed}, key {key}");
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn q2_a_burst_of_children_stalls_nothing() {
    const OWNERS: usize = 1_000;
    const CHILDREN: usize = 20;
    let env = Environment::seeded(2);
    let store = MemoryStore::default();
    let (webs, pods) = (
        Client::<Web>::in_environment(store.clone(), env.clone()),
        Client::<Pod>::in_environment(store.clone(), env.clone()),
    );
    for owner in 0..OWNERS {
        let web = webs.create(Web::new(name(owner), WebSpec { replicas: CHILDREN })).await.unwrap();
        for child in 0..CHILDREN {
            pods.create_owned(&web, Pod::new(format!("{}-{child}", name(owner)), PodSpec)).await.unwrap();
        }
    }
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let poll = scripted(&trace, |_| async { Ok(Action::requeue_after(50 * MS)) });
    let controller = Controller::for_objects("q2", &webs, poll).owns(&pods).concurrency(1);
    let handle = manager.add(controller).unwrap();
    let body = async {
        // Time stands still while anything is left to do, so no wait below is one for the consumer.
        let before = env.now();
        handle.idle().await;
        for _ in 0..CHILDREN {
            (0..OWNERS).for_each(|owner| handle.enqueue(ObjectKey::new(&name(owner))));
        }
        assert_eq!(env.now(), before, "neither the initial burst nor signalling waits for a run");
        let depth = handle.snapshot().depth;
        assert_eq!(depth.ready(), OWNERS, "queued once, whatever the number of signals");
        env.sleep(SECOND).await;
        let depth = handle.snapshot().depth;
        assert_eq!(depth.ready() + depth.active() + depth.scheduled, OWNERS);
        assert!(handle.snapshot().added() >= (OWNERS * (2 * CHILDREN + 1)) as u64);
        let mut runs = std::collections::HashMap::<ObjectKey, usize>::new();
        trace.runs().into_iter().for_each(|ran| *runs.entry(ran.key).or_default() += 1);
        assert_eq!(runs.len(), OWNERS);
        assert!(runs.values().all(|runs| *runs >= 10), "some key stalled: {:?}", runs.values().min());
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn q3_a_skipped_run_releases_its_key() {
    let env = Environment::seeded(3);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let cache = webs.clone();
    let skips = scripted(&trace, move |call: Call<ObjectKey>| {
        let found = cache.get(&call.key).is_some();
        async move { if found { Ok(Action::wait_for("nothing")) } else { Ok(Action::await_change()) } }
    });
    let handle = manager.add(Controller::for_objects("q3", &webs, skips)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        handle.enqueue(key.clone());
        handle.idle().await;
        assert_eq!(trace.of(&key).len(), 1, "the object was not there");
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        handle.idle().await;
        assert_eq!(trace.of(&key).len(), 2);
        assert_eq!(handle.explain(&key).waits_for.as_deref(), Some("nothing"), "this time it was found");
    };
    manager.run_until(body).await.unwrap();
}

/// Every way out of a run releases the key: it is not running afterwards, and the next signal runs it.
#[tokio::test(start_paused = true)]
async fn q3_every_exit_releases_the_key() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("in the drop");
        }
    }
    let exits = [
        ("return", OutcomeKind::Done),
        ("error", OutcomeKind::Failed),
        ("permanent", OutcomeKind::Permanent),
        ("panic in the call", OutcomeKind::Panicked),
        ("panic in a poll", OutcomeKind::Panicked),
        ("panic after a wait", OutcomeKind::Panicked),
        ("panic in the drop", OutcomeKind::Panicked),
        ("cancelled", OutcomeKind::Cancelled),
        ("over its limit", OutcomeKind::TimedOut),
        ("over its limit, panics in the drop", OutcomeKind::Panicked),
    ];
    for (exit, kind) in exits {
        let env = Environment::seeded(3);
        let trace = Trace::new(&env);
        let leaves = {
            let env = env.clone();
            scripted(&trace, move |call: Call<&'static str>| {
                assert!(call.nth > 1 || exit != "panic in the call", "in the call");
                let env = env.clone();
                async move {
                    if call.nth > 1 {
                        return Ok(Action::await_change());
                    }
                    match exit {
                        "error" => failed(),
                        "permanent" => Err("never").permanent()?,
                        "panic in a poll" => panic!("in a poll"),
                        "panic after a wait" => {
                            env.sleep(MS).await;
                            panic!("after a wait");
                        }
                        "panic in the drop" => {
                            let _armed = PanicsInDrop;
                            Ok(Action::await_change())
                        }
                        "cancelled" => {
                            call.run.cancelled().await;
                            Err(Retry::Cancelled)?
                        }
                        "over its limit" => std::future::pending().await,
                        "over its limit, panics in the drop" => {
                            let _armed = PanicsInDrop;
                            std::future::pending().await
                        }
                        _ => Ok(Action::await_change()),
                    }
                }
            })
        };
        let controller =
            Controller::for_keys("q3", leaves).enqueued_by_hand().concurrency(1).run_limit(SECOND);
        with(&env, controller, async |handle| {
            let first = handle.next_outcome(&exit);
            let outcome = async {
                handle.enqueue(exit);
                if exit == "cancelled" {
                    env.sleep(MS).await;
                    handle.enqueue(exit); // the new input supersedes the run
                }
            };
            let (first, ()) = futures::join!(first, outcome);
            assert_eq!(first.unwrap().kind, kind, "{exit}");
            if exit != "cancelled" {
                handle.enqueue(exit); // that one runs again for the input that cancelled it
            }
            handle.converged(&exit).await.unwrap();
            assert_eq!(handle.snapshot().depth.active(), 0, "{exit}");
            assert_eq!(trace.of(&exit).len(), 2, "{exit}");
        })
        .await;
    }
}

/// A worker that is dropped in the middle of a run, with its manager, ends the run too.
#[tokio::test(start_paused = true)]
async fn q3_dropping_the_manager_drops_the_run() {
    let env = Environment::seeded(3);
    let trace = Trace::new(&env);
    let hangs = scripted(&trace, |_: Call<u32>| std::future::pending());
    let mut manager = Manager::with_environment(env.clone());
    let handle = manager.add(Controller::for_keys("q3", hangs).enqueued_by_hand()).unwrap();
    handle.enqueue(1);
    let mut running = Box::pin(manager.run_until(std::future::pending::<()>()));
    let raced = futures::future::select(&mut running, env.sleep(SECOND)).await;
    assert!(matches!(raced, futures::future::Either::Right(_)));
    assert_eq!(trace.of(&1)[0].ended, None);
    drop(raced);
    drop(running);
    env.sleep(MS).await;
    assert!(trace.of(&1)[0].ended.is_some(), "its future was dropped");
    assert_eq!(handle.snapshot().depth.active(), 0);
}

#[tokio::test(start_paused = true)]
async fn q4_a_start_up_burst_is_one_run() {
    let env = Environment::seeded(4);
    let store = Scripted::new();
    let (webs, pods) = (
        Client::<Web>::in_environment(store.clone(), env.clone()),
        Client::<Pod>::in_environment(store.clone(), env.clone()),
    );
    let web = webs.create(Web::new("web", WebSpec { replicas: 10 })).await.unwrap();
    for child in 0..10 {
        pods.create_owned(&web, Pod::new(format!("web-{child}"), PodSpec)).await.unwrap();
    }
    // The children's list is five seconds late.
    let clock = env.clone();
    store.script(move |op| {
        let late = (op == Op { verb: "list", kind: "Pod" }).then(|| clock.sleep(5 * SECOND));
        async move {
            if let Some(late) = late {
                late.await;
            }
            Ok(())
        }
    });
    let trace = Trace::new(&env);
    let seen = Arc::new(AtomicUsize::new(0));
    let mut manager = Manager::with_environment(env.clone());
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let counts = {
        let (webs, pods, seen) = (webs.clone(), pods.clone(), seen.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            let children = webs.get(&call.key).map_or(0, |web| pods.owned_by(&web).len());
            seen.store(children, Ordering::SeqCst);
            async { Ok(Action::await_change()) }
        })
    };
    let handle = manager.add(Controller::for_objects("q4", &webs, counts).owns(&pods)).unwrap();
    let body = async {
        env.sleep(MINUTE).await;
        let runs = trace.runs();
        assert_eq!(runs.len(), 1, "one owner and ten children are one run: {runs:?}");
        assert!(runs[0].started >= 5 * SECOND, "it waits for all caches: {:?}", runs[0].started);
        assert_eq!(seen.load(Ordering::SeqCst), 10);
        assert_eq!(handle.snapshot().added(), 11, "every object of the lists was a signal");
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn q5_an_urgent_key_goes_first_when_its_delay_ends() {
    let env = Environment::seeded(5);
    let trace = Trace::new(&env);
    let slow = {
        let env = env.clone();
        scripted(&trace, move |call: Call<String>| {
            let env = env.clone();
            async move {
                if call.key == "urgent" && call.nth == 1 {
                    return Err("busy").retry_after(SECOND)?;
                }
                env.sleep(30 * MS).await;
                Ok(Action::await_change())
            }
        })
    };
    let backlog: Vec<String> = (0..200).map(name).collect();
    let controller = Controller::for_keys("q5", slow)
        .resync_from(24 * HOUR, move || std::future::ready(Ok(backlog.clone())))
        .concurrency(1);
    with(&env, controller, async |handle| {
        let urgent = "urgent".to_owned();
        handle.enqueue(urgent.clone());
        env.sleep(500 * MS).await;
        assert_eq!(handle.explain(&urgent).state, KeyState::BackingOff);
        assert_eq!(handle.explain(&urgent).lane, Lane::High, "a key keeps its lane through retries");
        assert!(handle.snapshot().depth.ready_low > 150);
        handle.converged(&urgent).await.unwrap();
        let due = trace.of(&urgent)[0].ended.unwrap() + SECOND;
        let runs = trace.runs();
        let next = runs.iter().find(|ran| ran.started >= due).unwrap();
        assert_eq!(next.key, urgent, "the first run that starts after {due:?}");
        assert!(handle.snapshot().depth.ready_low > 150, "ahead of the whole backlog");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn q7_equal_keys_merge() {
    let env = Environment::seeded(7);
    let trace = Trace::new(&env);
    let quick = scripted(&trace, |_: Call<ObjectKey>| async { Ok(Action::await_change()) });
    let controller = Controller::for_keys("q7", quick).enqueued_by_hand();
    with(&env, controller, async |handle| {
        handle.pause();
        for revision in 0..1_000 {
            let mut web = Web::new("web", WebSpec { replicas: revision })
                .namespace(String::from("default"))
                .label("revision", revision.to_string());
            web.meta.revision = reconcile_runtime::core::Revision(revision as u64);
            handle.enqueue(web.key());
        }
        let queue = handle.snapshot();
        assert_eq!(queue.depth.ready(), 1);
        assert_eq!((queue.added(), queue.deduplicated), (1_000, 999));
        // Another namespace is another key.
        handle.enqueue(ObjectKey::namespaced("other", "web"));
        handle.enqueue(ObjectKey::new("web"));
        assert_eq!(handle.snapshot().depth.ready(), 3);
        handle.resume();
        handle.idle().await;
        assert_eq!(trace.len(), 3);
    })
    .await;
}

/// A key that holds something large.
#[derive(Clone, Debug)]
struct Heavy {
    number: u64,
    payload: Arc<Vec<u8>>,
}

impl PartialEq for Heavy {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Heavy {}

impl std::hash::Hash for Heavy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn q8_finished_keys_are_let_go() {
    /// As many last outcomes as are remembered.
    const RING: usize = 4_096;
    let env = Environment::seeded(8);
    let quick = reconcile_fn(|key: Heavy, _| async move {
        if key.payload.is_empty() { failed() } else { Ok(Action::await_change()) }
    });
    let controller = Controller::for_keys("q8", quick).enqueued_by_hand();
    with(&env, controller, async |handle| {
        let mut payloads: Vec<Weak<Vec<u8>>> = Vec::new();
        for number in 0..100_000 {
            let payload = Arc::new(vec![0; 64]);
            payloads.push(Arc::downgrade(&payload));
            handle.enqueue(Heavy { number, payload });
        }
        assert_eq!(handle.snapshot().depth.ready(), 100_000);
        handle.idle().await;
        assert_eq!(handle.snapshot().runs(), 100_000);
        let alive = payloads.iter().filter(|payload| payload.strong_count() > 0).count();
        // One more may stand in the run that the worker uses again.
        assert!(alive <= RING + 1, "{alive} keys are still referenced");
        assert_eq!(handle.snapshot().remembered, RING);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn q9_a_noisy_object_starves_no_quiet_one() {
    const WORKERS: u32 = 2;
    const RUN: Duration = Duration::from_millis(20);
    const INTERVAL: Duration = Duration::from_millis(500);
    const QUIET: usize = 50;
    let env = Environment::seeded(9);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    let noisy = ObjectKey::new("noisy");
    client.create(Web::new("noisy", WebSpec::default())).await.unwrap();
    for quiet in 0..QUIET {
        client.create(Web::new(name(quiet), WebSpec::default())).await.unwrap();
    }
    let trace = Trace::new(&env);
    let seen = Arc::new(AtomicUsize::new(0));
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let slow = {
        let (env, webs, seen, noisy) = (env.clone(), webs.clone(), seen.clone(), noisy.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            if call.key == noisy {
                seen.store(webs.get(&noisy).map_or(0, |web| web.spec.replicas), Ordering::SeqCst);
            }
            let env = env.clone();
            async move {
                env.sleep(RUN).await;
                Ok(Action::await_change())
            }
        })
    };
    let controller =
        Controller::for_objects("q9", &webs, slow).concurrency(WORKERS as usize).min_interval(INTERVAL);
    let handle = manager.add(controller).unwrap();
    let body = async {
        env.sleep(5 * SECOND).await; // the initial runs are over
        let begin = trace.now();
        let mut changed: Vec<(ObjectKey, Duration)> = Vec::new();
        for round in 1..=2_000 {
            client.modify(&noisy, |web| web.spec.replicas = round).await.unwrap();
            if round % 40 == 0 {
                let key = ObjectKey::new(&name(round / 40 - 1));
                client.modify(&key, |web| web.spec.replicas = round).await.unwrap();
                changed.push((key, trace.now()));
            }
            env.sleep(5 * MS).await;
        }
        assert_eq!(changed.len(), QUIET);
        env.sleep(SECOND).await;
        // At worst all keys were due at once.
        let bound = RUN * (QUIET as u32 + 1) / WORKERS + TICK;
        for (key, at) in &changed {
            let after = trace.starts(key).into_iter().find(|start| start >= at).expect("it ran");
            assert!(after - *at <= bound, "{key} waited {:?}", after - *at);
        }
        let runs = trace.starts(&noisy).into_iter().filter(|start| *start >= begin).count();
        assert!((15..=23).contains(&runs), "10 s at one run per 500 ms, not {runs}");
        assert_eq!(seen.load(Ordering::SeqCst), 2_000, "its last change was seen");
        assert_eq!(handle.explain(&noisy).state, KeyState::Idle);
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn q10_a_hung_run_blocks_no_other_key() {
    let env = Environment::seeded(10);
    let trace = Trace::new(&env);
    let released = Arc::new(AtomicBool::new(false));
    let hangs = {
        let released = released.clone();
        scripted(&trace, move |call: Call<String>| {
            let hang = call.key == "hung" && !released.load(Ordering::SeqCst);
            async move {
                if hang {
                    std::future::pending::<()>().await;
                }
                Ok(Action::await_change())
            }
        })
    };
    with(&env, Controller::for_keys("q10", hangs).enqueued_by_hand(), async |handle| {
        let hung = "hung".to_owned();
        handle.enqueue(hung.clone());
        env.sleep(SECOND).await;
        (0..50).for_each(|number| handle.enqueue(name(number)));
        env.sleep(MS).await;
        assert_eq!(trace.len(), 51, "all others ran at once");
        assert!(handle.converged(&name(49)).now_or_never().is_some());
        let outcome = handle.next_outcome(&hung).await.unwrap();
        assert_eq!(outcome.kind, OutcomeKind::TimedOut);
        assert_eq!(outcome.took, 5 * MINUTE);
        assert!(outcome.error.unwrap().to_string().contains("limit of 300s"));
        assert_eq!(handle.snapshot().ended(OutcomeKind::TimedOut), 1);
        let told = handle.explain(&hung);
        assert_eq!((told.state, told.failures), (KeyState::BackingOff, 1));
        released.store(true, Ordering::SeqCst);
        handle.converged(&hung).await.unwrap();
        let runs = trace.of(&hung);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[1].attempt, 2);
        let delay = runs[1].started - runs[0].ended.unwrap();
        assert!(delay >= Backoff::DEFAULT_BASE / 2 && delay <= Backoff::DEFAULT_BASE + TICK, "{delay:?}");
    })
    .await;
}

/// Signals of a source that is always there do not wait for runs: the queue's memory is bounded by keys.
#[tokio::test(start_paused = true)]
async fn q2_a_hung_worker_holds_no_signal_back() {
    let env = Environment::seeded(2);
    let trace = Trace::new(&env);
    let hangs = scripted(&trace, |_: Call<u32>| std::future::pending());
    let flood = Trigger::new("flood", || futures::stream::iter((0..100_000_u32).map(|number| number % 100)));
    let controller = Controller::for_keys("q2", hangs).trigger_with(flood).concurrency(1).no_run_limit();
    let mut manager = Manager::with_environment(env.clone()).grace(Duration::ZERO);
    let handle = manager.add(controller).unwrap();
    let body = async {
        env.sleep(SECOND).await;
        let queue = handle.snapshot();
        assert_eq!(queue.added(), 100_000, "the stream was drained while the only worker hung");
        assert_eq!(queue.depth.ready() + queue.depth.active(), 100);
    };
    manager.run_until(body).await.unwrap();
}
