//! A control loop from nothing: a `Web` wants a number of `Pod`s, and has them whatever happens to them.
//!
//! `cargo run --example quickstart` tells a story of a few seconds and ends by itself. Nothing is installed and
//! nothing is left behind: the store is in memory.
#![allow(clippy::print_stdout, reason = "the story is for the reader of the terminal")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

use reconcile_runtime::{Environment, KeyState, prelude::*};

#[derive(Clone, Debug, PartialEq)]
struct WebSpec {
    replicas: usize,
}
#[derive(Clone, Debug, Default, PartialEq)]
struct WebStatus {
    ready: usize,
}
impl Spec for WebSpec {
    const KIND: &'static str = "Web";
    type Status = WebStatus;
}
type Web = Object<WebSpec>;

#[derive(Clone, Debug, PartialEq)]
struct PodSpec;
impl Spec for PodSpec {
    const KIND: &'static str = "Pod";
    type Status = bool; // ready?
}
type Pod = Object<PodSpec>;

struct WebReconciler {
    webs: Api<Web>,
    pods: Api<Pod>,
    outage: Arc<AtomicBool>,
}

impl Reconciler for WebReconciler {
    type Key = ObjectKey;

    async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
        let web = self.webs.get(key);
        let replicas = web.as_ref().map_or(0, |web| web.spec.replicas);
        let mut missing: BTreeSet<_> = (0..replicas).map(|i| format!("{}-{i}", key.name())).collect();
        let mut ready = 0;
        for pod in self.pods.list() {
            let ours = pod.meta.controller().is_some_and(|owner| owner.key == *key);
            if ours && !missing.remove(&pod.meta.name) {
                self.pods.delete(&pod).await?; // too many, or the web itself is gone
            } else if ours && pod.status {
                ready += 1;
            }
        }
        let Some(web) = web else { return Ok(Action::await_change()) };
        for name in missing {
            if self.outage.load(Ordering::SeqCst) {
                return Err("the image registry does not answer".into()); // retried with backoff
            }
            self.pods.create_owned(&web, Pod::new(name, PodSpec)).await?; // `?` works on any error
        }
        self.webs.update_status(&web, |status| status.ready = ready).await?; // no write if nothing changed
        if ready < replicas {
            return Ok(Action::wait_for("pods to become ready"));
        }
        Ok(Action::await_change())
    }
}

/// Stands for the machine that starts containers: a pod is ready this long after it was made.
const START: Duration = Duration::from_millis(120);

async fn start_pod(pods: Api<Pod>, key: ObjectKey, run: Run) -> Result<Action, Error> {
    let Some(pod) = pods.get(&key) else { return Ok(Action::await_change()) };
    let due = pod.meta.created_at.map_or(run.now(), |made| made + START);
    if run.now() < due {
        return Ok(Action::requeue_at(due)); // exactly then, unless a signal comes first
    }
    pods.update_status(&pod, |ready| *ready = true).await?;
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (store, outage) = (MemoryStore::default(), Arc::new(AtomicBool::new(false)));
    let mut manager = Manager::new();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let reconciler = WebReconciler { webs: webs.clone(), pods: pods.clone(), outage: outage.clone() };
    // `owns`: a child's event wakes its owner.
    let handle = manager.add(Controller::for_objects("web", &webs, reconciler).owns(&pods))?;
    let starting = pods.clone();
    let starter = reconcile_fn(move |key, run| start_pod(starting.clone(), key, run));
    manager.add(Controller::for_objects("pod", &pods, starter))?;

    let clock = Environment::tokio();
    let start = clock.now();
    let say = |what: String| println!("{:>5} ms  {what}", clock.now().since(start).as_millis());
    let names = || pods.list().iter().map(|pod| pod.meta.name.clone()).collect::<Vec<_>>().join(", ");
    let key = ObjectKey::namespaced("default", "shop");
    let story = async {
        webs.create(Web::new("shop", WebSpec { replicas: 3 }).namespace("default")).await?;
        say("applied: shop wants 3 pods".into());
        handle.converged(&key).await?;
        say(format!("converged: {} are ready", names()));

        let hurt = clock.now();
        pods.delete_key(&ObjectKey::namespaced("default", "shop-1"), Default::default()).await?;
        say("from outside: shop-1 was deleted".into());
        handle.converged(&key).await?;
        say(format!("healed in {} ms: {} are ready", clock.now().since(hurt).as_millis(), names()));

        outage.store(true, Ordering::SeqCst);
        pods.delete_key(&ObjectKey::namespaced("default", "shop-0"), Default::default()).await?;
        say("from outside: shop-0 was deleted, while no image can be had".into());
        while handle.explain(&key).state != KeyState::BackingOff {
            handle.next_outcome(&key).await?;
        }
        say(format!("explain: {}", handle.explain(&key)));
        outage.store(false, Ordering::SeqCst);
        handle.converged(&key).await?;
        say(format!("healed: {} are ready", names()));
        handle.idle().await; // the status that was written wakes the key once more, and it finds nothing to do
        say(format!("explain: {}", handle.explain(&key)));

        let web = webs.modify(&key, |web| web.spec.replicas = 5).await?;
        say(format!("scaled: shop wants {} pods", web.spec.replicas));
        handle.converged(&key).await?;
        say(format!("converged: {} are ready", names()));

        webs.delete_key(&key, Default::default()).await?;
        say("deleted: shop".into());
        handle.converged(&key).await?;
        say(format!("converged: {} pods are left", pods.len()));
        anyhow::Ok(())
    };
    let mut told = Ok(());
    manager.run_until(async { told = story.await }).await?;
    told
}
