//! A watch under observation: what holds for every watch is checked with every batch.

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, StreamExt};
use reconcile_core::{
    ObjectKey, Revision, StoreFault,
    store::{Changes, Cursor, WatchBatch, WatchEvent},
};

use super::{
    Probe,
    check::{Check, Failure, holds, ok, same},
    lab::Doing,
};

/// A watch, and what came from it so far.
///
/// It checks of every batch that revisions rise strictly within it and from batch to batch, that the cursor
/// covers the events, and that a delete carries the state that the watch gave last.
pub(super) struct Tail {
    changes: Changes<Probe>,
    /// Where the reader stands.
    cursor: Cursor,
    /// The last state that this watch gave, by key.
    known: BTreeMap<ObjectKey, Arc<Probe>>,
    doing: Doing,
}

impl Tail {
    pub(super) fn new(changes: Changes<Probe>, cursor: Cursor, doing: Doing) -> Self {
        Tail { changes, cursor, known: BTreeMap::new(), doing }
    }

    /// Where the reader stands.
    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The next batch.
    pub(super) async fn batch(&mut self) -> Check<Vec<WatchEvent<Probe>>> {
        self.doing.set(format!("watch, after {}", self.cursor));
        match self.changes.next().await {
            Some(batch) => self.take(ok("watch", batch)?),
            None => Err(Failure::new("watch", "a change or a mark of progress", "the end of the stream")),
        }
    }

    /// Asks for the next batch once and gives up if it is not there, as a `select` that another branch won.
    pub(super) fn cancelled(&mut self) -> Check<Vec<WatchEvent<Probe>>> {
        match self.changes.next().now_or_never() {
            None => Ok(vec![]),
            Some(Some(batch)) => self.take(ok("watch", batch)?),
            Some(None) => Err(Failure::new("watch", "a stream that goes on", "its end")),
        }
    }

    /// All events until the watch has reached a revision.
    pub(super) async fn until(&mut self, revision: Revision) -> Check<Vec<WatchEvent<Probe>>> {
        let mut events = Vec::new();
        while self.cursor.revision() < revision {
            events.extend(self.batch().await?);
        }
        Ok(events)
    }

    /// Reads on until the watch is refused, and gives the events before that. Fails if it reaches `revision`.
    pub(super) async fn until_expired(&mut self, revision: Revision) -> Check<Vec<WatchEvent<Probe>>> {
        let mut events = Vec::new();
        loop {
            if self.cursor.revision() >= revision {
                let got = format!("it reached {}: {}", self.cursor, trace(&events));
                return Err(Failure::new("watch", "the fault Expired", got));
            }
            match self.expired_or_more().await? {
                None => return Ok(events),
                Some(more) => events.extend(more),
            }
        }
    }

    /// The next batch, or none if the watch expired.
    pub(super) async fn expired_or_more(&mut self) -> Check<Option<Vec<WatchEvent<Probe>>>> {
        self.doing.set(format!("watch, after {}", self.cursor));
        match self.changes.next().await {
            Some(Err(error)) if error.fault() == StoreFault::Expired => Ok(None),
            Some(batch) => Ok(Some(self.take(ok("watch", batch)?)?)),
            None => Err(Failure::new("watch", "a change, or the fault Expired", "the end of the stream")),
        }
    }

    fn take(&mut self, batch: WatchBatch<Probe>) -> Check<Vec<WatchEvent<Probe>>> {
        let mut last = self.cursor.revision();
        for event in &batch.events {
            let operation = format!("watch, the event {}", told(event));
            holds(&operation, format!("a revision after {last}"), event.revision() > last, || {
                format!("{}, in {}", event.revision(), trace(&batch.events))
            })?;
            last = event.revision();
            match event {
                WatchEvent::Applied(object) => {
                    self.known.insert(event.key(), object.clone());
                }
                WatchEvent::Deleted { key, uid, last, revision } => {
                    let known = self.known.remove(key);
                    if let (Some(known), Some(last)) = (&known, last) {
                        same(format!("{operation}, its last state"), last, known)?;
                        same(format!("{operation}, its uid"), uid, &Some(known.meta.uid.clone()))?;
                    }
                    if let Some(last) = last {
                        let before = last.meta.revision;
                        let expected = format!("a revision of its own, after {before}");
                        holds(&operation, expected, *revision > before, || revision.to_string())?;
                    }
                }
                // What was known is no longer what is stored.
                _ => drop(self.known.remove(&event.key())),
            }
        }
        let reached = batch.cursor.revision();
        holds("watch, the cursor of a batch", format!("{last} or later"), reached >= last, || {
            format!("{reached}, after {}", trace(&batch.events))
        })?;
        self.cursor = batch.cursor;
        Ok(batch.events)
    }
}

/// One event as text: `+a@3` was applied, `-a@4` deleted, `?a@5` became unreadable.
pub(super) fn told(event: &WatchEvent<Probe>) -> String {
    let sign = match event {
        WatchEvent::Applied(_) => '+',
        WatchEvent::Deleted { .. } => '-',
        _ => '?',
    };
    format!("{sign}{}@{}", event.key(), event.revision())
}

/// Events as text, in order.
pub(super) fn trace(events: &[WatchEvent<Probe>]) -> String {
    events.iter().map(told).collect::<Vec<_>>().join(" ")
}

/// What a write that stored must show in a watch.
pub(super) fn applied(object: &Probe) -> String {
    format!("+{}@{}", super::lab::key_of(object), object.meta.revision)
}

/// What a write that removed must show in a watch.
pub(super) fn deleted(key: &ObjectKey, revision: Revision) -> String {
    format!("-{key}@{revision}")
}

/// The events must be these, in this order, and no others.
pub(super) fn exactly(operation: &str, events: &[WatchEvent<Probe>], expected: &[String]) -> Check {
    same(operation, trace(events), expected.join(" "))
}
