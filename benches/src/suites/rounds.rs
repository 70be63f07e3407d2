//! The work of most suites: count the run, and ask for the next round while there is one.

use crate::{
    tally::Tally,
    work::{Verdict, Work},
};

/// Counts runs; a key's first `rounds - 1` runs ask for another by `between`.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) tally: Tally,
    pub(crate) rounds: u32,
    pub(crate) between: Verdict,
}

impl Rounds {
    /// One run per change, for `keys` keys, with the goals that every key ran once and `last` times.
    pub(crate) fn counted(keys: u32, last: u32) -> Self {
        Rounds { tally: Tally::new(keys, last), rounds: 1, between: Verdict::Await }
    }
}

impl Work for Rounds {
    async fn run(&self, id: u32) -> Verdict {
        if self.tally.record(id) < self.rounds { self.between } else { Verdict::Await }
    }
}
