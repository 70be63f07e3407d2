//! Benchmarks of the engine, with a peer (kube-runtime) beside it in the same program and the same run.
//!
//! A [suite](suites) asks one question, runs each [engine] on the same synthetic input with the same piece of
//! [work], checks that everything that should have run did run, and gives a [report](report::Report): a table
//! on the screen, the same rows as JSON, and the bars that the figures are held against.
//!
//! What it promises: engines take turns (A B A B) wherever a ratio is quoted; figures are medians; process CPU
//! time stands beside wall time; memory and cold starts are measured in a process of their own; a benchmark in
//! which a key did not run fails instead of reporting a fast engine.
//!
//! What it is not: it is no test (the bars that can be tested without a clock are tests of the runtime), and
//! its absolute figures say nothing about other machines. Compare ratios.

mod cli;
mod clock;
mod engine;
mod heap;
mod machine;
mod process;
mod progress;
mod report;
mod samples;
mod session;
mod suites;
mod tally;
mod work;

pub use cli::main;
pub use heap::{HeapCount, HeapProbe};
