//! Objects: identity, metadata, wanted state and reported state.
//!
//! Promises: identity is the uid, never the name; every type here is plain data that the store rules of
//! [`store::decide`](crate::store::decide) compare and change.
//!
//! Not here: where objects are kept ([`store`](crate::store)), and anything about time beyond timestamps.

mod faults;
#[cfg(feature = "serde")]
pub mod json;
mod key;
mod meta;
mod owner;
mod resource;
mod selector;
mod validate;

pub use faults::{Fault, Faults};
pub use key::ObjectKey;
pub use meta::{ObjectMeta, Revision, Uid};
pub use owner::{Owner, OwnerReference};
pub use resource::{Object, Resource, Spec};
pub use selector::LabelSelector;
pub use validate::{validate_meta, validate_meta_change};
