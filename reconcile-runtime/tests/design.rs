//! The program that a user writes first compiles as it stands in the design, and does what it says.

use reconcile_runtime::{Environment, prelude::*};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

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
struct PodSpec {
    node: Option<String>,
}
#[derive(Clone, Debug, Default, PartialEq)]
struct PodStatus {
    ready: bool,
}
impl Spec for PodSpec {
    const KIND: &'static str = "Pod";
    type Status = PodStatus;
}
type Pod = Object<PodSpec>;

struct WebReconciler {
    webs: Api<Web>,
    pods: Api<Pod>,
}

impl Reconciler for WebReconciler {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
        let Some(web) = self.webs.get(key) else { return Ok(Action::await_change()) };
        let pods = self.pods.owned_by(&web);
        for ordinal in pods.len()..web.spec.replicas {
            let name = format!("{}-{ordinal}", web.meta.name);
            self.pods.create_owned(&web, Pod::new(name, PodSpec { node: None })).await?;
        }
        let ready = pods.iter().filter(|pod| pod.status.ready).count();
        self.webs.update_status(&web, |status| status.ready = ready).await?;
        if ready < web.spec.replicas {
            return Ok(Action::wait_for("pods to become ready"));
        }
        Ok(Action::await_change())
    }
}

/// Makes every pod ready, as a kubelet would.
struct Kubelet {
    pods: Api<Pod>,
}

impl Reconciler for Kubelet {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
        if let Some(pod) = self.pods.get(key) {
            self.pods.update_status(&pod, |status| status.ready = true).await?;
        }
        Ok(Action::await_change())
    }
}

#[tokio::test(start_paused = true)]
async fn the_design_program_brings_pods_up_and_reports_them() -> Result<(), RunError> {
    let store = MemoryStore::default();
    let env = Environment::seeded(1);
    let mut manager = Manager::with_environment(env.clone());
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let by_node = manager.index(&pods, |pod: &Pod| pod.spec.node.clone());
    let handle = manager.add(
        Controller::for_objects("web", &webs, WebReconciler { webs: webs.clone(), pods: pods.clone() })
            .owns(&pods)
            .watches(&pods, |pod: &Pod| pod.meta.labels.get("web").map(|name| ObjectKey::new(name)))
            .concurrency(8),
    )?;
    manager.add(Controller::for_objects("kubelet", &pods, Kubelet { pods: pods.clone() }))?;
    let health = manager.handle();
    let key = ObjectKey::namespaced("shop", "web");
    let stop = async {
        assert!(health.started().await.is_ready());
        webs.create(Web::new("web", WebSpec { replicas: 3 }).namespace("shop")).await.unwrap();
        handle.converged(&key).await.unwrap();
        assert_eq!(webs.get(&key).unwrap().status.ready, 3);
        assert!(by_node.get("node-1").is_empty());

        // A lost pod is an event of its owner.
        let lost = ObjectKey::namespaced("shop", "web-2");
        pods.delete(&pods.get(&lost).unwrap()).await.unwrap();
        handle.converged(&key).await.unwrap();
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!((pods.len(), webs.get(&key).unwrap().status.ready), (3, 3));
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn the_engine_without_objects_runs_triggered_and_listed_keys() -> Result<(), RunError> {
    const MINUTE: Duration = Duration::from_secs(60);
    let env = Environment::seeded(1);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let asked = seen.clone();
    let resolve = reconcile_fn(move |host: String, _run| {
        asked.lock().unwrap().push(host);
        async move { Ok(Action::await_change()) }
    });
    let all_hosts = || vec!["b".to_owned(), "c".to_owned()];
    Controller::for_keys("dns", resolve)
        .trigger(|| futures::stream::iter(["a".to_string()]))
        .resync_from(MINUTE, move || async move { Ok(all_hosts()) })
        .run_until_in(env.clone(), env.sleep(MINUTE + Duration::from_secs(1)))
        .await?;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["a", "b", "b", "c", "c"]);
    Ok(())
}
