//! An engine's cache by itself: one writer, any number of readers.

/// The one that puts changes in.
pub(crate) trait CacheWriter: Send {
    /// Takes one change of object `id` in, as the engine does for an event of a watch.
    fn write(&mut self, id: u32);
}

/// One that reads.
pub(crate) trait CacheReader: Send + Sync {
    /// Lists every object and gives how many there were.
    fn list(&self) -> usize;
}
