//! The benchmark program: `cargo run -p reconcile-benches --release -- <suite>`.
//!
//! Everything is in the library of this package; this program uses the system's allocator as it is, so that
//! timed figures carry no cost of counting.

use std::process::ExitCode;

fn main() -> ExitCode {
    reconcile_benches::main(None)
}
