//! Emptying a large backlog against a small one: what an item costs must not grow with the backlog.
//!
//! Bar P6. One run at a time; the first run waits at a gate until everything is queued behind it, then the
//! gate opens, and the time until the last key ran is measured.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use tokio::sync::Notify;

use super::{Plan, plan::PATIENCE, plan::micros_each, ratio, rounds::Rounds};
use crate::{
    clock::{self, Spent, Stopwatch},
    engine::{Concurrency, Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    work::{Verdict, Work},
};

/// Counts runs, each of which waits while the gate is shut. With one run at a time there is one waiter.
struct Gated {
    counted: Rounds,
    open: AtomicBool,
    opened: Notify,
}

impl Work for Gated {
    async fn run(&self, id: u32) -> Verdict {
        while !self.open.load(Ordering::Acquire) {
            self.opened.notified().await;
        }
        self.counted.run(id).await
    }
}

fn measure(engine: Engine, keys: u32) -> Result<Spent> {
    let work = Arc::new(Gated {
        counted: Rounds::counted(keys, 1),
        open: AtomicBool::new(false),
        opened: Notify::new(),
    });
    let setup = Setup::listing(keys).concurrency(Concurrency::ONE);
    session::drive(Threads::One, engine, setup, work.clone(), async {
        clock::settle(PATIENCE).await?;
        let started = Stopwatch::start();
        work.open.store(true, Ordering::Release);
        work.opened.notify_one();
        work.counted.tally.last_goal(PATIENCE).await?;
        Ok(started.spent())
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "drain",
        "a backlog is emptied, one run at a time",
        vec![plain("engine"), plain("backlog"), figure("cpu", "µs/item"), figure("wall", "µs/item")],
    );
    let repetitions = plan.repetitions(1, 3);
    let mut cpu_at = Vec::new();
    for keys in plan.sizes(&[2_000, 40_000], &[10_000, 400_000]) {
        let results =
            plan.interleaved("drain", &format!("{keys} keys"), repetitions, |engine| measure(engine, keys))?;
        let cpu = |spent: &Spent| micros_each(spent.cpu, u64::from(keys));
        for (engine, _) in results.iter() {
            report.row([
                engine.name().into(),
                keys.into(),
                results.median(Some(engine), cpu).into(),
                results.median(Some(engine), |spent| micros_each(spent.wall, u64::from(keys))).into(),
            ]);
        }
        cpu_at.push((keys, results.median(plan.subject, cpu), results.of_peer(plan, cpu)));
    }
    if let (Some((few, small, small_peer)), Some((many, large, large_peer))) = (cpu_at.first(), cpu_at.last())
        && few != many
    {
        let what = format!("CPU per item at {many} over that at {few}");
        let bar = Bar::new("P6", what, ratio(*large, *small), Limit::at_most(1.3, 1.3), "times");
        report.bar(bar.beside(ratio(*large_peer, *small_peer)));
    }
    report.note(format!("Medians of {repetitions}; one thread; every key ran, or the suite fails."));
    Ok(report)
}
