//! What users of reconcile put under `[dev-dependencies]`.
//!
//! [`conformance`] is the suite that every store passes: the nine rules of
//! [`reconcile_core::store`], each from several sides. The stores of this project run
//! it, and so can the author of any other: one line, [`store_conformance!`].
//!
//! Promise: a failure names the rule, the operation, what was expected and what came; no case is skipped in
//! silence.
//!
//! Not here: a store (the one in memory is `reconcile_runtime::MemoryStore`), and anything for testing
//! reconcilers. Those are tested on tokio's paused clock with `reconcile_runtime::Environment::seeded`.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The example of the README, which has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod conformance;
