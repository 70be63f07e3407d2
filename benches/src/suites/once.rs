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

use std::{hint::black_box, sync::Arc, time::Duration};

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
    /// On through one wave of changes, with everything measured.
    All,
    /// No engine: the objects are made, and then made anew.
    Objects,
    /// Until every key ran once, for counting.
    CountCold,
    /// On through one wave of changes, for counting.
    CountWarm,
    /// No engine: the objects are made and held, for counting.
    CountMade,
    /// No engine: the objects are made and held, and each is replaced once, for counting.
    CountReplaced,
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

/// The answer of a task that is counted.
#[derive(Debug, Serialize, Deserialize)]
struct Counted {
    /// Fewest runs of a phase; of objects alone, how many there are.
    runs: u64,
}

pub(crate) fn answer(task: Task) -> Result<Answer> {
    if let Phases::Objects | Phases::CountMade | Phases::CountReplaced = task.phases {
        return objects_alone(&task);
    }
    let work = Arc::new(Rounds::counted(task.objects, 2));
    let (wave, changes) = feed::waves();
    let setup = Setup::listing(task.objects).changes(changes);
    let tally = &work.tally;
    let started = Stopwatch::start();
    let (cold, warm) = session::drive(task.threads, task.engine, setup, work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        let cold = Phase::new(tally.total(), started.spent());
        if task.phases == Phases::CountCold {
            process::leave(&Counted { runs: cold.runs })?;
        }
        clock::settle(PATIENCE).await?;
        let settled = tally.total();
        let started = Stopwatch::start();
        wave.send(0..task.objects).await?;
        tally.last_goal(PATIENCE).await?;
        let warm = Phase::new(tally.total() - settled, started.spent());
        if task.phases == Phases::CountWarm {
            process::leave(&Counted { runs: cold.runs.min(warm.runs) })?;
        }
        Ok((cold, warm))
    })?;
    Ok(Answer { cold, warm, peak_bytes: machine::resident()?.peak })
}

/// Makes the objects, and then each of them anew: what the two phases cost without an engine.
fn objects_alone(task: &Task) -> Result<Answer> {
    let runs = task.objects.into();
    let started = Stopwatch::start();
    let mut objects = black_box(task.engine.bare(task.objects));
    let cold = Phase::new(runs, started.spent());
    if task.phases == Phases::CountMade {
        process::leave(&Counted { runs })?;
    }
    let started = Stopwatch::start();
    objects.replace();
    let warm = Phase::new(runs, started.spent());
    if task.phases == Phases::CountReplaced {
        process::leave(&Counted { runs })?;
    }
    Ok(Answer { cold, warm, peak_bytes: machine::resident()?.peak })
}

impl Answer {
    /// Fails when a key did not run.
    fn check(&self, engine: Engine, objects: u32) -> Result<()> {
        enough(engine, self.cold.runs.min(self.warm.runs), objects)
    }
}

fn enough(engine: Engine, runs: u64, objects: u32) -> Result<()> {
    ensure!(runs >= u64::from(objects), "{} ran only {runs} of {objects} keys", engine.name());
    Ok(())
}

/// One process of its own.
fn measure(engine: Engine, objects: u32, threads: Threads, phases: Phases) -> Result<Answer> {
    let task = Task { engine, objects, threads, phases };
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
            let results = plan.interleaved("once", &what, repetitions, |engine| {
                measure(engine, objects, threads, Phases::All)
            })?;
            for (engine, answers) in results.iter() {
                row(&mut report, engine.name().to_owned(), objects, count, answers);
            }
            bars(&mut report, plan, objects, threads, &results);
            if plan.subject == Some(Engine::Ours) && objects <= LARGEST_APPLIED {
                progress::step("once", format!("{what}: {}", Engine::OursApplied.name()));
                let answers = (0..repetitions)
                    .map(|_| measure(Engine::OursApplied, objects, threads, Phases::All))
                    .collect::<Result<Vec<_>>>()?;
                row(&mut report, Engine::OursApplied.name().to_owned(), objects, count, &answers);
            }
        }
        objects_rows(&mut report, plan, objects, repetitions)?;
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

fn row(report: &mut Report, name: String, objects: u32, count: usize, answers: &[Answer]) {
    let median = |figure: &dyn Fn(&Answer) -> Duration| {
        samples::median_of(answers, |answer| micros_each(figure(answer), u64::from(objects)))
    };
    report.row([
        name.into(),
        objects.into(),
        count.into(),
        answers.iter().map(|answer| answer.cold.runs).max().into(),
        median(&|answer| answer.cold.wall).into(),
        median(&|answer| answer.cold.cpu).into(),
        answers.iter().map(|answer| answer.warm.runs).max().into(),
        median(&|answer| answer.warm.wall).into(),
        median(&|answer| answer.warm.cpu).into(),
        samples::median_of(answers, |answer| answer.peak_bytes as f64 / 1048576.0).into(),
    ]);
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

/// What the objects cost without any engine, in processes of their own too.
fn objects_rows(report: &mut Report, plan: &Plan, objects: u32, repetitions: usize) -> Result<()> {
    let what = format!("{objects} objects alone");
    let results = plan.interleaved("once", &what, repetitions, |engine| {
        measure(engine, objects, Threads::One, Phases::Objects)
    })?;
    for (engine, answers) in results.iter() {
        row(report, format!("the objects alone: {}", engine.name()), objects, 1, answers);
    }
    Ok(())
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

/// Objects of the smaller of two sizes: large enough that tables have grown, small enough for a simulator that
/// is fifty times slower than the machine.
const COUNTED_OBJECTS: u32 = 10_000;

/// Instructions of one engine, per object.
struct Instructions {
    cold: f64,
    warm: f64,
    /// Of those, the ones that make the objects, and drop what they replace.
    made: f64,
    replaced: f64,
}

/// What of them is compared.
type Share = fn(&Instructions) -> f64;

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
            figure("of that the object", "instructions/object"),
            figure("warm", "instructions/change"),
            figure("of that the object", "instructions/change"),
        ],
    );
    for objects in plan.sizes(&[COUNTED_OBJECTS / 2], &[COUNTED_OBJECTS]) {
        let results = plan.interleaved("once-instructions", &format!("{objects} objects"), 1, |engine| {
            count(engine, objects)
        })?;
        for (engine, _) in results.iter() {
            let median = |figure: fn(&Instructions) -> f64| results.median(Some(engine), figure);
            report.row([
                engine.name().into(),
                objects.into(),
                median(|each| each.cold).into(),
                median(|each| each.made).into(),
                median(|each| each.warm).into(),
                median(|each| each.replaced).into(),
            ]);
        }
        let bars: [(&str, Share); 4] = [
            ("cold", |each| each.cold),
            ("cold, without the object", |each| each.cold - each.made),
            ("warm", |each| each.warm),
            ("warm, without the object", |each| each.warm - each.replaced),
        ];
        for (phase, figure) in bars {
            let what = format!("instructions of kube-runtime over ours, {phase}");
            let limit = Limit::at_least(5.0, 10.0);
            report.bar(Bar::new("once", what, results.advantage(plan, figure), limit, "times"));
        }
    }
    report.note(instructions::NOTE);
    report.note("The object: making it, and dropping the one it replaces; the same work for any engine.");
    Ok(report)
}

fn count(engine: Engine, objects: u32) -> Result<Instructions> {
    let of = |objects: u32, phases: Phases| -> Result<f64> {
        let task = super::Task::Once(Task { engine, objects, threads: Threads::One, phases });
        let label = format!("once-{engine:?}-{objects}-{phases:?}");
        let (counted, instructions) = instructions::of_child::<_, Counted>(&label, &task)?;
        enough(engine, counted.runs, objects)?;
        Ok(instructions as f64)
    };
    let each = |more: f64, less: f64| (more - less) / f64::from(objects);
    let cold = of(objects, Phases::CountCold)?;
    let made = of(objects, Phases::CountMade)?;
    Ok(Instructions {
        cold: each(of(2 * objects, Phases::CountCold)?, cold),
        warm: each(of(objects, Phases::CountWarm)?, cold),
        made: each(of(2 * objects, Phases::CountMade)?, made),
        replaced: each(of(objects, Phases::CountReplaced)?, made),
    })
}
