//! The work queue: which key runs when.
//!
//! A pure, synchronous [`machine`] under a thin [`driver`]: time and randomness are arguments, and nothing in
//! the machine knows tasks, wakers or a runtime. The wake and park protocol is a module of its own, [`desk`],
//! so that a model checker can try every interleaving of it.
//!
//! # Invariants
//!
//! 1. A key is in exactly one of {idle, ready, delayed, running, running-dirty, parked}: one enum, changed in
//!    one place. Parked is without a timer; every other state but running says when the key goes on.
//! 2. At most one run per key at a time.
//! 3. A signal while a key runs causes exactly one more run after it.
//! 4. Every exit from a run (return, error, skip, panic, cancel, timeout) goes through one drop guard.
//! 5. Signalling never blocks and never awaits; memory is bounded by distinct keys.
//! 6. An idle key leaves no slot once its minimum interval has passed; its last outcome stays in a bounded ring.
//! 7. Order among due keys: lane, due time, arrival; a lower lane goes first only when it has been passed over
//!    a fixed number of times in a row, so its wait is bounded.
//! 8. Within a lane no key runs twice before a waiting one ran once.
//!
//! No key is hashed, cloned or dropped under the lock; only its `Eq` runs there.
//!
//! Not here: what a run does ([`worker`](crate::worker)), and where signals come from.

mod after_run;
mod budget;
mod config;
mod counters;
mod desk;
mod driver;
mod effects;
mod ended;
mod explain;
mod history;
mod lanes;
mod machine;
#[cfg(test)]
mod model;
mod places;
mod signal;
mod slot;
mod snapshot;
mod timers;
mod waiting;

pub(crate) use config::QueueConfig;
pub use config::{BackoffSignals, RetryBudget};
pub use counters::Depth;
pub(crate) use desk::Called;
pub(crate) use driver::{Job, Queue, WorkerSeat, by_hand};
pub(crate) use effects::Answer;
pub use ended::OutcomeKind;
pub(crate) use ended::{Ended, Finished};
pub use explain::{Explanation, KeyState, LastOutcome};
pub(crate) use machine::Taken;
pub use signal::Lane;
pub(crate) use signal::{Signal, SignalKind};
pub use snapshot::QueueSnapshot;
