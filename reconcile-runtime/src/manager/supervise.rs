//! Supervision: every loop of a manager is restarted when it ends badly, counted, and never silently dead.
//!
//! A loop is a reflector, a controller's timers, one of its workers, a trigger, a resync. Each runs in a task
//! of its own, which polls one life of the loop after the other. What happens when a life ends is decided by
//! the pure [`Lives::ended`]; the rest of this module does what it says.
//!
//! | loop | a life ends well | a life ends badly (error, panic) |
//! |---|---|---|
//! | of the engine | counts as bad: such a loop never ends by itself | restarted with backoff; after too many short lives in a row, the manager ends with an error |
//! | a source of the user | finished, or restarted if it asks for that | restarted with backoff, for as long as the manager runs |
//!
//! Promises: a panic in making, polling or dropping a life is an end with its message; the backoff is capped
//! and jittered; after a stop began, an end is simply the end.
//!
//! Not here: what the loops do, and waiting for them at a stop.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use futures::future::BoxFuture;
use reconcile_core::Backoff;

use super::board::Board;
use crate::{Environment, panics::guarded};

/// The first restart comes at once for a person's eye, and does not spin.
const RESTART_BASE: Duration = Duration::from_millis(200);
/// The longest pause between two lives: a source that comes back is heard again within half a minute.
const RESTART_CAP: Duration = Duration::from_secs(30);
/// A life that lasted this long was a healthy one: what ends it is a new fault and not the last one again.
/// Longer than the longest pause, so that a loop cannot look healthy by waiting.
const HEALTHY_LIFE: Duration = Duration::from_secs(60);

/// What kind of loop it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LoopRole {
    /// Lists and watches a kind.
    Reflector,
    /// Wakes the delayed keys of a controller.
    Timers,
    /// Runs the reconciler.
    Worker,
    /// Reads a trigger stream.
    Trigger,
    /// Signals all keys from time to time.
    Resync,
}

impl LoopRole {
    /// One word, for logs and as a task's name.
    pub fn as_str(self) -> &'static str {
        match self {
            LoopRole::Reflector => "reflector",
            LoopRole::Timers => "timers",
            LoopRole::Worker => "worker",
            LoopRole::Trigger => "trigger",
            LoopRole::Resync => "resync",
        }
    }
}

impl LoopRole {
    /// Whether the manager cannot do without it.
    pub(super) fn is_of_the_engine(self) -> bool {
        match self {
            LoopRole::Reflector | LoopRole::Timers | LoopRole::Worker => true,
            LoopRole::Trigger | LoopRole::Resync => false,
        }
    }
}

impl fmt::Display for LoopRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a life of a loop ended, by the loop's own word. A panic is the third way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopEnd {
    /// There is no more to do.
    Finished,
    /// It cannot go on; this is why.
    Failed(String),
}

/// What the end of a life means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// A loop of the engine: it never ends by itself, and the manager cannot do without it.
    Engine,
    /// A source of the user: a good end is the end.
    Source,
    /// A source of the user that is to be made again after a good end too.
    SourceAgain,
}

/// A loop to be supervised.
pub(crate) struct LoopSpec {
    /// Shared between loops of one role and owner, such as the workers of a controller.
    pub(crate) stats: Arc<LoopStats>,
    pub(crate) policy: Policy,
    /// Makes the next life. May be user code: it is called under a guard.
    pub(crate) make: Box<dyn FnMut() -> BoxFuture<'static, LoopEnd> + Send>,
}

impl LoopSpec {
    pub(crate) fn new(
        stats: &Arc<LoopStats>,
        policy: Policy,
        make: impl FnMut() -> BoxFuture<'static, LoopEnd> + Send + 'static,
    ) -> Self {
        LoopSpec { stats: stats.clone(), policy, make: Box::new(make) }
    }
}

impl fmt::Debug for LoopSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopSpec")
            .field("loop", &self.stats.to_string())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// How the loops of one role and owner fare, as a plain copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopStatus {
    /// What it does.
    pub role: LoopRole,
    /// The controller or kind that it belongs to.
    pub owner: Arc<str>,
    /// The source's name, for a trigger or a resync.
    pub source: Option<Arc<str>>,
    /// How many of them run now.
    pub running: u32,
    /// How many of them ended badly and wait for their next life.
    pub restarting: u32,
    /// How many of them came to a good end.
    pub finished: u32,
    /// How many of them were given up.
    pub dead: u32,
    /// How many new lives there were in all.
    pub restarts: u64,
    /// What the last bad end was.
    pub last_end: Option<String>,
}

/// The counters behind a [`LoopStatus`].
pub(crate) struct LoopStats {
    /// One short lock: counters that are read together must fit together.
    status: Mutex<LoopStatus>,
    /// The words by which logs and errors name it; the same that `status` holds.
    name: String,
    role: LoopRole,
}

impl LoopStats {
    pub(crate) fn new(role: LoopRole, owner: &Arc<str>, source: Option<&Arc<str>>) -> Arc<Self> {
        let name = match (role, source) {
            (LoopRole::Reflector, _) => format!("the reflector of kind `{owner}`"),
            (_, Some(source)) => format!("{role} `{source}` of controller `{owner}`"),
            (_, None) => format!("{role} of controller `{owner}`"),
        };
        let status = LoopStatus {
            role,
            owner: owner.clone(),
            source: source.cloned(),
            running: 0,
            restarting: 0,
            finished: 0,
            dead: 0,
            restarts: 0,
            last_end: None,
        };
        Arc::new(LoopStats { status: Mutex::new(status), name, role })
    }

    pub(crate) fn role(&self) -> LoopRole {
        self.role
    }

    pub(crate) fn status(&self) -> LoopStatus {
        self.lock().clone()
    }

    fn update(&self, change: impl FnOnce(&mut LoopStatus)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, LoopStatus> {
        // Every change under the lock is a few counters: a panic elsewhere cannot leave it half-made.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for LoopStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// How a life ended, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Finished,
    Failed(String),
    Panicked(String),
}

impl End {
    fn text(&self) -> String {
        match self {
            End::Finished => "it ended by itself".to_owned(),
            End::Failed(why) => why.clone(),
            End::Panicked(message) => format!("it panicked: {message}"),
        }
    }
}

/// What to do after the end of a life.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    RestartAfter(Duration),
    GiveUp,
}

/// The history of a loop, as far as it decides about the next life.
#[derive(Debug)]
struct Lives {
    policy: Policy,
    backoff: Backoff,
    /// Bad ends without a healthy life between them.
    in_a_row: u32,
    /// After how many of them a loop of the engine is given up.
    limit: u32,
}

impl Lives {
    fn new(policy: Policy, limit: u32) -> Self {
        Lives { policy, backoff: Backoff::new(RESTART_BASE, RESTART_CAP), in_a_row: 0, limit }
    }

    /// A life of this length ended like this; `random` is any 64 random bits.
    fn ended(&mut self, lasted: Duration, end: &End, random: u64) -> Verdict {
        if self.policy == Policy::Source && *end == End::Finished {
            return Verdict::Done;
        }
        self.in_a_row = if lasted >= HEALTHY_LIFE { 1 } else { self.in_a_row.saturating_add(1) };
        if self.policy == Policy::Engine && self.in_a_row > self.limit {
            return Verdict::GiveUp;
        }
        Verdict::RestartAfter(self.backoff.delay(self.in_a_row, random))
    }
}

/// Runs a loop until it is finished, given up, or the manager stops.
///
/// # Cancel safety
///
/// Dropping the future drops the current life.
pub(super) async fn supervise(mut spec: LoopSpec, env: Environment, board: Arc<Board>) {
    let mut lives = Lives::new(spec.policy, board.restart_limit());
    let mut counted = Counted::new(&spec.stats);
    loop {
        let began = env.now();
        let end = live(&mut spec.make).await;
        if board.is_stopping() {
            counted.goes(At::Finished, None);
            return;
        }
        let text = end.text();
        match lives.ended(env.now().since(began), &end, env.random().next_u64()) {
            Verdict::Done => {
                tracing::debug!("{} is finished", spec.stats);
                counted.goes(At::Finished, None);
                return;
            }
            Verdict::RestartAfter(delay) => {
                report(&spec.stats, &end, &text, delay);
                counted.goes(At::Restarting, Some(text));
                env.sleep(delay).await;
                counted.goes(At::Running, None);
            }
            Verdict::GiveUp => {
                let (stats, lives) = (&spec.stats, lives.in_a_row);
                tracing::error!("{stats} is given up after {lives} short lives in a row: {text}");
                counted.goes(At::Dead, Some(text.clone()));
                let restarts = stats.status().restarts;
                board.fail(super::RunError::LoopFailed { name: stats.to_string(), restarts, last_end: text });
                return;
            }
        }
    }
}

/// Where a loop is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Running,
    Restarting,
    Finished,
    Dead,
}

/// Counts one loop in its status, in exactly one place; one that is dropped on the way is in none.
struct Counted {
    stats: Arc<LoopStats>,
    at: At,
}

impl Counted {
    fn new(stats: &Arc<LoopStats>) -> Self {
        stats.update(|status| status.running += 1);
        Counted { stats: stats.clone(), at: At::Running }
    }

    fn goes(&mut self, to: At, last_end: Option<String>) {
        let from = std::mem::replace(&mut self.at, to);
        self.stats.update(|status| {
            *status.place(from) = status.place(from).saturating_sub(1);
            *status.place(to) += 1;
            if from == At::Restarting && to == At::Running {
                status.restarts = status.restarts.saturating_add(1);
            }
            if last_end.is_some() {
                status.last_end = last_end;
            }
        });
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if matches!(self.at, At::Running | At::Restarting) {
            self.stats.update(|status| *status.place(self.at) = status.place(self.at).saturating_sub(1));
        }
    }
}

impl LoopStatus {
    fn place(&mut self, at: At) -> &mut u32 {
        match at {
            At::Running => &mut self.running,
            At::Restarting => &mut self.restarting,
            At::Finished => &mut self.finished,
            At::Dead => &mut self.dead,
        }
    }
}

fn report(stats: &LoopStats, end: &End, text: &str, delay: Duration) {
    match end {
        // A source that is to be made again ends well each time: no news for an operator.
        End::Finished => tracing::debug!("{stats} starts again in {delay:?}: {text}"),
        End::Failed(_) => tracing::warn!("{stats} starts again in {delay:?}: {text}"),
        End::Panicked(_) => tracing::error!("{stats} starts again in {delay:?}: {text}"),
    }
}

/// One life: made, polled and dropped under a guard each.
async fn live(make: &mut (dyn FnMut() -> BoxFuture<'static, LoopEnd> + Send)) -> End {
    let mut life = match guarded(make) {
        Ok(life) => Some(life),
        Err(message) => return End::Panicked(message),
    };
    let end = std::future::poll_fn(|cx| {
        let Some(future) = &mut life else { return Poll::Ready(End::Finished) };
        match guarded(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(LoopEnd::Finished)) => Poll::Ready(End::Finished),
            Ok(Poll::Ready(LoopEnd::Failed(why))) => Poll::Ready(End::Failed(why)),
            Err(message) => Poll::Ready(End::Panicked(message)),
        }
    })
    .await;
    // What the life held is user code too, and its drop may be what panics.
    match (end, guarded(|| drop(life.take()))) {
        (End::Finished, Err(message)) => End::Panicked(message),
        (end, _) => end,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{environment::Task, manager::RunError};

    /// Runs a loop under supervision, in a task that ends when it is dropped.
    pub(crate) fn run(env: &Environment, spec: LoopSpec) -> Task {
        spawn(env, &Arc::new(Board::new(10)), spec)
    }

    fn failed() -> End {
        End::Failed("the store is away".to_owned())
    }

    #[test]
    fn a_life_that_ended_is_followed_by_what_its_policy_says() {
        let short = Duration::from_secs(1);
        let cases = [
            (Policy::Source, End::Finished, false),
            (Policy::Source, failed(), true),
            (Policy::Source, End::Panicked("x".into()), true),
            (Policy::SourceAgain, End::Finished, true),
            (Policy::SourceAgain, failed(), true),
            (Policy::Engine, End::Finished, true),
            (Policy::Engine, failed(), true),
        ];
        for (policy, end, restarted) in cases {
            let verdict = Lives::new(policy, 3).ended(short, &end, 0);
            assert_eq!(matches!(verdict, Verdict::RestartAfter(_)), restarted, "{policy:?} {end:?}");
            assert_eq!(verdict == Verdict::Done, !restarted, "{policy:?} {end:?}");
        }
    }

    #[test]
    fn restarts_back_off_up_to_the_cap_and_a_healthy_life_starts_over() {
        let mut lives = Lives::new(Policy::Source, 3);
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            let Verdict::RestartAfter(delay) = lives.ended(Duration::ZERO, &failed(), u64::MAX) else {
                panic!("a source of the user is always restarted");
            };
            assert!(delay >= last && delay <= RESTART_CAP, "{delay:?} after {last:?}");
            last = delay;
        }
        assert_eq!(last, RESTART_CAP);
        assert_eq!(lives.ended(HEALTHY_LIFE, &failed(), u64::MAX), Verdict::RestartAfter(RESTART_BASE));
    }

    #[test]
    fn an_engine_loop_is_given_up_after_the_limit_of_short_lives_in_a_row() {
        let mut lives = Lives::new(Policy::Engine, 2);
        assert!(matches!(lives.ended(Duration::ZERO, &failed(), 0), Verdict::RestartAfter(_)));
        assert!(matches!(lives.ended(HEALTHY_LIFE, &failed(), 0), Verdict::RestartAfter(_)));
        assert!(matches!(lives.ended(Duration::ZERO, &failed(), 0), Verdict::RestartAfter(_)));
        assert_eq!(lives.ended(Duration::ZERO, &failed(), 0), Verdict::GiveUp);
    }

    fn spawn(env: &Environment, board: &Arc<Board>, spec: LoopSpec) -> Task {
        env.spawn("loop", supervise(spec, env.clone(), board.clone()))
    }

    fn stats(role: LoopRole) -> Arc<LoopStats> {
        LoopStats::new(role, &Arc::from("Pod"), None)
    }

    #[tokio::test(start_paused = true)]
    async fn c7_a_dead_reflector_is_restarted_and_its_last_end_is_told() {
        let (env, board, stats) =
            (Environment::seeded(1), Arc::new(Board::new(10)), stats(LoopRole::Reflector));
        let lives = Arc::new(AtomicU32::new(0));
        let count = lives.clone();
        let _task = spawn(
            &env,
            &board,
            LoopSpec::new(&stats, Policy::Engine, move || {
                let life = count.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    match life {
                        0 => panic!("no such table"),
                        1 => LoopEnd::Finished,
                        _ => std::future::pending().await,
                    }
                })
            }),
        );
        env.sleep(Duration::from_millis(1)).await;
        let status = stats.status();
        assert_eq!((status.running, status.restarting, status.restarts), (0, 1, 0));
        assert_eq!(status.last_end.as_deref(), Some("it panicked: no such table"));

        env.sleep(Duration::from_secs(10)).await;
        let status = stats.status();
        assert_eq!((status.running, status.restarting, status.restarts), (1, 0, 2));
        assert_eq!(status.last_end.as_deref(), Some("it ended by itself"));
        assert_eq!(lives.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn r2_an_engine_loop_that_keeps_dying_fails_the_manager_with_its_name_and_cause() {
        let (env, board, stats) =
            (Environment::seeded(1), Arc::new(Board::new(4)), stats(LoopRole::Reflector));
        let mut task = spawn(
            &env,
            &board,
            LoopSpec::new(&stats, Policy::Engine, || {
                Box::pin(async { LoopEnd::Failed("permission denied".to_owned()) })
            }),
        );
        let error = board.failed().await;
        let RunError::LoopFailed { name, restarts, last_end } = error else { panic!("{error:?}") };
        assert_eq!((name.as_str(), restarts), ("the reflector of kind `Pod`", 4));
        assert_eq!(last_end, "permission denied");
        task.join().await;
        assert_eq!(stats.status().dead, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_making_or_dropping_a_life_is_an_end_of_it() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("drop");
            }
        }
        let mut make: Box<dyn FnMut() -> BoxFuture<'static, LoopEnd> + Send> = Box::new(|| panic!("make"));
        assert_eq!(live(&mut make).await, End::Panicked("make".into()));
        let mut make: Box<dyn FnMut() -> BoxFuture<'static, LoopEnd> + Send> = Box::new(|| {
            let bomb = Bomb;
            Box::pin(std::future::poll_fn(move |_| {
                let _held = &bomb;
                Poll::Ready(LoopEnd::Finished)
            }))
        });
        assert_eq!(live(&mut make).await, End::Panicked("drop".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_after_the_stop_began_is_no_fault() {
        let (env, board, stats) = (Environment::seeded(1), Arc::new(Board::new(0)), stats(LoopRole::Worker));
        let gate = Arc::new(tokio::sync::Notify::new());
        let wait = gate.clone();
        let mut task = spawn(
            &env,
            &board,
            LoopSpec::new(&stats, Policy::Engine, move || {
                let wait = wait.clone();
                Box::pin(async move {
                    wait.notified().await;
                    LoopEnd::Finished
                })
            }),
        );
        env.sleep(Duration::from_secs(1)).await;
        board.stopping();
        gate.notify_one();
        task.join().await;
        assert_eq!((stats.status().finished, stats.status().dead), (1, 0));
        assert!(!board.has_failed());
    }
}
