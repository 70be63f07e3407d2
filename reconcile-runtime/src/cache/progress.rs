//! How far a cache has come, as one value that can be waited for.

use reconcile_core::Revision;
use tokio::sync::watch;

/// How far the reflector of a cache has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Whether the first listing has ended.
    pub(super) synced: bool,
    /// Up to which revision the reflector has brought everything.
    pub(super) floor: Revision,
    /// The number of the last listing that has ended; zero for none.
    pub(super) listed: u64,
}

/// Progress to be waited for, and a listing to be asked for.
#[derive(Debug)]
pub(super) struct Signals {
    progress: watch::Sender<Progress>,
    /// The lowest number of a listing that somebody wants.
    wanted: watch::Sender<u64>,
}

impl Signals {
    pub(super) fn new() -> Self {
        Signals { progress: watch::Sender::new(Progress::default()), wanted: watch::Sender::new(0) }
    }

    pub(super) fn now(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Says how far the reflector has come, and wakes who waits for it. Outside the cache's lock.
    pub(super) fn set(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }

    /// Waits until `reached` says so.
    pub(super) async fn until(&self, reached: impl FnMut(&Progress) -> bool) {
        let mut progress = self.progress.subscribe();
        // The sender is `self`, which we hold: the wait cannot end for want of it.
        let _progress = progress.wait_for(reached).await;
    }

    /// Asks for a listing of at least this number.
    pub(super) fn want(&self, listing: u64) {
        self.wanted.send_if_modified(|wanted| {
            let more = listing > *wanted;
            *wanted = (*wanted).max(listing);
            more
        });
    }

    /// Whether somebody wants a listing later than number `last`.
    pub(super) fn is_wanted(&self, last: u64) -> bool {
        *self.wanted.borrow() > last
    }

    /// Waits until somebody wants a listing later than number `last`.
    pub(super) async fn wanted(&self, last: u64) {
        let mut wanted = self.wanted.subscribe();
        let _wanted = wanted.wait_for(|wanted| *wanted > last).await;
    }
}
