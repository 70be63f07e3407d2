//! Is every scenario a test? `make scenarios` runs it; see [`reconcile_examples::scenarios`].
#![allow(clippy::print_stdout, reason = "the verdict is for the reader of the terminal")]

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use reconcile_examples::scenarios::{
    found::{Found, Loom},
    page,
    verdict::Verdict,
};

/// Compares docs/scenarios.md with the tests that exist. Exit code 1 if something is missing.
#[derive(Parser)]
#[command(name = "scenarios")]
struct Args {
    /// Builds the model checker's target as well, and looks into it.
    #[arg(long)]
    with_loom: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the examples are in the workspace")?;
    let page = root.join(page::path());
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let (rows, unclear) = page::rows(&text);
    let found = Found::here(root, if args.with_loom { Loom::Look } else { Loom::Leave })?;
    let verdict = Verdict::of(rows, unclear, &found);
    print!("{verdict}");
    Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
