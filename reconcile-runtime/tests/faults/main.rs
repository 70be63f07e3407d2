//! The whole engine under faults, on virtual time: stores that fail, hang, forget, go back and lose replies;
//! user code that panics; stops in the middle of everything.
//!
//! Test names carry the scenario that they are. Each test runs a manager whose stop is the end of the test's
//! own story, so every test also sees that the manager stops.
#![allow(clippy::unwrap_used, reason = "a call that fails in a test is a test that fails")]

mod cache;
mod config;
mod controllers;
mod own_writes;
mod panics;
mod relist;
#[path = "../scripted_store/mod.rs"]
mod scripted_store;
mod shutdown;
mod supervision;
mod watch;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reconcile_runtime::{
    Change, Client, Environment, Watch,
    core::{Revision, StoreFault},
    prelude::*,
};
use scripted_store::{Break, Fault, Op, ScriptedStore};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
struct WebSpec {
    replicas: u32,
}
#[derive(Clone, Debug, Default, PartialEq)]
struct WebStatus {
    ready: u32,
}
impl Spec for WebSpec {
    const KIND: &'static str = "Web";
    type Status = WebStatus;
}
type Web = Object<WebSpec>;

#[derive(Clone, Debug, PartialEq)]
struct PodSpec {
    node: String,
}
impl Spec for PodSpec {
    const KIND: &'static str = "Pod";
    type Status = ();
}
type Pod = Object<PodSpec>;

/// Something that webs are made from.
#[derive(Clone, Debug, PartialEq)]
struct TemplateSpec {
    text: String,
}
impl Spec for TemplateSpec {
    const KIND: &'static str = "Template";
    type Status = ();
}
type Template = Object<TemplateSpec>;

fn web(name: &str, replicas: u32) -> Web {
    Web::new(name, WebSpec { replicas })
}

fn pod(name: &str, node: &str) -> Pod {
    Pod::new(name, PodSpec { node: node.to_owned() })
}

fn template(name: &str, text: &str) -> Template {
    Template::new(name, TemplateSpec { text: text.to_owned() })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name)
}

/// A manager on virtual time, its environment, and a store that fails as it is told.
fn world() -> (Manager, Environment, ScriptedStore) {
    let env = Environment::seeded(11);
    (Manager::with_environment(env.clone()), env, ScriptedStore::new())
}

/// Somebody else, who writes to the store behind the faults.
fn foreign<R: Resource>(store: &ScriptedStore, env: &Environment) -> Client<R> {
    Client::in_environment(store.memory().clone(), env.clone())
}

/// Runs a manager until a story has been told.
async fn run(manager: Manager, story: impl Future<Output = ()>) {
    manager.run_until(story).await.expect("the manager runs until the story ends");
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl ToString) {
        self.0.lock().unwrap().push(what.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A change in words. There are these three shapes, and no other.
fn in_words<R: Resource>(change: &Change<R>, words: impl Fn(&R) -> String) -> String {
    match change {
        Change::Added(new) => format!("added {}", words(new)),
        Change::Updated { old, new } => format!("updated {} to {}", words(old), words(new)),
        Change::Deleted(last) => format!("deleted {}", words(last)),
    }
}

fn web_words(web: &Web) -> String {
    format!("{}/{}", web.meta.name, web.spec.replicas)
}

fn pod_words(pod: &Pod) -> String {
    format!("{}/{}", pod.meta.name, pod.spec.node)
}

/// A watch that logs every change, and signals the object's own key.
fn logging<R: Resource>(api: &Api<R>, log: &Log, words: fn(&R) -> String) -> Watch<R, ObjectKey> {
    let log = log.clone();
    Watch::new(api, |object: &R| [object.key()]).filter(move |change| {
        log.add(in_words(change, words));
        true
    })
}

/// A reconciler that logs its keys and wants nothing.
fn runs_in(log: &Log) -> impl Reconciler<Key = ObjectKey> + use<> {
    let log = log.clone();
    reconcile_fn(move |key: ObjectKey, _run| {
        log.add(format!("run {key}"));
        async { Ok(Action::await_change()) }
    })
}
