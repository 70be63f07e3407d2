//! Writes that go well, and those that are refused without a request.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use reconcile_core::{
    ObjectKey, OwnerReference, Resource, Revision, StoreFault,
    store::{Fence, Preconditions, Propagation},
};

use super::{fault, run, run_with};
use crate::{
    Change,
    api::scope::OwnWrite,
    cache::test_store::{Web, World, key, web},
    change::{Initial, Step, Subscriber},
};

#[tokio::test(start_paused = true)]
async fn a_write_is_in_cache_and_indexes_and_delivered_when_its_call_returns() {
    let world = World::synced().await;
    let by_replicas = world.kind.index("by replicas", |web: &Web| [web.spec.replicas]);
    // The reflector is stopped: nobody else can bring the changes.
    let mut world = world;
    world.stop();
    let api = world.api();
    let created = api.create(web("a")).await.unwrap();
    assert!(Arc::ptr_eq(&api.get(&key("a")).unwrap(), &created));
    assert_eq!((api.len(), by_replicas.get(&0).len()), (1, 1));
    let scaled = api.modify(&key("a"), |web| web.spec.replicas = 3).await.unwrap();
    assert_eq!((by_replicas.get(&0).len(), by_replicas.get(&3).len()), (0, 1));
    let ready = api.update_status(&scaled, |status| status.ready = 2).await.unwrap();
    assert_eq!((ready.status.ready, api.get(&key("a")).unwrap().status.ready), (2, 2));
    let told = ["a added 1", "a updated from 1 2", "a updated from 2 3"];
    assert_eq!(world.told.take(), told);
    api.delete(&ready).await.unwrap();
    assert!(api.get(&key("a")).is_none() && api.is_empty() && by_replicas.get(&3).is_empty());
    assert_eq!(world.told.take(), ["a deleted 3"]);
}

#[tokio::test(start_paused = true)]
async fn children_are_created_with_their_controller_and_found_by_it() {
    let world = World::synced().await;
    let api = world.api();
    let owner = api.create(web("owner").namespace("n")).await.unwrap();
    let child = api.create_owned(&owner, web("child")).await.unwrap();
    assert_eq!(child.meta.namespace.as_deref(), Some("n"));
    assert_eq!(child.meta.controller(), Some(&OwnerReference::controller_of(&owner)));
    assert_eq!(api.owned_by(&owner).len(), 1);
    // Of the same name, and another incarnation.
    let mut next = (*owner).clone();
    next.meta.uid = "another".into();
    assert!(api.owned_by(&next).is_empty());
    let refused = api.create_owned(&web("never-stored"), web("child-2")).await;
    assert_eq!(fault(refused), StoreFault::Invalid);
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_sent() {
    let world = World::synced().await;
    let api = world.api();
    let a = api.create(web("a")).await.unwrap();
    let sent = world.store.writes_sent().len();
    let same = api.update_status(&a, |status| status.ready = 0).await.unwrap();
    assert_eq!(same.meta.revision, a.meta.revision);
    api.modify(&key("a"), |web| web.spec.replicas = 0).await.unwrap();
    api.modify_status(&key("a"), |status| status.ready = 0).await.unwrap();
    assert_eq!(world.store.writes_sent().len(), sent);
    // An update is sent, and the store says that nothing changed: no change is told.
    world.told.take();
    api.update((*a).clone()).await.unwrap();
    assert_eq!(world.store.writes_sent().len(), sent + 1);
    assert!(world.told.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn modify_touches_spec_and_metadata_and_modify_status_the_status() {
    let world = World::synced().await;
    let api = world.api();
    api.create(web("a")).await.unwrap();
    let sent = world.store.writes_sent().len();
    let refused = api
        .modify(&key("a"), |web| {
            web.status.ready = 1;
            web.meta.name = "b".to_owned();
        })
        .await;
    let error = refused.unwrap_err();
    let paths: Vec<_> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!((error.fault(), paths), (StoreFault::Invalid, vec!["status", "metadata.name"]));
    assert!(error.to_string().contains("modify_status"), "{error}");
    assert_eq!(world.store.writes_sent().len(), sent, "refused without a request");
    api.modify_status(&key("a"), |status| status.ready = 1).await.unwrap();
    assert_eq!(world.store.read("a").await.status.ready, 1);
    assert_eq!(fault(api.modify(&key("none"), |_| {}).await), StoreFault::NotFound);
}

#[tokio::test(start_paused = true)]
async fn modify_finds_what_the_cache_has_not_seen_yet() {
    let mut world = World::synced().await;
    world.stop();
    world.store.create("a").await;
    let api = world.api();
    assert!(api.get(&key("a")).is_none());
    api.modify(&key("a"), |web| web.spec.replicas = 2).await.unwrap();
    assert_eq!(world.told.take(), ["a added 1", "a updated from 1 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_goes_with_its_last_finalizer() {
    let world = World::synced().await;
    let api = world.api();
    let mut a = web("a");
    a.meta.finalizers.push("example.org/hold".to_owned());
    let a = api.create(a).await.unwrap();
    api.delete(&a).await.unwrap();
    assert!(api.get(&key("a")).unwrap().meta.is_deleting());
    let last = api.modify(&key("a"), |web| web.meta.finalizers.clear()).await.unwrap();
    assert_eq!(last.meta.uid, a.meta.uid);
    assert!(api.get(&key("a")).is_none());
    assert!(world.told.take().last().unwrap().starts_with("a deleted"));
}

#[tokio::test(start_paused = true)]
async fn deletes_carry_uid_and_revision_or_the_conditions_given() {
    let world = World::synced().await;
    let api = world.api();
    let a = api.create(web("a")).await.unwrap();
    api.modify(&key("a"), |web| web.spec.replicas = 1).await.unwrap();
    assert_eq!(fault(api.delete(&a).await), StoreFault::Conflict);
    assert_eq!(fault(api.delete(&web("a")).await), StoreFault::Invalid);
    let uid = a.meta.uid.clone();
    let other = Preconditions::uid("other".into());
    assert_eq!(fault(api.delete_key(&key("a"), other).await), StoreFault::Conflict);
    api.delete_key(&key("a"), Preconditions::uid(uid)).await.unwrap();
    assert_eq!(fault(api.delete_key(&key("a"), Preconditions::none()).await), StoreFault::NotFound);
    let b = api.create(web("b")).await.unwrap();
    api.delete_with(&b, Propagation::Orphan).await.unwrap();
    assert_eq!(api.get(&key("b")).unwrap().meta.finalizers, ["orphan"]);
}

#[tokio::test(start_paused = true)]
async fn c8_what_a_reader_does_to_its_copy_changes_nothing_for_others() {
    let world = World::synced().await;
    let api = world.api();
    api.create(web("a")).await.unwrap();
    let mut copy = (*api.get(&key("a")).unwrap()).clone();
    copy.status.ready = 9;
    world.store.next_write(crate::cache::test_store::WriteFault::Refused(StoreFault::Unavailable));
    let failed = api.update_status(&copy.clone(), |status| status.ready = 10).await;
    assert_eq!(fault(failed), StoreFault::Unavailable);
    assert_eq!(api.get(&key("a")).unwrap().status.ready, 0, "the cache shows what is stored");
    api.update_status(&api.get(&key("a")).unwrap(), |status| status.ready = 9).await.unwrap();
    assert_eq!(world.store.read("a").await.status.ready, 9, "and the next run writes again");
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_its_own_steps_and_only_those() {
    let world = World::synced().await;
    let (run, scope) = run();
    let api = world.api();
    let inner = api.clone();
    run.scope(async move {
        let a = inner.create(web("a")).await.unwrap();
        let a = inner.update_status(&a, |status| status.ready = 1).await.unwrap();
        inner.update((*a).clone()).await.unwrap(); // changes nothing
        inner.delete(&a).await.unwrap();
    })
    .await;
    api.create(web("outside-the-run")).await.unwrap();
    let own = |before, after, status_only| OwnWrite {
        step: Step { kind: 7, before: Revision(before), after: Revision(after) },
        status_only,
    };
    let report = scope.report();
    assert_eq!(report.own, [own(0, 1, false), own(1, 2, true), own(2, 3, false)]);
    assert_eq!((report.effective_writes, report.conflicts), (3, 0));
    assert!(report.refresh.is_empty() && scope.is_settled());
}

/// Asks, while a change is told, whether the run that is polled knows the step as its own.
struct Judges {
    scope: Arc<crate::api::scope::RunScope>,
    own: Mutex<Vec<bool>>,
}

impl Subscriber<Web> for Judges {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, step: Step, _: Initial) {
        self.own.lock().unwrap().push(self.scope.has_written(step));
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

#[tokio::test(start_paused = true)]
async fn c12_a_foreign_change_between_read_and_write_is_told_as_foreign() {
    let mut world = World::synced().await;
    world.store.create("a").await;
    world.settle().await;
    world.stop();
    let (run, scope) = run();
    let judges = Arc::new(Judges { scope: scope.clone(), own: Mutex::default() });
    world.kind.subscribe(judges.clone());
    judges.own.lock().unwrap().clear();
    world.told.take();
    world.store.scale("a", 5).await; // the cache does not know of it
    let api = world.api();
    let new = run
        .scope(async move {
            api.modify(&key("a"), |web| web.meta.labels = [("x".into(), "y".into())].into()).await
        })
        .await
        .unwrap();
    assert_eq!((new.spec.replicas, new.meta.revision), (5, Revision(3)));
    assert_eq!(world.told.take(), ["a updated from 1 2", "a updated from 2 3"]);
    assert_eq!(*judges.own.lock().unwrap(), [false, true], "known as own already when it is told");
    let report = scope.report();
    assert_eq!((report.conflicts, report.own.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_fence_of_the_run_goes_with_its_writes() {
    let world = World::synced().await;
    let fence = Fence::new("lease", Revision(4));
    let (run, _scope) = run_with(Some(fence.clone()));
    let api = world.api();
    let refused = run.scope(async move { api.create(web("a")).await }).await;
    assert_eq!(fault(refused), StoreFault::Fenced);
    assert_eq!(world.store.writes_sent()[0].fence, Some(fence));
    world.api().create(web("a")).await.unwrap();
    assert_eq!(world.store.writes_sent()[1].fence, None);
}

/// The output of a future that must not wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    futures::FutureExt::now_or_never(future).expect("it fails at its first poll")
}

/// A mapper that uses the store, as far as a synchronous function can.
struct Mapper {
    api: crate::Api<Web>,
    faults: Mutex<Vec<StoreFault>>,
    told: AtomicUsize,
}

impl Subscriber<Web> for Mapper {
    fn changed(&self, _: &ObjectKey, _: &Change<Web>, _: Step, _: Initial) {
        if self.told.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        let mut faults = self.faults.lock().unwrap();
        faults.push(fault(at_once(self.api.create(web("nested")))));
        faults.push(fault(at_once(self.api.get_live(&key("a")))));
        faults.push(fault(at_once(self.api.modify(&key("a"), |web| web.spec.replicas = 8))));
    }

    fn flagged(&self, _: &Arc<Web>) {}
}

#[tokio::test(start_paused = true)]
async fn store_requests_inside_a_mapper_or_an_index_function_fail_at_once() {
    let world = World::synced().await;
    let api = world.api();
    let mapper = Arc::new(Mapper { api: api.clone(), faults: Mutex::default(), told: AtomicUsize::new(0) });
    world.kind.subscribe(mapper.clone());
    api.create(web("a")).await.unwrap();
    assert_eq!(*mapper.faults.lock().unwrap(), [StoreFault::Reentrant; 3]);
    world.settle().await;
    assert_eq!(
        (world.store.writes_sent().len(), world.store.gets()),
        (1, 0),
        "nothing was sent, nor is later"
    );
    // Outside of it, the same calls work.
    api.modify(&key("a"), |web| web.spec.replicas = 8).await.unwrap();
    let inner = api.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let faults = seen.clone();
    let _index = world.kind.index("uses the store", move |web: &Web| {
        faults.lock().unwrap().push(fault(at_once(inner.get_live(&web.key()))));
        [0_u8]
    });
    assert_eq!(*seen.lock().unwrap(), [StoreFault::Reentrant]);
}
