//! Every interleaving of the desk, in small: two producers, two workers, at most four operations.
//!
//! `make loom` runs it: `RUSTFLAGS="--cfg reconcile_loom" cargo test -p reconcile-runtime --release --lib loom`.

use std::{collections::VecDeque, task::Poll};

use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Desk, Flaw, Found, Work};

/// A first-in, first-out queue of numbers that closes when so many were taken.
struct Numbers {
    queue: VecDeque<u32>,
    taken: usize,
    close_after: usize,
    /// What each waiting job is said to cost.
    cost: u64,
}

impl Work for Numbers {
    fn ready(&self) -> usize {
        self.queue.len()
    }

    fn backlog_nanos(&self) -> u64 {
        self.queue.len() as u64 * self.cost
    }

    fn needs_timer(&self) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        self.taken == self.close_after
    }
}

/// Runs `producers`, each with its numbers, against `workers`; a lost wake-up is a deadlock, which loom reports.
fn explore(flaw: Flaw, producers: &'static [&'static [u32]], workers: usize, cost: u64) {
    let mut builder = loom::model::Builder::new();
    // Two preemptions find every known fault of such protocols, the committed one among them, in seconds.
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let close_after = producers.iter().map(|numbers| numbers.len()).sum();
        let mut desk = Desk::new(Numbers { queue: VecDeque::new(), taken: 0, close_after, cost });
        desk.flaw = flaw;
        let desk = Arc::new(desk);
        let done = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for numbers in producers {
            let desk = desk.clone();
            threads.push(thread::spawn(move || {
                for number in *numbers {
                    desk.operate(|work| work.queue.push_back(*number));
                }
            }));
        }
        for _ in 1..workers {
            let (desk, done) = (desk.clone(), done.clone());
            threads.push(thread::spawn(move || block_on(work(&desk, &done))));
        }
        block_on(work(&desk, &done));
        for thread in threads {
            thread.join().expect("a thread of the model ends");
        }
        assert_eq!(done.load(Ordering::SeqCst), close_after, "every number was taken once");
    });
}

async fn work(desk: &Desk<Numbers>, done: &AtomicUsize) {
    let seat = desk.sit();
    loop {
        let found = std::future::poll_fn(|cx| {
            // As the driver does it: first a look without a waker, then one that parks.
            let mut take = |work: &mut Numbers| {
                let number = work.queue.pop_front();
                work.taken += usize::from(number.is_some());
                number
            };
            if let Some((number, called)) = desk.look(seat, &mut take) {
                return Poll::Ready(Found::Job(number, called));
            }
            match desk.look_or_park(seat, cx.waker(), &mut take) {
                Found::Parked => Poll::Pending,
                found => Poll::Ready(found),
            }
        })
        .await;
        match found {
            Found::Job(..) => {
                done.fetch_add(1, Ordering::SeqCst);
                if desk.read(Work::is_closed) {
                    desk.wake_all();
                }
            }
            Found::Parked | Found::Closed => break,
        }
    }
    desk.leave(seat);
}

#[test]
fn loom_two_producers_one_worker_lose_nothing() {
    explore(Flaw::None, &[&[1, 2], &[3]], 1, 0);
}

#[test]
fn loom_two_producers_two_workers_lose_nothing_when_runs_are_cheap() {
    explore(Flaw::None, &[&[1], &[2]], 2, 0);
}

#[test]
fn loom_two_producers_two_workers_lose_nothing_when_runs_are_dear() {
    explore(Flaw::None, &[&[1], &[2]], 2, u64::MAX / 8);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_finds_the_mark_that_stays() {
    explore(Flaw::MarkStays, &[&[1], &[2]], 2, 0);
}
