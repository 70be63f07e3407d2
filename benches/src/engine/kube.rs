//! kube-runtime 5, driven from a synthetic watcher stream instead of a cluster.
//!
//! The chain is the documented one for own streams: `reflector(writer, events).applied_objects()` into
//! `Controller::for_stream`. No client exists, so nothing here pays for a network.

use std::{fmt, future::ready, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube_runtime::{
    Config, Controller, WatchStreamExt,
    controller::Action,
    reflector::{self, ObjectRef, Store, store::Writer},
    scheduler::{ScheduleRequest, scheduler},
    watcher::{self, Event},
};
use tokio::sync::mpsc;

use super::{
    CacheReader, CacheWriter, Change, Concurrency, Held, Load, Objects, Part, Round, Setup, Sibling, names,
};
use crate::{
    clock::{self, Stopwatch},
    work::{Verdict, Work},
};

/// Why a run gave no action.
#[derive(Debug)]
enum Failure {
    /// The work failed and wants to be retried after this time.
    Wanted(Duration),
    /// The engine handed out an object that no suite made.
    UnknownObject(Option<String>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wanted(after) => write!(f, "the work failed and is to be retried after {after:?}"),
            Failure::UnknownObject(name) => write!(f, "object {name:?} is none of this benchmark's"),
        }
    }
}

impl std::error::Error for Failure {}

/// A retry so late that an unknown object shows up as a key that never ran.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run<W: Work>(setup: Setup, work: Arc<W>) -> Result<()> {
    let (reader, writer) = reflector::store::<ConfigMap>();
    let objects = reflector::reflector(writer, events(setup.objects, setup.changes)).applied_objects();
    let config = match setup.concurrency {
        Concurrency::EnginesDefault => Config::default(),
        Concurrency::Limit(limit) => Config::default().concurrency(limit.get()),
    };
    let mut controller = Controller::for_stream(objects, reader).with_config(config);
    if let Sibling::FailsAfter(begin) = setup.sibling {
        let failing = begin.map(|()| failures()).flatten_stream();
        controller =
            controller.watches_stream(failing, |_: ConfigMap| -> Option<ObjectRef<ConfigMap>> { None });
    }
    controller
        .run(
            |object: Arc<ConfigMap>, work: Arc<W>| async move { reconcile(&object, &*work).await },
            |_, failure, _| {
                Action::requeue(match failure {
                    Failure::Wanted(after) => *after,
                    Failure::UnknownObject(_) => NEVER,
                })
            },
            work,
        )
        .for_each(|_| ready(()))
        .await;
    bail!("the controller's stream ended, though its input had not")
}

async fn reconcile(object: &ConfigMap, work: &impl Work) -> Result<Action, Failure> {
    let name = &object.metadata.name;
    let Some(id) = name.as_deref().and_then(names::id_of) else {
        return Err(Failure::UnknownObject(name.clone()));
    };
    match work.run(id).await {
        Verdict::Await => Ok(Action::await_change()),
        Verdict::Again => Ok(Action::requeue(Duration::ZERO)),
        Verdict::After(time) => Ok(Action::requeue(time)),
        Verdict::Failed(after) => Err(Failure::Wanted(after)),
    }
}

/// The listing, then the changes, then silence.
fn events(
    objects: u32,
    changes: impl Stream<Item = Change> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Send + 'static {
    let listing = stream::once(ready(Event::Init))
        .chain(stream::iter(
            names::in_key_order(objects, 0)
                .map(|id| Event::InitApply(object(Change::spec(id), u64::from(id)))),
        ))
        .chain(stream::once(ready(Event::InitDone)));
    let changes = changes.enumerate().map(move |(at, change)| {
        let changed = object(change, u64::from(objects) + at as u64);
        match change.part {
            Part::Spec | Part::Status => Event::Apply(changed),
            Part::Deleted => Event::Delete(changed),
        }
    });
    listing.chain(changes).map(Ok).chain(stream::pending())
}

fn failures() -> impl Stream<Item = watcher::Result<ConfigMap>> + Send + 'static {
    stream::repeat_with(|| Err(watcher::Error::NoResourceVersion))
}

fn object(change: Change, revision: u64) -> ConfigMap {
    let id = change.id;
    // A status-like part of a config map is a label; what the user wants is its data.
    let (label, data) = match change.part {
        Part::Spec => (String::from("bench"), names::numbered("value-", revision, 1)),
        Part::Status | Part::Deleted => (names::numbered("bench-", revision, 1), String::from("value")),
    };
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(names::namespace(id)),
            name: Some(names::name(id)),
            uid: Some(names::uid(id, str::to_owned)),
            resource_version: Some(names::numbered("", revision, 1)),
            labels: Some([(String::from("app"), label)].into()),
            ..ObjectMeta::default()
        },
        data: Some([(String::from("key"), data)].into()),
        ..ConfigMap::default()
    }
}

pub(super) fn bare(objects: u32) -> Box<dyn Held> {
    Objects::boxed(objects, move |id, version| {
        object(Change::spec(id), u64::from(version) * u64::from(objects) + u64::from(id))
    })
}

pub(super) fn build(change: Change, revision: u64) {
    std::hint::black_box(object(change, revision));
}

/// The reflector's store.
pub(super) fn cache(objects: u32) -> (Box<dyn CacheWriter>, Arc<dyn CacheReader>) {
    let (reader, mut writer) = reflector::store::<ConfigMap>();
    writer.apply_watcher_event(&Event::Init);
    for id in 0..objects {
        writer.apply_watcher_event(&Event::InitApply(object(Change::spec(id), u64::from(id))));
    }
    writer.apply_watcher_event(&Event::InitDone);
    (Box::new(ReflectorWriter { writer, revision: u64::from(objects) }), Arc::new(ReflectorReader(reader)))
}

struct ReflectorWriter {
    writer: Writer<ConfigMap>,
    revision: u64,
}

impl CacheWriter for ReflectorWriter {
    fn write(&mut self, id: u32) -> Result<()> {
        self.revision += 1;
        self.writer.apply_watcher_event(&Event::Apply(object(Change::spec(id), self.revision)));
        Ok(())
    }
}

struct ReflectorReader(Store<ConfigMap>);

impl CacheReader for ReflectorReader {
    fn list(&self) -> usize {
        std::hint::black_box(self.0.state()).len()
    }
}

/// Its scheduler by itself: requests that are due at once go in, and their messages come out.
pub(super) async fn queue(load: Load) -> Result<Vec<Round>> {
    let (feed, receiver) = mpsc::channel::<Vec<ObjectRef<ConfigMap>>>(1);
    let requests = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|keys| (stream::iter(keys), receiver))
    })
    .flatten()
    .map(|message| ScheduleRequest { message, run_at: clock::instant() });
    let mut out = Box::pin(scheduler(requests));
    let mut rounds = Vec::with_capacity(load.rounds);
    for _ in 0..load.rounds {
        let keys = load.keys(|id| ObjectRef::new(&names::name(id)).within(&names::namespace(id)));
        let started = Stopwatch::start();
        feed.send(keys).await.context("the scheduler gave its requests up")?;
        for came in 0..load.keys {
            let next = out.next().await;
            next.with_context(|| format!("{came} of {} keys came out of the scheduler", load.keys))?;
        }
        // What is added and what comes out is one stream, so the additions cannot be told apart.
        rounds.push(Round { adding: None, whole: started.spent() });
    }
    Ok(rounds)
}
