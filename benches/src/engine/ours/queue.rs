//! The queue by itself, as far as there is such a thing: a controller of keys that does nothing for them.
//!
//! A cycle is the public way of a key: `Handle::enqueue`, and a run by a worker. So it holds the run (limit,
//! cancellation, panic guard, causes, statistics) that a queue of the peers does not.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use reconcile_runtime::prelude::*;

use super::{
    super::{Load, Round},
    objects,
};
use crate::clock::Stopwatch;

struct Nothing {
    runs: Arc<AtomicU64>,
}

impl Reconciler for Nothing {
    type Key = ObjectKey;

    fn reconcile(&self, _: &ObjectKey, _: &Run) -> impl Future<Output = Result<Action, Error>> + Send {
        self.runs.fetch_add(1, Ordering::AcqRel);
        std::future::ready(Ok(Action::await_change()))
    }
}

/// Rounds of a queue that is loaded like this, on the caller's thread.
pub(in super::super) async fn queue(load: Load) -> Result<Vec<Round>> {
    let runs = Arc::new(AtomicU64::new(0));
    let mut manager = Manager::new();
    let controller = Controller::for_keys("queue", Nothing { runs: runs.clone() }).enqueued_by_hand();
    let handle = manager.add(controller).context("the benchmark's controller was refused")?;
    let mut measured = Ok(Vec::new());
    let stop = async { measured = rounds(load, &handle, &runs).await };
    manager.run_until(stop).await.context("the manager gave up")?;
    measured
}

async fn rounds(load: Load, handle: &Handle<ObjectKey>, runs: &AtomicU64) -> Result<Vec<Round>> {
    // The workers have started when a first key is through.
    let first = ObjectKey::new("first");
    handle.enqueue(first.clone());
    handle.converged(&first).await.context("the first key did not come through")?;
    let mut rounds = Vec::with_capacity(load.rounds);
    for _ in 0..load.rounds {
        let keys = load.keys(objects::key);
        let had = runs.load(Ordering::Acquire);
        let started = Stopwatch::start();
        for key in keys {
            handle.enqueue(key);
        }
        let adding = Some(started.spent());
        handle.idle().await;
        let whole = started.spent();
        let came = runs.load(Ordering::Acquire) - had;
        ensure!(came == u64::from(load.keys), "{came} of {} keys came out of the queue", load.keys);
        rounds.push(Round { adding, whole });
    }
    Ok(rounds)
}
