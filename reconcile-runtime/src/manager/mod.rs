//! Managers: what runs kinds and controllers together.
//!
//! A [`Manager`] holds one cache per kind and any number of controllers, starts them in order, watches over
//! every loop of theirs, and stops them in order.
//!
//! ```text
//! api ──> kinds ──sync──┐
//!                       ├──> controllers start ──> ... ──stop──> intake closes ──grace──> runs are dropped ──> caches stop
//! add ──> controllers ──┘
//! ```
//!
//! Promises: sources are connected before the first listing, so a controller hears of everything from the
//! beginning, and equal signals are merged until its workers start; a kind that cannot be listed holds back
//! only the controllers that wait for it, is named in [`Readiness`], and ends the run at the sync limit; no
//! loop is ever silently dead (see [`LoopStatus`]); when the run is over, every task has ended or is aborted.
//!
//! Not here: what is in a cache, and how a key runs. Two managers in one process share nothing.

pub(crate) mod board;
mod control;
mod error;
mod kinds;
mod readiness;
mod run;
#[cfg(feature = "signal")]
mod signal;
mod start;
mod stop;
pub(crate) mod supervise;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use reconcile_core::{Reconciler, Resource, Store, store::Scope};

pub use error::RunError;
pub use readiness::{
    ControllerStatus, ManagerHandle, ManagerStatus, Phase, Readiness, UnsyncedKind, WaitingController,
};
#[cfg(feature = "signal")]
pub use signal::{Shutdown, shutdown_signal};
pub use supervise::{LoopRole, LoopStatus};

use control::Controllers;
use kinds::Kinds;
use readiness::Shared;
use start::Needs;

use crate::{Api, ConfigError, Controller, Environment, Handle, Index, controller::KindId};

/// How long runs may go on after a stop was asked for, if nothing is said: what orchestrators give a process
/// between asking and killing.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// How long kinds may take to be listed, if nothing is said: long enough for hundreds of thousands of objects,
/// short enough that a process that cannot work does not look alive for long.
const DEFAULT_SYNC_LIMIT: Duration = Duration::from_secs(2 * 60);
/// How many short lives in a row an engine loop may have: with the backoff between them, about a minute and a
/// half of trying.
const DEFAULT_RESTART_LIMIT: u32 = 10;

/// Runs kinds and controllers together.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::prelude::*;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Web { replicas: usize }
/// impl Spec for Web {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
///
/// struct Print { webs: Api<Object<Web>> }
/// impl Reconciler for Print {
///     type Key = ObjectKey;
///     async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
///         if let Some(web) = self.webs.get(key) {
///             println!("{key} wants {} replicas", web.spec.replicas);
///         }
///         Ok(Action::await_change())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), RunError> {
/// let store = MemoryStore::default();
/// let mut manager = Manager::new();
/// let webs = manager.api::<Object<Web>>(&store);
/// manager.add(Controller::for_objects("print", &webs, Print { webs: webs.clone() }))?;
/// // In a program: `manager.run_until(shutdown_signal())`.
/// manager.run_until(tokio::time::sleep(std::time::Duration::from_secs(1))).await
/// # }
/// ```
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    env: Environment,
    grace: Duration,
    /// None: kinds may take for ever.
    sync_limit: Option<Duration>,
    restart_limit: u32,
    kinds: Kinds,
    controllers: Controllers,
    /// What handles read.
    shared: Arc<Shared>,
}

impl Manager {
    /// A manager on tokio's clock and tasks.
    pub fn new() -> Self {
        Manager::with_environment(Environment::tokio())
    }

    /// A manager in an environment of your own: seeded, or a simulator's.
    pub fn with_environment(environment: Environment) -> Self {
        Manager {
            env: environment,
            grace: DEFAULT_GRACE,
            sync_limit: Some(DEFAULT_SYNC_LIMIT),
            restart_limit: DEFAULT_RESTART_LIMIT,
            kinds: Kinds::default(),
            controllers: Controllers::default(),
            shared: Arc::default(),
        }
    }

    /// How long runs in flight may go on after a stop; 30 seconds if not set. Zero drops them at once.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long kinds may take to be listed before the run ends with [`RunError::NotSynced`]; 2 minutes if
    /// not set. It counts for every kind of the manager, whether or not a controller waits for it.
    pub fn sync_limit(mut self, limit: Duration) -> Self {
        self.sync_limit = Some(limit);
        self
    }

    /// Lets kinds take for ever: a store that is away only holds back what waits for it.
    pub fn no_sync_limit(mut self) -> Self {
        self.sync_limit = None;
        self
    }

    /// How many short lives (less than a minute) in a row a reflector, worker or timer loop may have before
    /// the run ends with [`RunError::LoopFailed`]; 10 if not set, which takes about a minute and a half.
    /// Triggers and resyncs are restarted for ever.
    pub fn restart_limit(mut self, limit: u32) -> Self {
        self.restart_limit = limit;
        self
    }

    /// The objects of one kind in one store. The same kind of the same store gives the same cache.
    ///
    /// Two stores, two scopes or two types of one kind are a mistake: [`add`](Self::add) refuses a controller
    /// that uses the second, and [`run_until`](Self::run_until) refuses to run.
    pub fn api<R: Resource>(&mut self, store: &(impl Store<R> + Clone)) -> Api<R> {
        self.api_scoped(store, Scope::all())
    }

    /// The objects of one kind in one store that are in a scope: a namespace, or labels. No others are listed,
    /// watched or cached; writes are not limited by it.
    pub fn api_scoped<R: Resource>(&mut self, store: &(impl Store<R> + Clone), scope: Scope) -> Api<R> {
        self.kinds.api(store.clone(), scope, &self.env)
    }

    /// An index over the objects of a kind: `values` says under which values an object is found.
    ///
    /// # Examples
    ///
    /// ```
    /// use reconcile_runtime::prelude::*;
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct PodSpec { node: Option<String> }
    /// # impl Spec for PodSpec { const KIND: &'static str = "Pod"; type Status = (); }
    /// # type Pod = Object<PodSpec>;
    /// let mut manager = Manager::new();
    /// let pods = manager.api::<Pod>(&MemoryStore::default());
    /// let by_node = manager.index(&pods, |pod: &Pod| pod.spec.node.clone());
    /// assert!(by_node.get("node-1").is_empty());
    /// ```
    pub fn index<R, V, I>(
        &mut self,
        api: &Api<R>,
        values: impl Fn(&R) -> I + Send + Sync + 'static,
    ) -> Index<R, V>
    where
        R: Resource,
        V: std::hash::Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        api.kind().index(format!("{} by {}", R::KIND, std::any::type_name::<V>()), values)
    }

    /// Adds a controller. Its handle works at once: what is enqueued before the run is run then.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: something about the controller, or about what it uses of this manager, cannot work.
    pub fn add<T: Reconciler, P>(
        &mut self,
        controller: Controller<T, P>,
    ) -> Result<Handle<T::Key>, ConfigError> {
        let name: Arc<str> = controller.name().into();
        if self.controllers.contains(&name) {
            return Err(ConfigError::DuplicateName { name });
        }
        let parts = controller.prepare(&self.env)?;
        for kind in &parts.kinds {
            let foreign = |kind| ConfigError::ForeignApi { controller: name.clone(), kind };
            self.kinds.find(*kind, foreign)?;
        }
        let needs = self.needs(&name, parts.needs.as_deref())?;
        self.controllers.add(parts.controller, needs);
        Ok(parts.handle)
    }

    fn needs(&self, name: &Arc<str>, needs: Option<&[KindId]>) -> Result<Needs, ConfigError> {
        let Some(kinds) = needs else { return Ok(Needs::All) };
        let unknown = |kind| ConfigError::UnknownKind { controller: name.clone(), kind };
        let found = kinds.iter().map(|kind| self.kinds.find(*kind, unknown)).collect::<Result<_, _>>()?;
        Ok(Needs::Only(found))
    }

    /// Tells how the manager fares, before, during and after its run.
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle::new(self.shared.clone())
    }

    /// Runs everything until `stop` ends, whatever it gives; then stops in order: running reconciles get the
    /// grace time and then are dropped, caches stop last.
    ///
    /// A stop that had to drop runs is a success all the same. Their keys are logged as a warning, and named
    /// by [`ManagerStatus::dropped`]; a reconciler must be safe to drop at any await anyhow.
    ///
    /// # Errors
    ///
    /// [`RunError::Config`] at once if something does not fit together; [`RunError::NotSynced`] at the sync
    /// limit; [`RunError::LoopFailed`] when a loop of the engine kept ending. In the last two cases everything
    /// was stopped in order before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all tasks of the manager at once, without grace.
    pub async fn run_until<F: Future>(self, stop: F) -> Result<(), RunError> {
        self.kinds.check()?;
        run::run(self, stop).await
    }
}

impl Default for Manager {
    fn default() -> Self {
        Manager::new()
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("kinds", &self.kinds.names())
            .field("controllers", &self.controllers.names())
            .field("grace", &self.grace)
            .field("sync_limit", &self.sync_limit)
            .field("restart_limit", &self.restart_limit)
            .finish_non_exhaustive()
    }
}
