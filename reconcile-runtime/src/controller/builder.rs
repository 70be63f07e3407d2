//! The builder of a controller.

use std::{borrow::Cow, fmt, future::Future, num::NonZeroU32, sync::Arc, time::Duration};

use futures::Stream;
use reconcile_core::{Backoff, Error, Key, ObjectKey, ObjectReconciler, Reconciler, Resource, Retry};

use super::{
    kind::{AnyApi, KindId},
    managed::Managed,
    primary::Primary,
    resync::Resync,
    settings::{Settings, Sources},
    source::Source,
    trigger::{Trigger, TriggerItem},
    watch::{Filter, Watch},
};
use crate::{Api, BackoffSignals, Change, Environment, Lane, Manager, RetryBudget, RunError};

/// The second parameter of a [`Controller`] that has no primary.
#[derive(Debug, Clone, Copy)]
pub enum Keyed {}

/// A reconciler, what wakes it, and how it runs. `P` is the kind of its primary, or [`Keyed`].
///
/// # Examples
///
/// Of objects: the keys are those of the primary, and children wake their owner.
///
/// ```
/// use reconcile_runtime::prelude::*;
/// use reconcile_runtime::changed;
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct WebSpec;
/// # impl Spec for WebSpec { const KIND: &'static str = "Web"; type Status = (); }
/// # type Web = Object<WebSpec>;
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct PodSpec;
/// # impl Spec for PodSpec { const KIND: &'static str = "Pod"; type Status = (); }
/// # type Pod = Object<PodSpec>;
/// # struct WebReconciler;
/// # impl Reconciler for WebReconciler {
/// #     type Key = ObjectKey;
/// #     async fn reconcile(&self, _: &ObjectKey, _: &Run) -> Result<Action, Error> { Ok(Action::await_change()) }
/// # }
/// # fn main() -> Result<(), ConfigError> {
/// # let store = MemoryStore::default();
/// let mut manager = Manager::new();
/// let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
/// let handle = manager.add(
///     Controller::for_objects("web", &webs, WebReconciler)
///         .owns(&pods)
///         .filter(changed::generation())
///         .concurrency(8),
/// )?;
/// # let _ = handle;
/// # Ok(())
/// # }
/// ```
///
/// Of keys, without a store:
///
/// ```
/// use futures::stream;
/// use reconcile_runtime::prelude::*;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), RunError> {
/// let ping = reconcile_fn(|host: String, _run| async move {
///     println!("{host}");
///     Ok(Action::requeue_after(Duration::from_secs(60)))
/// });
/// Controller::for_keys("ping", ping)
///     .trigger(|| stream::iter(["a.example".to_string()]))
///     .resync_from(Duration::from_secs(600), || async { Ok(vec!["b.example".to_string()]) })
///     .run_until(tokio::time::sleep(Duration::from_secs(5)))
///     .await
/// # }
/// ```
#[must_use = "a controller does nothing until it is added to a manager, or run"]
pub struct Controller<T: Reconciler, P = Keyed> {
    pub(super) reconciler: T,
    /// There is one exactly if `P` is a resource.
    pub(super) primary: Option<Box<dyn PrimaryPart<T::Key, P>>>,
    /// Beside the primary and its resync, in the order in which they were given.
    pub(super) sources: Vec<Box<dyn Source<T::Key>>>,
    pub(super) settings: Settings,
}

/// The primary of a controller, of a kind that the controller's type need not know as a resource.
pub(super) trait PrimaryPart<K, P>: Send {
    fn filter(&mut self, filter: Filter<P>);
    fn lane(&mut self, lane: Lane);
    fn resync(&self, every: Duration) -> Resync<K>;
    fn into_source(self: Box<Self>) -> Box<dyn Source<K>>;
}

impl<R: Resource> PrimaryPart<ObjectKey, R> for Primary<R> {
    fn filter(&mut self, filter: Filter<R>) {
        self.filters.push(filter);
    }

    fn lane(&mut self, lane: Lane) {
        self.lane = lane;
    }

    fn resync(&self, every: Duration) -> Resync<ObjectKey> {
        let api = self.api.clone();
        Resync::of_cache(R::KIND, every, move || api.list().iter().map(|object| object.key()).collect())
    }

    fn into_source(self: Box<Self>) -> Box<dyn Source<ObjectKey>> {
        self
    }
}

impl<T: Reconciler> Controller<T> {
    /// A controller of keys of any type. Something has to name the keys: a
    /// [`trigger`](Self::trigger), [`resync_from`](Self::resync_from), [`watches`](Self::watches), or, if it
    /// says [`enqueued_by_hand`](Self::enqueued_by_hand), its handle.
    pub fn for_keys(name: impl Into<Cow<'static, str>>, reconciler: T) -> Self {
        Controller::new(name.into(), reconciler, None)
    }
}

impl<T: ObjectReconciler> Controller<Managed<T>, T::Object> {
    /// A controller of the objects of one kind that is handed the object, and told when it is being deleted.
    /// It finds the object, and keeps [`ObjectReconciler::FINALIZER`]; see there for an example.
    pub fn managed(name: impl Into<Cow<'static, str>>, primary: &Api<T::Object>, inner: T) -> Self {
        let mut controller = Controller::for_objects(name, primary, Managed::new(primary, inner));
        controller.settings.finalizer = T::FINALIZER;
        controller
    }
}

impl<T: Reconciler<Key = ObjectKey>, P: Resource> Controller<T, P> {
    /// A controller of the objects of one kind, its primary.
    pub fn for_objects(name: impl Into<Cow<'static, str>>, primary: &Api<P>, reconciler: T) -> Self {
        let primary = Primary { api: primary.clone(), filters: Vec::new(), lane: Lane::Normal };
        Controller::new(name.into(), reconciler, Some(Box::new(primary)))
    }

    /// Watches children: a change of one wakes the object of the primary's kind that is its controller owner.
    /// It goes by kind and key of the owner reference, on the old and on the new state of the child.
    ///
    /// For options use [`watches_with`](Self::watches_with) and [`Watch::children_of`].
    pub fn owns<R: Resource>(self, api: &Api<R>) -> Self {
        self.watches_with(Watch::children_of::<P>(api))
    }

    /// Lets only these changes of the primary pass. Several filters must all pass. See
    /// [`changed`](crate::changed).
    pub fn filter(mut self, filter: impl Fn(&Change<P>) -> bool + Send + Sync + 'static) -> Self {
        if let Some(primary) = &mut self.primary {
            primary.filter(Arc::new(filter));
        }
        self
    }

    /// The lane of the primary's signals; [`Lane::Normal`] if not set. What is there at the start, and resync,
    /// are always [`Lane::Low`].
    pub fn lane(mut self, lane: Lane) -> Self {
        if let Some(primary) = &mut self.primary {
            primary.lane(lane);
        }
        self
    }

    /// Signals every object of the primary this often, jittered over the last tenth; 10 hours if not set.
    /// Meets no filter.
    pub fn resync_every(mut self, every: Duration) -> Self {
        self.settings.resync_every = Some(every);
        self
    }

    /// Turns the resync off. What no signal tells is then never found.
    pub fn no_resync(mut self) -> Self {
        self.settings.resync_every = None;
        self
    }
}

impl<T: Reconciler, P> Controller<T, P> {
    fn new(name: Cow<'static, str>, reconciler: T, primary: Option<Box<dyn PrimaryPart<T::Key, P>>>) -> Self {
        let name: Arc<str> = name.into();
        Controller { reconciler, primary, sources: Vec::new(), settings: Settings::new(name) }
    }

    /// Watches a kind: `map` says which keys an object concerns. It is called on the old and on the new state.
    ///
    /// For options use [`watches_with`](Self::watches_with).
    pub fn watches<R, I>(self, api: &Api<R>, map: impl Fn(&R) -> I + Send + Sync + 'static) -> Self
    where
        R: Resource,
        I: IntoIterator<Item = T::Key>,
    {
        self.watches_with(Watch::new(api, map))
    }

    /// Watches a kind, with options.
    pub fn watches_with<R: Resource>(mut self, watch: Watch<R, T::Key>) -> Self {
        self.sources.push(Box::new(watch));
        self
    }

    /// Runs the keys that a stream yields, each as a new input. `make` is called for each life of the stream:
    /// again, with backoff, when it yields an `Err` or panics; a stream that ends is finished.
    ///
    /// For a name, a lane, or a stream that is made again when it ends, use
    /// [`trigger_with`](Self::trigger_with).
    pub fn trigger<S>(self, make: impl Fn() -> S + Send + Sync + 'static) -> Self
    where
        S: Stream + Send + 'static,
        S::Item: TriggerItem<T::Key>,
    {
        // By number, so that two of them can be told apart in logs and causes.
        let number = self.sources.len() + 1;
        let name = format!("source {number}");
        self.trigger_with(Trigger::new(name, make))
    }

    /// Runs the keys that a stream yields, with options.
    pub fn trigger_with(mut self, trigger: Trigger<T::Key>) -> Self {
        self.sources.push(Box::new(trigger));
        self
    }

    /// Runs every key of a list, at the start and then this often, jittered over the last tenth. A list that
    /// fails is asked for again with backoff.
    pub fn resync_from<F, Fut>(mut self, every: Duration, keys: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<T::Key>, Error>> + Send + 'static,
    {
        if every.is_zero() {
            self.settings.zero_resync_from = Some("resync_from");
        }
        self.sources.push(Box::new(Resync::from_function(every, keys)));
        self
    }

    /// Says that nothing but the controller's handle wakes it, which would be a mistake otherwise.
    pub fn enqueued_by_hand(mut self) -> Self {
        self.settings.sources = Sources::EnqueuedByHand;
        self
    }

    /// How many keys may run at once; 16 if not set.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// How long a run may take before its future is dropped, its key released, and a failure counted; 5
    /// minutes if not set.
    pub fn run_limit(mut self, limit: Duration) -> Self {
        self.settings.run_limit = Some(limit);
        self
    }

    /// Lets runs take for ever. A run that hangs then holds its worker for good.
    pub fn no_run_limit(mut self) -> Self {
        self.settings.run_limit = None;
        self
    }

    /// How long a failing key waits.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.queue.backoff = backoff;
        self
    }

    /// What a signal does to a key that waits for its backoff.
    pub fn signals_during_backoff(mut self, signals: BackoffSignals) -> Self {
        self.settings.queue.during_backoff = signals;
        self
    }

    /// Limits the retries of the whole controller.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.settings.queue.retry_budget = Some(budget);
        self
    }

    /// The shortest time between two starts of one key; none if not set.
    pub fn min_interval(mut self, interval: Duration) -> Self {
        self.settings.queue.min_interval = interval;
        self
    }

    /// Over which last part of its delay a poll ([`Action::requeue_after`](reconcile_core::Action)) is spread:
    /// ten is the last tenth, which is the default.
    pub fn requeue_spread(mut self, part: NonZeroU32) -> Self {
        self.settings.queue.requeue_spread = Some(part);
        self
    }

    /// Runs polls exactly when they are due. Keys that were requeued together then run together.
    pub fn no_requeue_spread(mut self) -> Self {
        self.settings.queue.requeue_spread = None;
        self
    }

    /// How many times in a row a key may ask for another run at once without an effective write before it is
    /// slowed down; 16 if not set. Zero slows every one down.
    pub fn spin_limit(mut self, limit: u32) -> Self {
        self.settings.queue.spin_limit = limit;
        self
    }

    /// Sets the class of errors in one place: for errors of libraries that know nothing of
    /// [`ResultExt`](reconcile_core::ResultExt). `None` keeps the class that the error has.
    ///
    /// # Examples
    ///
    /// ```
    /// use reconcile_runtime::prelude::*;
    /// use std::io;
    ///
    /// # let reconciler = reconcile_fn(|_: u32, _| async { Ok(Action::await_change()) });
    /// let controller = Controller::for_keys("files", reconciler).enqueued_by_hand().classify(|error| {
    ///     let io = error.as_error().downcast_ref::<io::Error>()?;
    ///     (io.kind() == io::ErrorKind::PermissionDenied).then_some(Retry::Never)
    /// });
    /// # let _ = controller;
    /// ```
    pub fn classify(mut self, classify: impl Fn(&Error) -> Option<Retry> + Send + Sync + 'static) -> Self {
        self.settings.classify = Some(Arc::new(classify));
        self
    }

    /// Starts the controller when these kinds are synced, and not only when all kinds of the manager are.
    ///
    /// Use it for a controller that must go on while a kind that it does not need cannot be listed. Name its
    /// primary and what it reads too: only what is named is waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reconcile_runtime::{prelude::*, ConfigError};
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct A;
    /// # impl Spec for A { const KIND: &'static str = "A"; type Status = (); }
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct B;
    /// # impl Spec for B { const KIND: &'static str = "B"; type Status = (); }
    /// # fn build(a: Api<Object<A>>, b: Api<Object<B>>, reconciler: impl Reconciler<Key = ObjectKey>) {
    /// let controller = Controller::for_objects("a", &a, reconciler).needs_only([&a, &b]);
    /// # let _ = controller;
    /// # }
    /// ```
    pub fn needs_only<const N: usize>(mut self, apis: [&dyn AnyApi; N]) -> Self {
        self.settings.needs = Some(apis.iter().map(|api| api.kind_id()).collect());
        self
    }

    /// Runs this controller alone until `stop` ends, on tokio's clock and tasks. For a controller of keys; one
    /// that reads kinds needs the [`Manager`] that made them.
    ///
    /// # Errors
    ///
    /// See [`Manager::run_until`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops everything at once.
    pub async fn run_until<F: Future>(self, stop: F) -> Result<(), RunError> {
        self.run_until_in(Environment::tokio(), stop).await
    }

    /// Like [`run_until`](Self::run_until), in an environment of your own.
    ///
    /// # Errors
    ///
    /// See [`Manager::run_until`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops everything at once.
    pub async fn run_until_in<F: Future>(self, environment: Environment, stop: F) -> Result<(), RunError> {
        let mut manager = Manager::with_environment(environment);
        let _handle = manager.add(self)?;
        manager.run_until(stop).await
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.settings.queue.name
    }

    /// The kinds that its sources read from.
    pub(super) fn source_kinds<K: Key>(sources: &[Box<dyn Source<K>>]) -> Vec<KindId> {
        let mut kinds: Vec<KindId> = Vec::new();
        for kind in sources.iter().filter_map(|source| source.kind()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

impl<T: Reconciler, P> fmt::Debug for Controller<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primary = self.primary.as_ref().map(|_| std::any::type_name::<P>());
        let sources: Vec<String> = self.sources.iter().map(|source| source.name()).collect();
        f.debug_struct("Controller")
            .field("name", &self.settings.queue.name)
            .field("primary", &primary)
            .field("sources", &sources)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
