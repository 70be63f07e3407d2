//! An engine's cache by itself: one writer, any number of readers.

use anyhow::Result;

/// The one that puts changes in.
pub(crate) trait CacheWriter: Send {
    /// Takes one change of object `id` in, as the engine does for an event of a watch.
    ///
    /// # Errors
    /// When the engine behind the cache has ended.
    fn write(&mut self, id: u32) -> Result<()>;
}

/// One that reads.
pub(crate) trait CacheReader: Send + Sync {
    /// Lists every object and gives how many there were.
    fn list(&self) -> usize;
}
