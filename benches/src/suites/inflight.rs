//! What an event costs while many runs of other keys are in flight and do not end.
//!
//! Bar P5. Events come one at a time, each handed in when the run of the one before began, so the figure is the
//! CPU time of a whole pass: take the event in, wake, run, finish. It should not depend on what else runs.

use std::{
    future::pending,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Result, ensure};
use tokio::sync::Notify;

use super::{Plan, feed, plan::PATIENCE, plan::micros_each, ratio};
use crate::{
    clock::{self, Spent, Stopwatch},
    engine::{Change, Concurrency, Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    work::{Verdict, Work},
};

/// Keys that change while the others are in flight.
const FREE: u32 = 100;

/// Keys below `stuck` never finish their run.
struct Stuck {
    stuck: u32,
    in_flight: AtomicU32,
    /// Finished runs of the free keys.
    finished: AtomicU32,
    ran: Notify,
}

impl Work for Stuck {
    async fn run(&self, id: u32) -> Verdict {
        if id < self.stuck {
            self.in_flight.fetch_add(1, Ordering::AcqRel);
            return pending().await;
        }
        self.finished.fetch_add(1, Ordering::AcqRel);
        self.ran.notify_one();
        Verdict::Await
    }
}

fn measure(engine: Engine, stuck: u32, events: u32, threads: Threads) -> Result<Spent> {
    let work = Arc::new(Stuck {
        stuck,
        in_flight: AtomicU32::new(0),
        finished: AtomicU32::new(0),
        ran: Notify::new(),
    });
    let (sender, changes) = feed::single();
    let limit = u16::try_from(stuck + FREE).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MAX);
    let setup = Setup::listing(stuck + FREE).concurrency(Concurrency::Limit(limit)).changes(changes);
    session::drive(threads, engine, setup, work.clone(), async {
        let listed = || {
            work.in_flight.load(Ordering::Acquire) == stuck && work.finished.load(Ordering::Acquire) == FREE
        };
        ensure!(
            clock::until(PATIENCE, listed).await,
            "the listed keys did not all start within {PATIENCE:?}"
        );
        clock::settle(PATIENCE).await?;
        let started = Stopwatch::start();
        for event in 0..events {
            let had = work.finished.load(Ordering::Acquire);
            sender.send(Change::spec(stuck + event % FREE)).await?;
            let ran = async {
                while work.finished.load(Ordering::Acquire) == had {
                    work.ran.notified().await;
                }
            };
            let ran = clock::within(PATIENCE, ran).await;
            ensure!(ran.is_some(), "event {event} did not run within {PATIENCE:?}");
        }
        Ok(started.spent())
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "inflight",
        "an event of one key while runs of others are in flight",
        vec![
            plain("engine"),
            plain("threads"),
            plain("in flight"),
            plain("events"),
            figure("cpu", "µs/event"),
            figure("wall", "µs/event"),
        ],
    );
    let events = plan.effort.pick(100, 500);
    let repetitions = plan.repetitions(1, 5);
    let levels = plan.sizes(&[1000], &[1000, 10_000]);
    for count in plan.threads(&[1]) {
        let threads = Threads::from_count(count);
        let mut cpu_at = Vec::new();
        // The level "none" is always measured: the others are judged by it.
        for stuck in std::iter::once(0).chain(levels.iter().copied()) {
            let what = format!("{stuck} in flight, {threads}");
            let results = plan.interleaved("inflight", &what, repetitions, |engine| {
                measure(engine, stuck, events, threads)
            })?;
            let cpu = |spent: &Spent| micros_each(spent.cpu, u64::from(events));
            for (engine, _) in results.iter() {
                report.row([
                    engine.name().into(),
                    count.into(),
                    stuck.into(),
                    events.into(),
                    results.median(Some(engine), cpu).into(),
                    results.median(Some(engine), |spent| micros_each(spent.wall, u64::from(events))).into(),
                ]);
            }
            cpu_at.push((stuck, results.median(plan.subject, cpu), results.of_peer(plan, cpu)));
        }
        if let (Some((_, none, none_peer)), Some((stuck, many, many_peer))) = (cpu_at.first(), cpu_at.last())
        {
            let what = format!("CPU per event with {stuck} in flight over none, {threads}");
            let bar = Bar::new("P5", what, ratio(*many, *none), Limit::at_most(1.2, 1.05), "times");
            report.bar(bar.beside(ratio(*many_peer, *none_peer)));
        }
    }
    report.note(format!(
        "Medians of {repetitions}; the next event is handed in when the run before it has begun."
    ));
    Ok(report)
}
