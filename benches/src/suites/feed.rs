//! Streams of changes for the suites.

use std::ops::Range;

use futures::{Stream, StreamExt, stream};
use tokio::sync::mpsc;

use crate::engine::Change;

/// Changes that may wait in a feed before its sender has to wait: far below what the suites call a backlog.
const DEPTH: usize = 1024;

/// A stream of whole waves: each range sent makes every key of it change once, with no pause between.
pub(crate) fn waves() -> (mpsc::Sender<Range<u32>>, impl Stream<Item = Change> + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<Range<u32>>(DEPTH);
    (sender, received(receiver).flat_map(|keys| stream::iter(keys.map(Change::spec))))
}

/// A stream of single changes.
pub(crate) fn single() -> (mpsc::Sender<Change>, impl Stream<Item = Change> + Send + 'static) {
    let (sender, receiver) = mpsc::channel(DEPTH);
    (sender, received(receiver))
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}
