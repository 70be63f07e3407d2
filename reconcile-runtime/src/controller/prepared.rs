//! A controller that was checked and waits to be run, and its controls while it runs.
//!
//! Promises: sources are connected before the first reflector runs, so that nothing is missed; loops are made
//! once, when the controller starts; closing the controls ends intake and subscriptions whatever state it is in.

use std::sync::Arc;

use futures::future::BoxFuture;
use reconcile_core::{Cause, Key, Reconciler};

use super::{
    builder::Controller,
    error::ConfigError,
    kind::KindId,
    settings::Settings,
    source::{Cut, Intake, Line, Source, SourceStats},
};
use crate::{
    Environment, Handle,
    manager::supervise::{LoopEnd, LoopRole, LoopSpec, LoopStats, Policy},
    queue::{Queue, Signal},
    worker::{Worker, WorkerSettings, work},
};

/// A controller of any key, as the manager holds it.
pub(crate) trait AnyController: Send {
    /// Connects the sources: from here on they signal.
    fn open(&mut self);

    /// The loops, to be run from now on. Gives them once.
    fn start(&mut self) -> Vec<LoopSpec>;

    fn control(&self) -> Arc<dyn Control>;
}

/// What stops a controller.
pub(crate) trait Control: Send + Sync {
    fn name(&self) -> &Arc<str>;

    /// How the sources fare.
    fn sources(&self) -> &[Arc<SourceStats>];

    /// Ends intake and subscriptions; runs in flight are asked to end. May be called again.
    fn close(&self);

    /// Runs in flight are dropped.
    fn abandon(&self);

    /// Ends when no run is running or settling.
    fn drained(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// The keys that are running.
    fn running(&self) -> Vec<String>;
}

impl<K: Key> Intake<K> for Queue<K> {
    fn signal(&self, key: K, signal: Signal) {
        Queue::signal(self, key, signal);
    }

    fn pause_key(&self, key: K, cause: Cause) {
        Queue::pause_key(self, key, cause);
    }

    fn resume_key(&self, key: K, cause: Cause) {
        Queue::resume_key(self, key, cause);
    }
}

struct Controls<K: Key> {
    name: Arc<str>,
    queue: Queue<K>,
    cut: Arc<Cut>,
    sources: Vec<Arc<SourceStats>>,
}

impl<K: Key> Control for Controls<K> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn sources(&self) -> &[Arc<SourceStats>] {
        &self.sources
    }

    fn close(&self) {
        self.queue.close();
        self.cut.cut();
    }

    fn abandon(&self) {
        self.queue.abandon();
    }

    fn drained(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.queue.drained().await })
    }

    fn running(&self) -> Vec<String> {
        self.queue.running()
    }
}

/// A controller that was checked.
struct Prepared<T: Reconciler> {
    reconciler: Arc<T>,
    settings: Settings,
    /// Until they are connected; each has the stats of the same place in `controls.sources`.
    unconnected: Vec<Box<dyn Source<T::Key>>>,
    /// Of the connected sources, until the controller starts.
    loops: Vec<LoopSpec>,
    env: Environment,
    controls: Arc<Controls<T::Key>>,
}

/// What a manager needs of a new controller.
pub(crate) struct Parts<K: Key> {
    pub(crate) controller: Box<dyn AnyController>,
    pub(crate) handle: Handle<K>,
    /// The kinds that its sources read from.
    pub(crate) kinds: Vec<KindId>,
    /// The kinds that it waits for, if not all.
    pub(crate) needs: Option<Vec<KindId>>,
}

impl<T: Reconciler, P> Controller<T, P> {
    /// Checks the controller by itself, and takes it apart.
    pub(crate) fn prepare(self, env: &Environment) -> Result<Parts<T::Key>, ConfigError> {
        let Controller { reconciler, primary, sources, settings } = self;
        let mut all: Vec<Box<dyn Source<T::Key>>> = Vec::new();
        if let Some(primary) = primary {
            let resync = settings.resync_every.map(|every| primary.resync(every));
            all.push(primary.into_source());
            all.extend(resync.map(|resync| Box::new(resync) as Box<dyn Source<T::Key>>));
        }
        all.extend(sources);
        settings.check(all.len())?;

        let queue = Queue::new(settings.queue.clone(), env);
        let controls = Arc::new(Controls {
            name: settings.queue.name.clone(),
            queue: queue.clone(),
            cut: Arc::default(),
            sources: all.iter().map(|source| SourceStats::new(source.name())).collect(),
        });
        let (kinds, needs) = (Self::source_kinds(&all), settings.needs.clone());
        let controller = Box::new(Prepared {
            reconciler: Arc::new(reconciler),
            settings,
            unconnected: all,
            loops: Vec::new(),
            env: env.clone(),
            controls,
        });
        Ok(Parts { controller, handle: Handle::new(queue), kinds, needs })
    }
}

impl<T: Reconciler> Prepared<T> {
    fn timers(&self) -> LoopSpec {
        let stats = LoopStats::new(LoopRole::Timers, &self.controls.name, None);
        let queue = self.controls.queue.clone();
        LoopSpec::new(&stats, Policy::Engine, move || {
            let queue = queue.clone();
            Box::pin(async move {
                queue.run_timers().await;
                LoopEnd::Finished
            })
        })
    }

    fn worker(&self, stats: &Arc<LoopStats>) -> LoopSpec {
        let (queue, reconciler, env) =
            (self.controls.queue.clone(), self.reconciler.clone(), self.env.clone());
        let (name, run_limit, classify) =
            (self.controls.name.clone(), self.settings.run_limit, self.settings.classify.clone());
        LoopSpec::new(stats, Policy::Engine, move || {
            let settings =
                WorkerSettings { name: name.clone(), run_limit, classify: classify.clone(), fence: None };
            let worker = Worker::new(queue.clone(), reconciler.clone(), env.clone(), settings);
            Box::pin(async move {
                work(worker).await;
                LoopEnd::Finished
            })
        })
    }
}

impl<T: Reconciler> AnyController for Prepared<T> {
    fn open(&mut self) {
        let sources = std::mem::take(&mut self.unconnected);
        for (source, stats) in sources.into_iter().zip(&self.controls.sources) {
            let line = Line {
                intake: Arc::new(self.controls.queue.clone()),
                env: self.env.clone(),
                controller: self.controls.name.clone(),
                stats: stats.clone(),
                cut: self.controls.cut.clone(),
            };
            self.loops.extend(source.connect(line));
        }
    }

    fn start(&mut self) -> Vec<LoopSpec> {
        let mut loops = std::mem::take(&mut self.loops);
        loops.push(self.timers());
        let workers = LoopStats::new(LoopRole::Worker, &self.controls.name, None);
        loops.extend((0..self.settings.concurrency).map(|_| self.worker(&workers)));
        loops
    }

    fn control(&self) -> Arc<dyn Control> {
        self.controls.clone()
    }
}
