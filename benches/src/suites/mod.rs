//! The suites: one question each, one file each.
//!
//! Every suite has a `run(&Plan) -> Result<Report>`. Those that need a process of their own also have a task
//! type and a function that answers it; [`child`] hands the task over.

mod allocs;
mod backoff;
mod deletes;
mod drain;
mod duplicates;
mod failing_sibling;
mod fairness;
mod feed;
mod floor;
mod inflight;
mod input_flood;
mod instructions;
mod latency;
mod memory;
mod once;
mod panic;
mod plan;
mod queue;
mod requeue;
mod rounds;
mod starvation;
mod store_write_starvation;
mod threads;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use self::plan::PATIENCE;
pub(crate) use self::plan::{Counting, Effort, Plan, Results, ratio};
use crate::{heap::HeapProbe, report::Report};

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// N objects listed once and reconciled once, cold; then all of them changed once, warm.
    Once,
    /// A warm loop: every key asks to run again after a while.
    Requeue,
    /// What any queue costs at least.
    Floor,
    /// A queue alone, beside those of the peers.
    Queue,
    /// From an event to the start of its run, on an idle engine.
    Latency,
    /// What an event costs while many runs are in flight.
    Inflight,
    /// Emptying a large backlog against a small one.
    Drain,
    /// Bytes per object, standing and at the peak.
    Memory,
    /// Allocations per run of a known key.
    Allocs,
    /// Whether keys that always want to run share the runs.
    Fairness,
    /// Whether one object's panic touches the others.
    Panic,
    /// Whether a watch that always fails slows another one.
    FailingSibling,
    /// Whether events cancel the backoff of a failing key.
    Backoff,
    /// How long a cold key waits behind hot ones.
    Starvation,
    /// Two threads against one.
    Threads,
    /// What listing readers do to the writer of a cache.
    StoreWriteStarvation,
    /// Whether an input that is always ready holds the runs back.
    InputFlood,
    /// Whether a delayed run and a change of one key make one run too many.
    Duplicates,
    /// Whether deletes reach the reconciler.
    Deletes,
}

impl Suite {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it can count instructions instead of measuring time.
    pub(crate) fn counts_instructions(self) -> bool {
        matches!(self, Suite::Once | Suite::Requeue)
    }

    pub(crate) fn run(self, plan: &Plan) -> Result<Report> {
        match self {
            Suite::Once => once::run(plan),
            Suite::Requeue => requeue::run(plan),
            Suite::Floor => floor::run(plan),
            Suite::Queue => queue::run(plan),
            Suite::Latency => latency::run(plan),
            Suite::Inflight => inflight::run(plan),
            Suite::Drain => drain::run(plan),
            Suite::Memory => memory::run(plan),
            Suite::Allocs => allocs::run(plan),
            Suite::Fairness => fairness::run(plan),
            Suite::Panic => panic::run(plan),
            Suite::FailingSibling => failing_sibling::run(plan),
            Suite::Backoff => backoff::run(plan),
            Suite::Starvation => starvation::run(plan),
            Suite::Threads => threads::run(plan),
            Suite::StoreWriteStarvation => store_write_starvation::run(plan),
            Suite::InputFlood => input_flood::run(plan),
            Suite::Duplicates => duplicates::run(plan),
            Suite::Deletes => deletes::run(plan),
        }
        .with_context(|| format!("suite {}", self.name()))
    }
}

/// A task for a process of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    Once(once::Task),
    Requeue(requeue::Task),
    Memory(memory::Task),
    Allocs(allocs::Task),
}

/// Does a task that another process of this program asked for, and gives the answer as a line of JSON.
///
/// # Errors
/// When the task cannot be read or done.
pub(crate) fn child(task: &str, heap: Option<HeapProbe>) -> Result<String> {
    let task = serde_json::from_str(task).with_context(|| format!("cannot read the child's task {task}"))?;
    let answer = match task {
        Task::Once(task) => serde_json::to_string(&once::answer(task)?),
        Task::Requeue(task) => serde_json::to_string(&requeue::answer(&task)?),
        Task::Memory(task) => serde_json::to_string(&memory::answer(task, heap)?),
        Task::Allocs(task) => serde_json::to_string(&allocs::answer(task, heap)?),
    };
    answer.context("cannot encode the child's answer")
}
