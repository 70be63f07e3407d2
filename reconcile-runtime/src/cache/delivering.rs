//! Whether this thread is inside a mapper, filter or index function.
//!
//! Such a function is called synchronously while changes are delivered, so a wait in it for a write, whose own
//! change has to be delivered first, would never end. Store I/O that is polled in it fails instead.
//!
//! Not here: the check itself, which is at the entrance of every operation of `Api` and `Client`.

use std::cell::Cell;

thread_local! {
    static DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside such a function.
pub(crate) fn is_delivering() -> bool {
    // A thread that is being torn down delivers nothing.
    DELIVERING.try_with(Cell::get).unwrap_or(false)
}

/// Marks the thread until it is dropped, also by a panic. Nests.
pub(super) struct Delivering {
    before: bool,
}

impl Delivering {
    pub(super) fn enter() -> Self {
        Delivering { before: DELIVERING.try_with(|flag| flag.replace(true)).unwrap_or(false) }
    }
}

impl Drop for Delivering {
    fn drop(&mut self) {
        let _ended = DELIVERING.try_with(|flag| flag.set(self.before));
    }
}
