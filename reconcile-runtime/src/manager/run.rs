//! The run of a manager: starts, waits, stops. The decisions are those of [`start`](super::start) and
//! [`stop`](super::stop); this is the driver that does them.
//!
//! # Invariants
//!
//! 1. Every task is in `engine` or `sources`, so dropping the run aborts all of them.
//! 2. The order of the looks is: failure, stop, sync, limit. What ends the run is seen before what prolongs it.
//! 3. Queues close after the board says that the run is stopping (the board's invariant 1), and sources and
//!    reflectors end after the queues have closed.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures::{
    StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};

use super::{
    Manager, RunError,
    board::Board,
    control::{Controllers, Start},
    readiness::{Phase, Shared},
    stop::{DROP_LIMIT, Input, Order, Stop},
    supervise::{LoopEnd, LoopRole, LoopSpec, LoopStats, Policy, supervise},
};
use crate::{Environment, cache::AnyKind, environment::Task};

/// Runs a manager whose kinds fit together.
pub(super) async fn run<F: Future>(manager: Manager, stop: F) -> Result<(), RunError> {
    let mut stop = pin!(stop);
    let mut running = Running::begin(manager);
    let outcome = running.until(stop.as_mut()).await;
    if let Err(error) = &outcome {
        tracing::error!("the manager stops: {error}");
    }
    running.end().await;
    outcome
}

struct Running {
    env: Environment,
    grace: Duration,
    sync_limit: Option<Duration>,
    kinds: Vec<Arc<dyn AnyKind>>,
    /// By the places of `kinds`.
    synced: Vec<bool>,
    controllers: Controllers,
    shared: Arc<Shared>,
    board: Arc<Board>,
    /// Reflectors, timers, workers.
    engine: Vec<Task>,
    /// Triggers and resyncs: they end first.
    sources: Vec<Task>,
}

impl Running {
    fn begin(manager: Manager) -> Self {
        let Manager { env, grace, sync_limit, restart_limit, kinds, mut controllers, shared } = manager;
        let kinds = kinds.into_known();
        let controls = controllers.iter().map(|entry| entry.control.clone()).collect();
        shared.began(&kinds, controls);
        // Before the first reflector runs: what it lists is news to every source.
        for entry in controllers.iter_mut() {
            entry.controller.open();
        }
        let mut running = Running {
            env,
            grace,
            sync_limit,
            synced: kinds.iter().map(|kind| kind.is_synced()).collect(),
            kinds,
            controllers,
            shared,
            board: Arc::new(Board::new(restart_limit)),
            engine: Vec::new(),
            sources: Vec::new(),
        };
        let reflectors: Vec<LoopSpec> = running.kinds.iter().map(reflector).collect();
        for spec in reflectors {
            running.spawn(spec);
        }
        running
    }

    fn spawn(&mut self, spec: LoopSpec) {
        self.shared.looping(&spec.stats);
        let role = spec.stats.role();
        let task = self.env.spawn(role.as_str(), supervise(spec, self.env.clone(), self.board.clone()));
        if role.is_of_the_engine() { self.engine.push(task) } else { self.sources.push(task) }
    }

    /// Starts every controller whose kinds are synced.
    fn start_ready(&mut self) {
        let mut ready = Vec::new();
        let mut waiting = Vec::new();
        for (place, entry) in self.controllers.iter().enumerate() {
            if entry.start == Start::Waiting {
                let missing = entry.needs.missing(&self.synced);
                if missing.is_empty() {
                    ready.push(place);
                } else {
                    waiting.push((entry.control.name().clone(), missing));
                }
            }
        }
        self.shared.waiting(waiting);
        let mut loops = Vec::new();
        for (place, entry) in self.controllers.iter_mut().enumerate() {
            if ready.contains(&place) {
                entry.start = Start::Started;
                tracing::info!(controller = &**entry.control.name(), "controller started");
                loops.extend(entry.controller.start());
            }
        }
        for spec in loops {
            self.spawn(spec);
        }
    }

    /// Runs until something ends it.
    async fn until(&mut self, mut stop: impl Future + Unpin) -> Result<(), RunError> {
        let mut syncs: FuturesUnordered<_> = self
            .kinds
            .iter()
            .enumerate()
            .filter(|(place, _)| !self.synced.get(*place).copied().unwrap_or(false))
            .map(|(place, kind)| {
                let synced = kind.clone().wait_synced();
                async move {
                    synced.await;
                    place
                }
            })
            .collect();
        let board = self.board.clone();
        let mut failed = pin!(board.failed());
        let limit = self.sync_limit;
        let mut limit_over: BoxFuture<'static, ()> = match limit {
            Some(limit) => self.env.sleep(limit),
            None => Box::pin(std::future::pending()),
        };
        loop {
            self.start_ready();
            tokio::select! {
                biased; // invariant 2
                error = &mut failed => return Err(error),
                _ = &mut stop => return Ok(()),
                Some(place) = syncs.next(), if !syncs.is_empty() => {
                    if let Some(synced) = self.synced.get_mut(place) {
                        *synced = true;
                    }
                }
                () = &mut limit_over, if !syncs.is_empty() => {
                    return Err(self.not_synced(limit.unwrap_or_default()));
                }
            }
        }
    }

    fn not_synced(&self, waited: Duration) -> RunError {
        let mut late = self.kinds.iter().zip(&self.synced).filter(|(_, synced)| !**synced);
        let first = late.next().map(|(kind, _)| kind);
        RunError::NotSynced {
            kind: first.map_or("", |kind| kind.name()).into(),
            waited,
            last_error: first.and_then(|kind| kind.snapshot().last_error).map(|error| error.to_string()),
            others: late.map(|(kind, _)| kind.name().into()).collect(),
        }
    }

    /// Stops everything in order.
    async fn end(mut self) {
        let mut stop = Stop::new(self.grace);
        let mut order = stop.on(Input::Stop(self.env.now()));
        loop {
            match order {
                Order::Nothing => {}
                Order::CloseIntake => self.close_intake().await,
                Order::DropRuns => self.drop_runs(),
                Order::StopTheRest => break,
            }
            let drained = join_all(self.controllers.iter().map(|entry| entry.control.clone().drained()));
            let input = match stop.deadline() {
                None => break, // the machine is not stopping, or has stopped: nothing to wait for
                Some(deadline) => tokio::select! {
                    biased;
                    _ = drained => Input::Drained,
                    () = self.env.sleep_until(deadline) => Input::Clock(self.env.now()),
                },
            };
            order = stop.on(input);
        }
        self.stop_the_rest().await;
    }

    async fn close_intake(&mut self) {
        self.board.stopping(); // invariant 3
        self.shared.phase(Phase::Stopping);
        self.controllers.close();
        self.join(Tasks::Sources).await;
    }

    fn drop_runs(&self) {
        let mut dropped = Vec::new();
        for entry in self.controllers.iter() {
            let name = entry.control.name();
            dropped.extend(entry.control.running().into_iter().map(|key| format!("{name}/{key}")));
        }
        if !dropped.is_empty() {
            tracing::warn!(
                "the grace of {:?} is over, {} runs are dropped: {}",
                self.grace,
                dropped.len(),
                dropped.join(", ")
            );
        }
        self.shared.dropped(dropped);
        for entry in self.controllers.iter() {
            entry.control.abandon();
        }
    }

    async fn stop_the_rest(&mut self) {
        // Writes that outlived their runs get their chance while the caches still take the answers.
        let settled = join_all(self.kinds.iter().map(|kind| kind.clone().settle()));
        let limit = self.env.now().saturating_add(DROP_LIMIT);
        if self.env.before(limit, settled).await.is_err() {
            tracing::warn!("writes were still under way when the manager stopped; they may have landed");
            for kind in &self.kinds {
                kind.abort_writes();
            }
        }
        self.join(Tasks::Engine).await;
        self.shared.ended();
    }

    /// Aborts tasks, and waits until they have ended, but not for one that blocks its thread.
    async fn join(&mut self, which: Tasks) {
        let mut tasks = std::mem::take(match which {
            Tasks::Sources => &mut self.sources,
            Tasks::Engine => &mut self.engine,
        });
        for task in &tasks {
            task.abort();
        }
        let limit = self.env.now().saturating_add(DROP_LIMIT);
        if self.env.before(limit, join_all(tasks.iter_mut().map(Task::join))).await.is_err() {
            tracing::warn!("a task of the manager blocks its thread and was left behind");
        }
    }
}

/// Which tasks end.
#[derive(Debug, Clone, Copy)]
enum Tasks {
    Sources,
    Engine,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A dropped run: its loops end without fault, and handles hear of it. The fields do the rest: the
        // controllers are closed by their own drop, and then the tasks are aborted by theirs.
        self.board.stopping();
        self.shared.ended();
    }
}

fn reflector(kind: &Arc<dyn AnyKind>) -> LoopSpec {
    let stats = LoopStats::new(LoopRole::Reflector, &Arc::from(kind.name()), None);
    let kind = kind.clone();
    LoopSpec::new(&stats, Policy::Engine, move || {
        let reflecting = kind.clone().reflect();
        Box::pin(async move {
            reflecting.await;
            LoopEnd::Finished
        })
    })
}
