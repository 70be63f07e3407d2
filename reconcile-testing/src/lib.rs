//! Testing.
