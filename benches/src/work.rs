//! The piece of work that every engine is given: one function from an object's number to a verdict.
//!
//! Each engine translates its own object to the number (by reading it back from the object that its cache
//! gave it, so that the store read is part of every run) and the verdict to its own words.

use std::{future::Future, time::Duration};

/// What a run asks for, in words that every engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing until the next change.
    Await,
    /// Once more at once. It counts as progress, so that an engine that damps idle spinning does not here.
    Again,
    /// Once more after this time.
    After(Duration),
    /// Failed; the policy is to retry after this time.
    Failed(Duration),
}

/// What the reconciler of a suite does.
pub(crate) trait Work: Send + Sync + 'static {
    /// One run of the object with this number.
    fn run(&self, id: u32) -> impl Future<Output = Verdict> + Send;
}
