//! The one place of this package that reads clocks and sleeps.
//!
//! Wall time comes from the monotonic clock, CPU time from the process's and the thread's CPU clocks. Process
//! CPU time includes every thread and the kernel's share, which is why it stands beside wall time everywhere:
//! on a shared machine wall time says as much about the neighbours as about the engine.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time; only this module reads it")]

use std::{
    future::Future,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};

/// A moment on the wall clock and on the process's CPU clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

/// What passed between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch { wall: Instant::now(), cpu: process_cpu() }
    }

    pub(crate) fn spent(&self) -> Spent {
        Spent { wall: self.wall.elapsed(), cpu: process_cpu().saturating_sub(self.cpu) }
    }
}

/// Nanoseconds since this clock was made: a stamp that fits into an atomic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamps(Instant);

impl Stamps {
    pub(crate) fn new() -> Self {
        Stamps(Instant::now())
    }

    /// Never zero, so that zero can mean "no stamp".
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

/// User and system time of all threads of this process.
pub(crate) fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// User and system time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// An instant of the runtime's clock, for peers whose interfaces ask for one.
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Sleeps inside a runtime.
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// Sleeps a whole thread, for feeders that live outside the runtime under test.
pub(crate) fn pause_thread(length: Duration) {
    std::thread::sleep(length);
}

/// Waits for `wanted`, at most `limit`; `None` when the limit came first.
pub(crate) async fn within<F: Future>(limit: Duration, wanted: F) -> Option<F::Output> {
    tokio::time::timeout(limit, wanted).await.ok()
}

/// How often [`until`] looks: finely enough for every limit of the suites that use it.
const UNTIL_LOOK: Duration = Duration::from_millis(1);

/// Looks every millisecond until `reached` holds, at most `limit`; tells whether it came to hold. For counts and
/// waits of milliseconds and more: looking costs CPU, so nothing that measures CPU time uses it.
pub(crate) async fn until(limit: Duration, mut reached: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !reached() {
        if began.elapsed() > limit {
            return false;
        }
        pause(UNTIL_LOOK).await;
    }
    true
}

/// Ticks with absolute deadlines, so that lateness does not add up.
pub(crate) fn ticks(period: Duration) -> tokio::time::Interval {
    tokio::time::interval(period)
}

/// How often [`settle`] looks. Long enough that an engine that still works shows itself.
const SETTLE_LOOK: Duration = Duration::from_millis(50);
/// CPU time in one look below which the process counts as idle: timers may still tick.
const SETTLE_IDLE: Duration = Duration::from_millis(2);
/// Idle looks in a row after which the process counts as settled: several, because on a crowded machine a busy
/// process may get no CPU for the length of one.
const SETTLE_LOOKS: u32 = 5;

/// Waits until the process hardly uses CPU: whatever was handed to an engine has then been taken in.
///
/// # Errors
/// When the process is still busy after `limit`.
pub(crate) async fn settle(limit: Duration) -> Result<()> {
    let began = Instant::now();
    let mut idle = 0;
    while idle < SETTLE_LOOKS {
        if began.elapsed() > limit {
            bail!(
                "the process was still busy {limit:?} after it was asked to settle; raise the limit or lower the size"
            );
        }
        let before = process_cpu();
        pause(SETTLE_LOOK).await;
        idle = if process_cpu().saturating_sub(before) < SETTLE_IDLE { idle + 1 } else { 0 };
    }
    Ok(())
}

/// A run that costs a fixed amount of CPU: a number of loop turns, measured once, so that a thread which was
/// pushed off its core in the middle still does all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    turns: u64,
}

/// Turns per calibration: about a millisecond on the machines of this decade.
const CALIBRATION_TURNS: u64 = 1_000_000;
/// Calibrations, of which the quickest counts: the others were disturbed.
const CALIBRATIONS: u32 = 31;

impl Spin {
    /// A spin of about `length` on this machine at its present speed.
    pub(crate) fn lasting(length: Duration) -> Self {
        if length.is_zero() {
            return Spin { turns: 0 };
        }
        let mut best = Duration::MAX;
        for _ in 0..CALIBRATIONS {
            let began = Instant::now();
            Spin { turns: CALIBRATION_TURNS }.run();
            best = best.min(began.elapsed());
        }
        let turns = CALIBRATION_TURNS as f64 * length.as_secs_f64() / best.as_secs_f64().max(1e-9);
        Spin { turns: turns as u64 }
    }

    pub(crate) fn run(self) {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..self.turns {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        black_box(state);
    }
}
