//! Stops of real controllers: what finishes, what is dropped, who hears of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use reconcile_runtime::NotConverged;

use super::*;

/// Runs for a number of seconds, by the key's name; counts the runs that were dropped.
struct Sleeper {
    env: Environment,
    runs: Runs,
    dropped: Arc<AtomicUsize>,
}

struct OnDrop(Arc<AtomicUsize>, bool);
impl Drop for OnDrop {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Reconciler for Sleeper {
    type Key = u64;
    async fn reconcile(&self, seconds: &u64, _run: &Run) -> Result<Action, Error> {
        let mut guard = OnDrop(self.dropped.clone(), false);
        self.env.sleep(Duration::from_secs(*seconds)).await;
        guard.1 = true;
        self.runs.add(seconds);
        Ok(Action::requeue_after(3600 * SECOND))
    }
}

fn sleeper(env: &Environment) -> (Sleeper, Runs, Arc<AtomicUsize>) {
    let (runs, dropped) = (Runs::default(), Arc::new(AtomicUsize::new(0)));
    (Sleeper { env: env.clone(), runs: runs.clone(), dropped: dropped.clone() }, runs, dropped)
}

#[tokio::test(start_paused = true)]
async fn r3_running_runs_finish_and_nothing_new_starts() -> Result<(), RunError> {
    let (mut manager, env, _store) = manager();
    let (sleeper, runs, dropped) = sleeper(&env);
    let handle = manager.add(Controller::for_keys("sleep", sleeper).enqueued_by_hand().concurrency(2))?;
    for seconds in [10, 20, 21, 22, 23] {
        handle.enqueue(seconds);
    }
    let (began, health) = (env.now(), manager.handle());
    manager.run_until(env.sleep(SECOND)).await?;
    // A loop that ends because of the stop is no fault.
    for one in health.status().loops {
        assert_eq!((one.restarts, one.restarting, one.last_end.as_deref()), (0, 0, None), "{}", one.role);
    }
    // Two run, three are queued; the timers of an hour are not waited for.
    assert_eq!(runs.take(), ["10", "20"]);
    assert_eq!(env.now().since(began), 20 * SECOND);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn r3_runs_over_the_grace_are_dropped_and_named_and_waiters_hear_of_the_stop() -> Result<(), RunError> {
    let (mut manager, env, _store) = manager();
    let (sleeper, runs, dropped) = sleeper(&env);
    let handle = manager.add(Controller::for_keys("sleep", sleeper).enqueued_by_hand())?;
    handle.enqueue(100);
    let health = manager.handle();
    let began = env.now();
    let waiting = handle.converged(&100);
    let (ran, waited) = tokio::join!(manager.grace(5 * SECOND).run_until(env.sleep(SECOND)), waiting);
    ran?;
    assert!(matches!(waited, Err(NotConverged::Stopped)), "{waited:?}");
    assert_eq!(env.now().since(began), 6 * SECOND);
    assert!(runs.take().is_empty());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(health.status().dropped, ["sleep/100"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn dropping_the_managers_future_drops_its_runs() -> Result<(), RunError> {
    let (mut manager, env, _store) = manager();
    let (sleeper, _runs, dropped) = sleeper(&env);
    let handle = manager.add(Controller::for_keys("sleep", sleeper).enqueued_by_hand())?;
    handle.enqueue(100);
    let mut run = Box::pin(manager.run_until(std::future::pending::<()>()));
    tokio::select! {
        biased;
        ended = &mut run => panic!("{ended:?}"),
        () = env.sleep(SECOND) => {}
    }
    drop(run);
    env.sleep(SECOND).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert!(matches!(handle.converged(&100).await, Err(NotConverged::Stopped)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_the_run_a_cache_that_lives_on_calls_no_mapper_and_keeps_none() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let (runs, mapped) = (Runs::default(), Runs::default());
    let (mapper, held) = (mapped.clone(), mapped.0.clone());
    manager.add(
        Controller::for_keys("names", reconcile_fn(|_: u32, _| async { Ok(Action::await_change()) }))
            .watches(&api, move |db: &Db| {
                mapper.add(&db.meta.name);
                None
            }),
    )?;
    manager.add(Controller::for_objects("db", &api, Remember(runs.clone())))?;
    let stop = async {
        api.create(db("a")).await.unwrap();
        env.sleep(SECOND).await;
    };
    manager.run_until(stop).await?;
    assert!(!mapped.take().is_empty());
    api.create(db("b")).await.unwrap();
    assert!(mapped.take().is_empty());
    // `mapped` and `held` are left: the mapper is dropped, although the cache lives on in `api`.
    assert_eq!(Arc::strong_count(&held), 2);
    Ok(())
}
