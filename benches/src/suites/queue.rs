//! A queue alone: keys go in and come out, and nothing is done for them.
//!
//! Bar P13. Ours is the public way of a key through a keyed controller that does nothing (`Handle::enqueue`, then
//! a worker's run), so it holds a run that the queues of the peers do not. kube-runtime's is its scheduler. The
//! figures of Go are frozen: they were measured on another day, on a machine of the same kind, and are here so
//! that the order of magnitude is not lost.

use anyhow::{Context, Result};

use super::{Plan, floor, ratio};
use crate::{
    clock::Spent,
    engine::{Engine, Load, Round},
    report::{Bar, Cell, Limit, Report, figure, plain},
    samples,
    session::Threads,
};

/// A frozen figure of a queue of the Go world: nanoseconds of CPU for one key through add, get and done, with a
/// million distinct `Request` keys (namespace and name).
struct Frozen {
    name: &'static str,
    cycle: f64,
}

/// client-go 0.36.3, typed workqueue, Go 1.27.3; the project's own measurement of November 2026, process CPU time
/// on a shared guest of two cores (Xeon of 2.3 GHz).
const CLIENT_GO: Frozen = Frozen { name: "client-go 0.36 typed workqueue (frozen)", cycle: 1500.0 };
/// controller-runtime 0.24.1, the priority queue that is its default; one run, measured likewise.
const CONTROLLER_RUNTIME: Frozen =
    Frozen { name: "controller-runtime 0.24 priority queue (frozen)", cycle: 5760.0 };

/// Rounds, the first of which pays for growing and for fresh pages.
const ROUNDS: usize = 6;
/// Keys that are added again and again, and how often each is.
const HOT: u32 = 1000;
const TIMES: u32 = 1000;

fn measure(engine: Engine, load: Load) -> Result<Vec<Round>> {
    Threads::One.runtime()?.block_on(engine.queue(load))
}

/// CPU nanoseconds per key: of the first round, and the median of the others.
struct Cycle {
    first: f64,
    warm: f64,
    /// Of the warm rounds, the part that adds.
    adding: Option<f64>,
    wall: f64,
}

impl Cycle {
    fn of(rounds: &[Round], adds: u32) -> Result<Cycle> {
        let each = |nanos: f64| nanos / f64::from(adds);
        let cpu = |spent: &Spent| each(spent.cpu.as_secs_f64() * 1e9);
        let (first, others) = rounds.split_first().context("no rounds were measured")?;
        let adding: Option<Vec<f64>> = others.iter().map(|round| round.adding.as_ref().map(cpu)).collect();
        let warm = samples::median_of(others, |round| cpu(&round.whole));
        let wall = samples::median_of(others, |round| each(round.whole.wall.as_secs_f64() * 1e9));
        Ok(Cycle {
            first: cpu(&first.whole),
            warm: warm.context("no warm rounds were measured")?,
            adding: adding.and_then(|adding| samples::median(&adding)),
            wall: wall.context("no warm rounds were measured")?,
        })
    }
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "queue",
        "keys through a queue and nothing else: add, get, done",
        vec![
            plain("queue"),
            plain("keys"),
            plain("adds"),
            figure("first round", "ns cpu/add"),
            figure("warm rounds", "ns cpu/add"),
            figure("of that adding", "ns cpu/add"),
            figure("warm rounds wall", "ns/add"),
        ],
    );
    let repetitions = plan.repetitions(1, 3);
    for keys in plan.sizes(&[10_000], &[100_000, 1_000_000]) {
        let load = Load { keys, adds: keys, rounds: ROUNDS };
        let results = cycles(plan, &mut report, &format!("{keys} keys"), repetitions, load)?;
        let floor = floor::pair_keys(keys)?;
        report.row([
            "raw floor: set and ring".into(),
            keys.into(),
            keys.into(),
            floor.first.into(),
            Cell::Nothing,
            Cell::Nothing,
            floor.warm.into(),
        ]);
        let warm = |cycle: &Cycle| cycle.warm;
        let own = results.median(plan.subject, warm);
        let what = format!("CPU of a whole cycle with its run, {keys} keys, warm");
        let bar = Bar::new("P13", what, own, Limit::at_most(300.0, 190.0), "ns");
        report.bar(bar.beside(results.of_peer(plan, warm)));
        for (frozen, limit) in
            [(CLIENT_GO, Limit::at_least(5.0, 8.0)), (CONTROLLER_RUNTIME, Limit::at_least(5.0, 8.0))]
        {
            let what = format!("{} over ours, {keys} keys, warm", frozen.name);
            report.bar(Bar::new("P13", what, ratio(Some(frozen.cycle), own), limit, "times"));
        }
    }
    for Frozen { name, cycle } in [CLIENT_GO, CONTROLLER_RUNTIME] {
        report.row([name.into(), 1_000_000_u64.into(), 1_000_000_u64.into(), Cell::Nothing, cycle.into()]);
    }
    let load = Load { keys: HOT, adds: HOT * plan.effort.pick(TIMES / 10, TIMES), rounds: ROUNDS };
    let hot = cycles(plan, &mut report, "hot keys", repetitions, load)?;
    let adding = |cycle: &Cycle| cycle.warm;
    let what = format!("CPU of adding a key that is queued, {HOT} keys");
    let bar = Bar::new("P13", what, hot.median(plan.subject, adding), Limit::at_most(40.0, 25.0), "ns");
    report.bar(bar.beside(hot.of_peer(plan, adding)));
    report.note(format!(
        "One thread; medians of {repetitions} repetitions of {ROUNDS} rounds each, engines in turns; every key came out, or the suite fails."
    ));
    report.note(
        "Ours: Handle::enqueue and a run that does nothing. kube-runtime: its scheduler, without a run. Go: frozen figures of a million keys, measured once by this project (November 2026, two cores of 2.3 GHz) and not in this run.",
    );
    Ok(report)
}

fn cycles(
    plan: &Plan,
    report: &mut Report,
    what: &str,
    repetitions: usize,
    load: Load,
) -> Result<super::Results<Cycle>> {
    let results =
        plan.interleaved("queue", what, repetitions, |engine| Cycle::of(&measure(engine, load)?, load.adds))?;
    for (engine, cycles) in results.iter() {
        let adding: Option<Vec<f64>> = cycles.iter().map(|cycle| cycle.adding).collect();
        report.row([
            engine.name().into(),
            load.keys.into(),
            load.adds.into(),
            results.median(Some(engine), |cycle| cycle.first).into(),
            results.median(Some(engine), |cycle| cycle.warm).into(),
            adding.and_then(|adding| samples::median(&adding)).into(),
            results.median(Some(engine), |cycle| cycle.wall).into(),
        ]);
    }
    Ok(results)
}
