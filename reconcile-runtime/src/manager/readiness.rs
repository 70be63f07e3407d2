//! How a manager fares, for health checks and for people.
//!
//! A [`ManagerHandle`] works before, during and after the run, and from anywhere. What it gives are plain
//! copies of one moment.
//!
//! # Invariants
//!
//! 1. The run is the only writer of `state`; it changes it before it does what the change says, so that no
//!    reader sees a controller that runs as one that waits.
//! 2. After the run the handle holds no kind and no controller: it must not keep caches alive.
//! 3. Watchers are told after the lock is released.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::supervise::{LoopStats, LoopStatus};
use crate::{
    cache::{AnyKind, CacheSnapshot},
    controller::{Control, SourceStatus},
};

/// Where the run of a manager stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// It has not begun.
    #[default]
    New,
    /// Kinds are being listed, or controllers run.
    Running,
    /// A stop was asked for, or something failed for good; runs in flight have their grace.
    Stopping,
    /// It is over.
    Stopped,
}

/// A controller that has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingController {
    /// The controller.
    pub controller: Arc<str>,
    /// The kinds that it waits for.
    pub kinds: Vec<&'static str>,
}

/// A kind that has had no complete listing yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsyncedKind {
    /// The kind.
    pub kind: &'static str,
    /// What the store said last about it.
    pub last_error: Option<Arc<str>>,
}

/// Whether a manager does its work, and if not, why not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// Where the run stands.
    pub phase: Phase,
    /// The kinds that are not synced.
    pub unsynced: Vec<UnsyncedKind>,
    /// The controllers that have not started.
    pub waiting: Vec<WaitingController>,
    /// The loops of the engine that are between two lives, or given up.
    pub failing: Vec<LoopStatus>,
}

impl Readiness {
    /// Whether the manager runs, every kind is synced, every controller has started, and no loop that it needs
    /// is down.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Running
            && self.unsynced.is_empty()
            && self.waiting.is_empty()
            && self.failing.is_empty()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ready() {
            return f.write_str("ready");
        }
        write!(
            f,
            "not ready: {}",
            match self.phase {
                Phase::New => "not started",
                Phase::Running => "running",
                Phase::Stopping => "stopping",
                Phase::Stopped => "stopped",
            }
        )?;
        for kind in &self.unsynced {
            write!(f, "; kind `{}` is not synced", kind.kind)?;
            if let Some(error) = &kind.last_error {
                write!(f, " ({error})")?;
            }
        }
        for waiting in &self.waiting {
            write!(f, "; controller `{}` waits for {}", waiting.controller, waiting.kinds.join(", "))?;
        }
        for failing in &self.failing {
            write!(f, "; a {} of `{}` is down", failing.role, failing.owner)?;
            if let Some(end) = &failing.last_end {
                write!(f, " ({end})")?;
            }
        }
        Ok(())
    }
}

/// How a controller fares beside its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its sources, in the order in which they were given; the primary comes first.
    pub sources: Vec<SourceStatus>,
}

/// Everything that a manager knows of itself, at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ManagerStatus {
    /// Whether it does its work.
    pub readiness: Readiness,
    /// The kinds, with the age of their last sign of life. Empty when the run is over.
    pub kinds: Vec<CacheSnapshot>,
    /// The controllers. Empty when the run is over.
    pub controllers: Vec<ControllerStatus>,
    /// All loops, with their restarts.
    pub loops: Vec<LoopStatus>,
    /// The keys whose runs were dropped at the end of the grace time, as `controller/key`.
    pub dropped: Vec<String>,
}

/// Tells how a manager fares. Cheap to clone.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::{Manager, Phase};
///
/// let manager = Manager::new();
/// let health = manager.handle();
/// assert_eq!(health.readiness().phase, Phase::New);
/// assert_eq!(health.readiness().to_string(), "not ready: not started");
/// ```
#[derive(Clone)]
pub struct ManagerHandle {
    shared: Arc<Shared>,
}

impl ManagerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        ManagerHandle { shared }
    }

    /// Whether the manager does its work, and if not, why not.
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness()
    }

    /// Everything that the manager knows of itself.
    pub fn status(&self) -> ManagerStatus {
        self.shared.status()
    }

    /// Waits until every controller has started, or the run is over, and says which.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn started(&self) -> Readiness {
        let mut changes = self.shared.changed.subscribe();
        loop {
            changes.borrow_and_update();
            let readiness = self.readiness();
            let begun = readiness.phase == Phase::Running && readiness.waiting.is_empty();
            if begun || readiness.phase == Phase::Stopped {
                return readiness;
            }
            if changes.changed().await.is_err() {
                return self.readiness();
            }
        }
    }
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").field("readiness", &self.readiness()).finish()
    }
}

/// What the run tells and the handles read.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Raised after each change of `state`.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    kinds: Vec<Arc<dyn AnyKind>>,
    controls: Vec<Arc<dyn Control>>,
    /// The controllers that have not started, with the places of the kinds that they wait for.
    waiting: Vec<(Arc<str>, Vec<usize>)>,
    loops: Vec<Arc<LoopStats>>,
    dropped: Vec<String>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { state: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is an assignment or a push: a panic cannot leave it half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_modify(|version| *version = version.wrapping_add(1)); // invariant 3
    }

    pub(super) fn began(&self, kinds: &[Arc<dyn AnyKind>], controls: Vec<Arc<dyn Control>>) {
        self.update(|state| {
            state.phase = Phase::Running;
            state.kinds = kinds.to_vec();
            state.controls = controls;
        });
    }

    pub(super) fn waiting(&self, waiting: Vec<(Arc<str>, Vec<usize>)>) {
        self.update(|state| state.waiting = waiting);
    }

    pub(super) fn looping(&self, stats: &Arc<LoopStats>) {
        self.update(|state| {
            if !state.loops.iter().any(|known| Arc::ptr_eq(known, stats)) {
                state.loops.push(stats.clone());
            }
        });
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.update(|state| state.phase = phase);
    }

    pub(super) fn dropped(&self, keys: Vec<String>) {
        self.update(|state| state.dropped = keys);
    }

    pub(super) fn ended(&self) {
        let held = {
            let mut state = self.lock();
            state.phase = Phase::Stopped;
            state.waiting = Vec::new();
            (std::mem::take(&mut state.kinds), std::mem::take(&mut state.controls)) // invariant 2
        };
        // Outside the lock: the last reference to a cache drops the user's objects.
        drop(held);
        self.update(|_| ());
    }

    fn readiness(&self) -> Readiness {
        let (phase, kinds, waiting, loops) = {
            let state = self.lock();
            (state.phase, state.kinds.clone(), state.waiting.clone(), state.loops.clone())
        };
        let unsynced = kinds.iter().filter(|kind| !kind.is_synced());
        let name = |place: &usize| kinds.get(*place).map(|kind| kind.name());
        Readiness {
            phase,
            unsynced: unsynced
                .map(|kind| UnsyncedKind { kind: kind.name(), last_error: kind.snapshot().last_error })
                .collect(),
            waiting: waiting
                .iter()
                .map(|(controller, missing)| WaitingController {
                    controller: controller.clone(),
                    kinds: missing.iter().filter_map(name).collect(),
                })
                .collect(),
            failing: loops
                .iter()
                .filter(|stats| stats.role().is_of_the_engine())
                .map(|stats| stats.status())
                .filter(|status| status.restarting > 0 || status.dead > 0)
                .collect(),
        }
    }

    fn status(&self) -> ManagerStatus {
        let readiness = self.readiness();
        let (kinds, controls, loops, dropped) = {
            let state = self.lock();
            (state.kinds.clone(), state.controls.clone(), state.loops.clone(), state.dropped.clone())
        };
        let controller = |control: &Arc<dyn Control>| ControllerStatus {
            name: control.name().clone(),
            sources: control.sources().iter().map(|source| source.status()).collect(),
        };
        ManagerStatus {
            readiness,
            kinds: kinds.iter().map(|kind| kind.snapshot()).collect(),
            controllers: controls.iter().map(controller).collect(),
            loops: loops.iter().map(|stats| stats.status()).collect(),
            dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_readiness_names_what_is_missing_and_why() {
        let readiness = Readiness {
            phase: Phase::Running,
            unsynced: vec![UnsyncedKind { kind: "Pod", last_error: Some("denied".into()) }],
            waiting: vec![WaitingController { controller: "web".into(), kinds: vec!["Pod"] }],
            failing: vec![],
        };
        assert!(!readiness.is_ready());
        assert_eq!(
            readiness.to_string(),
            "not ready: running; kind `Pod` is not synced (denied); controller `web` waits for Pod"
        );
    }

    #[test]
    fn only_a_running_manager_without_anything_missing_is_ready() {
        let ready = Readiness { phase: Phase::Running, unsynced: vec![], waiting: vec![], failing: vec![] };
        assert!(ready.is_ready());
        for phase in [Phase::New, Phase::Stopping, Phase::Stopped] {
            assert!(!Readiness { phase, ..ready.clone() }.is_ready());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_start_hears_of_it_or_of_the_end() {
        let shared = Arc::new(Shared::default());
        let handle = ManagerHandle::new(shared.clone());
        let mut started = tokio_test_task(handle.started());
        assert!(started.as_mut().now_or_never().is_none());
        shared.began(&[], Vec::new());
        shared.waiting(vec![("web".into(), vec![])]);
        let mut started = tokio_test_task(handle.started());
        assert!(started.as_mut().now_or_never().is_none());
        shared.waiting(Vec::new());
        assert_eq!(started.await.phase, Phase::Running);
        shared.ended();
        assert_eq!(handle.started().await.phase, Phase::Stopped);
    }

    use futures::FutureExt;

    fn tokio_test_task<'a>(
        future: impl Future<Output = Readiness> + Send + 'a,
    ) -> std::pin::Pin<Box<dyn Future<Output = Readiness> + Send + 'a>> {
        Box::pin(future)
    }
}
