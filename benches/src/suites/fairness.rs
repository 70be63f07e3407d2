//! Whether keys that always want to run share the runs.
//!
//! Bar P1: one run at a time, 200 keys, each of which asks to run again at once; after 2,000 runs every key
//! should have had about ten. Once with runs that take no time, and once with runs of a few milliseconds, as
//! real ones have: a queue without an order among due keys can look fair only in the first case, where all
//! others run before a key is due again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{Plan, plan::PATIENCE};
use crate::{
    clock,
    engine::{Concurrency, Engine, Setup},
    report::{Bar, Limit, Report, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// Keys that always want to run.
const KEYS: u32 = 200;
/// Runs that are shared out.
const RUNS: u32 = 2000;

/// What a run waits for, such as the answer of a server.
const RUN_LASTS: Duration = Duration::from_millis(2);

/// Counts the first `RUNS` runs, and lets everything rest after them.
struct Greedy {
    lasts: Duration,
    begun: AtomicU32,
    tally: Tally,
}

impl Work for Greedy {
    async fn run(&self, id: u32) -> Verdict {
        if self.begun.fetch_add(1, Ordering::AcqRel) >= RUNS {
            return Verdict::Await;
        }
        self.tally.record(id);
        if !self.lasts.is_zero() {
            clock::pause(self.lasts).await;
        }
        Verdict::Again
    }
}

struct Shares {
    fewest: u32,
    most: u32,
    never: usize,
}

fn measure(engine: Engine, lasts: Duration) -> Result<Shares> {
    let work = Arc::new(Greedy { lasts, begun: AtomicU32::new(0), tally: Tally::new(KEYS, 1) });
    let setup = Setup::listing(KEYS).concurrency(Concurrency::ONE);
    session::drive(Threads::One, engine, setup, work.clone(), async {
        let shared_out = || work.tally.total() == u64::from(RUNS);
        ensure!(clock::until(PATIENCE, shared_out).await, "only {} of {RUNS} runs came", work.tally.total());
        Ok(())
    })?;
    let (fewest, most) = work.tally.extremes();
    Ok(Shares { fewest, most, never: KEYS as usize - work.tally.keys_with(1) })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "fairness",
        "200 keys that always want to run share 2,000 runs, one at a time",
        vec![
            plain("engine"),
            plain("a run lasts"),
            plain("keys"),
            plain("runs"),
            plain("fewest of a key"),
            plain("most of a key"),
            plain("keys that never ran"),
        ],
    );
    for (lasts, name) in [(Duration::ZERO, "nothing"), (RUN_LASTS, "2 ms")] {
        let what = format!("2,000 runs that last {name}");
        let results = plan.interleaved("fairness", &what, 1, |engine| measure(engine, lasts))?;
        for (engine, samples) in results.iter() {
            for shares in samples {
                report.row([
                    engine.name().into(),
                    name.into(),
                    KEYS.into(),
                    RUNS.into(),
                    shares.fewest.into(),
                    shares.most.into(),
                    shares.never.into(),
                ]);
            }
        }
        let what = |which: &str| format!("{which} runs of a key, runs that last {name}");
        let fewest = |shares: &Shares| f64::from(shares.fewest);
        let most = |shares: &Shares| f64::from(shares.most);
        let own = results.median(plan.subject, fewest);
        let bar = Bar::new("P1", what("fewest"), own, Limit::at_least(9.0, 9.0), "");
        report.bar(bar.beside(results.of_peer(plan, fewest)));
        let own = results.median(plan.subject, most);
        let bar = Bar::new("P1", what("most"), own, Limit::at_most(11.0, 11.0), "");
        report.bar(bar.beside(results.of_peer(plan, most)));
    }
    Ok(report)
}
