//! Is every scenario a test? Compares `docs/scenarios.md` with the tests that exist.
//!
//! Promises: every code of [`code::codes`] gets a verdict, and nothing is passed over: a row that cannot be read, a test
//! that is gone, ignored or of another level than its row says, and a level that a code still lacks are all faults
//! that name the code and the next step. What was not looked at (the model checker's target, unless asked for) is
//! told as such.
//!
//! - [`code`]: the codes that there have to be, by area; a later area joins by one line there;
//! - [`page`]: the page, as rows;
//! - [`found`]: the tests, as cargo and the test programs list them;
//! - [`verdict`]: what is missing, as data and as text.
//!
//! Not here: whether a test passes, which `cargo test` says, and whether it can fail, which the page's last column
//! is for. Doc tests are not listed, so they cannot stand in a row.

pub mod code;
pub mod found;
pub mod page;
pub mod verdict;

#[cfg(test)]
mod tests;
