//! N objects listed once and reconciled once by a reconciler that does nothing, then all changed once.
//!
//! Each figure comes from a process of its own: a first listing is ruled by page faults, and a process that
//! has listed before has the pages already. The cold figure starts before the engine is made and ends when the
//! last key ran, the making of the objects included. The warm figure is one wave of changes to all objects on
//! the same engine. The raw floor stands beside them.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Plan, feed, floor, plan::PATIENCE, plan::micros_each, rounds::Rounds};
use crate::{
    clock::{self, Spent, Stopwatch},
    engine::{Engine, Setup},
    machine,
    process::{self, Program},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
};

/// What one process measures.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Engine,
    objects: u32,
    threads: Threads,
}

/// What it found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    cold: Phase,
    warm: Phase,
    peak_bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Phase {
    runs: u64,
    wall: Duration,
    cpu: Duration,
}

impl Phase {
    fn new(runs: u64, spent: Spent) -> Self {
        Phase { runs, wall: spent.wall, cpu: spent.cpu }
    }
}

pub(crate) fn answer(task: Task) -> Result<Answer> {
    let work = Arc::new(Rounds::counted(task.objects, 2));
    let (wave, changes) = feed::waves();
    let setup = Setup::listing(task.objects).changes(changes);
    let tally = &work.tally;
    let started = Stopwatch::start();
    let (cold, warm) = session::drive(task.threads, task.engine, setup, work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        let cold = Phase::new(tally.total(), started.spent());
        clock::settle(PATIENCE).await?;
        let settled = tally.total();
        let started = Stopwatch::start();
        wave.send(0..task.objects).await?;
        tally.last_goal(PATIENCE).await?;
        Ok((cold, Phase::new(tally.total() - settled, started.spent())))
    })?;
    Ok(Answer { cold, warm, peak_bytes: machine::resident()?.peak })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "once",
        "objects listed once and reconciled once by a no-op, cold; then all changed once, warm",
        vec![
            plain("engine"),
            plain("objects"),
            plain("threads"),
            plain("runs cold"),
            figure("wall cold", "µs/object"),
            figure("cpu cold", "µs/object"),
            plain("runs warm"),
            figure("wall warm", "µs/change"),
            figure("cpu warm", "µs/change"),
            figure("peak", "MiB"),
        ],
    );
    let repetitions = plan.repetitions(1, 3);
    for objects in plan.sizes(&[10_000], &[10_000, 100_000, 1_000_000]) {
        for count in plan.threads(&[1, 2]) {
            let threads = Threads::from_count(count);
            let what = format!("{objects} objects, {threads}");
            let results = plan.interleaved("once", &what, repetitions, |engine| {
                let answer: Answer =
                    process::child(Program::Plain, &super::Task::Once(Task { engine, objects, threads }))?;
                let fewest = answer.cold.runs.min(answer.warm.runs);
                ensure!(
                    fewest >= u64::from(objects),
                    "{} ran only {fewest} of {objects} keys",
                    engine.name()
                );
                Ok(answer)
            })?;
            let each = |time: Duration| micros_each(time, u64::from(objects));
            for (engine, answers) in results.iter() {
                let median = |figure: fn(&Answer) -> Duration| {
                    results.median(Some(engine), |answer| each(figure(answer)))
                };
                report.row([
                    engine.name().into(),
                    objects.into(),
                    count.into(),
                    answers.iter().map(|answer| answer.cold.runs).max().into(),
                    median(|answer| answer.cold.wall).into(),
                    median(|answer| answer.cold.cpu).into(),
                    answers.iter().map(|answer| answer.warm.runs).max().into(),
                    median(|answer| answer.warm.wall).into(),
                    median(|answer| answer.warm.cpu).into(),
                    results.median(Some(engine), |answer| answer.peak_bytes as f64 / 1048576.0).into(),
                ]);
            }
            bars(&mut report, plan, objects, threads, &results);
        }
        floor_row(&mut report, objects)?;
    }
    report
        .note(format!("Medians of {repetitions}; every figure from a process of its own, engines in turns."));
    report.note("Runs are the most of the repetitions; fewer than one per object fails the suite.");
    Ok(report)
}

/// Sizes from which the ratios are held against their bars: below, starting up is a part of the figure.
const SMALLEST_JUDGED: u32 = 100_000;

fn bars(report: &mut Report, plan: &Plan, objects: u32, threads: Threads, results: &super::Results<Answer>) {
    if objects < SMALLEST_JUDGED {
        return;
    }
    let (what, measured, limit) = match threads {
        // One thread: CPU time, which the neighbours on the machine do not change.
        Threads::One => (
            format!("{objects} objects once, {threads}: CPU of kube-runtime over ours"),
            results.advantage(plan, |answer| answer.cold.cpu.as_secs_f64()),
            Limit::at_least(4.0, 8.0),
        ),
        // More threads: wall time, since they are there to save it.
        Threads::Many(_) => (
            format!("{objects} objects once, {threads}: wall time of kube-runtime over ours"),
            results.advantage(plan, |answer| answer.cold.wall.as_secs_f64()),
            Limit::at_least(3.0, 6.0),
        ),
    };
    report.bar(Bar::new("once", what, measured, limit, "times"));
}

fn floor_row(report: &mut Report, objects: u32) -> Result<()> {
    let floor = floor::pair_keys(objects)?;
    report.row([
        "raw floor: set and ring".into(),
        objects.into(),
        1_u64.into(),
        objects.into(),
        (floor.first / 1e3).into(),
        crate::report::Cell::Nothing,
        objects.into(),
        (floor.warm / 1e3).into(),
        crate::report::Cell::Nothing,
        crate::report::Cell::Nothing,
    ]);
    Ok(())
}
