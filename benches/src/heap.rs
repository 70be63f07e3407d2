//! What the counting allocator tells. The library does not know which allocator it runs under; the counting
//! program hands its probe in.

/// The heap at one moment.
#[derive(Debug, Clone, Copy)]
pub struct HeapCount {
    /// Allocations and reallocations since the program started.
    pub allocations: usize,
    /// Bytes handed out and not given back, without the allocator's own overhead.
    pub live_bytes: usize,
}

/// Reads the heap now.
pub type HeapProbe = fn() -> HeapCount;
