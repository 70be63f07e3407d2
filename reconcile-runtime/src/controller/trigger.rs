//! Triggers: streams of keys from outside, such as a file watcher, a socket, or a schedule.
//!
//! A trigger is a factory, not a stream: when a stream ends badly the factory is called again, with capped
//! and jittered backoff, for as long as the controller runs. A stream ends badly when it yields an `Err`, or
//! when it or the factory panics. A stream that ends by `None` has said all it had to say: it is finished, and
//! made again only if [`Trigger::restart_when_finished`] says so.
//!
//! Promises: every key that a stream yields is signalled as an input, in order; after at most 256 keys in
//! a row the stream gives way to other tasks, so that one that is always ready starves no run; nothing is
//! buffered between stream and queue, which merges equal keys.
//!
//! Not here: what a stream missed while it was down. Pair it with
//! [`resync_from`](crate::Controller::resync_from) if its keys can be listed.

use std::{fmt, pin::pin, sync::Arc};

use futures::{Stream, StreamExt, future::BoxFuture};
use reconcile_core::{BoxError, Cause, CauseKind, Key};

use super::source::{BATCH, KindId, Line, Source, give_way};
use crate::{
    manager::supervise::{LoopEnd, LoopRole, LoopSpec, LoopStats, Policy},
    queue::{Lane, Signal, SignalKind},
};

/// What a trigger stream may yield: a key, or the result of getting one.
///
/// Implemented for every key, and for every `Result` of a key; there is nothing to write.
pub trait TriggerItem<K> {
    /// The key, or why the stream cannot go on.
    ///
    /// # Errors
    ///
    /// The error that the stream yielded: the stream ends badly with it.
    fn into_key(self) -> Result<K, BoxError>;
}

impl<K: Key> TriggerItem<K> for K {
    fn into_key(self) -> Result<K, BoxError> {
        Ok(self)
    }
}

impl<K: Key, E: Into<BoxError>> TriggerItem<K> for Result<K, E> {
    fn into_key(self) -> Result<K, BoxError> {
        self.map_err(Into::into)
    }
}

/// A source of keys from outside, with its options. [`Controller::trigger`](crate::Controller::trigger) is
/// the short form.
///
/// # Examples
///
/// ```
/// use futures::stream;
/// use reconcile_runtime::prelude::*;
/// use reconcile_runtime::{Lane, Trigger};
///
/// let hosts = Trigger::new("hosts", || stream::iter(["a.example".to_string(), "b.example".to_string()]))
///     .lane(Lane::High)
///     .restart_when_finished();
/// let controller = Controller::for_keys("dns", reconcile_fn(|host: String, _run| async move {
///     println!("{host}");
///     Ok(Action::await_change())
/// }))
/// .trigger_with(hosts);
/// # let _ = controller;
/// ```
#[must_use = "a trigger does nothing until it is given to a controller"]
pub struct Trigger<K> {
    name: Arc<str>,
    lane: Lane,
    policy: Policy,
    /// Makes one life of the stream and drains it.
    drain: Arc<dyn Fn(Line<K>, Lane) -> BoxFuture<'static, LoopEnd> + Send + Sync>,
}

impl<K: Key> Trigger<K> {
    /// A trigger. `name` tells it from others of its controller, in causes and logs. `make` is called for
    /// each life of the stream.
    pub fn new<S, F>(name: impl Into<Arc<str>>, make: F) -> Self
    where
        S: Stream + Send + 'static,
        S::Item: TriggerItem<K>,
        F: Fn() -> S + Send + Sync + 'static,
    {
        let name = name.into();
        let (make, source) = (Arc::new(make), name.clone());
        Trigger {
            name,
            lane: Lane::Normal,
            policy: Policy::Source,
            drain: Arc::new(move |line, lane| Box::pin(drain(make.clone(), line, lane, source.clone()))),
        }
    }

    /// The lane of its signals; [`Lane::Normal`] if not set.
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Makes the stream again also when it ends by `None`: with the same backoff, so that a stream that is
    /// always empty does not spin.
    pub fn restart_when_finished(mut self) -> Self {
        self.policy = Policy::SourceAgain;
        self
    }
}

impl<K> fmt::Debug for Trigger<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("name", &self.name).field("lane", &self.lane).finish_non_exhaustive()
    }
}

impl<K: Key> Source<K> for Trigger<K> {
    fn name(&self) -> String {
        format!("trigger `{}`", self.name)
    }

    fn kind(&self) -> Option<KindId> {
        None
    }

    fn connect(self: Box<Self>, line: Line<K>) -> Vec<LoopSpec> {
        let stats = LoopStats::new(LoopRole::Trigger, &line.controller, Some(&self.name));
        let (drain, lane) = (self.drain, self.lane);
        vec![LoopSpec::new(&stats, self.policy, move || drain(line.clone(), lane))]
    }
}

/// One life of the stream. Its panics are those of the loop: supervision catches, and names them here.
async fn drain<K, S, F>(make: Arc<F>, line: Line<K>, lane: Lane, name: Arc<str>) -> LoopEnd
where
    K: Key,
    S: Stream,
    S::Item: TriggerItem<K>,
    F: Fn() -> S,
{
    let Some(stream) = line.guard("trigger factory", &*make) else {
        return LoopEnd::Failed(format!("the factory of trigger `{name}` panicked"));
    };
    let mut stream = pin!(stream);
    let cause = Cause::new(CauseKind::Trigger, name.to_string());
    let mut in_a_row = 0;
    loop {
        // Under a guard of its own, so that the panic is counted at this source and not only at its loop.
        let next = std::future::poll_fn(|cx| {
            use std::task::Poll;
            match line.guard("trigger stream", || stream.poll_next_unpin(cx)) {
                Some(Poll::Pending) => {
                    in_a_row = 0;
                    Poll::Pending
                }
                // Here and not later: an item that is no key need not be `Send`.
                Some(Poll::Ready(next)) => {
                    Poll::Ready(Ok(next.map(|item| item.into_key().map_err(|error| error.to_string()))))
                }
                None => Poll::Ready(Err(())),
            }
        })
        .await;
        let key = match next {
            Ok(Some(key)) => key,
            Ok(None) => return LoopEnd::Finished,
            Err(()) => return LoopEnd::Failed(format!("the stream of trigger `{name}` panicked")),
        };
        match key {
            Ok(key) => line.signal(key, Signal::new(SignalKind::Input, lane, cause.clone())),
            Err(error) => {
                line.stats.failed(error.clone());
                return LoopEnd::Failed(error);
            }
        }
        in_a_row += 1;
        if in_a_row >= BATCH {
            in_a_row = 0;
            give_way().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use futures::stream;

    use super::*;
    use crate::{
        Environment,
        controller::source::tests::{Remember, Told, line},
        environment::Task,
        manager::supervise::tests::run,
    };

    fn start(env: &Environment, trigger: Trigger<u32>) -> (Vec<Task>, Arc<Remember<u32>>, Line<u32>) {
        let (line, intake) = line(env);
        let loops = Box::new(trigger).connect(line.clone());
        (loops.into_iter().map(|spec| run(env, spec)).collect(), intake, line)
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_is_an_input_in_the_lane_of_its_trigger() {
        let env = Environment::seeded(1);
        let (_tasks, intake, _line) =
            start(&env, Trigger::new("hosts", || stream::iter([1, 2])).lane(Lane::High));
        env.sleep(Duration::from_secs(1)).await;
        let told = |key| Told::Signal(key, SignalKind::Input, Lane::High, "hosts trigger".to_owned());
        assert_eq!(intake.take(), [told(1), told(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_is_finished_unless_it_asks_to_be_made_again() {
        for (again, expected) in [(false, 1), (true, 2)] {
            let env = Environment::seeded(1);
            let made = Arc::new(AtomicUsize::new(0));
            let count = made.clone();
            let trigger = Trigger::new("hosts", move || {
                count.fetch_add(1, Ordering::SeqCst);
                stream::iter([1])
            });
            let trigger = if again { trigger.restart_when_finished() } else { trigger };
            let (_tasks, _intake, _line) = start(&env, trigger);
            env.sleep(Duration::from_millis(250)).await;
            assert_eq!(made.load(Ordering::SeqCst), expected, "again: {again}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_yields_an_error_or_panics_is_made_again_and_counted() {
        let env = Environment::seeded(1);
        let lives = Arc::new(AtomicUsize::new(0));
        let count = lives.clone();
        let make = move || {
            let life = count.fetch_add(1, Ordering::SeqCst);
            assert_ne!(life, 0, "no such socket");
            stream::iter([Ok(10), Err("reset by peer"), Ok(11)]).map(move |item| {
                assert_ne!((life, item), (1, Ok(10)), "bad packet");
                item
            })
        };
        let (_tasks, intake, line) = start(&env, Trigger::new("hosts", make));
        env.sleep(Duration::from_secs(2)).await;
        let status = line.stats.status();
        assert!(status.panics >= 2 && status.errors >= 1, "{status:?}");
        assert_eq!(status.last_error.as_deref(), Some("reset by peer"));
        assert!(status.last_panic.is_some_and(|text| text.contains("bad packet")));
        // Nothing behind the error is read: the stream ended with it.
        assert!(intake.keys().iter().all(|key| *key == 10));
    }

    #[tokio::test(start_paused = true)]
    async fn bar_p15_a_stream_that_is_always_ready_gives_way_after_a_batch() {
        let env = Environment::seeded(1);
        let (line, intake) = line(&env);
        let trigger = Trigger::new("flood", || stream::repeat(7_u32));
        let mut loops = Box::new(trigger).connect(line);
        let mut life = (loops.pop().expect("a trigger has one loop").make)();
        // One poll of the loop is one turn of its task.
        let turn = futures::poll!(&mut life);
        assert!(turn.is_pending());
        assert_eq!(intake.keys().len(), BATCH);
        assert!(futures::poll!(&mut life).is_pending());
        assert_eq!(intake.keys().len(), BATCH);
    }
}
