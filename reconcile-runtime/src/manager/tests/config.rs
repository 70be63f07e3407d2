//! What does not fit together is refused before anything runs.

use reconcile_core::{Action, Error, Reconciler, Run, reconcile_fn};

use super::*;
use crate::Api;

fn keyed() -> impl Reconciler<Key = u32> {
    reconcile_fn(|_: u32, _| async { Ok(Action::await_change()) })
}

struct Idle;
impl Reconciler for Idle {
    type Key = ObjectKey;
    async fn reconcile(&self, _: &ObjectKey, _: &Run) -> Result<Action, Error> {
        Ok(Action::await_change())
    }
}

/// Another type of kind `Web`.
#[derive(Clone, Debug, PartialEq)]
struct OtherWeb;
impl Spec for OtherWeb {
    const KIND: &'static str = "Web";
    type Status = ();
}

#[derive(Clone, Debug, PartialEq)]
struct Nameless;
impl Spec for Nameless {
    const KIND: &'static str = "";
    type Status = ();
}

/// What the manager says to a controller of this `Api`, and to a run without one.
async fn refused<R: Resource>(mut manager: Manager, api: Api<R>) -> ConfigError {
    let added = manager.add(Controller::for_objects("web", &api, Idle)).unwrap_err();
    // A reconciler may hold the `Api` and no controller use it: the run is refused all the same.
    let Err(RunError::Config(ran)) = manager.run_until(std::future::ready(())).await else {
        panic!("the run must be refused with {added}");
    };
    assert_eq!(added, ran);
    added
}

#[tokio::test(start_paused = true)]
async fn one_kind_of_two_stores_is_refused() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let (first, second) = (MemoryStore::default(), MemoryStore::default());
    let _webs = manager.api::<Object<Web>>(&first);
    let webs = manager.api::<Object<Web>>(&second);
    let error = refused(manager, webs).await;
    let ConfigError::TwoStores { kind: "Web", first, second } = &error else { panic!("{error:?}") };
    assert_ne!(first, second);
    assert!(error.to_string().contains("an object of two stores"));
}

#[tokio::test(start_paused = true)]
async fn two_types_of_one_kind_are_refused() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let store = MemoryStore::default();
    let _webs = manager.api::<Object<Web>>(&store);
    let webs = manager.api::<Object<OtherWeb>>(&store);
    let error = refused(manager, webs).await;
    let ConfigError::TwoTypes { kind: "Web", first, second } = error else { panic!("{error:?}") };
    assert!(first.contains("tests::Web") && second.contains("OtherWeb"), "{first} {second}");
}

#[tokio::test(start_paused = true)]
async fn two_scopes_of_one_kind_and_an_empty_kind_are_refused() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let store = MemoryStore::default();
    let _webs = manager.api::<Object<Web>>(&store);
    let webs = manager.api_scoped::<Object<Web>>(&store, Scope::all().namespace("shop"));
    assert_eq!(refused(manager, webs).await, ConfigError::TwoScopes { kind: "Web" });

    let mut manager = Manager::with_environment(Environment::seeded(1));
    let nameless = manager.api::<Object<Nameless>>(&store);
    assert!(matches!(refused(manager, nameless).await, ConfigError::EmptyKind { .. }));
}

#[tokio::test(start_paused = true)]
async fn the_same_kind_of_the_same_store_is_one_kind() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let store = MemoryStore::default();
    let first = manager.api::<Object<Web>>(&store);
    let second = manager.api::<Object<Web>>(&store.clone());
    assert!(Arc::ptr_eq(first.kind(), second.kind()));
    manager.add(Controller::for_objects("a", &first, Idle)).unwrap();
    manager.add(Controller::for_objects("b", &second, Idle)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn apis_of_another_manager_and_unknown_needs_are_refused() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let mut other = Manager::with_environment(Environment::seeded(2));
    let store = MemoryStore::default();
    let webs = manager.api::<Object<Web>>(&store);
    let (foreign, pods) = (other.api::<Object<Web>>(&store), other.api::<Object<Pod>>(&store));
    let error = manager.add(Controller::for_objects("web", &foreign, Idle)).unwrap_err();
    assert_eq!(error, ConfigError::ForeignApi { controller: "web".into(), kind: "Web" });
    let error = manager.add(Controller::for_objects("web", &webs, Idle).owns(&pods)).unwrap_err();
    assert_eq!(error, ConfigError::ForeignApi { controller: "web".into(), kind: "Pod" });
    let controller = Controller::for_objects("web", &webs, Idle).needs_only([&webs, &pods]);
    let error = manager.add(controller).unwrap_err();
    assert_eq!(error, ConfigError::UnknownKind { controller: "web".into(), kind: "Pod" });
    // A refused controller leaves nothing behind: its name is free.
    manager.add(Controller::for_objects("web", &webs, Idle)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn m6_empty_and_duplicate_names_and_sourceless_controllers_are_refused() {
    let mut manager = Manager::with_environment(Environment::seeded(1));
    manager.add(Controller::for_keys("dns", keyed()).enqueued_by_hand()).unwrap();
    let error = manager.add(Controller::for_keys("dns", keyed()).enqueued_by_hand()).unwrap_err();
    assert_eq!(error, ConfigError::DuplicateName { name: "dns".into() });
    let error = manager.add(Controller::for_keys("", keyed()).enqueued_by_hand()).unwrap_err();
    assert_eq!(error, ConfigError::EmptyName);
    let error = manager.add(Controller::for_keys("http", keyed())).unwrap_err();
    assert_eq!(error, ConfigError::NoSource { controller: "http".into() });
    let zero = Controller::for_keys("http", keyed()).resync_from(Duration::ZERO, || async { Ok(vec![1]) });
    assert!(matches!(
        manager.add(zero).unwrap_err(),
        ConfigError::ZeroDuration { setting: "resync_from", .. }
    ));
    let stuck = Controller::for_keys("http", keyed()).enqueued_by_hand().concurrency(0);
    assert_eq!(manager.add(stuck).unwrap_err(), ConfigError::ZeroConcurrency { controller: "http".into() });
}
