//! Bytes per object: what stands after everything ran once, over the bare objects, and the peak on the way.
//!
//! Bar P14. Every figure is from a process of its own, since memory that was given back to the allocator stays
//! with the process. The resident set comes from the plain program; live heap bytes, which do not depend on how
//! the allocator lays out its pages, from the counting one.

use std::{hint::black_box, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Plan, plan::PATIENCE, ratio, rounds::Rounds};
use crate::{
    clock,
    engine::{Engine, Setup},
    heap::HeapProbe,
    machine::{self, Resident},
    process::{self, Program},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::Verdict,
};

/// What the process holds when it is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Holding {
    /// The objects and nothing else.
    Bare,
    /// An engine that has listed and reconciled them, with nothing left to do.
    Idle,
    /// The same, with every key on a timer to run again.
    Timers,
}

/// How far away the timers are: no run of them comes while memory is read.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// What one process measures.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Engine,
    objects: u32,
    holding: Holding,
}

/// Memory at the start and when everything stands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    before: Resident,
    standing: Resident,
    /// Live heap bytes, where they are counted.
    live: Option<u64>,
}

pub(crate) fn answer(task: Task, heap: Option<HeapProbe>) -> Result<Answer> {
    let live = || heap.map(|probe| probe().live_bytes as u64);
    let (before, live_before) = (machine::resident()?, live());
    let measure = || -> Result<Answer> {
        let live = live().zip(live_before).map(|(now, before)| now.saturating_sub(before));
        Ok(Answer { before, standing: machine::resident()?, live })
    };
    match task.holding {
        Holding::Bare => {
            let objects = task.engine.bare(task.objects);
            let answer = measure();
            black_box(objects);
            answer
        }
        Holding::Idle | Holding::Timers => {
            let work = Arc::new(match task.holding {
                Holding::Timers => {
                    let tally = Tally::new(task.objects, 1);
                    Rounds { tally, rounds: u32::MAX, between: Verdict::After(FAR) }
                }
                _ => Rounds::counted(task.objects, 1),
            });
            session::drive(Threads::One, task.engine, Setup::listing(task.objects), work.clone(), async {
                work.tally.last_goal(PATIENCE).await?;
                clock::settle(PATIENCE).await?;
                measure()
            })
        }
    }
}

/// Figures of one engine at one size, in bytes.
struct Figures {
    bare_resident: f64,
    standing_resident: f64,
    bare_live: f64,
    idle_live: f64,
    timers_live: f64,
    peak: f64,
}

fn measure(engine: Engine, objects: u32) -> Result<Figures> {
    let ask = |program, holding| -> Result<Answer> {
        process::child(program, &super::Task::Memory(Task { engine, objects, holding }))
    };
    let grown = |answer: &Answer| answer.standing.now as f64 - answer.before.now as f64;
    let live = |answer: &Answer| {
        answer
            .live
            .map(|bytes| bytes as f64)
            .context("the counting program did not count; is it another build?")
    };
    let engine_plain = ask(Program::Plain, Holding::Idle)?;
    Ok(Figures {
        bare_resident: grown(&ask(Program::Plain, Holding::Bare)?),
        standing_resident: grown(&engine_plain),
        bare_live: live(&ask(Program::Counted, Holding::Bare)?)?,
        idle_live: live(&ask(Program::Counted, Holding::Idle)?)?,
        timers_live: live(&ask(Program::Counted, Holding::Timers)?)?,
        peak: engine_plain.standing.peak as f64,
    })
}

/// One figure of several.
type Over<'a> = &'a dyn Fn(&Figures) -> f64;

/// Sizes from which the peaks are compared: below, the program itself is most of the resident set.
const SMALLEST_JUDGED: u32 = 100_000;

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "memory",
        "bytes per object: listed, reconciled once and kept",
        vec![
            plain("engine"),
            plain("objects"),
            figure("bare", "B live/object"),
            figure("over bare, idle", "B live/object"),
            figure("over bare, timers", "B live/object"),
            figure("bare resident", "B/object"),
            figure("over bare resident", "B/object"),
            figure("peak resident", "MiB"),
        ],
    );
    let repetitions = plan.repetitions(1, 3);
    for objects in plan.sizes(&[20_000], &[100_000, 1_000_000]) {
        let results = plan.interleaved("memory", &format!("{objects} objects"), repetitions, |engine| {
            measure(engine, objects)
        })?;
        let each = |bytes: f64| bytes / f64::from(objects);
        let idle = |figures: &Figures| each(figures.idle_live - figures.bare_live);
        let timers = |figures: &Figures| each(figures.timers_live - figures.bare_live);
        for (engine, _) in results.iter() {
            let median = |figure: &dyn Fn(&Figures) -> f64| results.median(Some(engine), figure);
            report.row([
                engine.name().into(),
                objects.into(),
                median(&|figures| each(figures.bare_live)).into(),
                median(&idle).into(),
                median(&timers).into(),
                median(&|figures| each(figures.bare_resident)).into(),
                median(&|figures| each(figures.standing_resident - figures.bare_resident)).into(),
                median(&|figures| figures.peak / 1048576.0).into(),
            ]);
        }
        let states: [(&str, Over); 2] = [("idle", &idle), ("on a timer", &timers)];
        for (state, over) in states {
            let what = format!("live bytes over the bare object, {objects} objects, every key {state}");
            let bar =
                Bar::new("P14", what, results.median(plan.subject, over), Limit::at_most(300.0, 200.0), "B");
            report.bar(bar.beside(results.of_peer(plan, over)));
        }
        if objects >= SMALLEST_JUDGED {
            let peak = |figures: &Figures| figures.peak;
            let share = ratio(results.median(plan.subject, peak), results.median(plan.peer(), peak));
            let what = format!("peak resident over kube-runtime's, {objects} objects");
            report.bar(Bar::new("P14", what, share, Limit::at_most(0.75, 0.7), "times"));
        }
    }
    report.note(format!("Medians of {repetitions}; one thread; every figure from a process of its own."));
    report.note("Idle: every run asked for nothing. Timers: every run asked for another one in a day.");
    report.note("Bare: the engine's own objects, each behind an Arc, in one vector. Live: bytes handed out by the allocator.");
    Ok(report)
}
