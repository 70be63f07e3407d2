//! The lines of `docs/semantics.md` that no scenario proves, each as a small test of a whole engine on a paused
//! clock.

#[path = "../fixture/mod.rs"]
mod fixture;

mod controls;
mod failures;
mod objects;
mod outcomes;
mod signals;
mod spinning;
