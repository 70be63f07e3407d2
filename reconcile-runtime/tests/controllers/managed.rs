//! The adapter of `Controller::managed`: finalizers around apply and cleanup.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Remembers what it was told, and says when the cleanup is done.
struct Dbs {
    runs: Runs,
    clean: Arc<AtomicBool>,
}

impl ObjectReconciler for Dbs {
    type Object = Db;
    const FINALIZER: Option<&'static str> = Some("example.org/db");

    async fn apply(&self, db: Arc<Db>, _run: &Run) -> Result<Action, Error> {
        self.runs.add(format!("apply {} {:?}", db.meta.name, db.meta.finalizers));
        Ok(Action::await_change())
    }

    async fn cleanup(&self, db: Arc<Db>, _run: &Run) -> Result<Cleanup, Error> {
        self.runs.add(format!("cleanup {}", db.meta.name));
        if self.clean.load(Ordering::SeqCst) {
            return Ok(Cleanup::done());
        }
        Ok(Cleanup::wait_for("the disk to be wiped").recheck_after(10 * SECOND))
    }
}

fn dbs() -> (Dbs, Runs, Arc<AtomicBool>) {
    let (runs, clean) = (Runs::default(), Arc::new(AtomicBool::new(false)));
    (Dbs { runs: runs.clone(), clean: clean.clone() }, runs, clean)
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_there_before_apply_and_stays_until_the_cleanup_is_done() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let (dbs, runs, clean) = dbs();
    manager.add(Controller::managed("db", &api, dbs))?;
    let key = ObjectKey::new("a");
    let stop = async {
        api.create(db("a")).await.unwrap();
        env.sleep(SECOND).await;
        let applied = runs.take();
        assert!(!applied.is_empty());
        assert!(applied.iter().all(|line| line == r#"apply a ["example.org/db"]"#), "{applied:?}");

        api.delete(&api.get(&key).unwrap()).await.unwrap();
        env.sleep(5 * SECOND).await;
        assert_eq!(runs.take(), ["cleanup a"]);
        assert!(api.get(&key).unwrap().meta.is_deleting());

        clean.store(true, Ordering::SeqCst);
        env.sleep(10 * SECOND).await;
        assert_eq!(runs.take(), ["cleanup a"]);
        assert!(api.get(&key).is_none() && api.get_live(&key).await.unwrap().is_none());

        // The name may be used again.
        api.create(db("a")).await.unwrap();
        env.sleep(SECOND).await;
        assert!(runs.take().iter().all(|line| line.starts_with("apply a")));
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn a_deleting_object_without_our_finalizer_is_left_alone() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let (dbs, runs, _clean) = dbs();
    manager.add(Controller::managed("db", &api, dbs))?;
    let key = ObjectKey::new("a");
    // Created and deleted before the controller runs, held by somebody else's finalizer.
    let mut held = db("a");
    held.meta.finalizers.push("example.org/other".to_owned());
    let held = api.create(held).await.unwrap();
    api.delete(&held).await.unwrap();
    let stop = async {
        env.sleep(SECOND).await;
        assert!(runs.take().is_empty());
        assert_eq!(api.get(&key).unwrap().meta.finalizers, ["example.org/other"]);
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_keep_the_object_and_the_cleanup_is_not_repeated() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let (dbs, runs, clean) = dbs();
    clean.store(true, Ordering::SeqCst);
    manager.add(Controller::managed("db", &api, dbs))?;
    let key = ObjectKey::new("a");
    let stop = async {
        let mut held = db("a");
        held.meta.finalizers.push("example.org/other".to_owned());
        api.create(held).await.unwrap();
        env.sleep(SECOND).await;
        runs.take();
        api.delete(&api.get(&key).unwrap()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["cleanup a"]);
        assert_eq!(api.get(&key).unwrap().meta.finalizers, ["example.org/other"]);
        api.modify(&key, |db| db.meta.annotations.extend([("a".to_owned(), "b".to_owned())])).await.unwrap();
        env.sleep(SECOND).await;
        assert!(runs.take().is_empty());
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn adding_and_removing_the_finalizer_survives_another_writer() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let (dbs, runs, clean) = dbs();
    clean.store(true, Ordering::SeqCst);
    manager.add(Controller::managed("db", &api, dbs))?;
    // A foreign writer, whose writes the cache learns of only from the watch.
    let foreign = reconcile_runtime::Client::<Db>::new(store.clone());
    let key = ObjectKey::new("a");
    let stop = async {
        foreign.create(db("a")).await.unwrap();
        for round in 0..20 {
            foreign
                .modify(&key, |db| drop(db.meta.labels.insert("round".into(), round.to_string())))
                .await
                .unwrap();
            tokio::task::yield_now().await;
        }
        env.sleep(SECOND).await;
        let stored = api.get(&key).unwrap();
        assert_eq!(
            (stored.meta.finalizers.as_slice(), &*stored.meta.labels["round"]),
            (&["example.org/db".to_owned()][..], "19")
        );
        foreign.delete(&foreign.get(&key).await.unwrap().unwrap()).await.unwrap();
        env.sleep(5 * SECOND).await;
        assert!(api.get(&key).is_none());
        assert!(runs.take().iter().any(|line| line == "cleanup a"));
    };
    manager.run_until(stop).await
}
