//! Keys that run again and again without effect.

use std::time::Duration;

use reconcile_runtime::{Environment, KeyState, prelude::*};

use super::fixture::*;

/// As many turns at once as a key has if nothing is set, and the one that is noticed.
const TURNS: usize = 16 + 1;
/// The longest pause of a key that spins.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_key_that_asks_to_run_again_without_effect_is_slowed_down_until_a_signal() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let spins = scripted(&trace, |_: Call<u32>| async { Ok(Action::requeue_now()) });
    with(&env, Controller::for_keys("spins", spins).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(10 * MS).await;
        assert_eq!(trace.len(), TURNS);
        let told = handle.explain(&1);
        assert_eq!((told.state, told.failures), (KeyState::Spinning, 0));
        assert!(told.to_string().contains("is spinning"), "{told}");
        handle.enqueue(1);
        env.sleep(10 * MS).await;
        assert!(trace.len() > TURNS, "a signal ends the pause");
        let before = trace.len();
        env.sleep(MINUTE).await;
        let pauses = gaps(&trace.starts(&1)[before..]);
        assert!(pauses.iter().all(|pause| *pause >= Backoff::DEFAULT_BASE / 2), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= PAUSE + TICK), "{pauses:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_outside_the_store_is_progress_and_no_spinning() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let works = scripted(&trace, |call: Call<u32>| async move {
        call.run.progressed();
        Ok(if call.nth < 100 { Action::requeue_now() } else { Action::await_change() })
    });
    with(&env, Controller::for_keys("works", works).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.converged(&1).await.unwrap();
        assert_eq!(trace.len(), 100);
        assert_eq!(trace.starts(&1)[0], trace.starts(&1)[99], "without a pause");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_only_ever_answers_its_own_status_write_is_slowed_down() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let api = webs.clone();
    let counts = scripted(&trace, move |call: Call<ObjectKey>| {
        let webs = api.clone();
        async move {
            if let Some(web) = webs.get(&call.key) {
                webs.update_status(&web, |status| status.ready += 1).await?;
            }
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_objects("counts", &webs, counts)).unwrap();
    let key = ObjectKey::new("web");
    let body = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(10 * MS).await;
        assert_eq!(trace.len(), TURNS);
        assert_eq!(handle.explain(&key).state, KeyState::Spinning);
        env.sleep(MINUTE).await;
        assert!((60..=80).contains(&trace.len()), "{} runs in a minute", trace.len());
    };
    manager.run_until(body).await.unwrap();
}
