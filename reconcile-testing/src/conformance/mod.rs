//! The conformance suite: does a store keep the nine rules?
//!
//! Give it a way to make a fresh, empty store (a [`Harness`]), and it tries every rule of
//! [`reconcile_core::store`] on it from several sides: one by one, with concurrent
//! writers, across compaction, damage, lost replies, restarts and restored backups. [`store_conformance!`](crate::store_conformance)
//! makes one `#[test]` of every case; [`cases`] and [`run`] are the same for programs.
//!
//! What it promises: a failure names the rule, the operation, what was expected and what came. A case that
//! needs a power which the harness does not have (compacting, say) is never skipped in silence: the harness
//! has to declare the power as [missing](Harness::missing) with a reason, the outcome says so, and a case of
//! its own checks the declaration. No case waits for time to pass; time only limits how long a case may hang.
//!
//! What it is not: a benchmark, or a proof. It runs each case on one current-thread runtime of tokio, and the
//! concurrent ones on some threads beside it.
//!
//! # Examples
//!
//! In `tests/conformance.rs` of a store's crate; the test binary then has a test for every case:
//!
//! ```
//! # mod my_store {
//! use async_trait::async_trait;
//! use reconcile_runtime::MemoryStore;
//! use reconcile_testing::conformance::{Harness, Missing, Power, Stores};
//!
//! pub struct MyHarness(MemoryStore); // a store of your own
//!
//! pub fn my_harness() -> MyHarness {
//!     MyHarness(MemoryStore::default())
//! }
//!
//! #[async_trait]
//! impl Harness for MyHarness {
//!     fn missing(&self) -> Vec<Missing> {
//!         let others = Power::ALL.into_iter().filter(|power| *power != Power::Leases);
//!         others.map(|power| Missing::new(power, "an example has few powers")).collect()
//!     }
//!
//!     async fn stores(&self) -> Stores {
//!         Stores::of(self.0.clone()).with_leases(self.0.clone())
//!     }
//! }
//! # }
//! # use my_store::my_harness;
//!
//! reconcile_testing::store_conformance!(my_harness);
//!
//! # fn main() {
//! // The same as a program:
//! for case in reconcile_testing::conformance::cases() {
//!     reconcile_testing::conformance::run(&case, my_harness).unwrap_or_else(|failure| panic!("{failure}"));
//! }
//! # }
//! ```

mod check;
mod declared;
mod fencing;
mod harness;
mod kinds;
mod lab;
mod list;
mod lossy;
mod rule1;
mod rule2;
mod rule3;
mod rule4;
mod rule5;
mod rule6;
mod rule6_cursor;
mod rule6_listing;
mod rule6_scope;
mod rule7;
mod rule8;
mod rule9;
mod runner;
mod tail;

pub use check::Failure;
pub use harness::{ClockMode, Harness, Missing, Power, PowerError, Stores};
pub use kinds::{Gadget, GadgetSpec, Probe, ProbeSpec, ProbeStatus};
pub use list::cases;
pub use lossy::LossyReplies;
pub use runner::{Case, Outcome, check, run};
