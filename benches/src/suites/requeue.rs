//! A warm loop: every key asks to run again after half a second, ten rounds long.
//!
//! The steadiest of the comparisons: no list, no page faults, no store writes, only timers, the queue and the
//! runs. The figure is CPU time per run from the moment every key has run once.
//!
//! With `--instructions` the figure is instructions per run instead; see [`instructions`](super::instructions).

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Counting, Plan, instructions, plan::PATIENCE, plan::micros_each, rounds::Rounds};
use crate::{
    clock::Stopwatch,
    engine::{Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::Verdict,
};

/// Time between two runs of one key.
const INTERVAL: Duration = Duration::from_millis(500);
/// Rounds of every key, the first one included.
const ROUNDS: u32 = 10;

/// What one process measures, for the counting of instructions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Engine,
    keys: u32,
    rounds: u32,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    runs: u64,
    cpu: Duration,
    wall: Duration,
}

pub(crate) fn answer(task: &Task) -> Result<Sample> {
    measure(task.engine, task.keys, task.rounds, Threads::One)
}

fn measure(engine: Engine, keys: u32, rounds: u32, threads: Threads) -> Result<Sample> {
    let work =
        Arc::new(Rounds { tally: Tally::new(keys, rounds), rounds, between: Verdict::After(INTERVAL) });
    let tally = &work.tally;
    let sample = session::drive(threads, engine, Setup::listing(keys), work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        let (started, had) = (Stopwatch::start(), tally.total());
        tally.last_goal(PATIENCE).await?;
        let spent = started.spent();
        Ok(Sample { runs: tally.total() - had, cpu: spent.cpu, wall: spent.wall })
    })?;
    let expected = u64::from(keys) * u64::from(rounds);
    let total = work.tally.total();
    ensure!(total == expected, "{} made {total} runs of {keys} keys instead of {expected}", engine.name());
    Ok(sample)
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    if plan.counting == Counting::Instructions {
        return count_instructions(plan);
    }
    let mut report = Report::new(
        "requeue",
        "every key runs again after 500 ms",
        vec![
            plain("engine"),
            plain("keys"),
            plain("threads"),
            plain("runs"),
            figure("cpu", "µs/run"),
            figure("wall", "s"),
            figure("wall over ideal", "s"),
        ],
    );
    let repetitions = plan.repetitions(1, 3);
    let rounds = plan.effort.pick(4, ROUNDS);
    let ideal = INTERVAL.as_secs_f64() * f64::from(rounds - 1);
    for keys in plan.sizes(&[10_000], &[100_000]) {
        for count in plan.threads(&[1, 2]) {
            let threads = Threads::from_count(count);
            let what = format!("{keys} keys, {threads}");
            let results = plan.interleaved("requeue", &what, repetitions, |engine| {
                measure(engine, keys, rounds, threads)
            })?;
            for (engine, samples) in results.iter() {
                let wall = results.median(Some(engine), |sample| sample.wall.as_secs_f64());
                report.row([
                    engine.name().into(),
                    keys.into(),
                    count.into(),
                    samples.iter().map(|sample| sample.runs).min().into(),
                    results.median(Some(engine), |sample| micros_each(sample.cpu, sample.runs)).into(),
                    wall.into(),
                    wall.map(|wall| wall - ideal).into(),
                ]);
            }
            if count == 1 {
                let figure = |sample: &Sample| micros_each(sample.cpu, sample.runs);
                let limit = Limit::at_most(0.9, 0.5);
                let own = results.median(plan.subject, figure);
                let bar = Bar::new("requeue", format!("CPU per run, {keys} keys"), own, limit, "µs");
                report.bar(bar.beside(results.of_peer(plan, figure)));
                let limit = Limit::at_least(5.0, 8.0);
                let what = format!("CPU of kube-runtime over ours, {keys} keys");
                report.bar(Bar::new("requeue", what, results.advantage(plan, figure), limit, "times"));
            }
        }
    }
    report
        .note(format!("{rounds} rounds, the first not counted; medians of {repetitions}, engines in turns."));
    report.note("An engine that spreads polls runs a key's first repetition earlier, so its wall time may be below the ideal.");
    Ok(report)
}

/// Keys of the counted loops.
const COUNTED_KEYS: u32 = 2000;
/// Rounds of the shorter of two loops.
const COUNTED_ROUNDS: u32 = 4;

/// Instructions per run: the difference between two lengths of the loop, so that neither listing nor starting
/// is in it.
fn count_instructions(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "requeue-instructions",
        "instructions per run: every key runs again after 500 ms",
        vec![plain("engine"), plain("keys"), figure("warm", "instructions/run")],
    );
    for keys in plan.sizes(&[COUNTED_KEYS / 2], &[COUNTED_KEYS]) {
        let count = |engine, rounds| -> Result<(f64, f64)> {
            let label = format!("requeue-{engine:?}-{keys}-{rounds}");
            let task = super::Task::Requeue(Task { engine, keys, rounds });
            let (sample, instructions) = instructions::of_child::<_, Sample>(&label, &task)?;
            Ok((sample.runs as f64, instructions as f64))
        };
        let results = plan.interleaved("requeue-instructions", &format!("{keys} keys"), 1, |engine| {
            let (fewer, short) = count(engine, COUNTED_ROUNDS)?;
            let (more, long) = count(engine, 2 * COUNTED_ROUNDS)?;
            ensure!(more > fewer, "{} made no more runs in the longer loop", engine.name());
            Ok((long - short) / (more - fewer))
        })?;
        for (engine, _) in results.iter() {
            report.row([
                engine.name().into(),
                keys.into(),
                results.median(Some(engine), |per_run| *per_run).into(),
            ]);
        }
        let what = format!("instructions of kube-runtime over ours, {keys} keys");
        let measured = results.advantage(plan, |per_run| *per_run);
        report.bar(Bar::new("requeue", what, measured, Limit::at_least(5.0, 8.0), "times"));
    }
    report.note(instructions::NOTE);
    Ok(report)
}
