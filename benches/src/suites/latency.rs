//! From an event to the start of its run, on an engine that has nothing else to do: one event per millisecond.
//!
//! Bar P4. An event is stamped when it is handed to the stream that feeds the engine, and its run when the
//! reconciler starts. Two sources: a task of the same runtime, and a thread outside it, whose events also pay
//! for waking the runtime's thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};
use tokio::sync::mpsc;

use super::{Plan, feed, plan::PATIENCE, rounds::Rounds};
use crate::{
    clock::{self, Stamps},
    engine::{Change, Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    samples,
    session::{self, Threads},
    work::{Verdict, Work},
};

/// Time between two events.
const PACE: Duration = Duration::from_millis(1);

/// Who hands the events in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Task,
    Thread,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::Task => "a task",
            Source::Thread => "a thread",
        }
    }
}

/// Stamps events and runs. Each object gets one event, so its slot belongs to that event.
struct Timed {
    counted: Rounds,
    clock: Stamps,
    /// When the event was handed in; zero before.
    handed: Box<[AtomicU64]>,
    /// When its run began; zero before.
    began: Box<[AtomicU64]>,
}

impl Timed {
    fn new(events: u32) -> Self {
        let slots = || (0..events).map(|_| AtomicU64::new(0)).collect();
        Timed { counted: Rounds::counted(events, 2), clock: Stamps::new(), handed: slots(), began: slots() }
    }

    fn hand_in(&self, id: u32) {
        if let Some(slot) = self.handed.get(id as usize) {
            slot.store(self.clock.now(), Ordering::Release);
        }
    }

    fn latencies(&self) -> Vec<f64> {
        let read = |slot: &AtomicU64| slot.load(Ordering::Acquire);
        self.handed
            .iter()
            .zip(&self.began)
            .map(|(handed, began)| (read(handed), read(began)))
            .filter(|(handed, began)| *handed > 0 && *began > 0)
            .map(|(handed, began)| began.saturating_sub(handed) as f64 / 1e3)
            .collect()
    }
}

impl Work for Timed {
    async fn run(&self, id: u32) -> Verdict {
        // The listing's runs come before any event is handed in, and are not stamped.
        if let (Some(handed), Some(began)) = (self.handed.get(id as usize), self.began.get(id as usize))
            && handed.load(Ordering::Acquire) > 0
        {
            began.store(self.clock.now(), Ordering::Release);
        }
        self.counted.run(id).await
    }
}

fn measure(engine: Engine, events: u32, threads: Threads, source: Source) -> Result<Vec<f64>> {
    let work = Arc::new(Timed::new(events));
    let (sender, changes) = feed::single();
    let tally = &work.counted.tally;
    session::drive(threads, engine, Setup::listing(events).changes(changes), work.clone(), async {
        tally.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        match source {
            Source::Task => {
                feed_from_task(&work, events, sender).await?;
                tally.last_goal(PATIENCE).await
            }
            Source::Thread => {
                let feeder = feed_from_thread(&work, events, sender);
                tally.last_goal(PATIENCE).await?;
                feeder.join().map_err(|_| anyhow!("the thread that hands events in panicked"))
            }
        }
    })?;
    let latencies = work.latencies();
    ensure!(latencies.len() == events as usize, "only {} of {events} events ran", latencies.len());
    Ok(latencies)
}

async fn feed_from_task(work: &Timed, events: u32, sender: mpsc::Sender<Change>) -> Result<()> {
    let mut ticks = clock::ticks(PACE);
    for id in 0..events {
        ticks.tick().await;
        work.hand_in(id);
        sender.send(Change::spec(id)).await?;
    }
    Ok(())
}

/// Ends by itself: when all events are handed in, or when the engine's side of the feed is gone.
fn feed_from_thread(work: &Arc<Timed>, events: u32, sender: mpsc::Sender<Change>) -> JoinHandle<()> {
    let work = work.clone();
    thread::spawn(move || {
        for id in 0..events {
            clock::pause_thread(PACE);
            work.hand_in(id);
            // A closed feed means that the measurement ended early, which the driver reports.
            if sender.blocking_send(Change::spec(id)).is_err() {
                return;
            }
        }
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "latency",
        "from an event to the start of its run, one event per millisecond",
        vec![
            plain("engine"),
            plain("threads"),
            plain("events from"),
            plain("events"),
            figure("p50", "µs"),
            figure("p99", "µs"),
            figure("max", "µs"),
        ],
    );
    let events = plan.effort.pick(500, 3000);
    let repetitions = plan.repetitions(1, 3);
    for count in plan.threads(&[1, 2]) {
        let threads = Threads::from_count(count);
        for source in [Source::Task, Source::Thread] {
            let what = format!("{threads}, events from {}", source.name());
            let results = plan.interleaved("latency", &what, repetitions, |engine| {
                measure(engine, events, threads, source)
            })?;
            let at =
                |percent| move |sample: &Vec<f64>| samples::percentile(sample, percent).unwrap_or(f64::NAN);
            for (engine, _) in results.iter() {
                report.row([
                    engine.name().into(),
                    count.into(),
                    source.name().into(),
                    events.into(),
                    results.median(Some(engine), at(50)).into(),
                    results.median(Some(engine), at(99)).into(),
                    results.median(Some(engine), at(100)).into(),
                ]);
            }
            if count == 1 && source == Source::Task {
                let limits = [(50, Limit::at_most(50.0, 20.0)), (99, Limit::at_most(200.0, 80.0))];
                for (percent, limit) in limits {
                    let own = results.median(plan.subject, at(percent));
                    let bar = Bar::new("P4", format!("p{percent}, one thread"), own, limit, "µs");
                    report.bar(bar.beside(results.of_peer(plan, at(percent))));
                }
                let better = results.advantage(plan, at(50));
                let limit = Limit::at_least(40.0, 40.0);
                report.bar(Bar::new("P4", "p50 of kube-runtime over ours", better, limit, "times"));
            }
        }
    }
    report.note(format!("Medians of {repetitions} repetitions of each percentile, engines in turns."));
    Ok(report)
}
