//! Signals that come while a key fails: what each policy makes of an input, of another foreign change, of the
//! run's own write and of a resync; while the key waits, and during the run that fails.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::time::Duration;

use fixture::*;
use reconcile_runtime::{BackoffSignals, Client, Environment, KeyState, prelude::*};

/// One object whose reconciler always fails, and everything to poke it with.
struct Failing {
    env: Environment,
    client: Client<Web>,
    handle: Handle<ObjectKey>,
    trace: Trace<ObjectKey>,
    key: ObjectKey,
}

/// What the reconciler does before it fails.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    WritesItsStatus,
    TakesASecond,
    /// The error says to come back in a minute.
    SaysWhen,
}

/// Waits 30 to 60 seconds after the first failure, an hour at most.
async fn failing(policy: BackoffSignals, before: Before, check: impl AsyncFnOnce(&Failing)) {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    client.create(Web::new("web", WebSpec::default())).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let fails = {
        let (webs, env) = (webs.clone(), env.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            let (webs, env) = (webs.clone(), env.clone());
            async move {
                match before {
                    Before::Nothing => {}
                    Before::WritesItsStatus => {
                        let web = webs.get(&call.key).unwrap();
                        webs.update_status(&web, |status| status.ready = call.nth).await?;
                    }
                    Before::TakesASecond => env.sleep(SECOND).await,
                    Before::SaysWhen => Err("busy").retry_after(MINUTE)?,
                }
                failed()
            }
        })
    };
    let controller = Controller::for_objects("c", &webs, fails)
        .backoff(Backoff::new(MINUTE, HOUR))
        .signals_during_backoff(policy)
        .resync_every(20 * SECOND);
    let handle = manager.add(controller).unwrap();
    let key = ObjectKey::new("web");
    let failing = Failing { env, client, handle, trace, key };
    manager.run_until(check(&failing)).await.unwrap();
}

impl Failing {
    /// Another writer changes what the key is to be.
    async fn input(&self) {
        self.client.modify(&self.key, |web| web.spec.replicas += 1).await.unwrap();
    }

    /// Another writer changes something else of it.
    async fn observed(&self) {
        self.client.modify_status(&self.key, |status| status.note.push('.')).await.unwrap();
    }

    fn starts(&self) -> Vec<Duration> {
        self.trace.starts(&self.key)
    }

    fn attempts(&self) -> Vec<u32> {
        self.trace.of(&self.key).iter().map(|ran| ran.attempt).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn on_change_the_first_input_runs_at_once_and_further_ones_once_per_second() {
    failing(BackoffSignals::OnChange, Before::Nothing, async |key| {
        key.env.sleep(10 * SECOND).await;
        assert_eq!(key.handle.explain(&key.key).state, KeyState::BackingOff);
        let changed = key.trace.now();
        for _ in 0..50 {
            key.input().await;
            key.env.sleep(100 * MS).await;
        }
        let starts = &key.starts()[1..];
        assert_eq!(starts[0], changed, "at once");
        let gaps = gaps(starts);
        assert!(gaps.iter().all(|gap| *gap >= SECOND && *gap <= SECOND + TICK), "{gaps:?}");
        assert!((5..=6).contains(&starts.len()), "once per second: {starts:?}");
        assert!(key.attempts().iter().all(|attempt| *attempt == 1), "each new input did not fail yet");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn on_change_another_foreign_change_retries_a_second_after_the_last_run() {
    failing(BackoffSignals::OnChange, Before::Nothing, async |key| {
        key.env.sleep(300 * MS).await;
        key.observed().await;
        key.env.sleep(5 * SECOND).await;
        let starts = key.starts();
        assert!(starts[1] - starts[0] >= SECOND && starts[1] - starts[0] <= SECOND + TICK, "{starts:?}");
        let changed = key.trace.now();
        key.observed().await;
        key.env.sleep(MS).await;
        assert_eq!(key.starts()[2], changed, "long after the last run that is at once");
        assert_eq!(key.attempts(), [1, 2, 3], "and failures stay");
        key.env.sleep(MINUTE).await;
        assert_eq!(key.starts().len(), 3, "the backoff of three failures goes on");
    })
    .await;
}

/// The backoff is no longer than it would have been without the change.
#[tokio::test(start_paused = true)]
async fn on_change_a_foreign_change_makes_no_backoff_longer() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Pod>::in_environment(store.clone(), env.clone());
    client.create(Pod::new("pod", PodSpec)).await.unwrap();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let pods = manager.api::<Pod>(&store);
    let fails = scripted(&trace, |_: Call<u32>| async { failed() });
    let controller =
        Controller::for_keys("c", fails).watches(&pods, |_| [7]).backoff(Backoff::new(100 * MS, 100 * MS));
    manager.add(controller).unwrap();
    let body = async {
        for _ in 0..100 {
            client.modify_status(&ObjectKey::new("pod"), |status| *status += 1).await.unwrap();
            env.sleep(30 * MS).await;
        }
        let gaps = gaps(&trace.starts(&7));
        assert!(gaps.iter().all(|gap| *gap <= 100 * MS + TICK), "{gaps:?}");
        assert!(gaps.len() >= 29);
    };
    manager.run_until(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn on_change_own_writes_and_resync_change_nothing() {
    for before in [Before::Nothing, Before::WritesItsStatus] {
        failing(BackoffSignals::OnChange, before, async |key| {
            key.env.sleep(HOUR).await;
            let gaps = gaps(&key.starts());
            for (failures, gap) in (1..).zip(&gaps) {
                let ceiling = Backoff::new(MINUTE, HOUR).ceiling(failures);
                assert!(*gap >= ceiling / 2 && *gap <= ceiling + TICK, "{gaps:?}");
            }
            assert!(gaps.len() <= 8, "{gaps:?}");
            let told = key.handle.explain(&key.key);
            assert!(told.causes.to_string().contains("resync"), "it is merged: {}", told.causes);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn always_runs_at_once_for_every_change_but_not_for_own_writes_and_resync() {
    for before in [Before::Nothing, Before::WritesItsStatus] {
        failing(BackoffSignals::Always, before, async |key| {
            key.env.sleep(25 * SECOND).await; // past a resync
            assert_eq!(key.starts().len(), 1);
            let changed = key.trace.now();
            for _ in 0..3 {
                key.observed().await;
                key.env.sleep(10 * MS).await;
            }
            let starts = &key.starts()[1..];
            let expected: Vec<Duration> = (0..3).map(|nth| changed + nth * 10 * MS).collect();
            assert_eq!(starts, expected);
            assert_eq!(key.attempts(), [1, 2, 3, 4], "failures stay");
            key.input().await;
            key.env.sleep(10 * MS).await;
            key.input().await;
            key.env.sleep(10 * MS).await;
            assert_eq!(key.starts().len(), 6);
            assert_eq!(key.attempts()[4..], [1, 1], "an input clears them");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn never_lets_no_signal_shorten_the_backoff() {
    failing(BackoffSignals::Never, Before::Nothing, async |key| {
        for _ in 0..29 {
            key.env.sleep(SECOND).await;
            key.input().await;
            key.observed().await;
        }
        assert_eq!(key.starts().len(), 1);
        assert_eq!(key.handle.explain(&key.key).failures, 1);
        key.env.sleep(31 * SECOND + TICK).await;
        assert_eq!(key.attempts(), [1, 2], "one run for all of them, when the backoff is over");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_told_delay_only_an_input_comes_first() {
    for policy in [BackoffSignals::OnChange, BackoffSignals::Always] {
        failing(policy, Before::SaysWhen, async |key| {
            key.env.sleep(10 * SECOND).await;
            key.observed().await;
            key.env.sleep(10 * SECOND).await;
            assert_eq!(key.starts().len(), 1, "{policy:?}");
            let changed = key.trace.now();
            key.input().await;
            key.env.sleep(MS).await;
            assert_eq!(key.starts()[1], changed, "{policy:?}");
            key.env.sleep(59 * SECOND).await;
            assert_eq!(key.starts().len(), 2, "and then it waits as it was told: {policy:?}");
        })
        .await;
    }
    failing(BackoffSignals::Never, Before::SaysWhen, async |key| {
        key.env.sleep(10 * SECOND).await;
        key.input().await;
        key.env.sleep(49 * SECOND).await;
        assert_eq!(key.starts().len(), 1);
    })
    .await;
}

/// The same signals during the run that fails: what is done when it ends.
#[tokio::test(start_paused = true)]
async fn signals_during_a_failing_run_count_alike_at_its_exit() {
    use BackoffSignals::{Always, Never, OnChange};
    let at_once = Some(Duration::ZERO);
    // The policy, the signal, and how long after its end the next run starts; none for the backoff.
    let table = [
        (OnChange, "input", at_once),
        (OnChange, "observed", Some(SECOND)),
        (OnChange, "nothing", None),
        (Always, "input", at_once),
        (Always, "observed", at_once),
        (Always, "nothing", None),
        (Never, "input", None),
        (Never, "observed", None),
    ];
    for (policy, signal, expected) in table {
        failing(policy, Before::TakesASecond, async |key| {
            key.env.sleep(500 * MS).await;
            match signal {
                "input" => key.input().await,
                "observed" => key.observed().await,
                _ => {}
            }
            key.env.sleep(2 * MINUTE).await;
            let runs = key.trace.of(&key.key);
            let waited = runs[1].started - runs[0].ended.unwrap();
            match expected {
                Some(expected) => {
                    assert!(
                        waited >= expected && waited <= expected + TICK,
                        "{policy:?} {signal}: {waited:?}"
                    );
                }
                None => assert!(waited >= 30 * SECOND, "{policy:?} {signal}: {waited:?}"),
            }
            let cleared = signal == "input" && policy != Never;
            assert_eq!(runs[1].attempt, if cleared { 1 } else { 2 }, "{policy:?} {signal}");
        })
        .await;
    }
}
