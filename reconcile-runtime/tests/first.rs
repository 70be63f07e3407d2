//! A first loop, end to end.
use reconcile_runtime::{Environment, prelude::*};
use std::time::Duration;

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
    type Status = ();
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
        for i in 0..web.spec.replicas {
            let name = format!("{}-{i}", web.meta.name);
            if pods.iter().all(|pod| pod.meta.name != name) {
                self.pods.create_owned(&web, Pod::new(name, PodSpec)).await?;
            }
        }
        let ready = self.pods.owned_by(&web).len();
        self.webs.update_status(&web, |status| status.ready = ready).await?;
        if ready < web.spec.replicas {
            return Ok(Action::wait_for("pods to become ready"));
        }
        Ok(Action::await_change())
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_comes_back() {
    let store = MemoryStore::default();
    let mut manager = Manager::with_environment(Environment::seeded(1));
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let handle = manager
        .add(
            Controller::for_objects("web", &webs, WebReconciler { webs: webs.clone(), pods: pods.clone() })
                .owns(&pods),
        )
        .unwrap();
    manager
        .run_until(async move {
            webs.create(Web::new("web", WebSpec { replicas: 3 }).namespace("default")).await.unwrap();
            let key = ObjectKey::namespaced("default", "web");
            handle.converged(&key).await.unwrap();
            assert_eq!(pods.list().len(), 3);
            let pod = pods.list()[0].clone();
            pods.delete(&pod).await.unwrap();
            handle.converged(&key).await.unwrap();
            assert_eq!(pods.list().len(), 3);
            tokio::time::advance(Duration::from_secs(1)).await;
            println!("{}", handle.explain(&key));
            println!("{:#?}", handle.snapshot().outcomes);
            handle.idle().await;
        })
        .await
        .unwrap();
}
