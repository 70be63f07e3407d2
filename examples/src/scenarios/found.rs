//! The tests that exist: cargo builds them and names the test programs, and those list their tests.
//!
//! Cargo's own `--list` would not say which program lists which test, and a name alone can be in two of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::page::TestId;

/// Which tests there are to be. The same words as in `make test`, so that nothing is built twice.
const TESTS: &[&str] =
    &["test", "--locked", "--workspace", "--exclude", "reconcile-benches", "--all-features"];
/// The model checker's target: as in `make loom`.
const LOOM: &[&str] =
    &["test", "--locked", "-p", "reconcile-runtime", "--release", "--lib", "--target-dir", "target/loom"];
/// What makes it the model checker's.
const LOOM_FLAGS: &str = "--cfg reconcile_loom";
/// Where the names of the conformance suite's cases are.
const CONFORMANCE: &str = "reconcile-testing/src/conformance/list.rs";

/// Everything that rows are compared with.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The tests, each with whether it is ignored.
    pub tests: BTreeMap<TestId, Ignored>,
    /// The tests of the model checker's target; none if it was not looked at.
    pub loom: Option<BTreeMap<TestId, Ignored>>,
    /// The names of the conformance suite's cases.
    pub conformance: BTreeSet<String>,
    /// By benchmark, the bars that it names, such as `P4`.
    pub benchmarks: BTreeMap<String, BTreeSet<String>>,
}

/// Whether a test is left out of ordinary runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Ignored {
    Yes,
    No,
}

/// Whether to look at the model checker's target, which takes a build of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Loom {
    Look,
    Leave,
}

impl Found {
    /// Builds and asks, from the root of the workspace.
    ///
    /// # Errors
    ///
    /// When something does not build or cannot be read.
    pub fn here(root: &Path, loom: Loom) -> Result<Found> {
        let conformance = root.join(CONFORMANCE);
        let text = std::fs::read_to_string(&conformance).with_context(|| {
            format!("cannot read the conformance suite's list, {}", conformance.display())
        })?;
        Ok(Found {
            tests: tests(root, TESTS, None)?,
            loom: match loom {
                Loom::Look => Some(tests(root, LOOM, Some(LOOM_FLAGS))?),
                Loom::Leave => None,
            },
            conformance: words(&text).map(str::to_owned).collect(),
            benchmarks: benchmarks(&root.join("benches/src/suites"))?,
        })
    }
}

/// What may be a name in a source file.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

/// By benchmark, the bars that its source names as `"P4"`. Building the benchmarks takes the peers as well.
fn benchmarks(suites: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::new();
    if !suites.is_dir() {
        return Ok(found);
    }
    let cannot = || format!("cannot read the benchmarks in {}", suites.display());
    for file in std::fs::read_dir(suites).with_context(cannot)? {
        let path = file.with_context(cannot)?.path();
        if let Some(name) = path.file_stem().filter(|_| path.extension().is_some_and(|ending| ending == "rs"))
        {
            let text = std::fs::read_to_string(&path).with_context(cannot)?;
            found.insert(name.to_string_lossy().into_owned(), bars(&text));
        }
    }
    Ok(found)
}

pub(super) fn bars(text: &str) -> BTreeSet<String> {
    let is_bar = |word: &&str| {
        word.strip_prefix('P')
            .is_some_and(|number| !number.is_empty() && number.chars().all(|char| char.is_ascii_digit()))
    };
    text.split('"').filter(is_bar).map(str::to_owned).collect()
}

fn tests(root: &Path, arguments: &[&str], flags: Option<&str>) -> Result<BTreeMap<TestId, Ignored>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(root)
        .args(arguments)
        .args(["--no-run", "--message-format=json"])
        .stderr(Stdio::inherit());
    if let Some(flags) = flags {
        build.env("RUSTFLAGS", flags);
    }
    let what = format!("cargo {}", arguments.join(" "));
    let built = build.output().with_context(|| format!("cannot run `{what}`"))?;
    if !built.status.success() {
        bail!("`{what} --no-run` ended with {}; see above", built.status);
    }
    let mut found = BTreeMap::new();
    for program in programs(&String::from_utf8(built.stdout).with_context(|| format!("`{what}` said"))?)? {
        for path in program.list(&["--list"])? {
            found.insert(program.test(path), Ignored::No);
        }
        for path in program.list(&["--list", "--ignored"])? {
            found.insert(program.test(path), Ignored::Yes);
        }
    }
    Ok(found)
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) file: PathBuf,
}

/// The test programs among cargo's messages.
pub(super) fn programs(messages: &str) -> Result<Vec<Program>> {
    #[derive(Deserialize)]
    struct Message {
        reason: String,
        package_id: Option<String>,
        target: Option<Target>,
        profile: Option<Profile>,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        kind: Vec<String>,
        name: String,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message =
            serde_json::from_str(line).context("cargo said what is no message of its own")?;
        let (Some(id), Some(target), Some(file)) = (message.package_id, message.target, message.executable)
        else {
            continue;
        };
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|profile| profile.test) {
            continue;
        }
        let target = match target.kind.first().map(String::as_str) {
            Some("test") => target.name,
            Some(kind @ ("bin" | "example" | "bench")) => format!("{kind}:{}", target.name),
            _ => "lib".to_owned(),
        };
        found.push(Program { package: package(&id)?.to_owned(), target, file });
    }
    Ok(found)
}

/// The name in a package id: `path+file:///w/name#0.1.0`, or `path+file:///w/folder#name@0.1.0`.
fn package(id: &str) -> Result<&str> {
    let (place, version) =
        id.split_once('#').with_context(|| format!("`{id}` is no package id of cargo's"))?;
    Ok(match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    })
}

impl Program {
    fn test(&self, path: String) -> TestId {
        TestId { package: self.package.clone(), target: self.target.clone(), path }
    }

    fn list(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let cannot = || format!("cannot list the tests of {}", self.file.display());
        let output = Command::new(&self.file)
            .args(arguments)
            .args(["--format", "terse"])
            .output()
            .with_context(cannot)?;
        if !output.status.success() {
            bail!("{}: it ended with {}", cannot(), output.status);
        }
        Ok(listed(&String::from_utf8(output.stdout).with_context(cannot)?))
    }
}

/// The paths in a list of a test program.
pub(super) fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}
