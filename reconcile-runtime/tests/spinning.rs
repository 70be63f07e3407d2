//! Keys that run again and again without effect: after sixteen turns in a row they are slowed down, and
//! `explain` says so.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::time::Duration;

use fixture::*;
use reconcile_runtime::{Client, Environment, KeyState, prelude::*};

/// How many runs start at once, and the pauses after them, of a key that never rests.
fn at_once(starts: &[Duration]) -> (usize, Vec<Duration>) {
    let first = starts.iter().take_while(|start| **start == starts[0]).count();
    (first, gaps(&starts[first - 1..]))
}

#[tokio::test(start_paused = true)]
async fn a_key_that_asks_for_another_run_for_ever_is_slowed_down() {
    for limit in [None, Some(0), Some(3)] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let spins = scripted(&trace, |_: Call<u32>| async { Ok(Action::requeue_now()) });
        let mut controller = Controller::for_keys("c", spins).enqueued_by_hand();
        if let Some(limit) = limit {
            controller = controller.spin_limit(limit);
        }
        with(&env, controller, async |handle| {
            handle.enqueue(1);
            env.sleep(MINUTE).await;
            let (first, pauses) = at_once(&trace.starts(&1));
            // Sixteen times another run was given at once.
            assert_eq!(first, limit.map_or(16, |limit| limit as usize) + 1);
            assert!(pauses[0] >= 100 * MS, "{pauses:?}");
            assert!(pauses.iter().all(|pause| *pause <= SECOND + TICK), "{pauses:?}");
            assert!(
                pauses[5..].iter().all(|pause| *pause == SECOND || *pause == SECOND + TICK),
                "{pauses:?}"
            );
            let told = handle.explain(&1);
            assert_eq!((told.state, told.failures), (KeyState::Spinning, 0));
            assert!(told.to_string().contains("is spinning"), "{told}");
            assert_eq!(handle.snapshot().depth.spinning, 1);
            // Whoever signals it gets a run at once, all the same.
            env.sleep(100 * MS).await;
            let asked = trace.now();
            handle.enqueue(1);
            env.sleep(MS).await;
            assert_eq!(*trace.starts(&1).last().unwrap(), asked);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_no_spinning() {
    for (work, expected) in [("nothing", 17), ("outside the store", 100), ("a write", 100), ("no change", 17)]
    {
        let env = Environment::seeded(1);
        let store = MemoryStore::default();
        let trace = Trace::new(&env);
        let mut manager = Manager::with_environment(env.clone());
        let webs = manager.api::<Web>(&store);
        let works = {
            let webs = webs.clone();
            scripted(&trace, move |call: Call<u32>| {
                let webs = webs.clone();
                async move {
                    let web = webs.get(&ObjectKey::new("web")).unwrap();
                    match work {
                        "outside the store" => call.run.progressed(),
                        "a write" => drop(webs.update_status(&web, |status| status.ready = call.nth).await?),
                        "no change" => drop(webs.update_status(&web, |status| status.ready = 0).await?),
                        _ => {}
                    }
                    Ok(if call.nth < 100 { Action::requeue_now() } else { Action::await_change() })
                }
            })
        };
        let handle = manager.add(Controller::for_keys("c", works).enqueued_by_hand()).unwrap();
        let body = async {
            webs.create(Web::new("web", WebSpec::default())).await.unwrap();
            handle.enqueue(1);
            env.sleep(MS).await;
            assert_eq!(trace.len(), expected, "{work}");
        };
        manager.run_until(body).await.unwrap();
    }
}

/// The count is of turns in a row: a run that asks for nothing starts it anew.
#[tokio::test(start_paused = true)]
async fn a_run_that_rests_forgets_the_turns_before_it() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let turns = scripted(&trace, |call: Call<u32>| async move {
        Ok(if call.nth.is_multiple_of(16) { Action::await_change() } else { Action::requeue_now() })
    });
    with(&env, Controller::for_keys("c", turns).enqueued_by_hand(), async |handle| {
        for round in 1..=5 {
            handle.enqueue(1);
            env.sleep(MS).await;
            assert_eq!(trace.len(), 16 * round);
        }
    })
    .await;
}

/// A reconciler that writes something new into its own status in every run wakes itself for ever.
#[tokio::test(start_paused = true)]
async fn a_key_that_only_wakes_itself_is_slowed_down() {
    for settles in [false, true] {
        let env = Environment::seeded(1);
        let store = MemoryStore::default();
        let client = Client::<Web>::in_environment(store.clone(), env.clone());
        client.create(Web::new("web", WebSpec::default())).await.unwrap();
        let trace = Trace::new(&env);
        let mut manager = Manager::with_environment(env.clone());
        let webs = manager.api::<Web>(&store);
        let writes = {
            let webs = webs.clone();
            scripted(&trace, move |call: Call<ObjectKey>| {
                let webs = webs.clone();
                async move {
                    let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
                    let ready = if settles { web.spec.replicas } else { call.nth };
                    webs.update_status(&web, |status| status.ready = ready).await?;
                    Ok(Action::await_change())
                }
            })
        };
        let handle = manager.add(Controller::for_objects("c", &webs, writes)).unwrap();
        let key = ObjectKey::new("web");
        let body = async {
            env.sleep(MINUTE).await;
            if settles {
                client.modify(&key, |web| web.spec.replicas = 3).await.unwrap();
                env.sleep(MINUTE).await;
                assert_eq!(
                    trace.len(),
                    3,
                    "one at the start, one for the change and one that finds nothing to do"
                );
                assert_eq!(handle.explain(&key).state, KeyState::Idle);
                return;
            }
            let (first, pauses) = at_once(&trace.starts(&key));
            assert_eq!(first, 17, "sixteen runs were caused by nothing but its own status");
            assert!(pauses.len() <= 70 && pauses.iter().all(|pause| *pause <= SECOND + TICK), "{pauses:?}");
            let told = handle.explain(&key);
            assert_eq!(told.state, KeyState::Spinning);
            // Somebody else's change runs it at once.
            env.sleep(100 * MS).await;
            let changed = trace.now();
            client.modify(&key, |web| web.spec.replicas = 3).await.unwrap();
            env.sleep(MS).await;
            assert_eq!(*trace.starts(&key).last().unwrap(), changed);
        };
        manager.run_until(body).await.unwrap();
    }
}
