//! N objects listed once and reconciled once by a reconciler that does nothing, then all changed once.
//!
//! Each figure comes from a process of its own: a first listing is ruled by page faults, and a process that
//! has listed before has the pages already. The cold figure starts before the engine is made and ends when the
//! last key ran, the making of the objects included. The warm figure is one wave of changes to all objects on
//! the same engine. The raw floor stands beside them, and our engine over its own store, with every object
//! created through `Api`: that row holds the store's share, and is compared with nothing.
//!
//! With `--instructions` the figures are instructions of small sizes instead of time; see
//! [`instructions`](super::instructions).

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Counting, Plan, feed, floor, instructions, plan::PATIENCE, plan::micros_each, rounds::Rounds};
use crate::{
    clock::{self, Spent, Stopwatch},
    engine::{Engine, Setup},
    machine,
    process::{self, Program},
    progress,
    report::{Bar, Limit, Report, figure, plain},
    samples,
    session::{self, Threads},
};

/// What one process measures.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Engine,
    objects: u32,
    threads: Threads,
    phases: Phases,
}

/// How far a process goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phases {
    /// Until every key ran once.
    Cold,
    /// On through one wave of changes.
    ColdAndWarm,
}

/// What it found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    cold: Phase,
    /// Of the wave, where there was one.
    warm: Option<Phase>,
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
        if task.phases == Phases::Cold {
            return Ok((cold, None));
        }
        let settled = tally.total();
        let started = Stopwatch::start();
        wave.send(0..task.objects).await?;
        tally.last_goal(PATIENCE).await?;
        Ok((cold, Some(Phase::new(tally.total() - settled, started.spent()))))
    })?;
    Ok(Answer { cold, warm, peak_bytes: machine::resident()?.peak })
}

impl Answer {
    /// Fails when a key did not run.
    fn check(&self, engine: Engine, objects: u32) -> Result<()> {
        let phases = [Some(self.cold), self.warm];
        let fewest = phases.iter().flatten().map(|phase| phase.runs).min().unwrap_or(0);
        ensure!(fewest >= u64::from(objects), "{} ran only {fewest} of {objects} keys", engine.name());
        Ok(())
    }

    fn of_warm(&self, figure: impl Fn(&Phase) -> Duration) -> Duration {
        self.warm.as_ref().map_or(Duration::ZERO, figure)
    }
}

/// One process of its own.
fn measure(engine: Engine, objects: u32, threads: Threads) -> Result<Answer> {
    let task = Task { engine, objects, threads, phases: Phases::ColdAndWarm };
    let answer: Answer = process::child(Program::Plain, &super::Task::Once(task))?;
    answer.check(engine, objects)?;
    Ok(answer)
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    if plan.counting == Counting::Instructions {
        return count_instructions(plan);
    }
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
            let results =
                plan.interleaved("once", &what, repetitions, |engine| measure(engine, objects, threads))?;
            for (engine, answers) in results.iter() {
                row(&mut report, engine, objects, count, answers);
            }
            bars(&mut report, plan, objects, threads, &results);
            if plan.subject == Some(Engine::Ours) && objects <= LARGEST_APPLIED {
                progress::step("once", format!("{what}: {}", Engine::OursApplied.name()));
                let answers = (0..repetitions)
                    .map(|_| measure(Engine::OursApplied, objects, threads))
                    .collect::<Result<Vec<_>>>()?;
                row(&mut report, Engine::OursApplied, objects, count, &answers);
            }
        }
        floor_row(&mut report, objects)?;
    }
    report
        .note(format!("Medians of {repetitions}; every figure from a process of its own, engines in turns."));
    report.note("Runs are the most of the repetitions; fewer than one per object fails the suite.");
    report.note(
        "Through Api: every object created, and changed, by a write to the store in memory while the engine runs.",
    );
    Ok(report)
}

/// Up to which size the objects are also created one by one: beyond it, the row says the same again.
const LARGEST_APPLIED: u32 = 100_000;

fn row(report: &mut Report, engine: Engine, objects: u32, count: usize, answers: &[Answer]) {
    let median = |figure: &dyn Fn(&Answer) -> Duration| {
        samples::median_of(answers, |answer| micros_each(figure(answer), u64::from(objects)))
    };
    report.row([
        engine.name().into(),
        objects.into(),
        count.into(),
        answers.iter().map(|answer| answer.cold.runs).max().into(),
        median(&|answer| answer.cold.wall).into(),
        median(&|answer| answer.cold.cpu).into(),
        answers.iter().filter_map(|answer| Some(answer.warm.as_ref()?.runs)).max().into(),
        median(&|answer| answer.of_warm(|warm| warm.wall)).into(),
        median(&|answer| answer.of_warm(|warm| warm.cpu)).into(),
        samples::median_of(answers, |answer| answer.peak_bytes as f64 / 1048576.0).into(),
    ]);
}

/// Objects of the smaller of two sizes: large enough that tables have grown, small enough for a simulator that
/// is fifty times slower than the machine.
const COUNTED_OBJECTS: u32 = 10_000;

/// Instructions per object: of the cold phase the difference between two sizes, of the warm one the difference
/// that the wave makes at one size; so what starting costs is in neither.
fn count_instructions(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "once-instructions",
        "instructions per object: listed once and reconciled once by a no-op, cold; then changed once, warm",
        vec![
            plain("engine"),
            plain("objects"),
            figure("cold", "instructions/object"),
            figure("warm", "instructions/change"),
        ],
    );
    let count = |engine, objects, phases| -> Result<f64> {
        let task = Task { engine, objects, threads: Threads::One, phases };
        let label = format!("once-{engine:?}-{objects}-{phases:?}");
        let (answer, instructions) = instructions::of_child::<_, Answer>(&label, &super::Task::Once(task))?;
        answer.check(engine, objects)?;
        Ok(instructions as f64)
    };
    for objects in plan.sizes(&[COUNTED_OBJECTS / 2], &[COUNTED_OBJECTS]) {
        let each = |instructions: f64| instructions / f64::from(objects);
        let results = plan.interleaved("once-instructions", &format!("{objects} objects"), 1, |engine| {
            let small = count(engine, objects, Phases::Cold)?;
            let large = count(engine, 2 * objects, Phases::Cold)?;
            let waved = count(engine, objects, Phases::ColdAndWarm)?;
            Ok((each(large - small), each(waved - small)))
        })?;
        for (engine, _) in results.iter() {
            report.row([
                engine.name().into(),
                objects.into(),
                results.median(Some(engine), |(cold, _)| *cold).into(),
                results.median(Some(engine), |(_, warm)| *warm).into(),
            ]);
        }
        let limit = Limit::at_least(5.0, 10.0);
        let cold = results.advantage(plan, |(cold, _)| *cold);
        let warm = results.advantage(plan, |(_, warm)| *warm);
        report.bar(Bar::new("once", "instructions of kube-runtime over ours, cold", cold, limit, "times"));
        report.bar(Bar::new("once", "instructions of kube-runtime over ours, warm", warm, limit, "times"));
    }
    report.note(instructions::NOTE);
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
            Limit::at_least(5.0, 10.0),
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
