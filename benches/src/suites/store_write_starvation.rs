//! What listing readers do to the writer of a cache.
//!
//! Bar P9: a cache of 100,000 objects, one thread that puts changes in, and four that list everything again and
//! again. The writer's rate is given per second, and per CPU second of the writer: the second does not count
//! the time that readers take from it on a machine with few cores, nor the time it waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};

use super::{Plan, ratio};
use crate::{
    clock::{self, Stopwatch},
    engine::{CacheReader, CacheWriter, Engine},
    report::{Bar, Limit, Report, figure, plain},
};

/// Threads that list.
const READERS: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Rates {
    writes: u64,
    per_second: f64,
    per_cpu_second: f64,
    lists_per_second: f64,
}

struct Sample {
    alone: Rates,
    beside: Rates,
}

/// Picks one of the two halves of a sample.
type Phase = fn(&Sample) -> Rates;

fn measure(engine: Engine, objects: u32, length: Duration) -> Result<Sample> {
    let (mut writer, reader) = engine.cache(objects)?;
    let alone = write(&mut *writer, objects, length)?;
    let stop = AtomicBool::new(false);
    let lists = AtomicU64::new(0);
    let short = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        for _ in 0..READERS {
            let reader: Arc<dyn CacheReader> = reader.clone();
            let (stop, lists, short) = (&stop, &lists, &short);
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    if reader.list() != objects as usize {
                        short.store(true, Ordering::Release);
                    }
                    lists.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let rates = scope.spawn(|| write(&mut *writer, objects, length)).join();
        stop.store(true, Ordering::Release);
        rates
    })
    .map_err(|_| anyhow!("the writer of {} panicked", engine.name()))??;
    ensure!(!short.load(Ordering::Acquire), "a reader of {} missed objects", engine.name());
    let lists_per_second = lists.load(Ordering::Acquire) as f64 / length.as_secs_f64();
    Ok(Sample { alone, beside: Rates { lists_per_second, ..beside } })
}

/// Puts changes in for `length`, on the calling thread.
fn write(writer: &mut dyn CacheWriter, objects: u32, length: Duration) -> Result<Rates> {
    let (started, cpu) = (Stopwatch::start(), clock::thread_cpu());
    let mut writes = 0_u64;
    let mut id = 0;
    let wall = loop {
        writer.write(id)?;
        id = (id + 1) % objects;
        writes += 1;
        let wall = started.spent().wall;
        if wall >= length {
            break wall;
        }
    };
    let cpu = clock::thread_cpu().saturating_sub(cpu);
    Ok(Rates {
        writes,
        per_second: writes as f64 / wall.as_secs_f64(),
        per_cpu_second: writes as f64 / cpu.as_secs_f64(),
        lists_per_second: 0.0,
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "store-write-starvation",
        "one writer of a cache beside four readers that list everything",
        vec![
            plain("engine"),
            plain("objects"),
            plain("readers"),
            plain("written"),
            figure("writes", "1/s"),
            figure("writes per cpu", "1/s of the writer"),
            figure("lists", "1/s"),
        ],
    );
    let length = plan.effort.pick(Duration::from_millis(500), Duration::from_secs(3));
    let repetitions = plan.repetitions(1, 3);
    for objects in plan.sizes(&[10_000], &[100_000]) {
        let what = format!("{objects} objects");
        let results = plan.interleaved("store-write-starvation", &what, repetitions, |engine| {
            measure(engine, objects, length)
        })?;
        for (engine, _) in results.iter() {
            let phases: [(usize, Phase); 2] = [(0, |sample| sample.alone), (READERS, |sample| sample.beside)];
            for (readers, phase) in phases {
                let median =
                    |figure: fn(Rates) -> f64| results.median(Some(engine), |sample| figure(phase(sample)));
                report.row([
                    engine.name().into(),
                    objects.into(),
                    readers.into(),
                    median(|rates| rates.writes as f64).into(),
                    median(|rates| rates.per_second).into(),
                    median(|rates| rates.per_cpu_second).into(),
                    median(|rates| rates.lists_per_second).into(),
                ]);
            }
        }
        let kept = |engine| {
            let beside = results.median(engine, |sample| sample.beside.per_cpu_second);
            ratio(beside, results.median(engine, |sample| sample.alone.per_cpu_second))
        };
        let what = "writes per CPU second of the writer beside four readers, over those alone";
        let bar = Bar::new("P9", what, kept(plan.subject), Limit::at_least(0.5, 0.5), "times");
        report.bar(bar.beside(kept(plan.peer())));
    }
    report.note("A write makes its object too; every listing was complete, or the suite fails.");
    report.note(
        "kube-runtime's writer calls the store directly and its listings are in no order; ours goes through the \
         stream of the watch and the reflector's task, and its listings are in key order.",
    );
    Ok(report)
}
