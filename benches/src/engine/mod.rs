//! The engines under test, behind one small interface.
//!
//! An engine is given a [`Setup`] (what it lists, what then changes, what goes wrong beside it) and a piece of
//! [`Work`], and runs until it is dropped. The enum, not a trait object, selects it, so that the work is
//! compiled into each engine as a user's reconciler would be.
//!
//! What every engine does on the same input: it builds each object when the stream is asked for it, puts it
//! into its cache, signals the key, and in the run reads the object back from the cache and its number from
//! the object's name.

mod cache;
mod kube;
mod names;
mod ours;
mod queue;

use std::{num::NonZeroU16, sync::Arc};

use anyhow::Result;
use clap::ValueEnum;
use futures::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    cache::{CacheReader, CacheWriter},
    queue::{Load, Round},
};
use crate::work::Work;

/// Distinct namespaces of the synthetic objects.
const NAMESPACES: u32 = 100;

/// An engine under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// kube-runtime 5: `reflector -> applied_objects -> Controller::for_stream`, without a cluster.
    KubeRuntime,
    /// The engine of this repository, fed from a stream as kube-runtime is.
    Ours,
    /// The same over its store in memory, with every object created and changed through `Api`. Only where a
    /// suite says so, or by name: its figures hold the store's share too.
    OursApplied,
}

/// How many runs may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concurrency {
    /// What the engine does when nothing is said.
    EnginesDefault,
    /// At most this many.
    Limit(NonZeroU16),
}

impl Concurrency {
    /// One run at a time.
    pub(crate) const ONE: Concurrency = Concurrency::Limit(NonZeroU16::MIN);
}

/// Which part of an object a change touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What the user wants: the spec, or its stand-in.
    Spec,
    /// Something beside it: the status, a label.
    Status,
    /// The whole object: it is gone.
    Deleted,
}

/// How urgent a change is, for engines that know urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Ahead of the rest.
    High,
    /// As usual.
    Normal,
    /// Behind the rest.
    Low,
}

/// One foreign change of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) id: u32,
    pub(crate) part: Part,
    pub(crate) urgency: Urgency,
}

impl Change {
    /// A change of what the user wants, of usual urgency.
    pub(crate) fn spec(id: u32) -> Self {
        Change { id, part: Part::Spec, urgency: Urgency::Normal }
    }
}

/// A second watch beside the first one.
pub(crate) enum Sibling {
    /// There is none.
    Absent,
    /// It is silent until this future ends, and then fails each time it is asked.
    FailsAfter(BoxFuture<'static, ()>),
}

/// What an engine may do with the time at which a key wants to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Polls {
    /// What it does when nothing is said: ours spreads them, so that keys come in no order.
    EnginesDefault,
    /// Exactly when they are due.
    Exact,
}

/// What an engine is put in front of.
pub(crate) struct Setup {
    /// Objects `0..objects` are listed at the start.
    pub(crate) objects: u32,
    pub(crate) concurrency: Concurrency,
    /// What changes after the listing. When it ends, nothing changes any more.
    pub(crate) changes: BoxStream<'static, Change>,
    pub(crate) sibling: Sibling,
    pub(crate) polls: Polls,
}

impl Setup {
    /// A listing and nothing after it.
    pub(crate) fn listing(objects: u32) -> Self {
        Setup {
            objects,
            concurrency: Concurrency::EnginesDefault,
            changes: Box::pin(futures::stream::pending()),
            sibling: Sibling::Absent,
            polls: Polls::EnginesDefault,
        }
    }

    pub(crate) fn polls(self, polls: Polls) -> Self {
        Setup { polls, ..self }
    }

    pub(crate) fn concurrency(self, concurrency: Concurrency) -> Self {
        Setup { concurrency, ..self }
    }

    pub(crate) fn changes(self, changes: impl futures::Stream<Item = Change> + Send + 'static) -> Self {
        Setup { changes: Box::pin(changes), ..self }
    }

    pub(crate) fn sibling(self, sibling: Sibling) -> Self {
        Setup { sibling, ..self }
    }
}

/// Objects held outside any engine, to know what they cost by themselves.
pub(crate) trait Held {
    /// Makes every object anew, each in the place of its older version, which is dropped.
    fn replace(&mut self);
}

struct Objects<T, F> {
    held: Vec<Arc<T>>,
    /// Makes the object of a number in a version.
    make: F,
    version: u32,
}

impl<T: 'static, F: Fn(u32, u32) -> T + 'static> Objects<T, F> {
    fn boxed(objects: u32, make: F) -> Box<dyn Held> {
        let held = (0..objects).map(|id| Arc::new(make(id, 0))).collect();
        Box::new(Objects { held, make, version: 0 })
    }
}

impl<T, F: Fn(u32, u32) -> T> Held for Objects<T, F> {
    fn replace(&mut self) {
        self.version += 1;
        for (id, place) in (0..).zip(&mut self.held) {
            *place = Arc::new((self.make)(id, self.version));
        }
    }
}

impl Engine {
    /// The engine that ours is compared with.
    pub(crate) const PEER: Engine = Engine::KubeRuntime;

    /// The engines that a suite runs if nothing is said.
    pub(crate) const USUAL: [Engine; 2] = [Engine::KubeRuntime, Engine::Ours];

    /// Whether this is the engine of this repository, which the bars are for.
    pub(crate) fn is_ours(self) -> bool {
        match self {
            Engine::KubeRuntime => false,
            Engine::Ours | Engine::OursApplied => true,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::KubeRuntime => "kube-runtime 5.0",
            Engine::Ours => "reconcile",
            Engine::OursApplied => "reconcile, through Api",
        }
    }

    /// Runs the engine; it ends only by an error, or when its future is dropped.
    pub(crate) async fn run<W: Work>(self, setup: Setup, work: Arc<W>) -> Result<()> {
        match self {
            Engine::KubeRuntime => kube::run(setup, work).await,
            Engine::Ours => ours::run(setup, work).await,
            Engine::OursApplied => ours::run_applied(setup, work).await,
        }
    }

    /// The engine's objects `0..objects`, each behind an `Arc` and in one vector, and nothing else.
    pub(crate) fn bare(self, objects: u32) -> Box<dyn Held> {
        match self {
            Engine::KubeRuntime => kube::bare(objects),
            Engine::Ours | Engine::OursApplied => ours::bare(objects),
        }
    }

    /// Builds and drops the object of one change, in the form in which the engine is handed it.
    pub(crate) fn build(self, change: Change, revision: u64) {
        match self {
            Engine::KubeRuntime => kube::build(change, revision),
            Engine::Ours | Engine::OursApplied => ours::build(change, revision),
        }
    }

    /// The engine's cache by itself, filled with objects `0..objects`.
    ///
    /// # Errors
    /// When the engine's cache needs a runtime and there is none to be had.
    pub(crate) fn cache(self, objects: u32) -> Result<(Box<dyn CacheWriter>, Arc<dyn CacheReader>)> {
        match self {
            Engine::KubeRuntime => Ok(kube::cache(objects)),
            Engine::Ours | Engine::OursApplied => ours::cache(objects),
        }
    }

    /// The engine's queue by itself, loaded round after round. It runs on the caller's thread.
    ///
    /// # Errors
    /// When a key did not come out of it.
    pub(crate) async fn queue(self, load: Load) -> Result<Vec<Round>> {
        match self {
            Engine::KubeRuntime => kube::queue(load).await,
            Engine::Ours | Engine::OursApplied => ours::queue(load).await,
        }
    }
}
