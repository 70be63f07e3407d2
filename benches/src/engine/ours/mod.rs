//! The engine of this repository, as a program uses it: a manager, a kind, a controller.
//!
//! Two ways lead into it. [`run`] feeds it from a stream, as the peer is fed; that is the comparison.
//! [`run_applied`] has the store in memory under it and creates the objects one by one through `Api` while it
//! runs, so that its figures hold the whole way of an object: validation, commit, cache, watch, run.

mod applied;
mod cache;
mod fed;
mod objects;
mod queue;

use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use reconcile_runtime::{Lane, Trigger, core::Object, prelude::*};
use tokio::sync::mpsc;

pub(super) use self::{
    applied::run as run_applied,
    cache::cache,
    objects::{bare, build},
    queue::queue,
};
use self::{
    fed::{Failing, Fed, SiblingSpec},
    objects::Thing,
};
use super::{Concurrency, Polls, Setup, Sibling, names};
use crate::work::{Verdict, Work};

/// Changes that can wait, between the feed and the controller. The suites send one at a time.
const PATIENT: usize = 1024;

/// Runs the engine on the suite's stream; it ends only by an error.
pub(super) async fn run<W: Work>(setup: Setup, work: Arc<W>) -> Result<()> {
    let (sender, patient) = mpsc::channel(PATIENT);
    let store = Fed::new(setup.objects, setup.changes, sender);
    // A listing takes as long as the suite has patience for.
    let mut manager = Manager::new().no_sync_limit();
    let things = manager.api::<Thing>(&store);
    let mut controller =
        controller(&things, setup.concurrency, work).trigger_with(trigger(patient)).needs_only([&things]);
    if setup.polls == Polls::Exact {
        controller = controller.no_requeue_spread();
    }
    if let Sibling::FailsAfter(begin) = setup.sibling {
        let siblings = manager.api::<Object<SiblingSpec>>(&Failing::after(begin));
        controller = controller.watches(&siblings, |_| None::<ObjectKey>);
    }
    let handle = manager.add(controller).context("the benchmark's controller was refused")?;
    store.ask_by(handle);
    manager.run_until(pending::<()>()).await.context("the manager gave up")?;
    bail!("the manager ended, though nothing had asked it to")
}

/// The controller of every suite: a run reads the object and does the suite's work.
fn controller<W: Work>(
    things: &Api<Thing>,
    concurrency: Concurrency,
    work: Arc<W>,
) -> Controller<Runs<W>, Thing> {
    let controller = Controller::for_objects("bench", things, Runs { things: things.clone(), work });
    match concurrency {
        Concurrency::EnginesDefault => controller,
        Concurrency::Limit(limit) => controller.concurrency(limit.get().into()),
    }
}

/// The lane behind all others is had by a trigger that asks for it. Its stream lives as long as the engine: a
/// second life has nothing to say.
fn trigger(keys: mpsc::Receiver<ObjectKey>) -> Trigger<ObjectKey> {
    let keys = Mutex::new(Some(keys));
    let life = move || {
        let keys = keys.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream::iter(keys).flat_map(|keys| {
            stream::unfold(
                keys,
                |mut keys| async move { keys.recv().await.map(|key: ObjectKey| (key, keys)) },
            )
        })
    };
    Trigger::new("patient", life).lane(Lane::Low)
}

struct Runs<W> {
    things: Api<Thing>,
    work: Arc<W>,
}

impl<W: Work> Reconciler for Runs<W> {
    type Key = ObjectKey;

    async fn reconcile(&self, key: &ObjectKey, run: &Run) -> Result<Action, Error> {
        // Of an object that is gone, only the key is left.
        let thing = self.things.get(key);
        let name = thing.as_ref().map_or(key.name(), |thing| &thing.meta.name);
        let id = names::id_of(name);
        let id = id.ok_or_else(|| format!("object {name:?} is none of this benchmark's")).permanent()?;
        match self.work.run(id).await {
            Verdict::Await => Ok(Action::await_change()),
            Verdict::Again => {
                run.progressed();
                Ok(Action::requeue_now())
            }
            Verdict::After(time) => Ok(Action::requeue_after(time)),
            Verdict::Failed(after) => {
                Err("the work failed and is to be retried after a while").retry_after(after)?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{
        super::{Change, Engine, Part, Urgency},
        *,
    };
    use crate::{clock, suites::PATIENCE, tally::Tally};

    /// Two pages and a bit.
    const OBJECTS: u32 = 1_050;

    struct Counted(Tally);

    impl Work for Counted {
        async fn run(&self, id: u32) -> Verdict {
            self.0.record(id);
            Verdict::Await
        }
    }

    /// Runs the engine until every object ran, hands it one change of each sort, and gives the runs of the
    /// changed objects.
    async fn runs_after_changes(engine: Engine) -> Vec<u32> {
        let work = Arc::new(Counted(Tally::new(OBJECTS, 1)));
        let (feed, receiver) = mpsc::channel(8);
        let changes = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|change| (change, receiver))
        });
        let setup = Setup::listing(OBJECTS).changes(changes);
        let driver = async {
            work.0.last_goal(PATIENCE).await.unwrap();
            let change = |id, part, urgency| Change { id, part, urgency };
            let all = [
                change(0, Part::Spec, Urgency::Normal),
                change(1, Part::Status, Urgency::Normal),
                change(2, Part::Deleted, Urgency::Normal),
                change(3, Part::Spec, Urgency::High),
                change(4, Part::Spec, Urgency::Low),
            ];
            for change in all {
                feed.send(change).await.unwrap();
            }
            clock::until(PATIENCE, || (0..5).all(|id| work.0.of(id) == 2)).await;
        };
        let engine = engine.run(setup, work.clone());
        futures::select_biased! {
            () = driver.fuse() => {}
            ended = Box::pin(engine).fuse() => panic!("the engine ended: {ended:?}"),
        }
        (0..6).map(|id| work.0.of(id)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_object_runs_once_and_each_sort_of_change_runs_its_object_again() {
        for engine in [Engine::Ours, Engine::OursApplied] {
            assert_eq!(runs_after_changes(engine).await, [2, 2, 2, 2, 2, 1], "{engine:?}");
        }
    }
}
