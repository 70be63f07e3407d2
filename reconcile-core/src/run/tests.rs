//! Runs as their two ends see them: the reconciler through `Run`, the runtime through `RunControl`.

use std::{
    future::{pending, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use futures::executor::block_on;

use super::*;
use crate::{Error, Retry};

/// A run that can be told from others.
fn numbered(number: u32) -> Run {
    Run::builder().attempt(number).build().0
}

fn current() -> Option<u32> {
    Run::current().map(|run| run.attempt())
}

#[test]
fn a_builder_gives_what_it_was_given() {
    let mut causes = Causes::default();
    causes.add(Cause::new(CauseKind::Enqueued, ""));
    let deadline = Timestamp::from_second(9).ok();
    let ambient: Arc<dyn Any + Send + Sync> = Arc::new(7_u8);
    let (run, _control) =
        Run::builder().attempt(3).causes(causes.clone()).deadline(deadline).ambient(ambient).build();
    assert_eq!((run.attempt(), run.causes(), run.deadline()), (3, &causes, deadline));
    assert_eq!(run.ambient().and_then(|ambient| ambient.downcast_ref::<u8>()), Some(&7));
    assert_eq!(run.now(), Timestamp::UNIX_EPOCH, "without a clock time stands still");
}

#[test]
fn r6_a_wait_that_cannot_end_is_cancelled() {
    for supersede in [false, true] {
        let (run, control) = Run::builder().build();
        let mut wait = pin!(run.until_cancelled(pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        if supersede {
            control.supersede();
        } else {
            control.stop();
        }
        let Poll::Ready(Err(cancelled)) = wait.as_mut().poll(&mut cx) else {
            panic!("a cancelled wait goes on")
        };
        assert_eq!(cancelled.superseded(), supersede);
        assert_eq!(Error::from(cancelled).retry(), Retry::Cancelled);
        assert!(run.is_cancelled());
        assert_eq!(run.superseded(), supersede);
    }
}

#[test]
fn r6_a_cancelled_run_starts_no_new_wait() {
    let (run, control) = Run::builder().build();
    assert_eq!(block_on(run.until_cancelled(ready(5))), Ok(5));
    control.stop();
    let mut polled = false;
    let waited = block_on(run.until_cancelled(async { polled = true }));
    assert!(waited.is_err() && !polled);
    block_on(run.cancelled());
}

#[test]
fn a_clone_is_the_same_run() {
    let (run, control) = Run::builder().build();
    let clone = run.clone();
    clone.progressed();
    assert!(control.has_progressed());
    control.stop();
    assert!(clone.is_cancelled() && control.run().is_cancelled());
}

#[test]
fn a_reused_run_starts_clean() {
    let (run, control) = Run::builder().attempt(9).ambient(Arc::new(1_u8)).build();
    run.progressed();
    control.stop();
    control.supersede();
    drop(run);
    let (run, control) = Run::builder().build_reusing(control.into_run());
    assert!(!run.is_cancelled() && !run.superseded() && !control.has_progressed());
    assert_eq!((run.attempt(), run.ambient().is_none()), (1, true));
}

#[test]
fn a_late_flag_of_a_spent_run_does_not_reach_the_next_one() {
    let (run, late) = Run::builder().attempt(9).build();
    let (next, control) = Run::builder().build_reusing(run.clone());
    late.stop();
    late.supersede();
    late.run().progressed();
    assert!(!next.is_cancelled() && !control.has_progressed(), "somebody held the spent run");
    assert!(run.is_cancelled(), "which stays what it was");
    assert_eq!((run.attempt(), next.attempt()), (9, 1));
    let still_polled = run.scope(pending::<()>());
    let (third, _) = Run::builder().build_reusing(run);
    late.stop();
    assert!(!third.is_cancelled());
    drop(still_polled);
}

#[test]
fn a_run_is_current_while_it_is_polled_and_while_it_is_dropped() {
    struct OnDrop(Arc<Mutex<Vec<Option<u32>>>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(current());
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let guard = OnDrop(Arc::clone(&seen));
    let task = numbered(1).scope(async move {
        guard.0.lock().unwrap().push(current());
        pending::<()>().await;
        drop(guard);
    });
    let mut task = Box::pin(task);
    assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(current(), None, "not between two polls");
    drop(task);
    assert_eq!(*seen.lock().unwrap(), [Some(1), Some(1)]);
    assert_eq!(current(), None);
}

#[test]
fn nested_runs_come_back_in_order() {
    let inner = numbered(2).scope(async { current() });
    let outer = numbered(1).scope(async move {
        let before = current();
        let inside = inner.await;
        (before, inside, current())
    });
    assert_eq!(block_on(outer), (Some(1), Some(2), Some(1)));
    assert_eq!(numbered(3).enter(|| numbered(4).enter(current)), Some(4));
    assert_eq!(current(), None);
}

#[test]
fn interleaved_runs_of_one_thread_do_not_mix() {
    let step = || async {
        let before = current();
        futures::pending!();
        (before, current())
    };
    let (mut one, mut two) = (pin!(numbered(1).scope(step())), pin!(numbered(2).scope(step())));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(one.as_mut().poll(&mut cx).is_pending());
    assert!(two.as_mut().poll(&mut cx).is_pending());
    assert_eq!(one.as_mut().poll(&mut cx), Poll::Ready((Some(1), Some(1))));
    assert_eq!(two.as_mut().poll(&mut cx), Poll::Ready((Some(2), Some(2))));
}

#[test]
fn a_panic_puts_the_previous_run_back() {
    let outer = numbered(1);
    let after = outer.enter(|| {
        let inner = numbered(2);
        let panicked = catch_unwind(AssertUnwindSafe(|| inner.enter(|| panic!("as meant"))));
        assert!(panicked.is_err());
        let mut task = Box::pin(inner.scope(async { panic!("as meant") }));
        let poll = || task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
        let between = current();
        drop(task);
        (between, current())
    });
    assert_eq!(after, (Some(1), Some(1)));
    assert_eq!(current(), None);
}

#[test]
fn a_run_goes_with_its_task_to_another_thread() {
    let task = numbered(5).scope(async { current() });
    let seen = std::thread::spawn(|| block_on(task)).join().unwrap();
    assert_eq!(seen, Some(5));
    assert_eq!(std::thread::spawn(current).join().unwrap(), None);
}

#[test]
fn causes_are_merged_and_bounded() {
    let mut causes = Causes::default();
    for number in 0..10 {
        causes.add(Cause::new(CauseKind::Trigger, format!("source-{number}")));
    }
    assert_eq!((causes.iter().count(), causes.signals()), (Causes::KEPT, 10));
    let mut others = Causes::default();
    others.add(Cause::new(CauseKind::Resync, ""));
    others.merge(causes.clone());
    assert_eq!((others.iter().count(), others.signals()), (Causes::KEPT, 11));
    assert_eq!(others.iter().next().map(|cause| cause.kind), Some(CauseKind::Resync));
    others.merge(Causes::default());
    assert_eq!(others.signals(), 11);
    assert!(Causes::default().is_empty() && !others.is_empty());
}
