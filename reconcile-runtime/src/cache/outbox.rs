//! The ordered outbox of a cache, and the role of the one who empties it.
//!
//! Whoever changes a cache pushes its changes here, under the cache's lock. Then one party at a time takes
//! items out and delivers them, outside the lock: the *drainer*. It drains up to its own ticket, frees the
//! role, and wakes the next one who waits; only what nobody waits for, it drains beyond its ticket. So changes
//! reach subscribers in the order of the pushes, a writer returns only after its own change was delivered, and
//! nobody drains for ever.
//!
//! The role is free between two drainers, not owned by the one who was woken: whoever is polled first takes it.
//! A woken future that is never polled again therefore delays nobody who comes later.
//!
//! # Invariants
//!
//! 1. Items leave in the order in which they came, one at a time: `delivered <= taken <= pushed`, and the
//!    first two differ by at most one.
//! 2. While an item is queued, somebody will come for it: there is a drainer, or a waiting party that was woken
//!    or has never been polled, or a party that has just pushed and not yet looked.
//! 3. A waiting party keeps a seat from before the lock of its push is released until it has seen its ticket
//!    delivered, taken the role, or been dropped; a drop that would break (2) wakes another one or drains.
//! 4. Wakers are cloned, called and dropped outside the lock.
//!
//! Not here: what an item is and how it is delivered; see [`Post`].

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The number of a push: what was pushed up to then is delivered when the outbox has passed it.
pub(super) type Ticket = u64;

/// Queued items, and who waits for them. Lives inside its owner's lock.
pub(super) struct Outbox<T> {
    /// What was pushed and not yet taken.
    queue: VecDeque<T>,
    /// How many items were ever pushed, taken, and delivered (invariant 1).
    pushed: u64,
    taken: u64,
    delivered: u64,
    /// Whether somebody has the role of the drainer.
    draining: bool,
    /// Who waits, in the order of their tickets.
    seats: VecDeque<Seat>,
    next_seat: u64,
}

struct Seat {
    id: u64,
    ticket: Ticket,
    /// None while it was never polled, and after it was woken.
    waker: Option<Waker>,
}

/// Who owns an outbox, and can deliver its items.
pub(super) trait Post: Send + Sync + 'static {
    /// What is delivered.
    type Item: Send;

    /// Calls `f` with the outbox, under the owner's lock.
    fn with_outbox<T>(&self, f: impl FnOnce(&mut Outbox<Self::Item>) -> T) -> T;

    /// Delivers an item, outside the owner's lock. Must not unwind.
    fn deliver(&self, item: Self::Item);
}

/// What a waiting party finds when it looks.
enum Turn {
    /// Its ticket is delivered.
    Done,
    /// The role was free, and is its own now.
    Drain,
    /// Somebody else drains. The waker it replaced, to be dropped outside the lock.
    Wait { _replaced: Option<Waker> },
}

/// What a leaving party has to do for the others (invariant 3).
enum Leave {
    Nothing,
    Wake(Waker),
    Drain,
}

/// The next thing a drainer does.
struct Next<T> {
    item: Option<T>,
    /// To be woken first: whose ticket is delivered, and who may take over.
    wake: Vec<Waker>,
}

impl<T> Outbox<T> {
    pub(super) fn new() -> Self {
        Outbox {
            queue: VecDeque::new(),
            pushed: 0,
            taken: 0,
            delivered: 0,
            draining: false,
            seats: VecDeque::new(),
            next_seat: 0,
        }
    }

    /// Adds an item at the end.
    pub(super) fn push(&mut self, item: T) {
        self.pushed += 1;
        self.queue.push_back(item);
    }

    /// A seat for a party that waits until all that was pushed so far is delivered; none if it is.
    pub(super) fn sit(&mut self) -> Option<Place> {
        if self.delivered == self.pushed {
            return None;
        }
        let place = Place { seat: self.next_seat, ticket: self.pushed };
        self.next_seat += 1;
        self.seats.push_back(Seat { id: place.seat, ticket: place.ticket, waker: None });
        Some(place)
    }

    /// Takes the role for a party that does not wait: up to which ticket it has to drain.
    fn seize(&mut self) -> Option<Ticket> {
        if self.draining || self.queue.is_empty() {
            return None;
        }
        self.draining = true;
        Some(self.pushed)
    }

    fn look(&mut self, place: &Place, waker: Waker) -> Turn {
        if self.delivered >= place.ticket {
            self.remove(place.seat);
            return Turn::Done;
        }
        if !self.draining {
            self.draining = true;
            self.remove(place.seat);
            return Turn::Drain;
        }
        let seat = self.seats.iter_mut().find(|seat| seat.id == place.seat);
        Turn::Wait { _replaced: seat.and_then(|seat| seat.waker.replace(waker)) }
    }

    fn leave(&mut self, place: &Place) -> Leave {
        self.remove(place.seat);
        if self.draining || self.queue.is_empty() {
            return Leave::Nothing;
        }
        if self.seats.is_empty() {
            self.draining = true;
            return Leave::Drain;
        }
        match self.wake_next() {
            Some(waker) => Leave::Wake(waker),
            // All the others have been woken or are yet to be polled: each of them comes (invariant 2).
            None => Leave::Nothing,
        }
    }

    /// The last item is delivered; what comes next for a drainer that has to go up to `until`.
    fn next(&mut self, until: Ticket) -> Next<T> {
        self.delivered = self.taken;
        let mut wake = Vec::new();
        while self.seats.front().is_some_and(|seat| seat.ticket <= self.delivered) {
            wake.extend(self.seats.pop_front().and_then(|seat| seat.waker));
        }
        // What nobody waits for would be left behind: its future was dropped, so we go on for it.
        if (self.taken < until || self.seats.is_empty())
            && let Some(item) = self.queue.pop_front()
        {
            self.taken += 1;
            return Next { item: Some(item), wake };
        }
        self.draining = false;
        if !self.queue.is_empty() {
            wake.extend(self.wake_next());
        }
        Next { item: None, wake }
    }

    /// The waker of the first one who waits and was not woken yet.
    fn wake_next(&mut self) -> Option<Waker> {
        self.seats.iter_mut().find_map(|seat| seat.waker.take())
    }

    fn remove(&mut self, id: u64) {
        self.seats.retain(|seat| seat.id != id);
    }
}

/// A seat, as its holder knows it.
pub(super) struct Place {
    seat: u64,
    ticket: Ticket,
}

/// Waits until a ticket is delivered, and takes its turn as the drainer.
///
/// # Cancel safety
///
/// Dropping it loses neither the item nor the role: another one is woken, or the drop drains (invariant 3).
#[must_use = "the change is delivered only when this is awaited or dropped"]
pub(super) struct Delivered<P: Post> {
    post: Arc<P>,
    place: Option<Place>,
}

impl<P: Post> Delivered<P> {
    pub(super) fn new(post: Arc<P>, place: Option<Place>) -> Self {
        Delivered { post, place }
    }
}

impl<P: Post> Future for Delivered<P> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(place) = self.place.take() else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        match self.post.with_outbox(|outbox| outbox.look(&place, waker)) {
            Turn::Done => Poll::Ready(()),
            Turn::Drain => {
                drain(&*self.post, place.ticket);
                Poll::Ready(())
            }
            Turn::Wait { .. } => {
                self.place = Some(place);
                Poll::Pending
            }
        }
    }
}

impl<P: Post> Drop for Delivered<P> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        match self.post.with_outbox(|outbox| outbox.leave(&place)) {
            Leave::Nothing => {}
            Leave::Wake(waker) => waker.wake(),
            Leave::Drain => drain(&*self.post, place.ticket),
        }
    }
}

/// Drains for a party that does not wait. If somebody else drains, that one delivers what was pushed.
pub(super) fn drain_now<P: Post>(post: &P) {
    if let Some(until) = post.with_outbox(Outbox::seize) {
        drain(post, until);
    }
}

/// The drainer's loop. The caller has the role.
fn drain<P: Post>(post: &P, until: Ticket) {
    loop {
        let Next { item, wake } = post.with_outbox(|outbox| outbox.next(until));
        for waker in wake {
            waker.wake();
        }
        match item {
            Some(item) => post.deliver(item),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, reconcile_loom))]
mod loom;
