//! File events as a stream of paths.
//!
//! Promises: every path that the system tells of is yielded, relative to its root; an error ends the stream, so that
//! whoever runs it can make another one. When the reader is slow the watcher's thread waits, and then the kernel,
//! which in the end says that it lost events: that is an error too.
//!
//! Not here: what happened while no stream was there. Compare everything from time to time.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use futures::{Stream, StreamExt, TryStreamExt, future, stream};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::{is_unfinished, off_thread};

/// How many events may wait for the reader: a burst of a large move, and little memory.
const EVENTS: usize = 1024;

/// The paths under two roots that changed, relative to their roots. Links are not followed, and reading is no change.
///
/// # Errors
///
/// The stream ends with an error when a root cannot be watched, or when events were lost.
pub fn events(roots: [PathBuf; 2]) -> impl Stream<Item = anyhow::Result<PathBuf>> {
    let (send, receive) = mpsc::channel(EVENTS);
    let watched = roots.clone();
    let watch = off_thread(move || {
        // Nobody takes an event after the stream was dropped, and nobody wants it.
        let take = move |event| send.blocking_send(event).unwrap_or_default();
        let mut watcher = RecommendedWatcher::new(take, Config::default().with_follow_symlinks(false))?;
        for root in &watched {
            watcher.watch(root, RecursiveMode::Recursive)?;
        }
        Ok(watcher)
    });
    let events = async move {
        // In this order: the receiver goes first, so that a watcher whose thread waits for it can end.
        let state = (receive, watch.await.context("cannot watch for changes")?);
        anyhow::Ok(stream::unfold(state, |(mut receive, watcher)| async {
            let event: notify::Result<Event> = receive.recv().await?;
            Some((event.context("cannot watch for changes"), (receive, watcher)))
        }))
    };
    stream::once(events)
        .try_flatten()
        .and_then(move |event| future::ready(paths(&roots, event)))
        .map_ok(|paths| stream::iter(paths).map(Ok))
        .try_flatten()
}

/// The paths of an event: none for mere reading, for the roots themselves, and for our own unfinished copies.
fn paths(roots: &[PathBuf; 2], event: Event) -> anyhow::Result<Vec<PathBuf>> {
    if event.need_rescan() {
        return Err(anyhow!("the system lost file events, and tells of later ones only"));
    }
    if event.kind.is_access() {
        return Ok(Vec::new());
    }
    let relative = |path: PathBuf| {
        let inside = roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
        (inside.file_name().is_some() && !is_unfinished(inside)).then(|| inside.to_path_buf())
    };
    Ok(event.paths.into_iter().filter_map(relative).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use notify::{
        EventKind,
        event::{AccessKind, Flag, ModifyKind, RenameMode},
    };

    use super::*;

    fn roots() -> [PathBuf; 2] {
        ["/from".into(), "/to".into()]
    }

    fn check(event: Event, expected: &[&str]) {
        let paths = paths(&roots(), event).unwrap();
        assert_eq!(paths, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn an_event_is_told_by_its_paths_under_either_root() {
        let renamed = Event::new(EventKind::Modify(ModifyKind::Name(RenameMode::Both)));
        check(renamed.clone().add_path("/from/a/b".into()).add_path("/to/c".into()), &["a/b", "c"]);
        check(renamed.clone().add_path("/from".into()).add_path("/elsewhere/a".into()), &[]);
        let part = format!("/to/a/.mirror-part-{}-3", process::id());
        check(renamed.add_path(part.into()), &[]);
        check(Event::new(EventKind::Access(AccessKind::Read)).add_path("/from/a".into()), &[]);
    }

    #[test]
    fn lost_events_end_the_stream() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(paths(&roots(), lost).unwrap_err().to_string().contains("lost file events"));
    }

    #[tokio::test]
    async fn a_change_is_told_and_a_root_that_is_not_there_is_an_error() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let roots = [from.path().canonicalize().unwrap(), to.path().canonicalize().unwrap()];
        let mut stream = Box::pin(events(roots.clone()));
        // The first poll starts watching, so a file is written again and again until one is told.
        let told = loop {
            fs::write(from.path().join("a"), "one").unwrap();
            if let Some(told) = futures::FutureExt::now_or_never(stream.next()) {
                break told;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(told.unwrap().unwrap(), PathBuf::from("a"));
        let missing = [roots[0].join("missing"), roots[1].clone()];
        let error = Box::pin(events(missing)).next().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "cannot watch for changes");
    }
}
