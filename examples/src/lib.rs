//! Short programs that use the library, one file each under `examples/`, and what they need that is not about
//! control loops.
//!
//! - [`files`]: what the example `mirror` does to a file system;
//! - [`scenarios`]: what the program `scenarios` reads and compares (`make scenarios`).
//!
//! Not published: nothing here is an API to depend on.

pub mod files;
pub mod scenarios;
