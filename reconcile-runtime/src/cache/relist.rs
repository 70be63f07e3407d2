//! A listing, page by page, and what it does to the cache at its end; and what a watch brings.
//!
//! Pages are entered as they come. Readers see the old state meanwhile, and memory is bounded by a page and the
//! set of keys that were seen. At the end, what no page had is really deleted, in chunks, unless it is newer
//! than the first page.
//!
//! A store that went back in time shows it by a listing that is behind what was known when it was asked for.
//! Then a fresh epoch begins, *before* the listing is asked for again: so an answer that was entered in the
//! older epoch is in the listing if it is in the store, and one that comes later and was begun earlier is
//! ignored.
//!
//! Not here: requests, limits and retries; see [`reflector`](super::reflector).

use std::sync::Arc;

use reconcile_core::{
    ObjectKey, Resource, Revision,
    store::{Cursor, Page, WatchEvent},
};

use super::{
    CHUNK, Cache, Origin,
    progress::Progress,
    transition::{Incoming, Listing},
};

/// How many keys are looked up in the set of the seen ones in one hold of the lock: some tens of microseconds.
const LOOKUP_CHUNK: usize = 1024;

/// In which epoch a listing is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Epoch {
    /// In this one.
    Same,
    /// In a fresh one, since the store went back.
    Fresh,
}

/// A listing that is about to be asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    number: u64,
    /// A listing behind this is of another history.
    known: Revision,
}

impl Asked {
    /// Whether the first page shows that the store went back.
    pub(super) fn is_ahead_of(&self, cursor: &Cursor) -> bool {
        cursor.revision() < self.known
    }

    pub(super) fn page_of(&self, first: &Cursor) -> Listing {
        Listing { number: self.number, cursor: first.revision() }
    }
}

/// Whether a listing may be of a history that the cache does not know although it is not behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The watch could have gone on.
    SameHistory,
    /// The store did not know the cursor any more: too old, or of another history. Listed objects are compared
    /// with the held ones of the same revision.
    Unknown,
}

impl<R: Resource> Cache<R> {
    /// A listing is about to be asked for.
    pub(super) fn ask_listing(&self, epoch: Epoch) -> Asked {
        let displaced;
        let asked = {
            let mut state = self.lock();
            // An unfinished fresh listing starts over in yet another epoch, so that whatever was answered
            // meanwhile is either in the new listing or ignored.
            if epoch == Epoch::Fresh || state.fresh {
                state.epoch += 1;
                state.fresh = true;
                state.floor = Revision(0);
                state.highest = Revision(0);
                state.newest = Revision(0);
                state.tombstones.forget();
                state.answered.clear();
            }
            state.listings += 1;
            displaced = std::mem::take(&mut state.seen);
            Asked { number: state.listings, known: state.highest }
        };
        drop(displaced);
        self.publish();
        asked
    }

    /// Enters a page.
    pub(super) async fn enter_page(self: &Arc<Self>, page: Page<R>, listing: Listing, trust: Trust) {
        let items = page.items.into_iter().map(|object| {
            let key = object.key();
            let contradicts = match trust {
                Trust::SameHistory => None,
                Trust::Unknown => self.get(&key).filter(|held| differs(held, &object)),
            };
            (key, Incoming::Listed { object, listing, contradicts })
        });
        let unreadable = page
            .unreadable
            .into_iter()
            .map(|item| (item.key.clone(), Incoming::ListedUnreadable { item: Arc::new(item), listing }));
        self.enter_chunks(items.chain(unreadable)).await;
    }

    /// The last page was entered: what no page had is gone.
    pub(super) async fn finish_listing(self: &Arc<Self>, listing: Listing) {
        let mut missing: Vec<ObjectKey> = self.objects.iter().map(|entry| entry.key().clone()).collect();
        missing.extend(self.lock().flags.keys().cloned());
        for chunk in (0..missing.len()).step_by(LOOKUP_CHUNK).rev() {
            // Backwards, since `swap_remove` fills a gap from behind.
            let state = self.lock();
            for at in (chunk..missing.len().min(chunk + LOOKUP_CHUNK)).rev() {
                if missing.get(at).is_some_and(|key| state.seen.contains(key)) {
                    missing.swap_remove(at);
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        let cursor = listing.cursor;
        self.enter_chunks(missing.into_iter().map(|key| (key, Incoming::Missing { cursor }))).await;

        let displaced;
        let place = {
            let mut state = self.lock();
            state.floor = state.floor.max(cursor);
            state.highest = state.highest.max(cursor);
            let floor = state.floor;
            state.tombstones.passed(floor);
            state.tombstones.listed(listing.number);
            state.listed = listing.number;
            state.fresh = false;
            state.synced = true;
            displaced = (std::mem::take(&mut state.seen), std::mem::take(&mut state.answered));
            state.outbox.sit()
        };
        drop(displaced);
        self.publish();
        super::Delivered::new(self.clone(), place).await;
    }

    /// Enters the events of a batch.
    pub(super) async fn enter_events(self: &Arc<Self>, events: Vec<WatchEvent<R>>) {
        self.enter_chunks(events.into_iter().filter_map(|event| {
            let key = event.key();
            let incoming = match event {
                WatchEvent::Applied(object) => Incoming::Applied(object),
                WatchEvent::Unreadable(item) => Incoming::Unreadable(Arc::new(item)),
                WatchEvent::Deleted { revision, last, .. } => Incoming::Deleted { revision, last },
                other => {
                    // A kind of event that this version does not know: it cannot say what it means.
                    tracing::error!(kind = R::KIND, event = ?other, "an unknown watch event was skipped");
                    return None;
                }
            };
            Some((key, incoming))
        }))
        .await;
    }

    /// The watch has brought everything up to `revision`.
    pub(super) fn pass(&self, revision: Revision) {
        {
            let mut state = self.lock();
            state.floor = state.floor.max(revision);
            state.highest = state.highest.max(revision);
            let floor = state.floor;
            state.tombstones.passed(floor);
        }
        self.publish();
    }

    async fn enter_chunks(self: &Arc<Self>, incoming: impl Iterator<Item = (ObjectKey, Incoming<R>)> + Send) {
        let mut incoming = incoming;
        loop {
            let chunk: Vec<_> = incoming.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                return;
            }
            self.enter(Origin::Reflector, chunk).await;
        }
    }

    /// Tells who waits. Only the reflector comes here, so no older progress overtakes a newer one.
    fn publish(&self) {
        let progress = {
            let state = self.lock();
            Progress { synced: state.synced, floor: state.floor, listed: state.listed }
        };
        self.signals.set(progress);
    }
}

/// Whether two versions of one revision are of two histories.
fn differs<R: Resource>(held: &Arc<R>, listed: &Arc<R>) -> bool {
    !Arc::ptr_eq(held, listed)
        && (held.meta() != listed.meta() || held.status() != listed.status() || !held.spec_eq(listed))
}

impl<R: Resource> Cache<R> {
    /// The number of the last listing that was asked for.
    pub(super) fn listings_asked(&self) -> u64 {
        self.lock().listings
    }

    /// Whether somebody wants a listing that was not asked for yet.
    pub(super) fn is_listing_wanted(&self) -> bool {
        self.signals.is_wanted(self.listings_asked())
    }

    /// Waits until somebody wants a listing that was not asked for yet.
    pub(super) async fn listing_wanted(&self) {
        self.signals.wanted(self.listings_asked()).await;
    }
}
