//! What cannot work is refused before anything runs, by an error that names the object and the next step.

use std::sync::atomic::{AtomicUsize, Ordering};

use reconcile_runtime::{RetryBudget, core::store::Scope};

use super::*;

#[derive(Clone, Debug, PartialEq)]
struct Nameless;
impl Spec for Nameless {
    const KIND: &'static str = "";
    type Status = ();
}

/// Another type of kind `Web`.
#[derive(Clone, Debug, PartialEq)]
struct OtherWeb;
impl Spec for OtherWeb {
    const KIND: &'static str = "Web";
    type Status = ();
}

struct Finalizes<const N: usize>;
const FINALIZERS: [&str; 3] = ["", "has space", reconcile_runtime::core::store::FOREGROUND_FINALIZER];
impl<const N: usize> ObjectReconciler for Finalizes<N> {
    type Object = Web;
    const FINALIZER: Option<&'static str> = Some(FINALIZERS[N]);
    async fn apply(&self, _: Arc<Web>, _: &Run) -> Result<Action, Error> {
        Ok(Action::await_change())
    }
    async fn cleanup(&self, _: Arc<Web>, _: &Run) -> Result<reconcile_runtime::core::Cleanup, Error> {
        Ok(reconcile_runtime::core::Cleanup::done())
    }
}

/// A keyed controller that only its handle wakes.
fn by_hand(name: &'static str) -> Controller<impl Reconciler<Key = ObjectKey>> {
    Controller::for_keys(name, runs_in(&Log::default())).enqueued_by_hand()
}

/// What the manager says to `build`'s controller, in its variant and in words.
fn refused<T: Reconciler, P>(
    build: impl FnOnce(&mut Manager, &Api<Web>) -> Controller<T, P>,
) -> (ConfigError, String) {
    let (mut manager, _env, store) = world();
    let webs = manager.api::<Web>(&store);
    let controller = build(&mut manager, &webs);
    let error = manager.add(controller).expect_err("it cannot work");
    let text = error.to_string();
    (error, text)
}

macro_rules! check {
    ($refused:expr, $variant:pat, $($part:expr),+) => {{
        let (error, text) = $refused;
        assert!(matches!(error, $variant), "{error:?}");
        for part in [$($part),+] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
    }};
}

#[tokio::test(start_paused = true)]
async fn every_mistake_in_a_controller_is_an_error_of_its_own() {
    check!(refused(|_, _| by_hand(" ")), ConfigError::EmptyName, "unique");
    check!(
        refused(|manager, _| {
            manager.add(by_hand("dns")).unwrap();
            by_hand("dns")
        }),
        ConfigError::DuplicateName { .. },
        "`dns`",
        "a name of its own"
    );
    check!(
        refused(|_, _| by_hand("dns").concurrency(0)),
        ConfigError::ZeroConcurrency { .. },
        "`dns`",
        "at least 1"
    );
    check!(
        refused(|_, _| Controller::for_keys("dns", runs_in(&Log::default()))),
        ConfigError::NoSource { .. },
        "`dns`",
        "enqueued_by_hand"
    );
    let zero = Duration::ZERO;
    check!(
        refused(|_, _| by_hand("dns").run_limit(zero)),
        ConfigError::ZeroDuration { setting: "run_limit", .. },
        "`dns`",
        "no_run_limit"
    );
    check!(
        refused(|_, webs| Controller::for_objects("web", webs, runs_in(&Log::default())).resync_every(zero)),
        ConfigError::ZeroDuration { setting: "resync_every", .. },
        "`web`",
        "no_resync"
    );
    check!(
        refused(|_, _| by_hand("dns").resync_from(zero, || async { Ok(vec![key("a")]) })),
        ConfigError::ZeroDuration { setting: "resync_from", .. },
        "`dns`",
        "longest period"
    );
    check!(
        refused(|_, _| by_hand("dns").retry_budget(RetryBudget::new(1, zero))),
        ConfigError::ZeroDuration { setting: "retry_budget", .. },
        "`dns`",
        "leave it out"
    );
    check!(
        refused(|_, webs| Controller::managed("web", webs, Finalizes::<0>)),
        ConfigError::BadFinalizer { finalizer: "", .. },
        "`web`",
        "`None`"
    );
    check!(
        refused(|_, webs| Controller::managed("web", webs, Finalizes::<1>)),
        ConfigError::BadFinalizer { finalizer: "has space", .. },
        "`web`",
        "white space"
    );
    check!(
        refused(|_, webs| Controller::managed("web", webs, Finalizes::<2>)),
        ConfigError::BadFinalizer { .. },
        "garbage collector",
        "a name of your own"
    );
}

#[tokio::test(start_paused = true)]
async fn every_mistake_between_a_controller_and_its_manager_is_an_error_of_its_own() {
    let web = |api: &Api<Web>| Controller::for_objects("web", api, runs_in(&Log::default()));
    check!(
        refused(|_, _| {
            let (mut other, _env, store) = world();
            web(&other.api::<Web>(&store))
        }),
        ConfigError::ForeignApi { kind: "Web", .. },
        "`web`",
        "Manager::api"
    );
    check!(
        refused(|_, webs| {
            let (mut other, _env, store) = world();
            web(webs).needs_only([webs, &other.api::<Pod>(&store)])
        }),
        ConfigError::UnknownKind { kind: "Pod", .. },
        "`web`",
        "needs_only"
    );
    check!(
        refused(|manager, _| web(&manager.api::<Web>(&ScriptedStore::new()))),
        ConfigError::TwoStores { kind: "Web", .. },
        "`Web`",
        "a manager each"
    );
    check!(
        refused(|manager, _| {
            let nameless = manager.api::<Object<Nameless>>(&ScriptedStore::new());
            Controller::for_objects("web", &nameless, runs_in(&Log::default()))
        }),
        ConfigError::EmptyKind { .. },
        "Nameless",
        "unique"
    );

    let (mut manager, _env, store) = world();
    let _webs = manager.api::<Web>(&store);
    let scoped = manager.api_scoped::<Web>(&store, Scope::all().namespace("shop"));
    let error = manager.add(web(&scoped)).unwrap_err();
    assert_eq!(error, ConfigError::TwoScopes { kind: "Web" });
    assert!(error.to_string().contains("use one scope"));

    let (mut manager, _env, store) = world();
    let _webs = manager.api::<Web>(&store);
    let other = manager.api::<Object<OtherWeb>>(&store);
    let error = manager.add(Controller::for_objects("web", &other, runs_in(&Log::default()))).unwrap_err();
    let ConfigError::TwoTypes { kind: "Web", first, second } = error else { panic!("{error:?}") };
    assert!(first.contains("faults::WebSpec") && second.contains("OtherWeb"), "{first} {second}");
}

#[tokio::test(start_paused = true)]
async fn a_manager_whose_kinds_do_not_fit_runs_nothing_at_all() {
    let (mut manager, _env, store) = world();
    let webs = manager.api::<Web>(&store);
    // No controller uses it; the run is refused all the same, and the good controller with it.
    let _other = manager.api::<Web>(&ScriptedStore::new());
    let log = Log::default();
    manager.add(Controller::for_objects("web", &webs, runs_in(&log))).unwrap();
    let stops = Arc::new(AtomicUsize::new(0));
    let polled = stops.clone();
    let ended = manager.run_until(async move { polled.fetch_add(1, Ordering::SeqCst) }).await;
    let Err(RunError::Config(ConfigError::TwoStores { .. })) = ended else { panic!("{ended:?}") };
    assert_eq!((store.of::<Web>().count(Op::List), stops.load(Ordering::SeqCst), log.len()), (0, 0, 0));
}
