//! Says on standard error what is being measured, so that a long run is not a silent one.
//!
//! Plain lines and no animation: a spinner that draws from its own thread would show up in the CPU figures.

#![allow(clippy::print_stderr, reason = "a command-line program reports its progress on standard error")]

use std::fmt::Display;

/// One line of progress.
pub(crate) fn step(suite: &str, what: impl Display) {
    eprintln!("[{suite}] {what}");
}
