//! Resync: the safety net under lost or missing signals.
//!
//! Two kinds. A controller of objects signals every key of its primary's cache from time to time. A keyed
//! controller can be given a function that lists all keys: it is called at the start, and again after every
//! period.
//!
//! Promises: a resync is a signal of its own kind in the low lane: it meets no filter, shortens no backoff, and
//! is merged with whatever else the key has. Periods are jittered over their last tenth. A list of keys that
//! fails or panics is counted, and asked for again with backoff until it is had; the period starts anew then.
//!
//! Not here: what is no longer listed. A key that is gone from the list is not signalled; what is to be cleaned
//! up for it has to be found by the reconciler.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use reconcile_core::{Cause, CauseKind, Error, Key};

use super::source::{BATCH, KindId, Line, Source, give_way, next_resync};
use crate::{
    manager::supervise::{LoopEnd, LoopRole, LoopSpec, LoopStats, Policy},
    queue::{Lane, Signal, SignalKind},
};

/// How the keys are had.
type List<K> = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<K>, Error>> + Send + Sync>;

/// When the keys are listed for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// At the start: nothing else would tell the keys.
    AtStart,
    /// After one period: the initial list of the cache has just told all keys.
    AfterPeriod,
}

/// A list of keys that is signalled from time to time.
pub(super) struct Resync<K> {
    name: Arc<str>,
    every: Duration,
    first: First,
    list: List<K>,
}

impl<K: Key> Resync<K> {
    /// Of a keyed controller: at the start, and after each period.
    pub(super) fn from_function<F, Fut>(every: Duration, keys: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<K>, Error>> + Send + 'static,
    {
        let list: List<K> = Arc::new(move || Box::pin(keys()));
        Resync { name: "keys".into(), every, first: First::AtStart, list }
    }

    /// Of a controller of objects: `keys` reads the cache.
    pub(super) fn of_cache(
        kind: &'static str,
        every: Duration,
        keys: impl Fn() -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        let list: List<K> = Arc::new(move || Box::pin(std::future::ready(Ok(keys()))));
        Resync { name: kind.into(), every, first: First::AfterPeriod, list }
    }
}

impl<K> fmt::Debug for Resync<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resync").field("name", &self.name).field("every", &self.every).finish_non_exhaustive()
    }
}

impl<K: Key> Source<K> for Resync<K> {
    fn name(&self) -> String {
        format!("resync of {}", self.name)
    }

    fn kind(&self) -> Option<KindId> {
        None
    }

    fn connect(self: Box<Self>, line: Line<K>) -> Vec<LoopSpec> {
        let stats = LoopStats::new(LoopRole::Resync, &line.controller, Some(&self.name));
        let Resync { name, every, first, list } = *self;
        // A life after a bad end lists at once: supervision has already waited, and the keys are overdue.
        let mut first = first;
        vec![LoopSpec::new(&stats, Policy::Source, move || {
            let now = std::mem::replace(&mut first, First::AtStart);
            Box::pin(resync(line.clone(), name.clone(), every, now, list.clone()))
        })]
    }
}

async fn resync<K: Key>(
    line: Line<K>,
    name: Arc<str>,
    every: Duration,
    mut first: First,
    list: List<K>,
) -> LoopEnd {
    let cause = Cause::new(CauseKind::Resync, name.to_string());
    loop {
        if std::mem::replace(&mut first, First::AfterPeriod) == First::AfterPeriod {
            line.env.sleep(next_resync(every, line.env.random().next_u64())).await;
        }
        let keys = match listed(&line, &list).await {
            Ok(keys) => keys,
            Err(why) => return LoopEnd::Failed(why),
        };
        for (signalled, key) in keys.into_iter().enumerate() {
            if signalled > 0 && signalled % BATCH == 0 {
                give_way().await;
            }
            line.signal(key, Signal::new(SignalKind::Resync, Lane::Low, cause.clone()));
        }
    }
}

/// The keys; a panic of the function or its future is counted at the source.
async fn listed<K: Key>(line: &Line<K>, list: &List<K>) -> Result<Vec<K>, String> {
    let panicked = || "the list of keys panicked".to_owned();
    let Some(mut future) = line.guard("list of keys", || list()) else { return Err(panicked()) };
    let polled = std::future::poll_fn(|cx| {
        use std::task::Poll;
        match line.guard("list of keys", || future.as_mut().poll(cx)) {
            Some(poll) => poll.map(Some),
            None => Poll::Ready(None),
        }
    })
    .await;
    match polled {
        Some(Ok(keys)) => Ok(keys),
        Some(Err(error)) => {
            let error = error.to_string();
            line.stats.failed(error.clone());
            Err(error)
        }
        None => Err(panicked()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{
        Environment,
        controller::source::tests::{Remember, Told, line},
        environment::Task,
        manager::supervise::tests::run,
    };

    const MINUTE: Duration = Duration::from_secs(60);

    fn start(env: &Environment, resync: Resync<usize>) -> (Vec<Task>, Arc<Remember<usize>>, Line<usize>) {
        let (line, intake) = line(env);
        let loops = Box::new(resync).connect(line.clone());
        (loops.into_iter().map(|spec| run(env, spec)).collect(), intake, line)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_listed_at_the_start_and_after_every_period() {
        let env = Environment::seeded(1);
        let resync = Resync::from_function(MINUTE, || async { Ok(vec![1, 2]) });
        let (_tasks, intake, _line) = start(&env, resync);
        env.sleep(Duration::from_secs(1)).await;
        let told = |key| Told::Signal(key, SignalKind::Resync, Lane::Low, "keys resync".to_owned());
        assert_eq!(intake.take(), [told(1), told(2)]);
        env.sleep(Duration::from_secs(52)).await;
        assert!(intake.take().is_empty());
        // The second one is due between 54 s and 60 s.
        env.sleep(Duration::from_secs(8)).await;
        assert_eq!(intake.keys(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_resynced_only_after_the_first_period() {
        let env = Environment::seeded(1);
        let (_tasks, intake, _line) = start(&env, Resync::of_cache("Web", MINUTE, || vec![7]));
        env.sleep(Duration::from_secs(50)).await;
        assert!(intake.keys().is_empty());
        env.sleep(Duration::from_secs(11)).await;
        assert_eq!(intake.keys(), [7]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_or_panics_is_counted_and_tried_again_with_backoff() {
        let env = Environment::seeded(1);
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let resync = Resync::from_function(MINUTE, move || {
            let call = count.fetch_add(1, Ordering::SeqCst);
            async move {
                match call {
                    0 => Err("registry is away".into()),
                    1 => panic!("bad list"),
                    _ => Ok(vec![call]),
                }
            }
        });
        let (_tasks, intake, line) = start(&env, resync);
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(intake.keys(), [2]);
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        let status = line.stats.status();
        assert_eq!((status.errors, status.panics), (1, 1));
        assert_eq!(status.last_error.as_deref(), Some("registry is away"));
        assert_eq!(status.last_panic.as_deref(), Some("list of keys: bad list"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_resync_that_panicked_is_made_up_for_at_once_and_not_a_period_later() {
        let env = Environment::seeded(1);
        let calls = AtomicUsize::new(0);
        let resync = Resync::of_cache("Web", MINUTE, move || {
            assert_ne!(calls.fetch_add(1, Ordering::SeqCst), 0, "bad key");
            vec![7]
        });
        let (_tasks, intake, _line) = start(&env, resync);
        env.sleep(MINUTE + Duration::from_secs(1)).await;
        assert_eq!(intake.keys(), [7]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_list_gives_way_after_each_batch() {
        let env = Environment::seeded(1);
        let (line, intake) = line(&env);
        let resync = Resync::from_function(MINUTE, || async { Ok((0..BATCH * 2 + 1).collect()) });
        let mut life = (Box::new(resync).connect(line).pop().expect("a resync has one loop").make)();
        assert!(futures::poll!(&mut life).is_pending());
        assert_eq!(intake.keys().len(), BATCH);
        assert!(futures::poll!(&mut life).is_pending());
        assert!(futures::poll!(&mut life).is_pending());
        assert_eq!(intake.keys().len(), BATCH + 1);
    }
}
