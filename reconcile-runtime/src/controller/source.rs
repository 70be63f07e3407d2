//! A source of a controller: what it is connected to, what it may signal, and how it fares.
//!
//! A source is one of: the primary, a watch, a trigger, a resync. It may subscribe to a cache, which calls it
//! on every change, and it may have loops, which run under supervision.
//!
//! Promises: a panic of user code in a source (mapper, filter, iterator, stream, and the drop of each) is
//! caught, counted at its source with its message, and disturbs nothing else.
//!
//! # Invariants
//!
//! 1. A source signals the queue directly: there is no buffer between them, so nothing can fill up.
//! 2. A filter that panics lets its change pass: a signal too many costs a run, a lost one costs correctness.
//! 3. After [`Cut::cut`] no source of the controller signals any more, and none holds user code alive.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use reconcile_core::{Cause, Key, ObjectKey, Resource};

pub(crate) use super::kind::KindId;
use super::watch::Filter;
use crate::{
    Api, Environment,
    change::{Change, Initial, Step, Subscriber},
    manager::supervise::LoopSpec,
    panics::guarded,
    queue::Signal,
};

/// The intake of a queue, as sources see it. None of the calls blocks or awaits.
pub(crate) trait Intake<K: Key>: Send + Sync + 'static {
    fn signal(&self, key: K, signal: Signal);
    fn pause_key(&self, key: K, cause: Cause);
    fn resume_key(&self, key: K, cause: Cause);
}

/// What a source is given when it is connected.
pub(crate) struct Line<K> {
    pub(crate) intake: Arc<dyn Intake<K>>,
    pub(crate) env: Environment,
    pub(crate) controller: Arc<str>,
    pub(crate) stats: Arc<SourceStats>,
    /// Shared by the lines of one controller.
    pub(crate) cut: Arc<Cut>,
}

impl<K> Clone for Line<K> {
    fn clone(&self) -> Self {
        Line {
            intake: self.intake.clone(),
            env: self.env.clone(),
            controller: self.controller.clone(),
            stats: self.stats.clone(),
            cut: self.cut.clone(),
        }
    }
}

impl<K: Key> Line<K> {
    /// Signals one key. The key's hash and equality are user code: a panic in them is the source's.
    pub(super) fn signal(&self, key: K, signal: Signal) {
        let _counted = self.guard("key", || self.intake.signal(key, signal));
    }

    /// Whether a change passes all filters (invariant 2).
    pub(super) fn passes<R>(&self, filters: &[Filter<R>], change: &Change<R>) -> bool {
        filters.iter().all(|filter| self.guard("filter", || filter(change)).unwrap_or(true))
    }

    /// Subscribes to the cache of an `Api`, until the line is cut.
    pub(super) fn subscribe<R: Resource>(&self, api: &Api<R>, subscriber: Arc<dyn Subscriber<R>>) {
        let tap = Arc::new(Tap { subscriber: RwLock::new(Some(subscriber)) });
        let end = tap.clone();
        self.cut.add(Box::new(move || end.close()));
        api.kind().subscribe(tap);
    }

    /// Runs user code; a panic is counted, named and logged. `what` is the part of the source that it is.
    pub(super) fn guard<T>(&self, what: &'static str, f: impl FnOnce() -> T) -> Option<T> {
        match guarded(f) {
            Ok(value) => Some(value),
            Err(message) => {
                self.stats.panicked(what, &message);
                tracing::error!(
                    controller = &*self.controller,
                    source = self.stats.name(),
                    "the {what} of {} of controller `{}` panicked: {message}",
                    self.stats.name(),
                    self.controller
                );
                None
            }
        }
    }
}

/// How a source fares, as a plain copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// What it is, such as "watch of Pod".
    pub name: Arc<str>,
    /// How often its user code panicked.
    pub panics: u64,
    /// The last panic: which part, and its message.
    pub last_panic: Option<String>,
    /// How often it could not do its work for another reason.
    pub errors: u64,
    /// The last of them.
    pub last_error: Option<String>,
}

/// The counters behind a [`SourceStatus`].
#[derive(Debug)]
pub(crate) struct SourceStats {
    name: Arc<str>,
    /// One short lock: a count and the text that belongs to it change together.
    status: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    panics: u64,
    last_panic: Option<String>,
    errors: u64,
    last_error: Option<String>,
}

impl SourceStats {
    pub(crate) fn new(name: impl Into<Arc<str>>) -> Arc<Self> {
        Arc::new(SourceStats { name: name.into(), status: Mutex::default() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn panicked(&self, what: &str, message: &str) {
        let text = format!("{what}: {message}");
        let mut counts = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        counts.panics = counts.panics.saturating_add(1);
        counts.last_panic = Some(text);
    }

    pub(super) fn failed(&self, error: String) {
        let mut counts = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        counts.errors = counts.errors.saturating_add(1);
        counts.last_error = Some(error);
    }

    pub(crate) fn status(&self) -> SourceStatus {
        let counts = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        SourceStatus {
            name: self.name.clone(),
            panics: counts.panics,
            last_panic: counts.last_panic.clone(),
            errors: counts.errors,
            last_error: counts.last_error.clone(),
        }
    }
}

/// How many signals a loop gives before it lets others run: a source that is always ready must not starve
/// the workers, and one yield per this many costs nothing.
pub(super) const BATCH: usize = 256;

/// When the next of a series of periodic resyncs is due: somewhere in the last tenth of the period, so that
/// controllers that started together do not stay together. `random` is any 64 random bits.
pub(super) fn next_resync(every: Duration, random: u64) -> Duration {
    let spread = every / 10;
    let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
    let back = if nanos == u64::MAX { random } else { random % (nanos + 1) };
    every.saturating_sub(Duration::from_nanos(back))
}

/// Gives way to other tasks once.
pub(super) async fn give_way() {
    tokio::task::yield_now().await;
}

/// Something that makes keys run.
pub(crate) trait Source<K: Key>: Send + 'static {
    /// What it is, in words; unique enough for a log line.
    fn name(&self) -> String;

    /// The kind that it reads from, if it reads from one.
    fn kind(&self) -> Option<KindId>;

    /// Subscribes to its cache, if it has one: from here on it signals. Gives the loops that are to run once
    /// the controller has started.
    fn connect(self: Box<Self>, line: Line<K>) -> Vec<LoopSpec>;
}

/// Between a cache and a subscriber: closed when the controller stops, as the cache lives on in every `Api`.
struct Tap<R> {
    subscriber: RwLock<Option<Arc<dyn Subscriber<R>>>>,
}

impl<R: Resource> Tap<R> {
    /// The subscriber, to be called without the lock.
    fn open(&self) -> Option<Arc<dyn Subscriber<R>>> {
        self.subscriber.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self) {
        let subscriber = self.subscriber.write().unwrap_or_else(PoisonError::into_inner).take();
        // Outside the lock: with it goes the user's mapper, whose drop is user code.
        if let Err(message) = guarded(|| drop(subscriber)) {
            tracing::error!("a mapper or filter of kind `{}` panicked in its drop: {message}", R::KIND);
        }
    }
}

impl<R: Resource> Subscriber<R> for Tap<R> {
    fn changed(&self, key: &ObjectKey, change: &Change<R>, step: Step, initial: Initial) {
        if let Some(subscriber) = self.open() {
            subscriber.changed(key, change, step, initial);
        }
    }

    fn flagged(&self, object: &Arc<R>) {
        if let Some(subscriber) = self.open() {
            subscriber.flagged(object);
        }
    }
}

/// Ends the subscriptions of a controller.
#[derive(Default)]
pub(crate) struct Cut {
    /// What closes each tap, in the order of the sources.
    ends: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Cut {
    fn add(&self, end: Box<dyn FnOnce() + Send>) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }

    /// Closes all taps (invariant 3). May be called again.
    pub(crate) fn cut(&self) {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ends {
            end();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::queue::{Lane, SignalKind};

    /// What an intake was told, in order.
    #[derive(Debug, Clone, PartialEq)]
    pub(in crate::controller) enum Told<K> {
        Signal(K, SignalKind, Lane, String),
        Pause(K),
        Resume(K),
    }

    /// An intake that only remembers.
    #[derive(Default)]
    pub(in crate::controller) struct Remember<K> {
        told: Mutex<Vec<Told<K>>>,
        /// Of each signal, from which change it is.
        steps: Mutex<Vec<Option<Step>>>,
    }

    impl<K: Key> Remember<K> {
        pub(in crate::controller) fn take(&self) -> Vec<Told<K>> {
            std::mem::take(&mut *self.told.lock().unwrap())
        }

        pub(in crate::controller) fn steps(&self) -> Vec<Option<Step>> {
            self.steps.lock().unwrap().clone()
        }

        /// The signalled keys, in order.
        pub(in crate::controller) fn keys(&self) -> Vec<K> {
            let told = self.take().into_iter();
            told.filter_map(|told| if let Told::Signal(key, ..) = told { Some(key) } else { None }).collect()
        }
    }

    impl<K: Key> Intake<K> for Remember<K> {
        fn signal(&self, key: K, signal: Signal) {
            self.steps.lock().unwrap().push(signal.step);
            let told = Told::Signal(key, signal.kind, signal.lane, signal.cause.to_string());
            self.told.lock().unwrap().push(told);
        }

        fn pause_key(&self, key: K, _cause: Cause) {
            self.told.lock().unwrap().push(Told::Pause(key));
        }

        fn resume_key(&self, key: K, _cause: Cause) {
            self.told.lock().unwrap().push(Told::Resume(key));
        }
    }

    /// A line to an intake that remembers.
    pub(in crate::controller) fn line<K: Key>(env: &Environment) -> (Line<K>, Arc<Remember<K>>) {
        let intake = Arc::new(Remember { told: Mutex::default(), steps: Mutex::default() });
        let line = Line {
            intake: intake.clone(),
            env: env.clone(),
            controller: "test".into(),
            stats: SourceStats::new("source"),
            cut: Arc::default(),
        };
        (line, intake)
    }

    #[test]
    fn resyncs_fall_into_the_last_tenth_of_their_period() {
        let hour = Duration::from_secs(3600);
        assert_eq!(next_resync(hour, 0), hour);
        for random in [1, 7, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            let next = next_resync(hour, random);
            assert!(next <= hour && next >= hour / 10 * 9, "{next:?} for {random}");
        }
        // No arithmetic at the ends overflows.
        assert_eq!(next_resync(Duration::ZERO, u64::MAX), Duration::ZERO);
        assert!(next_resync(Duration::MAX, u64::MAX) > Duration::from_secs(u64::MAX / 2));
    }

    #[test]
    fn a_panic_is_counted_at_its_source_with_its_part_and_message() {
        let stats = SourceStats::new("watch of Pod");
        stats.panicked("mapper", "no label");
        stats.panicked("filter", "no spec");
        stats.failed("timeout".to_owned());
        let status = stats.status();
        assert_eq!((status.panics, status.errors), (2, 1));
        assert_eq!(status.last_panic.as_deref(), Some("filter: no spec"));
        assert_eq!(status.last_error.as_deref(), Some("timeout"));
    }
}
