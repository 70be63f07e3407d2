//! Panics of user code as values: caught, with their message.
//!
//! Promise: the payload is dropped under the same guard, since a payload's own drop may panic too.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Calls `f`; a panic becomes its message.
///
/// The caller asserts that what `f` touches is not left half-changed: every caller passes user code only, and
/// keeps its own state outside.
pub(crate) fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(payload_text)
}

/// The message of a panic. Consumes the payload; a panic of its drop is swallowed, as it says nothing new.
pub(crate) fn payload_text(payload: Box<dyn Any + Send>) -> String {
    let text = match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "a panic without a message".to_owned(),
        },
    };
    let _ended = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    text
}
