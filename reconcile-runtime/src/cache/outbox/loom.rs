//! Every interleaving of two outboxes whose deliveries read each other, in small.
//!
//! `make loom` runs it: `RUSTFLAGS="--cfg reconcile_loom" cargo test -p reconcile-runtime --release --lib loom`.

use std::sync::Arc;

use loom::{future::block_on, sync::Mutex, thread};

use super::{Delivered, Outbox, Post, drain_now};

/// A kind in small: its lock, and what its subscriber was told. A subscriber reads both kinds, as mappers do.
struct Kind {
    locks: Arc<[Mutex<Outbox<u32>>; 2]>,
    number: usize,
    told: Arc<Mutex<Vec<u32>>>,
}

impl Post for Kind {
    type Item = u32;

    fn with_outbox<T>(&self, f: impl FnOnce(&mut Outbox<u32>) -> T) -> T {
        f(&mut self.locks[self.number].lock().expect("no thread of the model panics under it"))
    }

    fn deliver(&self, item: u32) {
        // Were it called with the lock held, one of these would be a deadlock: the own lock for one thread
        // alone, the other's for two that meet.
        for lock in self.locks.iter() {
            let _read = lock.lock().expect("no thread of the model panics under it");
        }
        self.told.lock().expect("no thread of the model panics under it").push(item);
    }
}

impl Kind {
    /// A writer: its change is told when this ends.
    fn write(self: &Arc<Self>, item: u32) {
        let place = self.with_outbox(|outbox| {
            outbox.push(item);
            outbox.sit()
        });
        block_on(Delivered::new(self.clone(), place));
        let told = self.told.lock().expect("no thread of the model panics under it");
        assert!(told.contains(&item), "the change {item} is told when its writer goes on");
    }

    /// A subscriber comes: a push that waits for nobody.
    fn subscribe(&self, item: u32) {
        self.with_outbox(|outbox| outbox.push(item));
        drain_now(self);
    }
}

fn kinds() -> [Arc<Kind>; 2] {
    let locks = Arc::new([Mutex::new(Outbox::new()), Mutex::new(Outbox::new())]);
    [0, 1]
        .map(|number| Arc::new(Kind { locks: locks.clone(), number, told: Arc::new(Mutex::new(Vec::new())) }))
}

/// Two preemptions find every known fault of such protocols in seconds.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

fn told(kind: &Kind) -> Vec<u32> {
    let mut told = kind.told.lock().expect("no thread of the model panics under it").clone();
    told.sort_unstable();
    told
}

#[test]
fn loom_r7_writers_of_two_kinds_whose_subscribers_read_both_do_not_deadlock() {
    explore(|| {
        let [one, two] = kinds();
        let others = [one.clone(), two.clone()];
        let thread = thread::spawn(move || {
            others[1].write(3);
            others[0].write(4);
        });
        one.write(1);
        two.write(2);
        thread.join().expect("the other writer ends");
        assert_eq!((told(&one), told(&two)), (vec![1, 4], vec![2, 3]));
    });
}

#[test]
fn loom_r7_a_subscriber_that_comes_between_two_writers_loses_nothing() {
    explore(|| {
        let [kind, _] = kinds();
        let (subscribes, writes) = (kind.clone(), kind.clone());
        let threads =
            [thread::spawn(move || subscribes.subscribe(1)), thread::spawn(move || writes.write(2))];
        kind.write(3);
        for thread in threads {
            thread.join().expect("a thread of the model ends");
        }
        assert_eq!(told(&kind), [1, 2, 3]);
    });
}
