//! The one write path, shared by [`Api`](crate::Api) and [`Client`](crate::Client).
//!
//! A write goes to the store with the fence of the run it is made in. Its answer is entered in the cache, if
//! there is one, and its change delivered before the call returns. An answer that says that somebody was
//! quicker, or a lost one, is followed by a live read of the object, so that the next decision is not made on
//! what is known to be old.
//!
//! # Invariants
//!
//! 1. A write whose request was sent is polled to its end, also if its caller is dropped: then a task of the
//!    environment takes it over.
//! 2. The run counts it as in flight until it has settled; once its caller is gone, for at most one time limit
//!    of the store.
//! 3. An own step is recorded only if the revision is known to be this write's, before the change is entered.
//! 4. What was known before a request is what its answer is judged by: epoch, floor and the incarnation are
//!    read before it is sent.
//!
//! Not here: what is written; see `Api` and `Client`.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use reconcile_core::{
    ObjectKey, Resource, Revision, StoreError, StoreFault, Uid,
    store::{ListQuery, Scope, Write, WriteContext},
};

use super::{
    backend::{Backend, Landed},
    scope::{InFlight, OwnWrite, Refresh, RunScope},
};
use crate::{
    cache::{Answer, Cache, is_delivering},
    change::Step,
};

/// A store, and the cache that learns from its answers.
pub(super) struct Writer<R: Resource> {
    backend: Arc<Backend<R>>,
    cache: Option<Arc<Cache<R>>>,
}

impl<R: Resource> Clone for Writer<R> {
    fn clone(&self) -> Self {
        Writer { backend: self.backend.clone(), cache: self.cache.clone() }
    }
}

impl<R: Resource> fmt::Debug for Writer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// A write that failed, and what a live read after it found.
#[derive(Debug)]
pub(super) struct Failed<R> {
    pub(super) error: StoreError,
    pub(super) live: Live<R>,
}

/// What is stored under the key of a failed write.
#[derive(Debug)]
pub(super) enum Live<R> {
    /// Not read, or it could not be.
    Unknown,
    Absent,
    Found(Arc<R>),
}

impl<R> From<Failed<R>> for StoreError {
    fn from(failed: Failed<R>) -> Self {
        failed.error
    }
}

impl<R: Resource> Writer<R> {
    pub(super) fn new(backend: Arc<Backend<R>>, cache: Option<Arc<Cache<R>>>) -> Self {
        Writer { backend, cache }
    }

    pub(super) fn cache(&self) -> Option<&Arc<Cache<R>>> {
        self.cache.as_ref()
    }

    /// Reads an object from the store, and tells the cache.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn read(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        outside_delivery("get", R::KIND, Some(key), self.read_through(key)).await
    }

    async fn read_through(&self, key: &ObjectKey) -> Result<Option<Arc<R>>, StoreError> {
        let Some(cache) = &self.cache else { return self.backend.get(key).await };
        let known = cache.get(key).map(|object| object.meta().uid.clone());
        let began = cache.begin(); // after `known`, so that a new epoch in between makes the answer void
        let found = self.backend.get(key).await?;
        let answer = match (&found, known) {
            (Some(object), _) => Answer::Found(object.clone()),
            (None, Some(uid)) => Answer::Absent { key: key.clone(), uid },
            (None, None) => return Ok(None),
        };
        cache.enter_answer(answer, began).await;
        Ok(found)
    }

    /// All pages of a listing. The cache learns nothing from it: its reflector knows better.
    pub(super) async fn list(&self, scope: &Scope, page_size: usize) -> Result<Vec<Arc<R>>, StoreError> {
        outside_delivery("list", R::KIND, None, async {
            let mut query = ListQuery::all();
            let mut objects = Vec::new();
            loop {
                let page = self.backend.list(query.scope(scope.clone()).limit(page_size)).await?;
                objects.extend(page.items);
                match page.next {
                    None => return Ok(objects),
                    Some(token) => query = ListQuery::all().after(token),
                }
            }
        })
        .await
    }

    /// Writes. `decided_on` is the revision that the write was decided on: zero for a create, none if it was
    /// decided on no revision.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its first poll, it writes nothing. Dropped later, the write is carried through all the
    /// same (invariant 1).
    pub(super) async fn write(
        &self,
        write: Write<R>,
        decided_on: Option<Revision>,
    ) -> Result<Landed<R>, Failed<R>> {
        let (operation, key) = (write.operation(), write.key());
        let scope = RunScope::current();
        let job = Job {
            writer: self.clone(),
            status_only: matches!(write, Write::UpdateStatus(_)),
            creates: matches!(write, Write::Create(_)),
            decided_on,
            new_uid: if matches!(write, Write::Create(_)) {
                self.backend.environment().new_uid()
            } else {
                Uid::default()
            },
            scope: scope.clone(),
        };
        let started = Started {
            future: Some(Box::pin(job.run(write))),
            in_flight: scope.map(|scope| scope.start()),
            backend: self.backend.clone(),
            polled: false,
        };
        outside_delivery(operation, R::KIND, Some(&key), started).await
    }

    /// Reads the object of a failed write; failing that, the run's scope remembers to do it.
    async fn refresh(&self, key: &ObjectKey, scope: Option<&Arc<RunScope>>) -> Live<R> {
        match self.read_through(key).await {
            Ok(Some(object)) => Live::Found(object),
            Ok(None) => Live::Absent,
            // It is there. Its last good version is kept, and the reflector flags it.
            Err(error) if error.fault() == StoreFault::Unreadable => Live::Unknown,
            Err(error) => {
                tracing::debug!(kind = R::KIND, %key, %error, "the read after a failed write failed");
                if let (Some(scope), Some(_)) = (scope, &self.cache) {
                    scope.needs(Box::new(LiveRead { writer: self.clone(), key: key.clone() }));
                }
                Live::Unknown
            }
        }
    }
}

/// Fails if it is polled inside a mapper, filter or index function: a wait there could never end.
async fn outside_delivery<T, E: From<StoreError>>(
    operation: &'static str,
    kind: &'static str,
    key: Option<&ObjectKey>,
    request: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut request = std::pin::pin!(request);
    std::future::poll_fn(|cx| {
        if is_delivering() {
            let error = match key {
                Some(key) => StoreError::new(operation, kind, key, StoreFault::Reentrant),
                None => StoreError::of_kind(operation, kind, StoreFault::Reentrant),
            };
            return Poll::Ready(Err(error.because("return keys from it, and do the work in the run").into()));
        }
        request.as_mut().poll(cx)
    })
    .await
}

impl<R> From<StoreError> for Failed<R> {
    fn from(error: StoreError) -> Self {
        Failed { error, live: Live::Unknown }
    }
}

/// One write, from its request to the delivery of its change.
struct Job<R: Resource> {
    writer: Writer<R>,
    status_only: bool,
    creates: bool,
    decided_on: Option<Revision>,
    /// For a create, the uid of the new object.
    new_uid: Uid,
    scope: Option<Arc<RunScope>>,
}

impl<R: Resource> Job<R> {
    async fn run(self, write: Write<R>) -> Result<Landed<R>, Failed<R>> {
        let key = write.key();
        let environment = self.writer.backend.environment();
        let mut cx = WriteContext::new(environment.wall(), self.new_uid.clone());
        cx.fence = self.scope.as_ref().and_then(|scope| scope.fence().cloned());
        let began = self.writer.cache.as_ref().map(|cache| cache.begin()); // invariant 4
        let error = match self.writer.backend.write(write, &cx).await {
            Ok(written) => {
                self.record(&written);
                if let (Some(cache), Some(began)) = (&self.writer.cache, began) {
                    let answer = match &written {
                        Landed::Stored(object) => Answer::Stored(object.clone()),
                        Landed::Unchanged(object) => Answer::Found(object.clone()),
                        Landed::Removed { last, revision } => {
                            Answer::Removed { key, revision: *revision, last: last.clone() }
                        }
                    };
                    cache.enter_answer(answer, began).await;
                }
                return Ok(written);
            }
            Err(error) => error,
        };
        let (quicker, unknown) = match error.fault() {
            StoreFault::NotFound | StoreFault::AlreadyExists | StoreFault::Conflict => (true, false),
            StoreFault::Indeterminate => (false, true),
            _ => (false, false),
        };
        if quicker && let Some(scope) = &self.scope {
            scope.conflicted();
        }
        if !quicker && !unknown {
            return Err(error.into());
        }
        // Without a cache, only two callers need to know: a create whose answer was lost, and `modify`, which
        // reads for itself.
        if self.writer.cache.is_none() && !(self.creates && unknown) {
            return Err(error.into());
        }
        let live = self.writer.refresh(&key, self.scope.as_ref()).await;
        if self.creates
            && let Live::Found(object) = &live
            && object.meta().uid == self.new_uid
        {
            // Rule 9: the create landed, and only its answer was lost. Whether the revision is still that of
            // the create, nobody can tell, so the step is not claimed as own (invariant 3).
            if let Some(scope) = &self.scope {
                scope.wrote(None);
            }
            return Ok(Landed::Stored(object.clone()));
        }
        Err(Failed { error, live })
    }

    /// Tells the run what it wrote.
    fn record(&self, written: &Landed<R>) {
        let Some(scope) = &self.scope else { return };
        let (before, after) = match written {
            Landed::Unchanged(_) => return,
            Landed::Stored(object) => (self.decided_on, object.meta().revision),
            Landed::Removed { last, revision } => {
                let last = last.as_ref().map(|last| last.meta().revision);
                (self.decided_on.or(last), *revision)
            }
        };
        let own = match (&self.writer.cache, before) {
            (Some(cache), Some(before)) => Some(OwnWrite {
                step: Step { kind: cache.number(), before, after },
                status_only: self.status_only,
            }),
            _ => None,
        };
        scope.wrote(own);
    }
}

/// A write that outlives its caller (invariants 1 and 2).
struct Started<R: Resource, T: Send + 'static> {
    /// None once it has ended, and while it is polled: one that panicked is not polled again.
    future: Option<BoxFuture<'static, T>>,
    in_flight: Option<InFlight>,
    backend: Arc<Backend<R>>,
    /// Whether its request may have been sent.
    polled: bool,
}

impl<R: Resource, T: Send + 'static> Future for Started<R, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.polled = true;
        let Some(mut future) = self.future.take() else {
            return Poll::Pending; // it panicked, or has ended: whoever polls it again waits in vain
        };
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                self.in_flight = None;
                Poll::Ready(output)
            }
            Poll::Pending => {
                self.future = Some(future);
                Poll::Pending
            }
        }
    }
}

impl<R: Resource, T: Send + 'static> Drop for Started<R, T> {
    fn drop(&mut self) {
        if !self.polled {
            return;
        }
        let Some(mut future) = self.future.take() else { return };
        let in_flight = self.in_flight.take();
        let environment = self.backend.environment().clone();
        let deadline = environment.now().saturating_add(self.backend.limit());
        let (timer, followed) = (environment.clone(), async move {
            if timer_first(&environment, deadline, &mut future).await {
                drop(in_flight); // the key is released; the write still gets its chance
                future.await;
            }
        });
        self.backend.writes().adopt(&timer, "started write", followed);
    }
}

/// Polls the future until it ends or the deadline passes; whether the deadline came first.
async fn timer_first<T>(
    environment: &crate::Environment,
    deadline: crate::Time,
    future: &mut BoxFuture<'static, T>,
) -> bool {
    environment.before(deadline, future.as_mut()).await.is_err()
}

/// An object to be read before the key's next run.
struct LiveRead<R: Resource> {
    writer: Writer<R>,
    key: ObjectKey,
}

impl<R: Resource> Refresh for LiveRead<R> {
    fn run(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        let (writer, key) = (self.writer.clone(), self.key.clone());
        Box::pin(async move {
            match writer.read(&key).await {
                Ok(_) => Ok(()),
                // It is there, and the reflector flags it: nothing is known to be old any more.
                Err(error) if error.fault() == StoreFault::Unreadable => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}
