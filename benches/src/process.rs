//! Child processes: this program again, with one task, for figures that need a process of their own.
//!
//! A cold start and a peak of memory can be had only once per process; allocations are counted only by the
//! program that has the counting allocator. The child is given its task as JSON in an argument and answers
//! with one line of JSON on standard output.

use std::{
    convert::Infallible,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::{Serialize, de::DeserializeOwned};

/// The option that carries a child's task.
pub(crate) const CHILD_OPTION: &str = "--child";

/// Which of the two programs runs the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// This very program.
    Plain,
    /// The one with the counting allocator.
    Counted,
}

/// File name of the counting program, beside this one.
const COUNTED: &str = "reconcile-benches-counted";

/// Runs one task in a process of its own and reads its answer.
///
/// # Errors
/// When the program is missing, ends badly or answers with something else; the message says what to do.
pub(crate) fn child<T: Serialize, A: DeserializeOwned>(program: Program, task: &T) -> Result<A> {
    run(Command::new(locate(program)?), task)
}

/// Runs one task in a process of its own that another program executes, such as a simulator: `under` is that
/// program with its options.
///
/// # Errors
/// Like [`child`].
pub(crate) fn child_under<T: Serialize, A: DeserializeOwned>(mut under: Command, task: &T) -> Result<A> {
    under.arg(locate(Program::Plain)?);
    run(under, task)
}

/// Gives the answer and ends the process on the spot, for tasks that are counted: taking apart what stands is
/// then not counted.
///
/// # Errors
/// When the answer cannot be encoded; else it does not return.
#[allow(clippy::print_stdout, reason = "the answer of a child is its standard output")]
pub(crate) fn leave<A: Serialize>(answer: &A) -> Result<Infallible> {
    println!("{}", serde_json::to_string(answer).context("cannot encode the child's answer")?);
    std::process::exit(0)
}

fn run<T: Serialize, A: DeserializeOwned>(mut program: Command, task: &T) -> Result<A> {
    let task = serde_json::to_string(task).context("cannot encode the child's task")?;
    program.arg(CHILD_OPTION).arg(&task);
    let output = program
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program:?}"))?;
    if !output.status.success() {
        bail!("the child {program:?} ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the child {program:?} gave no usable answer"))
}

fn locate(program: Program) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    match program {
        Program::Plain => Ok(own),
        Program::Counted => {
            build_counted()?;
            let path = own.with_file_name(format!("{COUNTED}{}", std::env::consts::EXE_SUFFIX));
            if !path.is_file() {
                bail!(
                    "{} is missing; build it with `cargo build --release -p reconcile-benches --bins`",
                    path.display()
                );
            }
            Ok(path)
        }
    }
}

/// `cargo run` builds only the program it runs, so the other one is brought up to date when it is needed: a
/// stale one would count other code. Started without cargo, whoever built this program built that one too.
fn build_counted() -> Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "reconcile-benches", "--bin", COUNTED])
        .stdin(Stdio::null())
        .status()
        .context("cannot start cargo to build the counting program")?;
    if !status.success() {
        bail!("building {COUNTED} ended with {status}");
    }
    Ok(())
}
