//! The context of one run: which attempt it is, why it happens, what time it is, and whether to stop.
//!
//! # Invariants
//!
//! 1. A [`Run`] belongs to one call of the reconciler. Its flags only ever go from unset to set.
//! 2. Whoever holds the [`RunControl`] sets the flags first and wakes the waiters after its lock is released.
//! 3. A dropped [`cancelled`](Run::cancelled) future leaves nothing behind in the run.
//!
//! Not here: what a runtime does with a cancelled run, and any clock; the time comes from the builder.

mod cancel;
mod cause;
mod scope;

#[cfg(test)]
mod tests;

use std::{any::Any, fmt, sync::Arc, time::Duration};

use jiff::SignedDuration;

pub use cancel::Cancelled;
pub use cause::{Cause, CauseKind, Causes};

use cancel::CancelState;

use crate::Timestamp;

/// The context of one run.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Action, Error, Run, ResultExt};
///
/// async fn wait_for_peer(run: &Run) -> Result<Action, Error> {
///     // Ends early with `Cancelled` when the run is superseded or the runtime stops.
///     run.until_cancelled(std::future::ready(())).await?;
///     Ok(Action::await_change())
/// }
/// ```
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

struct Inner {
    /// Failures in a row before this run, plus one.
    attempt: u32,
    /// What was merged until the run began; what comes later belongs to the next run.
    causes: Causes,
    /// By the same wall time as `clock`.
    /// An instant, and how long after it the limit ends the run: the sum is for people, and few ask for it.
    deadline: Option<(Timestamp, Duration)>,
    /// The runtime's, so that a run never asks the system.
    clock: Clock,
    /// The flags, and who waits for them.
    cancel: CancelState,
    /// What a runtime attaches to the run: its identity for the writes made during it.
    ambient: Option<Arc<dyn Any + Send + Sync>>,
}

impl Run {
    /// A builder, for tests and runtimes.
    #[inline]
    pub fn builder() -> RunBuilder {
        RunBuilder { attempt: 1, causes: Causes::default(), deadline: None, clock: None, ambient: None }
    }

    /// Which try this is: 1, plus the failures in a row before it.
    #[inline]
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// Why the run happens: for logs and explanations, never for logic, since causes are merged and bounded.
    #[inline]
    pub fn causes(&self) -> &Causes {
        &self.inner.causes
    }

    /// The wall time, by the runtime's clock; virtual in tests.
    pub fn now(&self) -> Timestamp {
        (self.inner.clock)()
    }

    /// When the run limit ends this run, if there is a limit.
    #[inline]
    pub fn deadline(&self) -> Option<Timestamp> {
        let (from, after) = self.inner.deadline?;
        from.checked_add(SignedDuration::try_from(after).ok()?).ok()
    }

    /// Whether the run should end early: a stop was requested, or a new input came for this key.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancel.is_cancelled()
    }

    /// Whether a new input came for this key: the run may end early and will run again.
    pub fn superseded(&self) -> bool {
        self.inner.cancel.is_superseded()
    }

    /// Waits until the run is cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// Runs `future` to its end, or until the run is cancelled, whichever comes first.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], whose class is [`Retry::Cancelled`](crate::Retry::Cancelled): returned with `?`, it ends
    /// the run without counting a failure.
    ///
    /// # Cancel safety
    ///
    /// As safe as `future` itself.
    pub async fn until_cancelled<F: Future>(&self, future: F) -> Result<F::Output, Cancelled> {
        let mut future = std::pin::pin!(future);
        let mut cancelled = std::pin::pin!(self.cancelled());
        std::future::poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                return std::task::Poll::Ready(Err(Cancelled::of(self)));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Says that this run did work outside the store, so that [`Action::requeue_now`](crate::Action::requeue_now)
    /// is no idle spinning.
    pub fn progressed(&self) {
        self.inner.cancel.set_progressed();
    }

    /// Takes the run's identity into a spawned task: writes made by `future` count as writes of this run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reconcile_core::Run;
    /// # let run = Run::builder().build().0;
    /// let task = run.scope(async { Run::current().is_some() });
    /// assert!(futures::executor::block_on(task));
    /// assert!(Run::current().is_none());
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        scope::Scoped::new(self.clone(), future)
    }

    /// The run that is being polled on this thread, if any.
    pub fn current() -> Option<Run> {
        scope::current()
    }

    /// Calls `f` with this run as the current one; for runtimes that poll a reconciler by hand.
    #[inline]
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        let _guard = scope::enter(self.clone());
        f()
    }

    /// The same run for another call of the reconciler: keeps the clock and what the runtime attached, and starts
    /// with no flag set. The deadline is an instant and a time after it. None if somebody else still holds this run, as its late flags could reach the new one.
    ///
    /// # Examples
    ///
    /// ```
    /// use reconcile_core::{Causes, Run};
    ///
    /// let (run, control) = Run::builder().build();
    /// control.stop();
    /// drop(run);
    /// let again = control.into_run().again(2, Causes::default(), None).expect("nobody else holds it");
    /// assert_eq!((again.run().attempt(), again.run().is_cancelled()), (2, false));
    /// ```
    #[inline]
    pub fn again(
        mut self,
        attempt: u32,
        causes: Causes,
        deadline: Option<(Timestamp, Duration)>,
    ) -> Option<RunControl> {
        let inner = Arc::get_mut(&mut self.inner)?; // invariant 1
        inner.attempt = attempt;
        inner.causes = causes;
        inner.deadline = deadline;
        inner.cancel.reset();
        Some(RunControl { run: self })
    }

    /// Whether nobody else holds this run: then it may be used again for the next one.
    #[inline]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// What the runtime attached to this run.
    #[inline]
    pub fn ambient(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.inner.ambient.as_ref()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("attempt", &self.inner.attempt)
            .field("causes", &self.inner.causes)
            .field("deadline", &self.deadline())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Builds a [`Run`], for tests and runtimes.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Run, Timestamp};
///
/// let noon = Timestamp::from_second(43_200).unwrap();
/// let (run, control) = Run::builder().attempt(3).now(move || noon).build();
/// assert_eq!((run.attempt(), run.now()), (3, noon));
/// control.supersede();
/// assert!(run.is_cancelled() && run.superseded());
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct RunBuilder {
    attempt: u32,
    causes: Causes,
    deadline: Option<Timestamp>,
    /// None: time stands still.
    clock: Option<Clock>,
    ambient: Option<Arc<dyn Any + Send + Sync>>,
}

impl RunBuilder {
    /// Which try this is, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Why the run happens.
    pub fn causes(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }

    /// When the run limit ends the run.
    pub fn deadline(mut self, deadline: Option<Timestamp>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The clock. Without one, time stands still at the Unix epoch.
    pub fn now(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock(Arc::new(clock))
    }

    /// The clock, shared between runs.
    #[inline]
    pub fn clock(mut self, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What a runtime wants to find again by [`Run::ambient`].
    pub fn ambient(mut self, ambient: Arc<dyn Any + Send + Sync>) -> Self {
        self.ambient = Some(ambient);
        self
    }

    /// The run, and the handle that cancels it.
    pub fn build(self) -> (Run, RunControl) {
        let run = Run { inner: Arc::new(self.into_inner()) };
        (run.clone(), RunControl { run })
    }

    /// Like [`build`](Self::build), in the allocation of `spent` if nobody else holds that run any more.
    #[inline]
    pub fn build_reusing(self, mut spent: Run) -> (Run, RunControl) {
        match Arc::get_mut(&mut spent.inner) {
            // Nobody else holds it, so no late flag of the spent run can reach the new one (invariant 1).
            Some(inner) => *inner = self.into_inner(),
            None => return self.build(),
        }
        (spent.clone(), RunControl { run: spent })
    }

    #[inline]
    fn into_inner(self) -> Inner {
        Inner {
            attempt: self.attempt,
            causes: self.causes,
            deadline: self.deadline.map(|deadline| (deadline, Duration::ZERO)),
            clock: self.clock.unwrap_or_else(|| Arc::new(|| Timestamp::UNIX_EPOCH)),
            cancel: CancelState::default(),
            ambient: self.ambient,
        }
    }
}

impl fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBuilder").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The runtime's end of a [`Run`]: cancels it, and reads what it reported.
///
/// # Examples
///
/// ```
/// use reconcile_core::Run;
///
/// let (run, control) = Run::builder().build();
/// run.progressed();
/// control.stop();
/// assert!(control.has_progressed() && run.is_cancelled() && !run.superseded());
/// ```
#[derive(Debug, Clone)]
pub struct RunControl {
    /// The same run that the reconciler holds.
    run: Run,
}

impl RunControl {
    /// Asks the run to end because the runtime stops.
    pub fn stop(&self) {
        self.run.inner.cancel.stop();
    }

    /// Tells the run that a new input came for its key.
    pub fn supersede(&self) {
        self.run.inner.cancel.supersede();
    }

    /// Whether the run said [`Run::progressed`].
    #[inline]
    pub fn has_progressed(&self) -> bool {
        self.run.inner.cancel.has_progressed()
    }

    /// The run itself, to be reused once the call is over.
    #[inline]
    pub fn into_run(self) -> Run {
        self.run
    }

    /// The run.
    #[inline]
    pub fn run(&self) -> &Run {
        &self.run
    }
}
