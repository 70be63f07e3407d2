//! What a cache and its reflector count, as plain numbers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use reconcile_core::{Resource, Revision, store::Cursor};

use super::Cache;
use crate::Time;

/// Why a reflector started its watch again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RestartCause {
    /// The store did not know the cursor any more: listed again.
    Expired,
    /// The store went back in time: listed again, in a new epoch.
    Rewound,
    /// A request or the stream failed: tried again after a backoff.
    Failed,
    /// The stream ended.
    Ended,
    /// The stream was silent for longer than the idle limit.
    Idle,
    /// Somebody asked for a listing, such as a barrier that waited too long.
    Asked,
}

impl RestartCause {
    /// All causes, in a fixed order.
    pub const ALL: [RestartCause; 6] = [
        RestartCause::Expired,
        RestartCause::Rewound,
        RestartCause::Failed,
        RestartCause::Ended,
        RestartCause::Idle,
        RestartCause::Asked,
    ];

    /// One word, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            RestartCause::Expired => "expired",
            RestartCause::Rewound => "rewound",
            RestartCause::Failed => "failed",
            RestartCause::Ended => "ended",
            RestartCause::Idle => "idle",
            RestartCause::Asked => "asked",
        }
    }
}

impl fmt::Display for RestartCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often a watch started again, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restarts {
    expired: u64,
    rewound: u64,
    failed: u64,
    ended: u64,
    idle: u64,
    asked: u64,
}

impl Restarts {
    /// How often for this cause.
    pub fn of(&self, cause: RestartCause) -> u64 {
        match cause {
            RestartCause::Expired => self.expired,
            RestartCause::Rewound => self.rewound,
            RestartCause::Failed => self.failed,
            RestartCause::Ended => self.ended,
            RestartCause::Idle => self.idle,
            RestartCause::Asked => self.asked,
        }
    }

    /// How often in all.
    pub fn total(&self) -> u64 {
        RestartCause::ALL.into_iter().map(|cause| self.of(cause)).sum()
    }

    fn add(&mut self, cause: RestartCause) {
        let count = match cause {
            RestartCause::Expired => &mut self.expired,
            RestartCause::Rewound => &mut self.rewound,
            RestartCause::Failed => &mut self.failed,
            RestartCause::Ended => &mut self.ended,
            RestartCause::Idle => &mut self.idle,
            RestartCause::Asked => &mut self.asked,
        };
        *count += 1;
    }
}

/// The state of one kind's cache and reflector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSnapshot {
    /// The kind.
    pub kind: &'static str,
    /// Cached objects.
    pub objects: usize,
    /// Keys under which something is stored that cannot be read.
    pub unreadable: usize,
    /// Whether the first listing has ended.
    pub synced: bool,
    /// How often the store went back in time.
    pub epoch: u64,
    /// Up to which revision the reflector has brought everything.
    pub revision: Revision,
    /// Listings that have ended.
    pub listings: u64,
    /// Requests for a page.
    pub list_attempts: u64,
    /// Requests for a watch.
    pub watch_attempts: u64,
    /// How often the watch started again, by cause.
    pub restarts: Restarts,
    /// Panics of index functions.
    pub index_panics: u64,
    /// Panics that came through a subscriber. Always zero, unless this library has a fault.
    pub subscriber_panics: u64,
    /// How long ago the store last answered a listing or delivered a batch or a progress mark; none if never.
    pub idle_for: Option<Duration>,
    /// Started writes whose run is gone and that have not settled.
    pub writes_left: usize,
    /// What went wrong last, if nothing came after it.
    pub last_error: Option<Arc<str>>,
}

/// What the reflector counts, and where it stands; so that one that is started again goes on there.
#[derive(Debug, Default)]
pub(super) struct Reflection(Mutex<Reflected>);

#[derive(Debug, Default)]
struct Reflected {
    /// From where a watch goes on; none if a listing is needed first.
    cursor: Option<Cursor>,
    listings: u64,
    list_attempts: u64,
    watch_attempts: u64,
    restarts: Restarts,
    last_activity: Option<Time>,
    last_error: Option<Arc<str>>,
}

impl Reflection {
    pub(super) fn cursor(&self) -> Option<Cursor> {
        self.lock().cursor.clone()
    }

    /// The cursor is good for nothing any more.
    pub(super) fn lose_cursor(&self) {
        self.lock().cursor = None;
    }

    pub(super) fn asks_page(&self) {
        self.lock().list_attempts += 1;
    }

    pub(super) fn asks_watch(&self) {
        self.lock().watch_attempts += 1;
    }

    /// The store answered.
    pub(super) fn heard(&self, now: Time) {
        self.lock().last_activity = Some(now);
    }

    pub(super) fn listed(&self, cursor: Cursor) {
        let mut reflected = self.lock();
        reflected.listings += 1;
        reflected.cursor = Some(cursor);
        reflected.last_error = None;
    }

    pub(super) fn passed(&self, cursor: Cursor) {
        let mut reflected = self.lock();
        reflected.cursor = Some(cursor);
        reflected.last_error = None;
    }

    pub(super) fn restarts(&self, cause: RestartCause, error: Option<Arc<str>>) {
        let mut reflected = self.lock();
        reflected.restarts.add(cause);
        if error.is_some() {
            reflected.last_error = error;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reflected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Resource> Cache<R> {
    /// The numbers of now. One lock after the other, so they need not be of one instant.
    pub(crate) fn snapshot(&self, now: Time, writes_left: usize) -> CacheSnapshot {
        let (unreadable, synced, epoch, revision, index_panics) = {
            let state = self.lock();
            let panics = state.indexes.iter().map(|index| index.panics()).sum();
            (state.flags.len(), state.synced, state.epoch, state.floor, panics)
        };
        let reflected = self.reflection.lock();
        CacheSnapshot {
            kind: R::KIND,
            objects: self.len(),
            unreadable,
            synced,
            epoch,
            revision,
            listings: reflected.listings,
            list_attempts: reflected.list_attempts,
            watch_attempts: reflected.watch_attempts,
            restarts: reflected.restarts,
            index_panics,
            subscriber_panics: self.subscriber_panics.load(Ordering::Relaxed),
            idle_for: reflected.last_activity.map(|at| now.since(at)),
            writes_left,
            last_error: reflected.last_error.clone(),
        }
    }
}
