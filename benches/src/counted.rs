//! The benchmark program under an allocator that counts, for the figures that are counts and bytes.
//!
//! The other program starts this one as a child where it needs them; nothing timed runs here.

use std::{alloc::System, process::ExitCode};

use reconcile_benches::HeapCount;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    reconcile_benches::main(Some(count))
}

fn count() -> HeapCount {
    let stats = HEAP.stats();
    HeapCount {
        allocations: stats.allocations.saturating_add(stats.reallocations),
        live_bytes: stats.bytes_allocated.saturating_sub(stats.bytes_deallocated),
    }
}
