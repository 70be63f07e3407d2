//! What users of reconcile put under `[dev-dependencies]`.
//!
//! [`conformance`] is the suite that every store passes: the nine rules of
//! [`reconcile_core::store`], each from several sides. The stores of this project run
//! it, and so can the author of any other: one line, [`store_conformance!`].
//!
//! Not here: a store. The one in memory is `reconcile_runtime::MemoryStore`.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod conformance;
