//! The words of a control loop as types and traits.
//!
//! A control loop keeps the real state equal to a wanted state: it observes, compares, acts, and does so
//! again for as long as the process lives. This crate holds the contract between the three parts of such a
//! loop: the user's [`Reconciler`], the runtime that calls it, and the [`store::Store`] that holds the objects.
//!
//! What it promises: every outcome of a run is a type or a constructor ([`Action`], [`Error`], [`Retry`]),
//! and the rules of a store live once, as the pure function [`store::decide`].
//!
//! What it is not: it has no runtime, clock, I/O or randomness of its own, and knows no tokio. Add
//! `reconcile-runtime`, which re-exports all of this, to run something.
//!
//! # Features
//!
//! - `serde`: the JSON form of objects, `{"kind","metadata","spec","status"}`, strict for what a person wrote and
//!   keeping what a newer version wrote: the module `object::json`.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The examples of the README, which have to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod action;
mod backoff;
mod condition;
mod error;
pub mod object;
mod reconciler;
mod run;
pub mod store;

pub use action::{Action, Cleanup, Next};
pub use backoff::Backoff;
pub use condition::{Condition, ConditionStatus, Conditions};
pub use error::{BoxError, Error, ReconcileError, ResultExt, Retry};
pub use object::{
    Faults, LabelSelector, Object, ObjectKey, ObjectMeta, Owner, OwnerReference, Resource, Revision, Spec,
    Uid,
};
pub use reconciler::{Key, ObjectReconciler, ReconcileFn, Reconciler, reconcile_fn};
pub use run::{Cancelled, Cause, CauseKind, Causes, Run, RunBuilder, RunControl};
pub use store::{Store, StoreError, StoreFault};

/// A point in wall time, as stored in metadata and conditions.
pub use jiff::Timestamp;
