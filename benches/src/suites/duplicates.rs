//! Whether a delayed run and a change of one key make one run too many.
//!
//! Bar P12: every key has asked to run again in a while; before that its object changes, and the run that this
//! causes asks for nothing. The delayed run is then out of date, and must not come.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};

use super::{Plan, feed, plan::PATIENCE};
use crate::{
    clock,
    engine::{Engine, Setup},
    report::{Bar, Limit, Report, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// Keys that are delayed and changed.
const KEYS: u32 = 100;
/// The first delay of a key, which an engine may shorten in order to spread polls.
const FIRST: Duration = Duration::from_millis(20);
/// The delay that a change overtakes.
const DELAY: Duration = Duration::from_millis(500);
/// Time between the asking for the delay and the change.
const CHANGE_AFTER: Duration = Duration::from_millis(100);
/// Time in which a run too many would come.
const WATCHED: Duration = Duration::from_millis(1000);
/// Runs of a key: the listing's, the first delayed one, and the change's.
const EXPECTED: u32 = 3;

struct Delayed(Tally);

impl Work for Delayed {
    async fn run(&self, id: u32) -> Verdict {
        match self.0.record(id) {
            1 => Verdict::After(FIRST),
            2 => Verdict::After(DELAY),
            _ => Verdict::Await,
        }
    }
}

fn measure(engine: Engine) -> Result<u64> {
    let work = Arc::new(Delayed(Tally::new(KEYS, EXPECTED)));
    let (wave, changes) = feed::waves();
    session::drive(Threads::One, engine, Setup::listing(KEYS).changes(changes), work.clone(), async {
        let tally = &work.0;
        let delayed = || tally.keys_with(2) == KEYS as usize;
        ensure!(clock::until(PATIENCE, delayed).await, "not every key ran twice within {PATIENCE:?}");
        clock::pause(CHANGE_AFTER).await;
        wave.send(0..KEYS).await?;
        tally.last_goal(PATIENCE).await?;
        clock::pause(WATCHED).await;
        Ok(tally.total() - u64::from(KEYS) * u64::from(EXPECTED))
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "duplicates",
        "a change overtakes a delayed run",
        vec![plain("engine"), plain("keys"), plain("expected runs of each"), plain("runs too many")],
    );
    let results = plan.interleaved("duplicates", "100 keys", 1, measure)?;
    for (engine, samples) in results.iter() {
        for extra in samples {
            report.row([engine.name().into(), KEYS.into(), EXPECTED.into(), (*extra).into()]);
        }
    }
    let own = results.median(plan.subject, |extra| *extra as f64);
    let bar = Bar::new("P12", "runs too many", own, Limit::at_most(0.0, 0.0), "");
    report.bar(bar.beside(results.of_peer(plan, |extra| *extra as f64)));
    Ok(report)
}
