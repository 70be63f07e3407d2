//! Memory over very many runs. Alone in its process, since it looks at the memory of the whole process.
#![cfg(target_os = "linux")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use reconcile_runtime::{Environment, prelude::*};

/// The memory of this process in bytes, as the system counts it.
fn resident() -> usize {
    // In pages of 4 KiB at the least; larger ones would only make the test's bound tighter to reach.
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells every process its memory");
    let pages = statm.split_whitespace().nth(1).expect("the second number is the resident set");
    pages.parse::<usize>().expect("it is a number") * 4096
}

/// Counts itself while it lives.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const KEYS: u32 = 10_000;
const ROUNDS: u32 = 100;
const WARM_UP: u32 = 5;

/// Every run waits once: for the stop of its controller, its run limit, and its own cancellation. Were one of
/// them left behind, with its 24 bytes or more, a million of them would be 24 MB.
const BOUND: usize = 8 << 20;

#[tokio::test(start_paused = true)]
async fn r12_a_million_runs_that_waited_for_their_cancellation_leave_nothing_behind() {
    let env = Environment::seeded(1);
    let mut manager = Manager::with_environment(env.clone());
    let alive = Arc::new(AtomicUsize::new(0));
    let count = alive.clone();
    let waits = reconcile_fn(move |_: u32, run: Run| {
        count.fetch_add(1, Ordering::SeqCst);
        let guard = Alive(count.clone());
        async move {
            let _guard = guard;
            let mut polls = 0;
            let once = std::future::poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            });
            run.until_cancelled(once).await?;
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_keys("waits", waits).enqueued_by_hand()).unwrap();
    let asked = handle.clone();
    manager
        .run_until(async move {
            let mut baseline = 0;
            for round in 0..WARM_UP + ROUNDS {
                if round == WARM_UP {
                    baseline = resident();
                }
                (0..KEYS).for_each(|key| asked.enqueue(key));
                asked.idle().await;
            }
            let grown = resident().saturating_sub(baseline);
            assert!(grown < BOUND, "{grown} bytes more after {} runs", KEYS * ROUNDS);
        })
        .await
        .unwrap();
    assert_eq!(handle.snapshot().runs(), u64::from(KEYS) * u64::from(WARM_UP + ROUNDS));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}
