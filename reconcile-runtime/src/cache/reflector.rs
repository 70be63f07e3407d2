//! The loop that keeps a cache equal to its store: list, then watch from the listing's cursor, and again.
//!
//! It never ends by itself. It keeps where it stands in the cache, so that a supervisor can start it again
//! after a panic and it goes on from there.
//!
//! | what happens | what it does |
//! |---|---|
//! | a batch, or a progress mark | enters it, passes its cursor, forgets failures |
//! | `Expired` | lists at once; after a listing that led nowhere, with backoff |
//! | any other error, or the end of the stream | watches from the last cursor, with backoff |
//! | silence for longer than the idle limit | watches from the last cursor, at once |
//! | a page behind what was known, a batch behind the last one | lists in a fresh epoch |
//! | somebody asks for a listing | lists |
//!
//! Every request has the store's time limit. Not here: what an item or an event does to the cache.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use reconcile_core::{
    Resource, StoreError, StoreFault,
    store::{Changes, Cursor, ListQuery, WatchBatch},
};

use super::{
    Kind, RestartCause,
    relist::{Epoch, Trust},
};
use crate::Time;

/// After how many batches in a row that were there at once the others get a turn: a stream that is always ready
/// must not keep its thread for itself.
const BATCHES_PER_TURN: u32 = 16;

/// Keeps the cache of a kind equal to its store, for ever.
pub(super) async fn reflect<R: Resource>(kind: Arc<Kind<R>>) {
    let mut reflector = Reflector { kind, failures: 0, trust: Trust::Unknown, listed_in_vain: false };
    loop {
        let cursor = match reflector.resume() {
            Some(cursor) => cursor,
            None => match reflector.list().await {
                Ok(cursor) => cursor,
                Err(error) => {
                    reflector.failed(RestartCause::Failed, &error).await;
                    continue;
                }
            },
        };
        let end = reflector.watch(cursor).await;
        reflector.ended(end).await;
    }
}

/// The loop's own memory; everything else is in the cache.
struct Reflector<R: Resource> {
    kind: Arc<Kind<R>>,
    /// In a row, without a batch in between.
    failures: u32,
    /// Whether the next listing may be of another history.
    trust: Trust,
    /// Whether the last listing was followed by nothing yet, neither a batch nor a stream that lasted: to list
    /// at once after an `Expired` would go in circles.
    listed_in_vain: bool,
}

/// Why a watch ended.
enum End {
    Expired(StoreError),
    /// The store went back in time.
    Rewound,
    Failed(StoreError),
    Ended,
    Idle,
    Asked,
}

impl<R: Resource> Reflector<R> {
    /// Where to watch from, unless a listing is needed first.
    fn resume(&self) -> Option<Cursor> {
        if self.kind.cache().is_listing_wanted() {
            return None;
        }
        self.kind.cache().reflection().cursor()
    }

    /// Lists from the first page to the last.
    async fn list(&mut self) -> Result<Cursor, StoreError> {
        let cache = self.kind.cache().clone();
        let mut asked = cache.ask_listing(Epoch::Same);
        let mut page = self.page(ListQuery::all()).await?;
        if asked.is_ahead_of(&page.cursor) {
            cache.reflection().restarts(RestartCause::Rewound, None);
            tracing::warn!(kind = R::KIND, at = %page.cursor, "the store went back in time: listing again");
            asked = cache.ask_listing(Epoch::Fresh);
            self.trust = Trust::Unknown;
            page = self.page(ListQuery::all()).await?;
        }
        let cursor = page.cursor.clone();
        let listing = asked.page_of(&cursor);
        loop {
            let next = page.next.take();
            cache.enter_page(page, listing, self.trust).await;
            let Some(token) = next else { break };
            page = self.page(ListQuery::all().after(token.clone())).await?;
            if page.next.as_ref() == Some(&token) {
                return Err(StoreError::of_kind("list", R::KIND, StoreFault::Unavailable)
                    .because("the store gives the same page again and again"));
            }
        }
        cache.finish_listing(listing).await;
        cache.reflection().listed(cursor.clone());
        self.trust = Trust::SameHistory;
        self.listed_in_vain = true;
        Ok(cursor)
    }

    async fn page(&self, query: ListQuery) -> Result<reconcile_core::store::Page<R>, StoreError> {
        let settings = self.kind.settings();
        let query = query.scope(settings.scope.clone()).limit(settings.page_size.max(1));
        self.kind.cache().reflection().asks_page();
        let page = self.kind.backend().list(query).await?;
        self.kind.cache().reflection().heard(self.now());
        Ok(page)
    }

    /// Watches from a cursor until something ends it.
    async fn watch(&mut self, cursor: Cursor) -> End {
        self.kind.cache().reflection().asks_watch();
        let mut known = cursor.revision();
        let mut stream = match self.kind.backend().watch(cursor, &self.kind.settings().scope).await {
            Ok(stream) => stream,
            Err(error) => return ended_by(error),
        };
        let opened = self.now();
        let mut heard = opened;
        let mut in_a_row = 0;
        loop {
            let batch = match self.next(&mut stream, heard, &mut in_a_row).await {
                Ok(batch) => batch,
                Err(end) => {
                    // A quiet stream is a healthy one, too, if it lasts.
                    let lasted = self.now().since(opened);
                    let backoff = self.kind.settings().backoff;
                    if lasted >= backoff.cap() {
                        self.failures = 0;
                    }
                    if lasted >= backoff.base() {
                        self.listed_in_vain = false;
                    }
                    return end;
                }
            };
            if batch.cursor.revision() < known {
                return End::Rewound;
            }
            known = batch.cursor.revision();
            heard = self.now();
            self.kind.cache().reflection().heard(heard);
            self.kind.cache().enter_events(batch.events).await;
            self.kind.cache().pass(known);
            self.kind.cache().reflection().passed(batch.cursor);
            self.failures = 0;
            self.listed_in_vain = false;
        }
    }

    async fn next(
        &self,
        stream: &mut Changes<R>,
        heard: Time,
        in_a_row: &mut u32,
    ) -> Result<WatchBatch<R>, End> {
        if self.kind.cache().is_listing_wanted() {
            return Err(End::Asked);
        }
        if let Some(item) = stream.next().now_or_never() {
            *in_a_row += 1;
            if *in_a_row >= BATCHES_PER_TURN {
                *in_a_row = 0;
                tokio::task::yield_now().await;
            }
            return batch_of(item);
        }
        *in_a_row = 0;
        let deadline = heard.saturating_add(self.kind.settings().idle_limit);
        let wait = async {
            tokio::select! {
                biased;
                () = self.kind.cache().listing_wanted() => Err(End::Asked),
                item = stream.next() => batch_of(item),
            }
        };
        self.kind.environment().before(deadline, wait).await.unwrap_or(Err(End::Idle))
    }

    /// A watch has ended: what that means for the next turn of the loop.
    async fn ended(&mut self, end: End) {
        let reflection = self.kind.cache().reflection();
        match end {
            End::Expired(error) => {
                reflection.lose_cursor();
                self.trust = Trust::Unknown;
                if self.listed_in_vain {
                    self.failed(RestartCause::Expired, &error).await;
                } else {
                    tracing::info!(kind = R::KIND, "the history that was watched is gone: listing again");
                    reflection.restarts(RestartCause::Expired, None);
                }
            }
            End::Rewound => {
                reflection.lose_cursor();
                self.trust = Trust::Unknown;
                let error = StoreError::of_kind("watch", R::KIND, StoreFault::Expired)
                    .because("the stream went back to an earlier revision");
                self.failed(RestartCause::Rewound, &error).await;
            }
            End::Failed(error) => self.failed(RestartCause::Failed, &error).await,
            End::Ended => {
                let error = StoreError::of_kind("watch", R::KIND, StoreFault::Unavailable)
                    .because("the store ended the stream");
                self.failed(RestartCause::Ended, &error).await;
            }
            End::Idle => {
                tracing::info!(kind = R::KIND, "the watch was silent for too long: opening it again");
                reflection.restarts(RestartCause::Idle, None);
            }
            End::Asked => reflection.restarts(RestartCause::Asked, None),
        }
    }

    /// Counts a failure and waits.
    async fn failed(&mut self, cause: RestartCause, error: &StoreError) {
        self.failures = self.failures.saturating_add(1);
        let environment = self.kind.environment();
        let delay = self.kind.settings().backoff.delay(self.failures, environment.random().next_u64());
        let text: Arc<str> = format!("{error}: {}", error.fault()).into();
        tracing::warn!(kind = R::KIND, %cause, error = %text, failures = self.failures, ?delay, "watching failed");
        self.kind.cache().reflection().restarts(cause, Some(text));
        environment.sleep(delay).await;
    }

    fn now(&self) -> Time {
        self.kind.environment().now()
    }
}

fn batch_of<R>(item: Option<Result<WatchBatch<R>, StoreError>>) -> Result<WatchBatch<R>, End> {
    match item {
        Some(Ok(batch)) => Ok(batch),
        Some(Err(error)) => Err(ended_by(error)),
        None => Err(End::Ended),
    }
}

fn ended_by(error: StoreError) -> End {
    match error.fault() {
        StoreFault::Expired => End::Expired(error),
        _ => End::Failed(error),
    }
}
