//! A warm loop: every key asks to run again after half a second, ten rounds long.
//!
//! The steadiest of the comparisons: no list, no page faults, no store writes, only timers, the queue and the
//! runs. The figure is CPU time per run from the moment every key has run once.
//!
//! Ours is measured twice. As it is, it spreads polls, so its keys come in no order and every run reads memory
//! that nothing has read for long, as in real programs. With the spread off, keys come in the order of the
//! listing, as the peer's do.
//!
//! With `--instructions` the figure is instructions per run instead; see [`instructions`](super::instructions).

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Counting, Plan, Results, instructions, plan::PATIENCE, plan::micros_each, ratio, rounds::Rounds,
};
use crate::{
    clock::Stopwatch,
    engine::{Engine, Polls, Setup},
    process,
    report::{Bar, Limit, Report, figure, plain},
    samples,
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
    polls: Polls,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sample {
    runs: u64,
    cpu: Duration,
    wall: Duration,
}

impl Sample {
    fn cpu_each(&self) -> f64 {
        micros_each(self.cpu, self.runs)
    }
}

/// Does the task, and ends the process with its answer.
pub(crate) fn answer(task: &Task) -> Result<Sample> {
    measure(task, Threads::One, |sample| {
        process::leave(&sample)?;
        Ok(sample)
    })
}

fn measure(task: &Task, threads: Threads, done: impl Fn(Sample) -> Result<Sample>) -> Result<Sample> {
    let Task { engine, keys, rounds, polls } = *task;
    let work =
        Arc::new(Rounds { tally: Tally::new(keys, rounds), rounds, between: Verdict::After(INTERVAL) });
    let tally = &work.tally;
    let setup = Setup::listing(keys).polls(polls);
    let sample = session::drive(threads, engine, setup, work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        let (started, had) = (Stopwatch::start(), tally.total());
        tally.last_goal(PATIENCE).await?;
        let spent = started.spent();
        done(Sample { runs: tally.total() - had, cpu: spent.cpu, wall: spent.wall })
    })?;
    let expected = u64::from(keys) * u64::from(rounds);
    let total = work.tally.total();
    ensure!(total == expected, "{} made {total} runs of {keys} keys instead of {expected}", engine.name());
    Ok(sample)
}

/// An engine as it is, and with its spread off where it has one.
struct Pair<T> {
    usual: T,
    exact: Option<T>,
}

impl<T> Pair<T> {
    fn of(engine: Engine, measure: impl Fn(Polls) -> Result<T>) -> Result<Self> {
        let usual = measure(Polls::EnginesDefault)?;
        let exact = if engine.is_ours() { Some(measure(Polls::Exact)?) } else { None };
        Ok(Pair { usual, exact })
    }
}

/// The ratio that is judged, and the one without the spread.
fn bars<T: Copy>(
    report: &mut Report,
    plan: &Plan,
    results: &Results<Pair<T>>,
    what: &str,
    figure: impl Fn(T) -> f64,
) {
    let peer = results.of_peer(plan, |pair| figure(pair.usual));
    let own = results.median(plan.subject, |pair| figure(pair.usual));
    let exact = results.median(plan.subject, |pair| pair.exact.map_or(f64::NAN, &figure));
    for (own, spread) in [(own, ""), (exact, ", polls not spread")] {
        let what = format!("{what} of kube-runtime over ours{spread}");
        report.bar(Bar::new("requeue", what, ratio(peer, own), Limit::at_least(5.0, 8.0), "times"));
    }
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
    for keys in plan.sizes(&[10_000], &[100_000]) {
        for count in plan.threads(&[1, 2]) {
            let threads = Threads::from_count(count);
            let what = format!("{keys} keys, {threads}");
            let results = plan.interleaved("requeue", &what, repetitions, |engine| {
                Pair::of(engine, |polls| measure(&Task { engine, keys, rounds, polls }, threads, Ok))
            })?;
            for (engine, pairs) in results.iter() {
                let usual: Vec<Sample> = pairs.iter().map(|pair| pair.usual).collect();
                row(&mut report, engine.name().to_owned(), keys, count, rounds, &usual);
                let exact: Vec<Sample> = pairs.iter().filter_map(|pair| pair.exact).collect();
                if !exact.is_empty() {
                    let name = format!("{}, polls not spread", engine.name());
                    row(&mut report, name, keys, count, rounds, &exact);
                }
            }
            if count == 1 {
                let own = results.median(plan.subject, |pair| pair.usual.cpu_each());
                let limit = Limit::at_most(0.9, 0.5);
                let bar = Bar::new("requeue", format!("CPU per run, {keys} keys"), own, limit, "µs");
                report.bar(bar.beside(results.of_peer(plan, |pair| pair.usual.cpu_each())));
                bars(&mut report, plan, &results, "CPU", |sample: Sample| sample.cpu_each());
            }
        }
    }
    report
        .note(format!("{rounds} rounds, the first not counted; medians of {repetitions}, engines in turns."));
    report.note("An engine that spreads polls runs a key's first repetition earlier, so its wall time may be below the ideal.");
    Ok(report)
}

fn row(report: &mut Report, name: String, keys: u32, count: usize, rounds: u32, samples: &[Sample]) {
    let ideal = INTERVAL.as_secs_f64() * f64::from(rounds - 1);
    let wall = samples::median_of(samples, |sample| sample.wall.as_secs_f64());
    report.row([
        name.into(),
        keys.into(),
        count.into(),
        samples.iter().map(|sample| sample.runs).min().into(),
        samples::median_of(samples, Sample::cpu_each).into(),
        wall.into(),
        wall.map(|wall| wall - ideal).into(),
    ]);
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
        let count = |engine, rounds, polls| -> Result<(f64, f64)> {
            let label = format!("requeue-{engine:?}-{keys}-{rounds}-{polls:?}");
            let task = super::Task::Requeue(Task { engine, keys, rounds, polls });
            let (sample, instructions) = instructions::of_child::<_, Sample>(&label, &task)?;
            Ok((sample.runs as f64, instructions as f64))
        };
        let results = plan.interleaved("requeue-instructions", &format!("{keys} keys"), 1, |engine| {
            Pair::of(engine, |polls| {
                let (fewer, short) = count(engine, COUNTED_ROUNDS, polls)?;
                let (more, long) = count(engine, 2 * COUNTED_ROUNDS, polls)?;
                ensure!(more > fewer, "{} made no more runs in the longer loop", engine.name());
                Ok((long - short) / (more - fewer))
            })
        })?;
        for (engine, pairs) in results.iter() {
            for pair in pairs {
                report.row([engine.name().into(), keys.into(), pair.usual.into()]);
                if let Some(exact) = pair.exact {
                    let name = format!("{}, polls not spread", engine.name());
                    report.row([name.into(), keys.into(), exact.into()]);
                }
            }
        }
        bars(&mut report, plan, &results, "instructions", |per_run: f64| per_run);
    }
    report.note(instructions::NOTE);
    Ok(report)
}
