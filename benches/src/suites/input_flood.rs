//! Whether an input that is always ready holds the runs back.
//!
//! Bar P15: a thousand keys have been listed and have run; then a million changes of them come from a stream
//! that is never pending. Counted are the changes that were taken in before the first run, and the runs that
//! came while the flood lasted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;

use super::{Plan, plan::PATIENCE, plan::micros_each, rounds::Rounds};
use crate::{
    clock::{self, Stopwatch},
    engine::{Change, Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    work::{Verdict, Work},
};

/// Keys that the changes are of.
const KEYS: u32 = 1000;

struct Flooded {
    counted: Rounds,
    /// Changes handed out so far.
    handed: Arc<AtomicU64>,
    /// Changes in the flood.
    flood: u64,
    /// Changes that had been handed out when the first run after the flood's begin started; zero before.
    before_first: AtomicU64,
    /// Runs that started while changes were still to come.
    during: AtomicU64,
}

impl Work for Flooded {
    async fn run(&self, id: u32) -> Verdict {
        let handed = self.handed.load(Ordering::Acquire);
        if handed > 0 && self.before_first.load(Ordering::Acquire) == 0 {
            // Two threads may both be first; the earlier one keeps its place, and losing means it is kept.
            let _earlier = self.before_first.compare_exchange(0, handed, Ordering::AcqRel, Ordering::Acquire);
        }
        if handed > 0 && handed < self.flood {
            self.during.fetch_add(1, Ordering::AcqRel);
        }
        self.counted.run(id).await
    }
}

struct Sample {
    before_first: u64,
    during: u64,
    runs: u64,
    cpu: Duration,
}

fn measure(engine: Engine, flood: u32, threads: Threads) -> Result<Sample> {
    let handed = Arc::new(AtomicU64::new(0));
    let work = Arc::new(Flooded {
        counted: Rounds::counted(KEYS, 2),
        handed: handed.clone(),
        flood: u64::from(flood),
        before_first: AtomicU64::new(0),
        during: AtomicU64::new(0),
    });
    let (open, opened) = oneshot::channel::<()>();
    let counter = handed.clone();
    let changes = opened
        .map(move |_| {
            stream::iter((0..flood).map(move |at| {
                counter.fetch_add(1, Ordering::AcqRel);
                Change::spec(at % KEYS)
            }))
        })
        .flatten_stream()
        .chain(stream::pending());
    let setup = Setup::listing(KEYS).changes(changes);
    session::drive(threads, engine, setup, work.clone(), async {
        let tally = &work.counted.tally;
        tally.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        let had = tally.total();
        let started = Stopwatch::start();
        ensure!(open.send(()).is_ok(), "{} dropped its input before the flood", engine.name());
        tally.last_goal(PATIENCE).await?;
        let done = || handed.load(Ordering::Acquire) == u64::from(flood);
        ensure!(clock::until(PATIENCE, done).await, "the flood was not taken in within {PATIENCE:?}");
        let cpu = started.spent().cpu;
        clock::settle(PATIENCE).await?;
        Ok(Sample {
            before_first: work.before_first.load(Ordering::Acquire),
            during: work.during.load(Ordering::Acquire),
            runs: tally.total() - had,
            cpu,
        })
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "input-flood",
        "a stream of changes that is never pending",
        vec![
            plain("engine"),
            plain("threads"),
            plain("changes"),
            plain("keys"),
            plain("before the first run"),
            plain("runs during the flood"),
            plain("runs in all"),
            figure("cpu", "µs/change"),
        ],
    );
    let repetitions = plan.repetitions(1, 3);
    for flood in plan.sizes(&[100_000], &[1_000_000]) {
        for count in plan.threads(&[1, 2]) {
            let threads = Threads::from_count(count);
            let what = format!("{flood} changes, {threads}");
            let results = plan
                .interleaved("input-flood", &what, repetitions, |engine| measure(engine, flood, threads))?;
            for (engine, samples) in results.iter() {
                let most = |figure: fn(&Sample) -> u64| samples.iter().map(figure).max();
                report.row([
                    engine.name().into(),
                    count.into(),
                    flood.into(),
                    KEYS.into(),
                    most(|sample| sample.before_first).into(),
                    most(|sample| sample.during).into(),
                    most(|sample| sample.runs).into(),
                    results.median(Some(engine), |sample| micros_each(sample.cpu, u64::from(flood))).into(),
                ]);
            }
            if count == 1 {
                let before_first = |sample: &Sample| sample.before_first as f64;
                let own = results.median(plan.subject, before_first);
                let what = format!("changes of {flood} taken in before the first run");
                let bar = Bar::new("P15", what, own, Limit::at_most(1024.0, 256.0), "");
                report.bar(bar.beside(results.of_peer(plan, before_first)));
            }
        }
    }
    report
        .note("Counts are the most of the repetitions. An engine that merges more changes makes fewer runs.");
    Ok(report)
}
