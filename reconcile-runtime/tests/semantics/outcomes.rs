//! What a run that did not fail asks for.

use std::collections::BTreeMap;

use reconcile_runtime::{Environment, KeyState, core::Timestamp, prelude::*};

use super::fixture::*;

#[tokio::test(start_paused = true)]
async fn await_change_rests_until_a_signal() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let done = scripted(&trace, |_: Call<u32>| async { Ok(Action::await_change()) });
    with(&env, Controller::for_keys("rests", done).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        env.sleep(24 * HOUR).await;
        assert_eq!(trace.len(), 1);
        assert_eq!(handle.explain(&1).state, KeyState::Idle);
        handle.enqueue(1);
        handle.idle().await;
        assert_eq!(trace.len(), 2);
    })
    .await;
}

/// The order of the runs of three keys, of which the first one's first run ends with `first`.
async fn order(first: fn(&Run) -> Action) -> Vec<char> {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let again = scripted(&trace, move |call: Call<char>| async move {
        Ok(if (call.key, call.nth) == ('a', 1) { first(&call.run) } else { Action::await_change() })
    });
    let controller = Controller::for_keys("order", again).enqueued_by_hand().concurrency(1);
    with(&env, controller, async |handle| {
        handle.pause();
        ('a'..='c').for_each(|key| handle.enqueue(key));
        handle.resume();
        handle.idle().await;
    })
    .await;
    trace.runs().into_iter().map(|ran| ran.key).collect()
}

#[tokio::test(start_paused = true)]
async fn requeue_now_goes_behind_the_ready_keys_of_its_lane() {
    assert_eq!(order(|_| Action::requeue_now()).await, ['a', 'b', 'c', 'a']);
}

#[tokio::test(start_paused = true)]
async fn a_requeue_that_is_due_already_is_requeue_now() {
    assert_eq!(order(|_| Action::requeue_after(0 * SECOND)).await, ['a', 'b', 'c', 'a']);
    assert_eq!(order(|_| Action::requeue_at(Timestamp::UNIX_EPOCH)).await, ['a', 'b', 'c', 'a']);
    assert_eq!(order(|run| Action::requeue_at(run.now())).await, ['a', 'b', 'c', 'a']);
}

/// Bar P1: runs are shared evenly, also when each takes longer than it waits.
#[tokio::test(start_paused = true)]
async fn keys_that_always_want_to_run_share_the_runs() {
    for takes in [0 * MS, 2 * MS] {
        let env = Environment::seeded(1);
        let trace = Trace::new(&env);
        let sleeps = env.clone();
        let hungry = scripted(&trace, move |call: Call<u32>| {
            let run = sleeps.sleep(takes);
            async move {
                run.await;
                Ok(if call.nth < 12 { Action::requeue_now() } else { Action::await_change() })
            }
        });
        let controller = Controller::for_keys("shares", hungry).enqueued_by_hand().concurrency(1);
        with(&env, controller, async |handle| {
            (0..200).for_each(|key| handle.enqueue(key));
            handle.idle().await;
        })
        .await;
        let mut runs = BTreeMap::new();
        trace.runs()[..2_000].iter().for_each(|ran| *runs.entry(ran.key).or_insert(0) += 1);
        assert_eq!(runs.len(), 200);
        assert!(runs.values().all(|count| (9..=11).contains(count)), "{takes:?}: {runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn polls_are_spread_over_their_last_tenth_and_the_first_ones_after_a_start_over_all_of_it() {
    const PERIOD: u32 = 100;
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let polls = scripted(&trace, |_: Call<u32>| async { Ok(Action::requeue_after(PERIOD * SECOND)) });
    let controller =
        Controller::for_keys("polls", polls).resync_from(24 * HOUR, || async { Ok((0..100).collect()) });
    with(&env, controller, async |handle| {
        env.sleep(2 * PERIOD * SECOND).await;
        handle.enqueue(1_000); // too late after the start to poll together with the others
        env.sleep(8 * PERIOD * SECOND).await;
    })
    .await;
    let (low, high) = (PERIOD * SECOND * 9 / 10, PERIOD * SECOND + TICK);
    let mut firsts = Vec::new();
    for key in 0..100 {
        let gaps = gaps(&trace.starts(&key));
        firsts.push(gaps[0]);
        assert!(gaps[1..].iter().all(|gap| (low..=high).contains(gap)), "{key}: {gaps:?}");
    }
    firsts.sort_unstable();
    assert!(firsts[10] < 25 * SECOND && firsts[90] > 75 * SECOND, "{firsts:?}");
    let late = gaps(&trace.starts(&1_000));
    assert!(late.iter().all(|gap| (low..=high).contains(gap)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn requeue_at_is_exact_and_a_signal_comes_first_and_voids_it() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let deadline = scripted(&trace, |call: Call<u32>| async move {
        let at = call.run.now() + 100 * SECOND;
        Ok(if call.nth == 1 { Action::requeue_at(at) } else { Action::await_change() })
    });
    with(&env, Controller::for_keys("deadline", deadline).enqueued_by_hand(), async |handle| {
        handle.enqueue(1);
        handle.enqueue(2);
        env.sleep(50 * SECOND).await;
        handle.enqueue(2);
        env.sleep(HOUR).await;
        let one = gaps(&trace.starts(&1));
        assert_eq!(one.len(), 1);
        assert!(one[0] >= 100 * SECOND && one[0] <= 100 * SECOND + TICK, "{one:?}");
        let two = gaps(&trace.starts(&2));
        assert_eq!(two.len(), 1, "the deadline went with the run that the signal caused: {two:?}");
        assert!(two[0] <= 50 * SECOND + TICK, "{two:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_is_parked_without_a_timer_until_any_signal_a_resync_too() {
    let env = Environment::seeded(1);
    let trace = Trace::new(&env);
    let waits = scripted(&trace, |_: Call<u32>| async { Ok(Action::wait_for("a volume")) });
    let controller = Controller::for_keys("waits", waits).resync_from(HOUR, || async { Ok(vec![1]) });
    with(&env, controller, async |handle| {
        env.sleep(50 * MINUTE).await;
        assert_eq!(trace.len(), 1);
        let told = handle.explain(&1);
        assert_eq!((told.state, told.next_run, told.failures), (KeyState::Waiting, None, 0));
        assert_eq!(told.waits_for.as_deref(), Some("a volume"));
        env.sleep(11 * MINUTE).await;
        assert_eq!(trace.len(), 2, "the resync");
        handle.enqueue(1);
        handle.idle().await;
        assert_eq!(trace.len(), 3, "the input");
    })
    .await;
}
