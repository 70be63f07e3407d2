//! Counting instructions instead of time, for a machine whose neighbours make every time a guess.
//!
//! The child is run under `valgrind --tool=callgrind`, which executes it on a simulated processor and counts. A
//! count repeats to within some percent, however busy the machine is: what remains is that batches and timers
//! depend on real time, and hashes on their seeds. It knows nothing of caches, page faults and waiting, so it says
//! what is dearer, and not by how much on a clock.
//!
//! The profile of each child stays in `out/callgrind/`, to be read with `callgrind_annotate`.

use std::{fs, io, path::PathBuf, process::Command};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Serialize, de::DeserializeOwned};

use crate::process;

/// Where the profiles go.
const PROFILES: &str = "out/callgrind";

/// What a reader of such a figure has to know.
pub(crate) const NOTE: &str = "Counted by callgrind, one thread; differences of two processes, so that starting is in neither. Profiles are in out/callgrind.";

/// Runs one task in a process under callgrind: its answer, and the instructions of the whole process.
///
/// # Errors
/// When valgrind is missing, or the process ends badly; the message says what to do.
pub(crate) fn of_child<T: Serialize, A: DeserializeOwned>(label: &str, task: &T) -> Result<(A, u64)> {
    check_installed()?;
    fs::create_dir_all(PROFILES).with_context(|| format!("cannot make the folder {PROFILES}"))?;
    let profile = PathBuf::from(PROFILES).join(format!("{}.out", label.to_lowercase()));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", profile.display()));
    let answer = process::child_under(valgrind, task)?;
    let text = fs::read_to_string(&profile)
        .with_context(|| format!("callgrind left no profile at {}", profile.display()))?;
    let total = total(&text).ok_or_else(|| anyhow!("the profile {} has no total", profile.display()))?;
    Ok((answer, total))
}

fn check_installed() -> Result<()> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!("valgrind --version ended with {}", output.status),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!(
                "--instructions needs valgrind, which is not installed here; install it, or leave the option out"
            )
        }
        Err(error) => Err(error).context("cannot start valgrind"),
    }
}

/// The instructions of all parts of a profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_end_of_a_profile() {
        assert_eq!(total("version: 1\nsummary: 5\nfn=(1) main\n4 5\n\ntotals: 4211\n"), Some(4211));
        assert_eq!(total("version: 1\n"), None);
        assert_eq!(total("totals: many\n"), None);
    }
}
