//! Allocations per run of a known key, counted by the program that has the counting allocator.
//!
//! Bar P11, and the steadiest figure of all: counts do not depend on the machine. Two ways to a run: the key
//! asks for it itself, and a change of its object causes it; of the second the making of the object is taken
//! off, since an engine does not answer for it.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Plan, feed, plan::PATIENCE, rounds::Rounds};
use crate::{
    clock,
    engine::{Change, Engine, Setup},
    heap::HeapProbe,
    process::{self, Program},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::Verdict,
};

/// Keys that run again and again.
const KEYS: u32 = 1000;
/// Runs of every key before counting starts: tables and buffers have grown by then.
const WARM_UP: u32 = 5;
/// Runs of every key when counting ends.
const ROUNDS: u32 = 25;

/// What causes the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// The run asks for the next one.
    Again,
    /// The object changes.
    Change,
}

/// What one process measures.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Engine,
    way: Way,
}

/// What it counted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    runs: u64,
    allocations: u64,
    /// Of those, the ones that made the changed objects.
    objects: u64,
}

pub(crate) fn answer(task: Task, heap: Option<HeapProbe>) -> Result<Answer> {
    let heap = heap.context("this program does not count allocations; the counting one does")?;
    let count = || heap().allocations as u64;
    match task.way {
        Way::Again => again(task.engine, count),
        Way::Change => change(task.engine, count),
    }
}

fn again(engine: Engine, count: impl Fn() -> u64) -> Result<Answer> {
    let tally = Tally::with_goals(KEYS, WARM_UP, ROUNDS);
    let work = Arc::new(Rounds { tally, rounds: ROUNDS, between: Verdict::Again });
    session::drive(Threads::One, engine, Setup::listing(KEYS), work.clone(), async {
        work.tally.first_goal(PATIENCE).await?;
        let (had, allocations) = (work.tally.total(), count());
        work.tally.last_goal(PATIENCE).await?;
        Ok(Answer { runs: work.tally.total() - had, allocations: count() - allocations, objects: 0 })
    })
}

fn change(engine: Engine, count: impl Fn() -> u64) -> Result<Answer> {
    let before = count();
    engine.build(Change::spec(0), u64::from(KEYS));
    let per_object = count() - before;
    let work = Arc::new(Rounds::counted(KEYS, ROUNDS));
    let (wave, changes) = feed::waves();
    let setup = Setup::listing(KEYS).changes(changes);
    session::drive(Threads::One, engine, setup, work.clone(), async {
        let tally = &work.tally;
        tally.first_goal(PATIENCE).await?;
        let mut counted = Answer { runs: 0, allocations: 0, objects: 0 };
        for round in 2..=ROUNDS {
            let (had, allocations) = (tally.total(), count());
            wave.send(0..KEYS).await?;
            let all = || tally.keys_with(round) == KEYS as usize;
            ensure!(clock::until(PATIENCE, all).await, "wave {round} did not reach every key");
            if round > WARM_UP {
                counted.runs += tally.total() - had;
                counted.allocations += count() - allocations;
                counted.objects += per_object * u64::from(KEYS);
            }
        }
        Ok(counted)
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "allocs",
        "allocations per run of a known key",
        vec![
            plain("engine"),
            plain("caused by"),
            plain("runs"),
            plain("allocations"),
            plain("making objects"),
            figure("per run", "allocations"),
        ],
    );
    for (way, name) in [(Way::Again, "the run before"), (Way::Change, "a change")] {
        let results = plan.interleaved("allocs", name, 1, |engine| {
            let answer: Answer =
                process::child(Program::Counted, &super::Task::Allocs(Task { engine, way }))?;
            ensure!(answer.runs > 0, "{} made no runs to count", engine.name());
            Ok(answer)
        })?;
        let per_run =
            |answer: &Answer| answer.allocations.saturating_sub(answer.objects) as f64 / answer.runs as f64;
        for (engine, answers) in results.iter() {
            for answer in answers {
                report.row([
                    engine.name().into(),
                    name.into(),
                    answer.runs.into(),
                    answer.allocations.into(),
                    answer.objects.into(),
                    per_run(answer).into(),
                ]);
            }
        }
        let own = results.median(plan.subject, per_run);
        let what = format!("allocations per run of a known key, caused by {name}");
        let limit = Limit::at_most(2.0, 1.0);
        report.bar(Bar::new("P11", what, own, limit, "").beside(results.of_peer(plan, per_run)));
    }
    report.note(format!("{KEYS} keys, one thread, after {WARM_UP} runs of each; reallocations count too."));
    Ok(report)
}
