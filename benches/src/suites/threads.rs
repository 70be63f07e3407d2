//! Two threads against one, for runs that cost nothing, 2 µs and 20 µs of CPU.
//!
//! Every key asks to run again at once, so nothing but the engine and the runs is measured. A pair is the same
//! measurement on one thread and on two, one after the other, the first place alternating; the figure is the
//! median of the pairs' ratios, so a neighbour on the machine has to disturb half of them to move it.
//!
//! CPU time per run stands beside: on a machine whose processors are all taken, two threads get twice the share of
//! one whatever the engine does, and only the CPU time still tells what sharing the queue costs.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};

use super::{Plan, plan::PATIENCE, plan::micros_each};
use crate::{
    clock::{Spin, Stopwatch},
    engine::{Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// Keys that always want to run: enough to keep both threads busy.
const KEYS: u32 = 2000;

/// A cost of one run, with how many runs make a measurement and what the bar is.
struct Load {
    name: &'static str,
    cost: Duration,
    rounds: u32,
    limit: Limit,
}

const LOADS: [Load; 3] = [
    Load { name: "none", cost: Duration::ZERO, rounds: 100, limit: Limit::at_least(0.7, 1.0) },
    Load { name: "2 µs", cost: Duration::from_micros(2), rounds: 100, limit: Limit::at_least(1.5, 1.5) },
    Load { name: "20 µs", cost: Duration::from_micros(20), rounds: 30, limit: Limit::at_least(1.8, 1.8) },
];

struct Busy {
    tally: Tally,
    rounds: u32,
    spin: Spin,
}

impl Work for Busy {
    async fn run(&self, id: u32) -> Verdict {
        self.spin.run();
        if self.tally.record(id) < self.rounds { Verdict::Again } else { Verdict::Await }
    }
}

/// How fast keys run.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Runs per second of wall time.
    rate: f64,
    /// CPU microseconds of a run, of all threads.
    cpu: f64,
}

fn pace(engine: Engine, threads: Threads, rounds: u32, spin: Spin) -> Result<Pace> {
    let work = Arc::new(Busy { tally: Tally::new(KEYS, rounds), rounds, spin });
    let tally = &work.tally;
    let pace = session::drive(threads, engine, Setup::listing(KEYS), work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        let (started, had) = (Stopwatch::start(), tally.total());
        tally.last_goal(PATIENCE).await?;
        let (spent, runs) = (started.spent(), tally.total() - had);
        Ok(Pace { rate: runs as f64 / spent.wall.as_secs_f64(), cpu: micros_each(spent.cpu, runs) })
    })?;
    let (fewest, _) = tally.extremes();
    ensure!(fewest >= rounds, "{} gave a key only {fewest} of {rounds} runs", engine.name());
    Ok(pace)
}

struct Pair {
    one: Pace,
    two: Pace,
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "threads",
        "two threads against one",
        vec![
            plain("engine"),
            plain("cpu of a run"),
            plain("pairs"),
            figure("one thread", "runs/s"),
            figure("two threads", "runs/s"),
            figure("two over one", "times"),
            figure("cpu, one", "µs/run"),
            figure("cpu, two", "µs/run"),
        ],
    );
    let pairs = plan.repetitions(3, 7);
    for load in LOADS {
        let spin = Spin::lasting(load.cost);
        let rounds = plan.effort.pick(load.rounds / 10, load.rounds).max(2);
        let mut turn = 0_usize;
        let results = plan.interleaved("threads", &format!("runs of {}", load.name), pairs, |engine| {
            turn += 1;
            let one = || pace(engine, Threads::One, rounds, spin);
            let two = || pace(engine, Threads::Many(2), rounds, spin);
            // Half of the pairs start with two threads, so that neither place is favoured.
            if turn.div_ceil(plan.engines.len()) % 2 == 1 {
                let one = one()?;
                Ok(Pair { one, two: two()? })
            } else {
                let two = two()?;
                Ok(Pair { one: one()?, two })
            }
        })?;
        let gain = |pair: &Pair| pair.two.rate / pair.one.rate;
        for (engine, _) in results.iter() {
            report.row([
                engine.name().into(),
                load.name.into(),
                pairs.into(),
                results.median(Some(engine), |pair| pair.one.rate).into(),
                results.median(Some(engine), |pair| pair.two.rate).into(),
                results.median(Some(engine), gain).into(),
                results.median(Some(engine), |pair| pair.one.cpu).into(),
                results.median(Some(engine), |pair| pair.two.cpu).into(),
            ]);
        }
        let what = format!("runs of {}: two threads over one", load.name);
        let bar = Bar::new("threads", what, results.median(plan.subject, gain), load.limit, "times");
        report.bar(bar.beside(results.of_peer(plan, gain)));
    }
    report.note(format!(
        "{KEYS} keys; medians over the pairs, engines in turns; wall time, so an idle machine is needed."
    ));
    Ok(report)
}
