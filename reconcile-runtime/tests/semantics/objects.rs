//! Objects that come, change and go while their keys wait or run.

use std::sync::{Arc, Mutex};

use reconcile_runtime::{BackoffSignals, Client, Environment, core::Uid, prelude::*};

use super::fixture::*;

/// What the runs of one controller found under their key.
type Found = Arc<Mutex<Vec<Option<Uid>>>>;

/// A controller of webs that notes what it finds, in a manager that is paused while `body` changes the store.
async fn queued(body: impl AsyncFnOnce(&Environment, &Client<Web>)) -> Vec<Option<Uid>> {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    let found = Found::default();
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let (api, notes) = (webs.clone(), found.clone());
    let looks = reconcile_fn(move |key: ObjectKey, _run| {
        notes.lock().unwrap().push(api.get(&key).map(|web| web.meta.uid.clone()));
        async { Ok(Action::await_change()) }
    });
    let handle = manager.add(Controller::for_objects("looks", &webs, looks)).unwrap();
    let story = async {
        handle.pause();
        body(&env, &client).await;
        env.sleep(SECOND).await;
        handle.resume();
        handle.idle().await;
    };
    manager.run_until(story).await.unwrap();
    let found = found.lock().unwrap();
    found.clone()
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_while_it_is_queued_runs_once_and_finds_nothing() {
    let found = queued(async |env, webs| {
        let web = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        webs.delete(&web).await.unwrap();
    })
    .await;
    assert_eq!(found, [None]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_and_made_again_while_it_is_queued_runs_once_and_finds_the_new_object() {
    let made = Mutex::new(None);
    let found = queued(async |env, webs| {
        let web = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        webs.delete(&web).await.unwrap();
        let again = webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        assert_ne!(web.meta.uid, again.meta.uid);
        *made.lock().unwrap() = Some(again.meta.uid.clone());
    })
    .await;
    assert_eq!(found, [made.into_inner().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn an_own_status_write_is_one_more_run_and_then_quiet() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let api = webs.clone();
    let reports = scripted(&trace, move |call: Call<ObjectKey>| {
        let webs = api.clone();
        async move {
            if let Some(web) = webs.get(&call.key) {
                webs.update_status(&web, |status| status.ready = web.spec.replicas).await?;
            }
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_objects("reports", &webs, reports).no_resync()).unwrap();
    let body = async {
        webs.create(Web::new("web", WebSpec { replicas: 3 })).await.unwrap();
        handle.converged(&ObjectKey::new("web")).await.unwrap();
        env.sleep(HOUR).await;
        assert_eq!(trace.len(), 2, "the second one finds nothing to do, and writes nothing");
    };
    manager.run_until(body).await.unwrap();
}

/// A run that deletes its own primary and then fails runs again at once: the deletion is an input, whoever made it.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_the_primary_is_an_input_even_if_its_own_run_made_it() {
    let env = Environment::seeded(1);
    let store = MemoryStore::default();
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let webs = manager.api::<Web>(&store);
    let api = webs.clone();
    let deletes = scripted(&trace, move |call: Call<ObjectKey>| {
        let webs = api.clone();
        async move {
            let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
            webs.delete(&web).await?;
            failed()
        }
    });
    let controller = Controller::for_objects("deletes", &webs, deletes)
        .backoff(Backoff::new(HOUR, HOUR))
        .signals_during_backoff(BackoffSignals::OnChange);
    manager.add(controller).unwrap();
    let body = async {
        webs.create(Web::new("web", WebSpec::default())).await.unwrap();
        env.sleep(SECOND).await;
        let attempts: Vec<u32> = trace.runs().iter().map(|ran| ran.attempt).collect();
        assert_eq!(attempts, [1, 1], "at once, with its failures cleared");
    };
    manager.run_until(body).await.unwrap();
}
