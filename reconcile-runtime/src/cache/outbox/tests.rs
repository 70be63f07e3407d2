use std::sync::{Mutex, PoisonError};

use proptest::prelude::*;

use super::*;
use crate::cache::test_task::{TestTask, task};

type Hook = Box<dyn FnOnce() + Send>;

/// An outbox of numbers. A delivery may run a hook: what other parties do while it lasts.
#[derive(Default)]
struct Board {
    outbox: Mutex<Option<Outbox<u32>>>,
    seen: Mutex<Vec<u32>>,
    hooks: Mutex<Vec<(u32, Hook)>>,
    /// What happens during the next delivery, whichever it is.
    next: Mutex<Vec<Hook>>,
}

impl Post for Board {
    type Item = u32;

    fn with_outbox<T>(&self, f: impl FnOnce(&mut Outbox<u32>) -> T) -> T {
        f(self.outbox.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Outbox::new))
    }

    fn deliver(&self, item: u32) {
        let hook = {
            let mut hooks = self.hooks.lock().unwrap();
            hooks.iter().position(|(at, _)| *at == item).map(|index| hooks.remove(index).1)
        };
        let next = std::mem::take(&mut *self.next.lock().unwrap());
        for hook in hook.into_iter().chain(next) {
            hook();
        }
        self.seen.lock().unwrap().push(item);
    }
}

impl Board {
    fn push(self: &Arc<Self>, item: u32) -> Delivered<Board> {
        let place = self.with_outbox(|outbox| {
            outbox.push(item);
            outbox.sit()
        });
        Delivered::new(self.clone(), place)
    }

    /// Pushes the number of the push.
    fn push_next(self: &Arc<Self>) -> Delivered<Board> {
        let place = self.with_outbox(|outbox| {
            outbox.push(u32::try_from(outbox.pushed + 1).unwrap());
            outbox.sit()
        });
        Delivered::new(self.clone(), place)
    }

    fn during_next(&self, hook: impl FnOnce() + Send + 'static) {
        self.next.lock().unwrap().push(Box::new(hook));
    }

    fn during(&self, item: u32, hook: impl FnOnce() + Send + 'static) {
        self.hooks.lock().unwrap().push((item, Box::new(hook)));
    }

    fn seen(&self) -> Vec<u32> {
        self.seen.lock().unwrap().clone()
    }
}

type Tasks = Arc<Mutex<Vec<TestTask<()>>>>;

/// Pushes `items` and polls each party once while item 1 is being delivered by `main`.
fn pushed_during_one(items: &'static [u32]) -> (Arc<Board>, Delivered<Board>, Tasks) {
    let board = Arc::new(Board::default());
    let main = board.push(1);
    let tasks: Tasks = Arc::default();
    let (inner, kept) = (board.clone(), tasks.clone());
    board.during(1, move || {
        for item in items {
            let mut party = task(inner.push(*item));
            assert!(!party.poll(), "somebody else drains");
            kept.lock().unwrap().push(party);
        }
    });
    (board, main, tasks)
}

#[test]
fn a_lone_party_drains_its_own_item_at_once() {
    let board = Arc::new(Board::default());
    assert!(task(board.push(1)).poll());
    assert_eq!(board.seen(), [1]);
}

#[test]
fn a_drainer_stops_at_its_ticket_and_wakes_the_next() {
    let (board, main, tasks) = pushed_during_one(&[2, 3]);
    assert!(task(main).poll());
    assert_eq!(board.seen(), [1], "items of others are theirs to drain");
    let mut tasks = tasks.lock().unwrap();
    assert!(tasks[0].woken() && !tasks[1].woken(), "one is woken, not the herd");
    assert!(tasks[0].poll());
    assert_eq!(board.seen(), [1, 2]);
    assert!(tasks[1].woken() && tasks[1].poll());
    assert_eq!(board.seen(), [1, 2, 3]);
}

#[test]
fn a_party_returns_only_after_its_own_item() {
    let (board, main, tasks) = pushed_during_one(&[2]);
    let early = tasks.clone();
    board.during(1, move || assert!(early.lock().unwrap().iter_mut().all(|party| !party.poll())));
    assert!(task(main).poll());
    assert!(tasks.lock().unwrap()[0].poll());
    assert_eq!(board.seen(), [1, 2]);
}

#[test]
fn a_dropped_waiter_leaves_its_item_to_the_drainer() {
    let (board, main, tasks) = pushed_during_one(&[2]);
    let dropped = tasks.clone();
    let (inner, again) = (board.clone(), board.clone());
    // The hook of item 1 has pushed item 2 and sat down; it is dropped while item 1 is still delivered.
    let hook = board.hooks.lock().unwrap().pop().unwrap().1;
    board.during(1, move || {
        hook();
        dropped.lock().unwrap().clear();
        drop(inner);
    });
    assert!(task(main).poll());
    assert_eq!(again.seen(), [1, 2]);
}

#[test]
fn a_woken_waiter_that_is_dropped_passes_the_role_on() {
    let (board, main, tasks) = pushed_during_one(&[2, 3]);
    assert!(task(main).poll());
    let mut tasks = tasks.lock().unwrap();
    assert!(tasks[0].woken());
    drop(tasks.remove(0));
    assert!(tasks[0].woken(), "the drop woke the other one");
    assert!(tasks[0].poll());
    assert_eq!(board.seen(), [1, 2, 3]);
}

#[test]
fn the_last_waiter_drains_when_it_is_dropped() {
    let (board, main, tasks) = pushed_during_one(&[2]);
    assert!(task(main).poll());
    assert_eq!(board.seen(), [1]);
    tasks.lock().unwrap().clear();
    assert_eq!(board.seen(), [1, 2]);
}

#[test]
fn a_woken_waiter_that_is_never_polled_holds_nobody_up() {
    let (board, main, tasks) = pushed_during_one(&[2]);
    assert!(task(main).poll());
    assert!(task(board.push(9)).poll(), "a newcomer takes the free role");
    assert_eq!(board.seen(), [1, 2, 9]);
    assert!(tasks.lock().unwrap()[0].poll());
}

#[test]
fn a_party_that_was_dropped_before_its_first_poll_loses_nothing() {
    let board = Arc::new(Board::default());
    drop(board.push(1));
    assert_eq!(board.seen(), [1]);
}

#[test]
fn one_who_does_not_wait_drains_or_leaves_it_to_the_drainer() {
    let board = Arc::new(Board::default());
    board.with_outbox(|outbox| outbox.push(1));
    let inner = board.clone();
    board.during(1, move || {
        inner.with_outbox(|outbox| outbox.push(2));
        drain_now(&*inner);
        assert!(inner.seen().is_empty(), "the role is taken");
    });
    drain_now(&*board);
    assert_eq!(board.seen(), [1, 2]);
}

#[derive(Debug, Clone)]
enum Move {
    Push,
    PushDuringNext,
    Poll(usize),
    Drop(usize),
    DropDuringNext(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        Just(Move::Push),
        Just(Move::PushDuringNext),
        any::<usize>().prop_map(Move::Poll),
        any::<usize>().prop_map(Move::Drop),
        any::<usize>().prop_map(Move::DropDuringNext),
    ];
    prop::collection::vec(one, 1..40)
}

/// The parties of a history; one that has ended or was dropped is none.
type Parties = Arc<Mutex<Vec<Option<TestTask<()>>>>>;

fn poll_party(parties: &Parties, index: usize) {
    // Taken out while it is polled, since its deliveries may look at the list.
    let party = parties.lock().unwrap()[index].take();
    if let Some(mut party) = party
        && !party.poll()
    {
        parties.lock().unwrap()[index] = Some(party);
    }
}

fn add_party(board: &Arc<Board>, parties: &Parties) {
    let party = task(board.push_next());
    parties.lock().unwrap().push(Some(party));
}

fn play(board: &Arc<Board>, parties: &Parties, step: Move) {
    let count = parties.lock().unwrap().len();
    match step {
        Move::Push => add_party(board, parties),
        Move::PushDuringNext => {
            let (inner, kept) = (board.clone(), parties.clone());
            board.during_next(move || {
                add_party(&inner, &kept);
                let last = kept.lock().unwrap().len() - 1;
                poll_party(&kept, last);
            });
        }
        Move::Poll(index) if count > 0 => poll_party(parties, index % count),
        Move::Drop(index) if count > 0 => {
            let gone = parties.lock().unwrap()[index % count].take();
            drop(gone);
        }
        Move::DropDuringNext(index) if count > 0 => {
            let kept = parties.clone();
            board.during_next(move || {
                let gone = kept.lock().unwrap()[index % count].take();
                drop(gone);
            });
        }
        Move::Poll(_) | Move::Drop(_) | Move::DropDuringNext(_) => {}
    }
}

proptest! {
    /// Whatever the parties do, items are delivered in order and none twice; and once every party that is left
    /// had its first poll and was polled again whenever it was woken, no item and no party is left behind.
    #[test]
    fn no_interleaving_loses_an_item_or_the_role(moves in moves()) {
        let board = Arc::new(Board::default());
        let parties = Parties::default();
        for step in moves {
            play(&board, &parties, step);
        }
        let mut due: Vec<usize> = (0..parties.lock().unwrap().len()).collect();
        while !due.is_empty() {
            for index in due {
                poll_party(&parties, index);
            }
            let parties = parties.lock().unwrap();
            let woken = |index: &usize| parties[*index].as_ref().is_some_and(TestTask::woken);
            due = (0..parties.len()).filter(woken).collect();
        }
        let pushed = board.with_outbox(|outbox| outbox.pushed);
        let expected: Vec<u32> = (1..=u32::try_from(pushed).unwrap()).collect();
        prop_assert_eq!(board.seen(), expected);
        prop_assert!(parties.lock().unwrap().iter().all(Option::is_none), "a party was never woken");
    }
}
