//! The engine over the store in memory, with the objects created one by one through `Api` while it runs.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use reconcile_runtime::prelude::*;

use super::{
    super::{Change, Part, Setup, Sibling},
    controller,
    objects::{self, Thing, ThingSpec},
};
use crate::work::Work;

/// Writes in a row that never waited, after which the writer gives way: as many as a worker makes runs.
const WRITES_PER_TURN: u32 = 64;

/// Runs the engine and applies the suite's objects and changes to it; it ends only by an error.
pub(in super::super) async fn run<W: Work>(setup: Setup, work: Arc<W>) -> Result<()> {
    if let Sibling::FailsAfter(_) = setup.sibling {
        bail!("the store in memory does not fail on purpose; run this suite with the engine that is fed");
    }
    let store = MemoryStore::default();
    let mut manager = Manager::new();
    let things = manager.api::<Thing>(&store);
    let handle = manager
        .add(controller(&things, setup.concurrency, work))
        .context("the benchmark's controller was refused")?;
    let health = manager.handle();
    let mut applied = Ok(());
    let stop = async {
        health.started().await;
        applied = apply(&things, setup).await;
        if applied.is_ok() {
            // The suite is at its end, and drops the engine when it has seen enough.
            std::future::pending::<()>().await;
        }
        drop(handle);
    };
    manager.run_until(stop).await.context("the manager gave up")?;
    applied?;
    bail!("the manager ended, though nothing had asked it to")
}

async fn apply(things: &Api<Thing>, mut setup: Setup) -> Result<()> {
    let mut in_a_row = 0;
    for id in 0..setup.objects {
        things.create(objects::draft(id)).await.with_context(|| format!("cannot create object {id}"))?;
        give_way(&mut in_a_row).await;
    }
    let mut written = 0;
    while let Some(change) = setup.changes.next().await {
        written += 1;
        write(things, change, written).await.with_context(|| format!("cannot apply {change:?}"))?;
        give_way(&mut in_a_row).await;
    }
    Ok(())
}

async fn write(things: &Api<Thing>, change: Change, number: u64) -> Result<(), StoreError> {
    let key = objects::key(change.id);
    match change.part {
        Part::Spec => {
            things.modify(&key, |thing| thing.spec = ThingSpec::at(number)).await?;
        }
        Part::Status => {
            things.modify_status(&key, |status| status.seen = number).await?;
        }
        Part::Deleted => things.delete_key(&key, Default::default()).await?,
    }
    Ok(())
}

async fn give_way(in_a_row: &mut u32) {
    *in_a_row += 1;
    if *in_a_row == WRITES_PER_TURN {
        *in_a_row = 0;
        tokio::task::yield_now().await;
    }
}
