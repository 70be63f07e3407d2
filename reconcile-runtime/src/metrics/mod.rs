//! What the runtime counts: plain numbers, kept from the start and read as snapshots.
//!
//! Promise: counting costs an addition under a lock that is held anyway; nothing here allocates per event, and
//! no global registry exists, so two managers in one process never collide.
//!
//! Not here: any text format. An exporter reads a snapshot.

mod histogram;

pub use histogram::Histogram;
