//! Every interleaving of the machine behind its desk, in small: a key that ends as it is signalled, and stops
//! that meet.
//!
//! `make loom` runs it: `RUSTFLAGS="--cfg reconcile_loom" cargo test -p reconcile-runtime --release --lib loom`.

use std::task::Poll;

use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use reconcile_core::{Cause, CauseKind, Run};

use super::{Effects, Finished, Machine, QueueConfig, Signal, SignalKind};
use crate::{
    environment::Time,
    queue::{
        Ended, Lane,
        desk::{Desk, Found, Work},
    },
};

impl Work for Machine<u32> {
    fn ready(&self) -> usize {
        Machine::ready(self)
    }

    fn backlog_nanos(&self) -> u64 {
        0
    }

    fn needs_timer(&self) -> bool {
        self.is_sooner()
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The queue, and the world that its only key is about.
struct World {
    desk: Desk<Machine<u32>>,
    /// What a run reads.
    state: AtomicUsize,
    /// Runs of the key at this moment.
    running: AtomicUsize,
}

const KEY: u32 = 7;
const HASH: u32 = 1;
const NOW: Time = Time::from_nanos(1);

impl World {
    fn new() -> Arc<Self> {
        let machine = Machine::new(QueueConfig::new("loom"), NOW);
        Arc::new(World { desk: Desk::new(machine), state: AtomicUsize::new(0), running: AtomicUsize::new(0) })
    }

    fn signal(&self) {
        let signal = Signal::new(SignalKind::Observed, Lane::Normal, Cause::new(CauseKind::Trigger, ""));
        let mut fx = Effects::default();
        self.desk.operate(|machine| machine.signal(HASH, KEY, signal, NOW, &mut fx));
    }

    /// As the driver closes a queue.
    fn close(&self) {
        let mut fx = Effects::default();
        self.desk.operate(|machine| machine.close(&mut fx));
        self.desk.wake_all();
    }

    /// A worker that runs keys until the queue is closed. Closes it when a run has read `last`; how many runs.
    async fn work(&self, last: usize) -> usize {
        let seat = self.desk.sit();
        let (mut done, mut runs) = (None, 0);
        loop {
            let found = std::future::poll_fn(|cx| {
                let mut fx = Effects::default();
                let mut take = |machine: &mut Machine<u32>| {
                    if let Some(id) = done.take() {
                        machine.finish(id, Finished::of(Ended::AwaitChange), NOW, 0, &mut fx);
                    }
                    machine.take(NOW, |_, _, _| Run::builder().build().1, &mut fx)
                };
                if let Some((job, called)) = self.desk.look(seat, &mut take) {
                    return Poll::Ready(Found::Job(job, called));
                }
                match self.desk.look_or_park(seat, cx.waker(), &mut take) {
                    Found::Parked => Poll::Pending,
                    found => Poll::Ready(found),
                }
            })
            .await;
            let Found::Job((taken, _control), _called) = found else { break };
            assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "one run of a key at a time");
            let seen = self.state.load(Ordering::SeqCst);
            self.running.fetch_sub(1, Ordering::SeqCst);
            runs += 1;
            done = Some(taken.id);
            if seen == last {
                self.close();
            }
        }
        self.desk.leave(seat);
        runs
    }
}

/// Two preemptions find every known fault of such protocols in seconds.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A change comes as the key's run ends and its slot goes: a lost one parks the worker for ever, a deadlock.
fn signal_at_the_end(workers: usize) {
    explore(move || {
        let world = World::new();
        world.signal();
        let changes = world.clone();
        let mut threads = vec![thread::spawn(move || {
            changes.state.store(1, Ordering::SeqCst);
            changes.signal();
            0
        })];
        for _ in 1..workers {
            let world = world.clone();
            threads.push(thread::spawn(move || block_on(world.work(1))));
        }
        let mut runs = block_on(world.work(1));
        for thread in threads {
            runs += thread.join().expect("a thread of the model ends");
        }
        assert!((1..=2).contains(&runs), "{runs} runs for two signals");
    });
}

#[test]
fn loom_c11_a_signal_that_meets_the_end_of_its_key_is_run() {
    signal_at_the_end(1);
}

#[test]
fn loom_c11_a_signal_that_meets_the_end_of_its_key_is_run_by_one_of_two_workers() {
    signal_at_the_end(2);
}

#[test]
fn loom_r4_two_stops_at_once_wake_every_waiting_worker_and_the_timers() {
    explore(|| {
        let world = World::new();
        let (one, two) = (world.clone(), world.clone());
        let stops = [thread::spawn(move || one.close()), thread::spawn(move || two.close())];
        let timers = world.clone();
        let timers = thread::spawn(move || {
            block_on(std::future::poll_fn(|cx| {
                // As the driver's timer task: arms, and ends when the queue is closed.
                let mut fx = Effects::default();
                let closed = timers.desk.arm(cx.waker(), |machine| {
                    machine.advance(NOW, &mut fx);
                    (machine.closed, machine.arm())
                });
                if closed.0 { Poll::Ready(()) } else { Poll::Pending }
            }));
        });
        assert_eq!(block_on(world.work(usize::MAX)), 0);
        timers.join().expect("the timers end");
        for stop in stops {
            stop.join().expect("a stop ends");
        }
    });
}

#[test]
fn loom_r4_a_signal_that_meets_a_stop_is_run_or_dropped_and_nobody_waits() {
    explore(|| {
        let world = World::new();
        let (signals, stops) = (world.clone(), world.clone());
        let signals = thread::spawn(move || signals.signal());
        let stops = thread::spawn(move || stops.close());
        assert!(block_on(world.work(usize::MAX)) <= 1);
        signals.join().expect("the signal ends");
        stops.join().expect("the stop ends");
        assert!(world.desk.read(Machine::is_drained));
    });
}
