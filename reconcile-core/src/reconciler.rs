//! The trait that users implement, and its two relatives.
//!
//! The contract between a reconciler and the runtime is the table on [`Reconciler`]. A reconciler is called
//! with a key and never with an event: what it does must follow from the state it reads, so that a lost,
//! merged or repeated event changes nothing.

use std::{fmt, future::Future, hash::Hash, marker::PhantomData, sync::Arc};

use crate::{Action, Cleanup, Error, Resource, Run};

/// What identifies a unit of work: any type that can be cloned, compared, hashed and printed.
///
/// Implemented for every type that fits; there is nothing to write.
pub trait Key: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Key for T {}

/// Makes the real state equal to the wanted state, one key at a time.
///
/// The runtime never calls it twice at once for one key, and calls it again after every signal that came
/// while it ran. Write it as a plain `async fn`.
///
/// | returned | meaning | failures | next run |
/// |---|---|---|---|
/// | [`Action::await_change`] | converged | reset | next signal or resync |
/// | [`Action::requeue_now`] | more to do | reset | at once, behind the ready keys of its lane |
/// | [`Action::requeue_after`] | converged; a poll | reset | after the delay, spread; a signal comes first |
/// | [`Action::requeue_at`] | converged; a deadline | reset | exactly then; a signal comes first |
/// | [`Action::wait_for`] | not converged, no error | reset | any signal, or the recheck time |
/// | `Err`, no class | failed | +1 | backoff |
/// | `Err` with [`retry_after`](crate::ResultExt::retry_after) | failed; the other side said when | +1 | after that time |
/// | `Err` with [`permanent`](crate::ResultExt::permanent) | retrying the same input is useless | cleared | a change of the input, or resync |
/// | `Err`: conflict, already exists, not found on write | somebody was quicker | own counter | at once with small jitter, then backoff |
/// | `Err`: cancelled, fenced | not the key's fault | unchanged | the signal that cancelled it; the next term |
/// | panic | caught and reported | +1 | backoff |
/// | longer than the run limit | dropped | +1 | backoff |
///
/// # Examples
///
/// ```
/// use reconcile_core::{Action, Error, Reconciler, Run};
///
/// struct Ping;
///
/// impl Reconciler for Ping {
///     type Key = String;
///     async fn reconcile(&self, host: &String, run: &Run) -> Result<Action, Error> {
///         if host.is_empty() {
///             return Err("a host needs a name".into());
///         }
///         let _ = run.attempt();
///         Ok(Action::await_change())
///     }
/// }
/// ```
///
/// # Cancel safety
///
/// The future may be dropped at any await: at the run limit, and at the end of the grace time of a stop. A
/// later run starts from what is then stored.
pub trait Reconciler: Send + Sync + 'static {
    /// What identifies a unit of work.
    type Key: Key;

    /// Makes the state of `key` as wanted, and says what should happen next.
    ///
    /// # Errors
    ///
    /// Any error; its class decides about the retry, see the table above.
    fn reconcile(&self, key: &Self::Key, run: &Run) -> impl Future<Output = Result<Action, Error>> + Send;
}

impl<T: Reconciler> Reconciler for Arc<T> {
    type Key = T::Key;

    fn reconcile(&self, key: &Self::Key, run: &Run) -> impl Future<Output = Result<Action, Error>> + Send {
        (**self).reconcile(key, run)
    }
}

/// A closure as a [`Reconciler`]; made by [`reconcile_fn`].
pub struct ReconcileFn<K, F> {
    /// Called once a run.
    function: F,
    /// The function takes keys and holds none, so the closure alone says whether it is shared.
    key: PhantomData<fn(K)>,
}

impl<K, F> fmt::Debug for ReconcileFn<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReconcileFn")
    }
}

/// Makes a [`Reconciler`] of a closure that takes the key and the run by value.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Action, reconcile_fn};
///
/// let print = reconcile_fn(|host: String, _run| async move {
///     println!("{host}");
///     Ok(Action::await_change())
/// });
/// # fn assert(_: impl reconcile_core::Reconciler<Key = String>) {}
/// # assert(print);
/// ```
pub fn reconcile_fn<K, F, Fut>(function: F) -> ReconcileFn<K, F>
where
    K: Key,
    F: Fn(K, Run) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    ReconcileFn { function, key: PhantomData }
}

impl<K, F, Fut> Reconciler for ReconcileFn<K, F>
where
    K: Key,
    F: Fn(K, Run) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    type Key = K;

    fn reconcile(&self, key: &K, run: &Run) -> impl Future<Output = Result<Action, Error>> + Send {
        (self.function)(key.clone(), run.clone())
    }
}

/// A reconciler of stored objects that is handed the object, and told when it is being deleted.
///
/// A runtime runs it behind an adapter that finds the object and manages the finalizer: it is never added to
/// an object that is being deleted, and only [`Cleanup::done`] removes it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use reconcile_core::{Action, Cleanup, Error, Object, ObjectReconciler, Run, Spec};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Volume { bytes: u64 }
/// impl Spec for Volume {
///     const KIND: &'static str = "Volume";
///     type Status = ();
/// }
///
/// struct Volumes;
/// impl ObjectReconciler for Volumes {
///     type Object = Object<Volume>;
///     const FINALIZER: Option<&'static str> = Some("volumes");
///     async fn apply(&self, volume: Arc<Object<Volume>>, _run: &Run) -> Result<Action, Error> {
///         let _ = volume.spec.bytes;
///         Ok(Action::await_change())
///     }
///     async fn cleanup(&self, _volume: Arc<Object<Volume>>, _run: &Run) -> Result<Cleanup, Error> {
///         Ok(Cleanup::done())
///     }
/// }
/// ```
pub trait ObjectReconciler: Send + Sync + 'static {
    /// The kind of object.
    type Object: Resource;

    /// The finalizer that guards the cleanup; `None` for a reconciler that leaves nothing behind.
    const FINALIZER: Option<&'static str> = None;

    /// Makes the real state as the object wants it.
    ///
    /// # Errors
    ///
    /// Any error; its class decides about the retry.
    fn apply(
        &self,
        object: Arc<Self::Object>,
        run: &Run,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// Removes what [`apply`](Self::apply) made outside the store. Called for as long as the object is being
    /// deleted and carries the finalizer; each call must be safe to repeat.
    ///
    /// # Errors
    ///
    /// Any error; the finalizer stays, and the class decides about the retry.
    fn cleanup(
        &self,
        object: Arc<Self::Object>,
        run: &Run,
    ) -> impl Future<Output = Result<Cleanup, Error>> + Send {
        let _ = (object, run);
        async { Ok(Cleanup::done()) }
    }
}
