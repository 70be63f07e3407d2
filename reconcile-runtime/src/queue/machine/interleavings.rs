//! The machine behind its desk, under every interleaving of a few threads: a pop that races with adds, and
//! timers that are set, fired and cancelled at once. (The desk's own protocol: `desk_loom.rs`.)

use std::task::Poll;

use futures::task::noop_waker;
use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use reconcile_core::{ReconcileError, Retry, Run};

use super::*;
use crate::queue::{
    Ended,
    desk::{Desk, Found, Work},
};

/// The key of the timers' models.
const A: u8 = 1;
const HASH: u32 = 0;

/// When the work of a model is done: it says so itself.
struct Closing {
    machine: Machine<u8>,
    taken: usize,
    close_after: usize,
}

impl Work for Closing {
    fn ready(&self) -> usize {
        self.machine.ready()
    }

    fn backlog_nanos(&self) -> u64 {
        0
    }

    fn needs_timer(&self) -> bool {
        self.machine.is_sooner()
    }

    fn is_closed(&self) -> bool {
        self.taken == self.close_after
    }
}

impl Closing {
    fn signal(&mut self, key: u8, kind: SignalKind, lane: Lane, now: Time) {
        let signal = Signal::new(kind, lane, Cause::new(CauseKind::Updated, ""));
        self.machine.signal(HASH, key, signal, now, &mut Effects::default());
    }

    fn take(&mut self, now: Time) -> Option<Taken<u8>> {
        let make =
            |attempt: u32, causes: Causes, _: Time| Run::builder().attempt(attempt).causes(causes).build().1;
        let (taken, _control) = self.machine.take(now, make, &mut Effects::default())?;
        self.taken += 1;
        Some(taken)
    }

    fn finish(&mut self, taken: &Taken<u8>, ended: Ended, now: Time) {
        self.machine.finish(taken.id, Finished::of(ended), now, u64::MAX, &mut Effects::default());
    }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn desk(close_after: usize) -> Desk<Closing> {
    let machine = Machine::new(QueueConfig::new("loom"), Time::ZERO);
    Desk::new(Closing { machine, taken: 0, close_after })
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn together(desk: &Arc<Desk<Closing>>, operations: Vec<Box<dyn FnOnce(&mut Closing) + Send>>) {
    let threads: Vec<_> = operations
        .into_iter()
        .map(|operation| {
            let desk = desk.clone();
            thread::spawn(move || desk.operate(|work| operation(work)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread of the model ends");
    }
}

/// Once the adds of both lanes have returned, a pop gets the urgent key, whoever added first and whenever the
/// waiter parked.
#[test]
fn loom_q6_a_pop_after_both_adds_gets_the_urgent_key() {
    explore(|| {
        let desk = Arc::new(desk(2));
        let returned = Arc::new(AtomicUsize::new(0));
        let adders: Vec<_> = [(1, Lane::Low), (2, Lane::High)]
            .map(|(key, lane)| {
                let (desk, returned) = (desk.clone(), returned.clone());
                thread::spawn(move || {
                    desk.operate(|work| work.signal(key, SignalKind::Input, lane, Time::ZERO));
                    returned.fetch_add(1, Ordering::SeqCst);
                })
            })
            .into();
        let seat = desk.sit();
        let mut popped = Vec::new();
        while popped.len() < 2 {
            let (found, both) = block_on(std::future::poll_fn(|cx| {
                let both = returned.load(Ordering::SeqCst) == 2;
                match desk.look_or_park(seat, cx.waker(), |work| work.take(Time::ZERO)) {
                    Found::Parked => Poll::Pending,
                    found => Poll::Ready((found, both)),
                }
            }));
            let Found::Job(taken, _) = found else { panic!("the model closes after both") };
            popped.push((*taken.key, both));
        }
        desk.leave(seat);
        for adder in adders {
            adder.join().expect("a thread of the model ends");
        }
        assert!(popped[0] != (1, true), "both adds had returned, and the pop gave the low key");
    });
}

/// Two tasks move the timer of one key at once, a third fires timers, and the object is deleted: one run for
/// the deletion, and no timer after it.
#[test]
fn loom_b12_a_key_that_is_scheduled_twice_at_once_has_one_timer() {
    explore(|| {
        let desk = Arc::new(desk(usize::MAX));
        let taken = desk.operate(|work| {
            work.signal(A, SignalKind::Input, Lane::Normal, Time::ZERO);
            work.take(Time::ZERO).expect("the key is due")
        });
        let error = ReconcileError::new(Retry::After(std::time::Duration::from_secs(60)), "busy");
        desk.operate(|work| {
            work.finish(&taken, Ended::Failed(error), Time::ZERO);
            work.machine.check();
        });
        // Each of the inputs moves the timer; the second one finds the turn of the first taken or ahead.
        let schedule = |millis| -> Box<dyn FnOnce(&mut Closing) + Send> {
            Box::new(move |work| {
                work.signal(A, SignalKind::Input, Lane::Normal, at(millis));
                work.machine.check();
            })
        };
        let fire: Box<dyn FnOnce(&mut Closing) + Send> = Box::new(|work| {
            work.machine.advance(at(500), &mut Effects::default());
            let _until = work.machine.arm();
        });
        together(&desk, vec![schedule(0), schedule(100), fire]);
        desk.operate(|work| {
            work.signal(A, SignalKind::Deletion, Lane::Normal, at(500));
            let taken = work.take(at(500)).expect("the deletion runs it");
            assert!(work.take(Time::MAX).is_none(), "once");
            work.finish(&taken, Ended::AwaitChange, at(500));
            work.machine.advance(Time::MAX, &mut Effects::default());
            assert_eq!((work.machine.ready(), work.machine.arm()), (0, None), "no timer of it is left");
            work.machine.check();
        });
    });
}

/// A key's timer fires, is taken by a worker, and is moved and cancelled, all at once: it runs at most once, and
/// what was cancelled never fires.
#[test]
fn loom_b5_a_timer_that_is_due_can_be_moved_and_cancelled() {
    explore(|| {
        let desk = Arc::new(desk(usize::MAX));
        desk.operate(|work| {
            work.signal(A, SignalKind::Input, Lane::Normal, Time::ZERO);
            let taken = work.take(Time::ZERO).expect("the key is due");
            let error = ReconcileError::new(Retry::After(std::time::Duration::from_secs(60)), "busy");
            work.finish(&taken, Ended::Failed(error), Time::ZERO);
        });
        // Moved to at once, a second before it is due; fired; and taken off its timer or out of its lane.
        let moves: Box<dyn FnOnce(&mut Closing) + Send> =
            Box::new(|work| work.signal(A, SignalKind::Input, Lane::High, at(59_000)));
        let fires: Box<dyn FnOnce(&mut Closing) + Send> =
            Box::new(|work| work.machine.advance(at(60_000), &mut Effects::default()));
        let cancels: Box<dyn FnOnce(&mut Closing) + Send> =
            Box::new(|work| work.machine.pause_key(HASH, A, at(59_500), &mut Effects::default()));
        let worker = {
            let desk = desk.clone();
            thread::spawn(move || {
                let seat = desk.sit();
                let taken = desk.look(seat, |work| work.take(at(60_000)));
                if let Some((taken, _)) = &taken {
                    desk.operate(|work| work.finish(taken, Ended::AwaitChange, at(60_000)));
                }
                desk.leave(seat);
            })
        };
        together(&desk, vec![moves, fires, cancels]);
        worker.join().expect("a thread of the model ends");
        let until = desk.arm(&noop_waker(), |work| {
            work.machine.advance(Time::MAX, &mut Effects::default());
            work.machine.check();
            assert!(work.taken <= 2, "one run before, and one at most now");
            assert_eq!(work.machine.ready(), 0, "it is paused, or it ran and then was");
            work.machine.arm()
        });
        assert_eq!(until, None, "what was cancelled never fires");
    });
}
