//! The same writes without a cache.

use reconcile_core::{
    Revision, StoreFault,
    store::{Fence, Preconditions, Propagation, Scope},
};

use super::{fault, run, run_with};
use crate::{
    Client, Environment,
    cache::test_store::{Faulty, Web, WriteFault, key, web},
};

fn client() -> (Faulty, Client<Web>) {
    let environment = Environment::seeded(1);
    let store = Faulty::new(&environment);
    (store.clone(), Client::in_environment(store, environment))
}

#[tokio::test(start_paused = true)]
async fn a_client_reads_and_writes_live() {
    let (_, client) = client();
    let a = client.create(web("a").namespace("n")).await.unwrap();
    let child = client.create_owned(&a, web("child")).await.unwrap();
    assert_eq!(child.meta.namespace.as_deref(), Some("n"));
    let at = reconcile_core::ObjectKey::namespaced("n", "a");
    client.modify(&at, |web| web.spec.replicas = 2).await.unwrap();
    client.modify_status(&at, |status| status.ready = 1).await.unwrap();
    let a = client.get(&at).await.unwrap().unwrap();
    assert_eq!((a.spec.replicas, a.status.ready), (2, 1));
    client.update_status(&a, |status| status.ready = 2).await.unwrap();
    assert_eq!(fault(client.update((*a).clone()).await), StoreFault::Conflict);
    assert_eq!(client.list().await.unwrap().len(), 2);
    assert!(client.list_in(&Scope::all().namespace("other")).await.unwrap().is_empty());
    client.delete(&client.get(&at).await.unwrap().unwrap()).await.unwrap();
    client.delete_with(&child, Propagation::Background).await.unwrap();
    assert_eq!(fault(client.delete_key(&at, Preconditions::none()).await), StoreFault::NotFound);
    assert!(client.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_listing_has_all_pages() {
    let (store, client) = client();
    for number in 0..1_234 {
        store.create(&format!("x{number:04}")).await;
    }
    let webs = client.list().await.unwrap();
    assert_eq!((webs.len(), store.list_times().len()), (1_234, 3));
    assert!(webs.is_sorted_by_key(|web| web.meta.name.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_cache_reads_only_what_it_needs() {
    let (store, client) = client();
    let a = client.create(web("a")).await.unwrap();
    store.scale("a", 3).await;
    let mut stale = (*a).clone();
    stale.spec.replicas = 9;
    assert_eq!(fault(client.update(stale).await), StoreFault::Conflict);
    assert_eq!(store.gets(), 0, "there is no cache to refresh");
    store.next_write(WriteFault::AnswerLost);
    client.create(web("b")).await.unwrap();
    assert_eq!(store.gets(), 1, "whether it landed");
    store.next_write(WriteFault::Refused(StoreFault::Conflict));
    client.modify(&key("a"), |web| web.spec.replicas = 4).await.unwrap();
    assert_eq!(store.gets(), 3, "one for each try");
}

#[tokio::test(start_paused = true)]
async fn a_client_in_a_run_writes_as_that_run() {
    let (store, client) = client();
    let (run, scope) = run();
    let inner = client.clone();
    run.scope(async move { inner.create(web("a")).await }).await.unwrap();
    let report = scope.report();
    assert_eq!((report.own.len(), report.effective_writes), (0, 1), "it is in no cache of the manager");
    let fence = Fence::new("lease", Revision(1));
    let (run, _scope) = run_with(Some(fence.clone()));
    let inner = client.clone();
    assert_eq!(fault(run.scope(async move { inner.create(web("b")).await }).await), StoreFault::Fenced);
    assert_eq!(store.writes_sent()[1].fence, Some(fence));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_of_a_client_is_carried_through() {
    let (store, client) = client();
    store.gates(|gates| gates.writes = false);
    let inner = client.clone();
    let mut future = crate::cache::test_task::task(async move { inner.create(web("a")).await });
    assert!(!future.poll());
    drop(future);
    store.gates(|gates| gates.writes = true);
    client.settle().await;
    assert!(client.get(&key("a")).await.unwrap().is_some());
}
