//! The cache by itself: a manager with one kind and no controller.
//!
//! The cache has no door of its own, so a write goes the way of every event: into the stream of the watch, and
//! by the reflector into the cache. The reflector lives on a runtime that only the writer drives, so all of it
//! is the writer's time.

use std::{future::pending, sync::Arc};

use anyhow::{Result, bail};
use futures::stream;
use reconcile_runtime::prelude::*;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

use super::{
    super::{CacheReader, CacheWriter, Change},
    fed::{Fed, revision_of_listing},
    objects::Thing,
};
use crate::session::Threads;

/// The cache, filled with objects `0..objects`.
pub(in super::super) fn cache(objects: u32) -> Result<(Box<dyn CacheWriter>, Arc<dyn CacheReader>)> {
    let (feed, receiver) = mpsc::channel(1);
    let changes =
        stream::unfold(
            receiver,
            |mut receiver| async move { receiver.recv().await.map(|id| (id, receiver)) },
        );
    let (patient, _) = mpsc::channel(1);
    let store = Fed::new(objects, Box::pin(changes), patient);
    let mut manager = Manager::new().no_sync_limit();
    let things = manager.api::<Thing>(&store);
    let runtime = Threads::One.runtime()?;
    let task = runtime.spawn(manager.run_until(pending::<()>()));
    let mut writer = FedWriter { revision: revision_of_listing(objects), store, feed, task, runtime };
    writer.until_taken_in()?;
    Ok((Box::new(writer), Arc::new(CachedThings(things))))
}

struct FedWriter {
    /// Of the last write; of the listing, before the first.
    revision: u64,
    store: Fed,
    feed: mpsc::Sender<Change>,
    /// The manager; it ends only by an error.
    task: JoinHandle<Result<(), RunError>>,
    runtime: Runtime,
}

impl FedWriter {
    /// Drives the reflector until it comes back for more.
    fn until_taken_in(&mut self) -> Result<()> {
        let (store, task, revision) = (&self.store, &self.task, self.revision);
        let open = self.runtime.block_on(async {
            while store.taken_in() < revision && !task.is_finished() {
                tokio::task::yield_now().await;
            }
            !task.is_finished()
        });
        if open {
            return Ok(());
        }
        match self.runtime.block_on(&mut self.task) {
            Ok(Ok(())) => bail!("the manager ended, though nothing had asked it to"),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl CacheWriter for FedWriter {
    fn write(&mut self, id: u32) -> Result<()> {
        self.revision += 1;
        // The one before was taken in, so there is room.
        self.feed.try_send(Change::spec(id))?;
        self.until_taken_in()
    }
}

struct CachedThings(Api<Thing>);

impl CacheReader for CachedThings {
    fn list(&self) -> usize {
        std::hint::black_box(self.0.list()).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_in_the_cache_when_it_returns() {
        let (mut writer, reader) = cache(250).unwrap();
        assert_eq!(reader.list(), 250);
        for id in [0, 249, 249] {
            writer.write(id).unwrap();
        }
        assert_eq!(reader.list(), 250);
    }
}
