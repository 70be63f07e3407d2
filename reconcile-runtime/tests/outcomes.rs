//! The outcome table, row by row: what a run returns, and what becomes of its key. (Signals that come while a
//! key fails: `during_backoff.rs`. Spinning: `spinning.rs`.)
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fixture::*;
use reconcile_runtime::{
    Client, Environment, KeyState, RetryBudget,
    core::{StoreFault, Timestamp},
    prelude::*,
};
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn await_change_leaves_nothing_behind() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let quick = scripted(&trace, |_: Call<u32>| async { Ok(Action::await_change()) });
    with(&env, Controller::for_keys("c", quick).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.converged(&1).await.unwrap();
        assert_eq!(handle.snapshot().depth, Default::default());
        let told = handle.explain(&1);
        assert_eq!((told.state, told.next_run), (KeyState::Idle, None));
        assert_eq!(told.last.unwrap().kind, OutcomeKind::Done);
        env.sleep(24 * HOUR).await;
        assert_eq!(trace.len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requeue_now_goes_behind_the_ready_keys_of_its_lane() {
    for now in [
        Action::requeue_now(),
        Action::requeue_after(Duration::ZERO),
        Action::requeue_at(Timestamp::UNIX_EPOCH),
    ] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let action = now.clone();
        let turns = scripted(&trace, move |call: Call<&str>| {
            let again = call.key == "a" && call.nth < 3;
            let action = if again { action.clone() } else { Action::await_change() };
            async { Ok(action) }
        });
        let controller = Controller::for_keys("c", turns).enqueued_by_hand().concurrency(1);
        with(&env, controller, async |handle| {
            handle.pause();
            ["a", "b", "c"].into_iter().for_each(|key| handle.enqueue(key));
            handle.resume();
            handle.idle().await;
            let order: Vec<&str> = trace.runs().iter().map(|ran| ran.key).collect();
            assert_eq!(order, ["a", "b", "c", "a", "a"], "{now}");
            assert!(trace.runs().iter().all(|ran| ran.started == trace.runs()[0].started), "at once: {now}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn polls_are_spread_and_the_first_one_after_a_start_over_all_of_its_delay() {
    const DELAY: Duration = Duration::from_secs(100);
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let polls = scripted(&trace, |_: Call<usize>| async { Ok(Action::requeue_after(DELAY)) });
    with(&env, Controller::for_keys("c", polls).enqueued_by_hand(), async |handle| {
        (0..200).for_each(|key| handle.enqueue(key));
        env.sleep(2 * DELAY).await;
        let mut firsts = Vec::new();
        for key in 0..200 {
            let gaps = gaps(&trace.starts(&key));
            assert!(gaps[0] <= DELAY + TICK);
            let in_last_tenth = |gap: &Duration| *gap >= DELAY * 9 / 10 && *gap <= DELAY + TICK;
            assert!(gaps[1..].iter().all(in_last_tenth), "{gaps:?}");
            firsts.push(gaps[0]);
        }
        for tenth in 0..10 {
            let within =
                firsts.iter().filter(|gap| **gap >= DELAY * tenth / 10 && **gap < DELAY * (tenth + 1) / 10);
            assert!(within.count() >= 8, "of 200 first polls, tenth {tenth} has too few");
        }
        // Long after the start a key's first poll has nothing to be told apart from.
        (1_000..1_100).for_each(|key| handle.enqueue(key));
        env.sleep(DELAY + TICK).await;
        assert!((1_000..1_100).all(|key| gaps(&trace.starts(&key))[0] >= DELAY * 9 / 10));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_spread_of_polls_can_be_set_and_turned_off() {
    const DELAY: Duration = Duration::from_secs(100);
    for spread in [None, NonZeroU32::new(2)] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let polls = scripted(&trace, |_: Call<usize>| async { Ok(Action::requeue_after(DELAY)) });
        let controller = Controller::for_keys("c", polls).enqueued_by_hand();
        let controller = match spread {
            None => controller.no_requeue_spread(),
            Some(part) => controller.requeue_spread(part),
        };
        with(&env, controller, async |handle| {
            env.sleep(2 * DELAY).await; // so that no poll is a first one after the start
            (0..50).for_each(|key| handle.enqueue(key));
            env.sleep(DELAY + TICK).await;
            let mut firsts: Vec<Duration> = (0..50).map(|key| gaps(&trace.starts(&key))[0]).collect();
            firsts.sort();
            match spread {
                None => assert!(firsts[0] >= DELAY && firsts[49] <= DELAY + TICK, "{firsts:?}"),
                Some(_) => assert!(
                    firsts[0] >= DELAY / 2 && firsts[0] < DELAY * 6 / 10 && firsts[49] > DELAY * 9 / 10
                ),
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn requeue_at_is_exact() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let deadlines = Arc::new(Mutex::new(Vec::new()));
    let waits = {
        let deadlines = deadlines.clone();
        scripted(&trace, move |call: Call<u32>| {
            let at = call.run.now().checked_add(jiff::SignedDuration::from_secs(3600)).unwrap();
            deadlines.lock().unwrap().push((call.run.now(), at));
            async move { Ok(Action::requeue_at(at)) }
        })
    };
    with(&env, Controller::for_keys("c", waits).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(10 * HOUR).await;
        let deadlines = deadlines.lock().unwrap();
        assert_eq!(deadlines.len(), 10);
        for pair in deadlines.windows(2) {
            let late = pair[1].0.duration_since(pair[0].1);
            assert!(
                late >= jiff::SignedDuration::ZERO && late <= jiff::SignedDuration::from_millis(1),
                "{late:?}"
            );
        }
        assert_eq!(handle.explain(&1).last.unwrap().kind, OutcomeKind::Requeued);
    })
    .await;
}

/// A signal comes before every timer that a run asked for, and takes its place.
#[tokio::test(start_paused = true)]
async fn a_signal_comes_before_every_timer_that_was_asked_for() {
    for kind in ["poll", "deadline", "recheck"] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let waits = scripted(&trace, move |call: Call<u32>| {
            let later = call.run.now().checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
            let action = match kind {
                _ if call.nth > 1 => Action::await_change(),
                "poll" => Action::requeue_after(HOUR),
                "deadline" => Action::requeue_at(later),
                _ => Action::wait_for("it").recheck_after(HOUR),
            };
            async { Ok(action) }
        });
        let controller = Controller::for_keys("c", waits).enqueued_by_hand().no_requeue_spread();
        with(&env, controller, async |handle| {
            handle.enqueue(1);
            env.sleep(SECOND).await;
            assert_eq!(handle.explain(&1).state, KeyState::Scheduled, "{kind}");
            assert!(handle.explain(&1).next_run.unwrap() > 3_500 * SECOND, "{kind}");
            handle.enqueue(1);
            env.sleep(2 * HOUR).await;
            assert_eq!(
                gaps(&trace.starts(&1)),
                [SECOND],
                "{kind}: one run for the signal, none for the timer"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_waits_for_any_signal_and_says_for_what() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    client.create(Web::new("web", WebSpec::default())).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let waits = scripted(&trace, |_: Call<ObjectKey>| async { Ok(Action::wait_for("pods to become ready")) });
    let handle = manager.add(Controller::for_objects("c", &webs, waits).resync_every(HOUR)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        env.sleep(MINUTE).await;
        let told = handle.explain(&key);
        assert_eq!((told.state, told.next_run, told.failures), (KeyState::Waiting, None, 0));
        assert!(told.to_string().contains("waits for pods to become ready"), "{told}");
        assert_eq!(told.last.unwrap().kind, OutcomeKind::Waiting);
        // Something that is no input for it.
        client.modify_status(&key, |status| status.ready = 1).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(trace.len(), 2);
        // The resync, too.
        env.sleep(HOUR).await;
        assert_eq!(trace.len(), 3);
        assert!(trace.runs()[2].causes.contains("resync"), "{:?}", trace.runs()[2]);
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn wait_for_rechecks_exactly_when_it_said() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let waits =
        scripted(&trace, |_: Call<u32>| async { Ok(Action::wait_for("it").recheck_after(7 * SECOND)) });
    with(&env, Controller::for_keys("c", waits).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(MINUTE).await;
        let gaps = gaps(&trace.starts(&1));
        assert_eq!(gaps.len(), 8);
        assert!(gaps.iter().all(|gap| *gap >= 7 * SECOND && *gap <= 7 * SECOND + TICK), "{gaps:?}");
        assert!(
            handle.explain(&1).to_string().contains("waits for it, next run in"),
            "{}",
            handle.explain(&1)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_class_backs_off_and_is_told() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let logged = Logged::start();
    let fails = scripted(&trace, |call: Call<u32>| async move {
        if call.nth < 4 { Err("disk full".into()) } else { Ok(Action::await_change()) }
    });
    with(&env, Controller::for_keys("c", fails).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.idle().await;
        let told = handle.explain(&1);
        assert_eq!((told.state, told.failures, told.attempt), (KeyState::BackingOff, 1, 2));
        assert!(told.to_string().contains("backs off after 1 failed run, next run in"), "{told}");
        assert!(told.to_string().ends_with(": disk full"), "{told}");
        let idle = handle.idle().await;
        assert_eq!(idle.failing.len(), 1, "failing keys do not keep `idle` waiting, and are listed");
        assert_eq!(idle.failing[0].1.as_ref().unwrap().to_string(), "disk full");
        handle.converged(&1).await.unwrap();
        let gaps = gaps(&trace.starts(&1));
        for (failures, gap) in (1..).zip(&gaps) {
            let ceiling = Backoff::default().ceiling(failures);
            assert!(*gap >= ceiling / 2 && *gap <= ceiling + TICK, "{gaps:?}");
        }
        assert_eq!(handle.explain(&1).failures, 0, "reset by the success");
        assert_eq!(handle.snapshot().retries, 3);
        assert_eq!(logged.take(Level::WARN).len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_waits_as_long_as_it_was_told_but_never_less_than_the_base() {
    for (told, expected) in [(MINUTE, MINUTE), (MS, 200 * MS)] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let fails = scripted(&trace, move |call: Call<u32>| async move {
            if call.nth < 4 { Err("busy").retry_after(told)? } else { Ok(Action::await_change()) }
        });
        with(&env, Controller::for_keys("c", fails).enqueued_by_hand(), async |handle| {
            handle.enqueue(1);
            handle.converged(&1).await.unwrap();
            let gaps = gaps(&trace.starts(&1));
            assert_eq!(gaps.len(), 3);
            assert!(gaps.iter().all(|gap| *gap >= expected && *gap <= expected + TICK), "{gaps:?}");
            let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
            assert_eq!(attempts, [1, 2, 3, 4], "it counts as a failure");
        })
        .await;
    }
}

/// Permanent: no timer and no failures; an input at once, another foreign change a second after the run, resync.
#[tokio::test(start_paused = true)]
async fn a_permanent_failure_waits_for_a_change_or_resync() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    client.create(Web::new("web", WebSpec::default())).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let fails = scripted(&trace, |call: Call<ObjectKey>| async move {
        if call.nth <= 2 { failed() } else { Err("bad spec").permanent()? }
    });
    let handle = manager.add(Controller::for_objects("c", &webs, fails).resync_every(HOUR)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        env.sleep(10 * SECOND).await;
        let told = handle.explain(&key);
        assert_eq!((told.state, told.failures, told.next_run), (KeyState::Permanent, 0, None), "cleared");
        assert!(told.to_string().contains("failed for good"), "{told}");
        assert!(
            matches!(handle.converged(&key).await, Err(NotConverged::Failed(error)) if error.to_string() == "bad spec")
        );
        assert_eq!(trace.len(), 3);
        // A foreign change that is no input, long after the run: at once. Another right after it: in a second.
        for (ready, expected) in [(1, Duration::ZERO), (2, SECOND)] {
            let before = trace.starts(&key).last().copied().unwrap();
            let changed = trace.now();
            client.modify_status(&key, |status| status.ready = ready).await.unwrap();
            env.sleep(if ready == 1 { MS } else { 2 * SECOND }).await;
            let ran = trace.starts(&key).last().copied().unwrap();
            let since = if ready == 1 { changed } else { before };
            assert!(ran >= since + expected && ran <= since + expected + TICK, "{ready}: {since:?} {ran:?}");
        }
        assert_eq!(trace.len(), 5);
        // An input right after a run: at once.
        for replicas in 1..=3 {
            client.modify(&key, |web| web.spec.replicas = replicas).await.unwrap();
            env.sleep(MS).await;
        }
        assert_eq!(trace.len(), 8);
        assert!(trace.runs()[7].started - trace.runs()[5].started <= 3 * MS);
        env.sleep(HOUR).await;
        assert_eq!(trace.len(), 9, "a resync tries once");
        assert!(trace.runs()[8].causes.contains("resync"));
        assert!(trace.runs()[3..].iter().all(|ran| ran.attempt == 1));
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn conflicts_have_a_counter_of_their_own() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let logged = Logged::start();
    // Two failures, four conflicts of every kind, a failure.
    let fails = scripted(&trace, |call: Call<u32>| async move {
        match call.nth {
            1 | 2 | 7 => failed(),
            3 => Err(StoreFault::Conflict)?,
            4 => Err(StoreFault::AlreadyExists)?,
            5 => Err(StoreFault::NotFound)?,
            6 => Err(StoreFault::Conflict)?,
            _ => Ok(Action::await_change()),
        }
    });
    with(&env, Controller::for_keys("c", fails).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.converged(&1).await.unwrap();
        let warned = logged.take(Level::WARN).len();
        assert_eq!(warned, 6, "of seven bad runs, not the conflict that nobody had to repeat");
        let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
        assert_eq!(attempts, [1, 2, 3, 3, 3, 3, 3, 4], "failures stay as they were");
        let gaps = gaps(&trace.starts(&1));
        assert!(gaps[2] <= 10 * MS + TICK, "at once, with a small jitter: {gaps:?}");
        for (conflicts, gap) in (1..).zip(&gaps[3..6]) {
            let ceiling = Backoff::default().ceiling(conflicts);
            assert!(*gap >= ceiling / 2 && *gap <= ceiling + TICK, "then backoff: {gaps:?}");
        }
        assert_eq!(handle.snapshot().ended(OutcomeKind::Conflict), 4);
    })
    .await;
}

/// After a conflict the object is read live, so that the next run sees what was there.
#[tokio::test(start_paused = true)]
async fn the_run_after_a_conflict_sees_the_object_as_it_is() {
    let env = Environment::seeded(1);
    let store = Scripted::new();
    // The watch never opens: without a live read the cache would stay behind for ever.
    store.script(|op| async move {
        if op.verb == "watch" {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let client = Client::<Web>::in_environment(store.inner().clone(), env.clone());
    client.create(Web::new("web", WebSpec { replicas: 1 })).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reports = {
        let (webs, seen) = (webs.clone(), seen.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            let (webs, seen) = (webs.clone(), seen.clone());
            async move {
                let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
                if call.nth == 1 {
                    return Ok(Action::await_change());
                }
                seen.lock().unwrap().push(web.spec.replicas);
                webs.update_status(&web, |status| status.ready = web.spec.replicas).await?;
                Ok(Action::await_change())
            }
        })
    };
    let handle = manager.add(Controller::for_objects("c", &webs, reports)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        handle.converged(&key).await.unwrap();
        client.modify(&key, |web| web.spec.replicas = 2).await.unwrap();
        let before = trace.now();
        handle.enqueue(key.clone());
        handle.converged(&key).await.unwrap();
        assert_eq!(seen.lock().unwrap()[..2], [1, 2], "stale once, and then never again");
        assert!(trace.now() - before <= 10 * MS + TICK);
        assert_eq!(handle.snapshot().ended(OutcomeKind::Conflict), 1);
        assert_eq!(client.get(&key).await.unwrap().unwrap().status.ready, 2);
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_superseded_run_runs_again_and_its_failures_stay() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let superseded = Arc::new(AtomicBool::new(false));
    let waits = {
        let superseded = superseded.clone();
        scripted(&trace, move |call: Call<u32>| {
            let superseded = superseded.clone();
            async move {
                match call.nth {
                    1 | 2 => failed(),
                    3 => {
                        assert!(!call.run.is_cancelled() && !call.run.superseded());
                        call.run.cancelled().await;
                        superseded.store(call.run.superseded(), Ordering::SeqCst);
                        Err(Retry::Cancelled)?
                    }
                    _ => Ok(Action::await_change()),
                }
            }
        })
    };
    with(&env, Controller::for_keys("c", waits).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        while trace.len() < 3 {
            env.sleep(MS).await;
        }
        let at = trace.now();
        handle.enqueue(1); // a new input while it runs
        handle.converged(&1).await.unwrap();
        assert!(superseded.load(Ordering::SeqCst), "the run was told");
        let runs = trace.of(&1);
        assert_eq!(runs.len(), 4);
        assert_eq!((runs[3].started, runs[3].attempt), (at, 3), "at once, and the failures stay");
        assert_eq!(handle.snapshot().ended(OutcomeKind::Cancelled), 1);
    })
    .await;
}

/// A run that says it was cancelled when nobody did is no hot loop.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_without_a_cause_backs_off() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let lies = scripted(&trace, |_: Call<u32>| async { Err(Retry::Cancelled)? });
    with(&env, Controller::for_keys("c", lies).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(10 * MINUTE).await;
        assert!(trace.len() < 20, "{} runs", trace.len());
        assert_eq!(handle.explain(&1).state, KeyState::BackingOff);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_run_waits_for_the_next_term() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fenced = scripted(&trace, |call: Call<u32>| async move {
        if call.nth == 1 { failed() } else { Err(StoreFault::Fenced)? }
    });
    with(&env, Controller::for_keys("c", fenced).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(HOUR).await;
        let told = handle.explain(&1);
        assert_eq!(
            (trace.len(), told.state, told.failures),
            (2, KeyState::Waiting, 1),
            "failures are unchanged"
        );
        assert_eq!(told.waits_for.as_deref(), Some("the next term"));
        assert_eq!(told.last.unwrap().kind, OutcomeKind::Fenced);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_outcome_with_its_payload() {
    for place in ["call", "poll", "drop"] {
        struct Armed;
        impl Drop for Armed {
            fn drop(&mut self) {
                panic!("boom 7");
            }
        }
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let logged = Logged::start();
        let panics = scripted(&trace, move |call: Call<u32>| {
            assert!(call.nth > 2 || place != "call", "boom {}", 7);
            async move {
                match place {
                    _ if call.nth > 2 => Ok(Action::await_change()),
                    "poll" => panic!("boom {}", 7),
                    _ => {
                        let _armed = Armed;
                        std::future::pending().await
                    }
                }
            }
        });
        let controller = Controller::for_keys("c", panics).enqueued_by_hand().run_limit(SECOND);
        with(&env, controller, async |handle| {
            handle.enqueue(1);
            let report = handle.next_outcome(&1).await.unwrap();
            assert_eq!(report.kind, OutcomeKind::Panicked, "{place}");
            assert_eq!(
                report.error.unwrap().to_string(),
                "run 1 of 1 by controller `c`: panicked: boom 7",
                "{place}"
            );
            assert_eq!(logged.take(Level::ERROR), ["reconcile panicked"], "{place}");
            let told = handle.explain(&1);
            assert_eq!((told.state, told.failures), (KeyState::BackingOff, 1), "{place}");
            handle.converged(&1).await.unwrap();
            let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
            assert_eq!(attempts, [1, 2, 3], "{place}");
            assert_eq!(handle.snapshot().ended(OutcomeKind::Panicked), 2, "{place}");
        })
        .await;
    }
}

/// The deadline that a run is told is its start and the limit, however long its worker had nothing to do.
#[tokio::test(start_paused = true)]
async fn a_run_knows_its_deadline() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let left = Arc::new(Mutex::new(Vec::new()));
    let tells = {
        let left = left.clone();
        scripted(&trace, move |call: Call<u32>| {
            left.lock().unwrap().push(call.run.deadline().unwrap().duration_since(call.run.now()));
            async { Ok(Action::await_change()) }
        })
    };
    let controller = Controller::for_keys("c", tells).enqueued_by_hand().run_limit(MINUTE);
    with(&env, controller, async |handle| {
        for wait in [Duration::ZERO, 500 * MS, HOUR] {
            env.sleep(wait).await;
            handle.enqueue(1);
            handle.converged(&1).await.unwrap();
        }
        assert_eq!(*left.lock().unwrap(), [jiff::SignedDuration::from_secs(60); 3]);
    })
    .await;
}

/// A hundred keys fail together: a burst of retries, then an even stream of them.
#[tokio::test(start_paused = true)]
async fn a_retry_budget_limits_the_retries_of_the_whole_controller() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |call: Call<usize>| async move {
        if call.nth == 1 { failed() } else { Ok(Action::await_change()) }
    });
    let controller = Controller::for_keys("c", fails)
        .enqueued_by_hand()
        .backoff(Backoff::new(10 * MS, 10 * MS))
        .retry_budget(RetryBudget::new(10, 100 * MS));
    with(&env, controller, async |handle| {
        (0..100).for_each(|key| handle.enqueue(key));
        env.sleep(20 * SECOND).await;
        let mut retries: Vec<Duration> =
            trace.runs().iter().filter(|ran| ran.attempt == 2).map(|ran| ran.started).collect();
        retries.sort();
        assert_eq!(retries.len(), 100, "nothing is lost");
        assert!(retries[9] <= 10 * MS + TICK, "ten at once: {:?}", &retries[..12]);
        for (nth, retry) in retries.iter().enumerate().skip(10) {
            let due = 100 * MS * (nth as u32 - 9);
            assert!(*retry >= due && *retry <= due + 10 * MS + TICK, "retry {nth} at {retry:?}");
        }
    })
    .await;
}

/// `classify` sets the class of errors that have none.
#[tokio::test(start_paused = true)]
async fn classify_says_what_a_foreign_error_means() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let fails = scripted(&trace, |call: Call<&'static str>| async move {
        match call.key {
            "gone" => Err(std::io::Error::from(std::io::ErrorKind::NotFound))?,
            "said" => Err(std::io::Error::from(std::io::ErrorKind::NotFound)).retry_after(SECOND)?,
            _ => Err(std::io::Error::from(std::io::ErrorKind::TimedOut))?,
        }
    });
    let controller = Controller::for_keys("c", fails).enqueued_by_hand().classify(|error| {
        let io = error.as_error().downcast_ref::<std::io::Error>()?;
        (io.kind() == std::io::ErrorKind::NotFound).then_some(Retry::Never)
    });
    with(&env, controller, async |handle| {
        ["gone", "said", "late"].into_iter().for_each(|key| handle.enqueue(key));
        handle.idle().await;
        assert_eq!(handle.explain(&"gone").state, KeyState::Permanent);
        assert_eq!(handle.explain(&"said").state, KeyState::BackingOff, "what was said at the error stays");
        assert_eq!(handle.explain(&"late").state, KeyState::BackingOff);
    })
    .await;
}
