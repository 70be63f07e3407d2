//! How long a cold key waits behind hot ones.
//!
//! Bar P8: one run at a time; four hot keys change again during each of their runs, urgently; then a fifth key
//! changes, without urgency. Counted is the time until it runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use tokio::sync::mpsc;

use super::{Plan, feed, plan::PATIENCE};
use crate::{
    clock::{self, Spin, Stopwatch},
    engine::{Change, Concurrency, Engine, Part, Setup, Urgency},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// Keys that always have something to do.
const HOT: u32 = 4;
/// The one that has something to do once.
const COLD: u32 = HOT;
/// CPU time of a hot run.
const HOT_RUN: Duration = Duration::from_micros(100);
/// Time for which the hot keys have been hot when the cold one changes.
const HOT_BEFORE: Duration = Duration::from_millis(500);

struct Hot {
    tally: Tally,
    feed: mpsc::Sender<Change>,
    spin: Spin,
    /// Changes that found the feed full; with four keys and a deep feed there are none.
    lost: AtomicU32,
}

fn urgent(id: u32) -> Change {
    Change { id, part: Part::Spec, urgency: Urgency::High }
}

impl Work for Hot {
    async fn run(&self, id: u32) -> Verdict {
        // The runs of the listing are the first ones; the heat starts with the first change.
        if self.tally.record(id) > 1 && id < HOT {
            if self.feed.try_send(urgent(id)).is_err() {
                self.lost.fetch_add(1, Ordering::AcqRel);
            }
            self.spin.run();
        }
        Verdict::Await
    }
}

struct Waited {
    /// Whether the cold key ran at all.
    ran: Option<Duration>,
    hot_runs: u64,
}

fn measure(engine: Engine, limit: Duration) -> Result<Waited> {
    let (feed, changes) = feed::single();
    let work = Arc::new(Hot {
        tally: Tally::new(HOT + 1, 2),
        feed: feed.clone(),
        spin: Spin::lasting(HOT_RUN),
        lost: AtomicU32::new(0),
    });
    let setup = Setup::listing(HOT + 1).concurrency(Concurrency::ONE).changes(changes);
    // Two threads: the waiting side must see the time pass while the hot keys hold a thread.
    session::drive(Threads::Many(2), engine, setup, work.clone(), async {
        work.tally.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        for id in 0..HOT {
            feed.send(urgent(id)).await?;
        }
        clock::pause(HOT_BEFORE).await;
        let had = work.tally.total();
        let started = Stopwatch::start();
        feed.send(Change { id: COLD, part: Part::Spec, urgency: Urgency::Low }).await?;
        let ran = clock::until(limit, || work.tally.of(COLD) > 1).await;
        let lost = work.lost.load(Ordering::Acquire);
        ensure!(lost == 0, "{lost} changes of hot keys were lost; the keys were not hot");
        Ok(Waited { ran: ran.then(|| started.spent().wall), hot_runs: work.tally.total() - had })
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "starvation",
        "a key without urgency behind four urgent keys that never rest",
        vec![plain("engine"), figure("waited", "ms"), plain("hot runs meanwhile"), plain("cold key ran")],
    );
    let limit = plan.effort.pick(Duration::from_secs(1), Duration::from_secs(3));
    let results = plan.interleaved("starvation", "four hot keys", plan.repetitions(1, 3), |engine| {
        measure(engine, limit)
    })?;
    let waited = |waited: &Waited| waited.ran.unwrap_or(limit).as_secs_f64() * 1e3;
    for (engine, samples) in results.iter() {
        let ran = samples.iter().filter(|waited| waited.ran.is_some()).count();
        report.row([
            engine.name().into(),
            results.median(Some(engine), waited).into(),
            results.median(Some(engine), |waited| waited.hot_runs as f64).into(),
            format!("{ran} of {} times", samples.len()).into(),
        ]);
    }
    let own = results.median(plan.subject, waited);
    let bar = Bar::new("P8", "wait of the cold key", own, Limit::at_most(100.0, 20.0), "ms");
    report.bar(bar.beside(results.of_peer(plan, waited)));
    report.note(format!(
        "A hot run takes {HOT_RUN:?} of CPU; given up after {limit:?}, which then counts as the wait."
    ));
    Ok(report)
}
