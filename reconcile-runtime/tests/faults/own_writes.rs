//! A controller's own writes: when they are seen, what is known after they failed, and whose they are.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::sync::Notify;

use super::*;

/// A kind without a working watch: what is in the cache, the writes have brought.
async fn without_streams(store: &ScriptedStore, env: &Environment) {
    env.sleep(SECOND).await;
    store.of::<Web>().hold_streams();
    store.of::<Pod>().hold_streams();
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_in_cache_and_indexes_and_delivered_when_the_call_returns() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let by_node = manager.index(&pods, |pod: &Pod| [pod.spec.node.clone()]);
    let log = Log::default();
    let watch = logging(&pods, &log, pod_words);
    manager.add(Controller::for_keys("pod", runs_in(&Log::default())).watches_with(watch)).unwrap();
    run(manager, async {
        without_streams(&store, &env).await;
        let owner = webs.create(web("w", 1)).await.unwrap();
        let first = pods.create_owned(&owner, pod("p", "one")).await.unwrap();
        assert_eq!(log.take(), ["added p/one"]);
        assert!(Arc::ptr_eq(&pods.get(&key("p")).unwrap(), &first));
        assert_eq!((pods.owned_by(&owner).len(), by_node.get("one").len()), (1, 1));

        let second = pods.modify(&key("p"), |pod| pod.spec.node = "two".to_owned()).await.unwrap();
        assert_eq!(log.take(), ["updated p/one to p/two"]);
        assert_eq!((by_node.get("one").len(), by_node.get("two").len()), (0, 1));

        // Nothing changed: nothing is written, delivered, or another revision.
        let same = pods.modify(&key("p"), |_| ()).await.unwrap();
        assert_eq!((same.meta.revision, log.take()), (second.meta.revision, vec![]));

        pods.delete(&second).await.unwrap();
        assert_eq!(log.take(), ["deleted p/two"]);
        assert_eq!((pods.owned_by(&owner).len(), by_node.get("two").len(), pods.len()), (0, 0, 0));

        // What the stream then tells is known already, and told to nobody twice.
        store.of::<Pod>().release_streams();
        env.sleep(SECOND).await;
        assert!(log.take().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_race_the_cache_knows_the_object_before_the_error_returns() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let others = foreign::<Web>(&store, &env);
    let log = Log::default();
    let watch = logging(&webs, &log, web_words);
    manager.add(Controller::for_keys("web", runs_in(&Log::default())).watches_with(watch)).unwrap();
    run(manager, async {
        let old = webs.create(web("a", 1)).await.unwrap();
        let gone = webs.create(web("b", 1)).await.unwrap();
        without_streams(&store, &env).await;
        log.take();

        others.modify(&key("a"), |web| web.spec.replicas = 2).await.unwrap();
        let mut late = (*old).clone();
        late.spec.replicas = 3;
        assert_eq!(webs.update(late).await.unwrap_err().fault(), StoreFault::Conflict);
        assert_eq!(
            (webs.get(&key("a")).unwrap().spec.replicas, log.take()),
            (2, vec!["updated a/1 to a/2".into()])
        );

        others.delete(&gone).await.unwrap();
        let error = webs.update_status(&gone, |status| status.ready = 1).await.unwrap_err();
        assert_eq!(error.fault(), StoreFault::NotFound);
        assert_eq!((webs.get(&key("b")), log.take()), (None, vec!["deleted b/1".into()]));

        others.create(web("c", 4)).await.unwrap();
        assert_eq!(webs.create(web("c", 5)).await.unwrap_err().fault(), StoreFault::AlreadyExists);
        assert_eq!((webs.get(&key("c")).unwrap().spec.replicas, log.take()), (4, vec!["added c/4".into()]));

        // A delete that is late is the same.
        others.modify(&key("c"), |web| web.spec.replicas = 6).await.unwrap();
        let stale = webs.get(&key("c")).unwrap();
        assert_eq!(webs.delete(&stale).await.unwrap_err().fault(), StoreFault::Conflict);
        assert_eq!(webs.get(&key("c")).unwrap().spec.replicas, 6);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_after_a_lost_race_is_read_before_the_next_run() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let (api, told) = (webs.clone(), log.clone());
    let reconciler = reconcile_fn(move |key: ObjectKey, _run| {
        let (webs, told) = (api.clone(), told.clone());
        async move {
            let Some(mut web) = webs.get(&key).map(|web| (*web).clone()) else {
                return Ok(Action::await_change());
            };
            told.add(web_words(&web));
            web.spec.replicas = 9;
            webs.update(web).await?;
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_objects("web", &webs, reconciler)).unwrap();
    run(manager, async {
        foreign::<Web>(&store, &env).create(web("x", 9)).await.unwrap();
        handle.converged(&key("x")).await.unwrap();
        log.take();
        without_streams(&store, &env).await;
        foreign::<Web>(&store, &env).modify(&key("x"), |web| web.spec.replicas = 3).await.unwrap();
        let script = store.of::<Web>();
        script.next(Op::Write, 1, Fault::Fails(StoreFault::Conflict));
        script.next(Op::Get, 2, Fault::Fails(StoreFault::Unavailable));
        handle.enqueue(key("x"));
        env.sleep(60 * SECOND).await;
        // The cache had 9 when the race was lost. The first retry could not read either and did not run at all,
        // rather than decide again on what is known to be old.
        assert_eq!(log.take(), ["x/9", "x/3", "x/9"]);
        assert_eq!(script.count(Op::Get), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_was_lost_is_found_and_succeeds_with_its_own_object() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    run(manager, async {
        without_streams(&store, &env).await;
        let script = store.of::<Web>();
        script.next(Op::Write, 1, Fault::LosesReply);
        let created = webs.create(web("x", 1)).await.unwrap();
        assert_eq!(webs.get(&key("x")), Some(created.clone()));
        assert_eq!(script.count(Op::Write), 1, "it was not sent again");

        // Somebody else's object under that name is not taken for ours.
        foreign::<Web>(&store, &env).create(web("y", 2)).await.unwrap();
        script.next(Op::Write, 1, Fault::LosesReply);
        let error = webs.create(web("y", 3)).await.unwrap_err();
        assert_eq!(error.fault(), StoreFault::Indeterminate);
        assert_eq!(webs.get(&key("y")).unwrap().spec.replicas, 2, "but it was read");

        // One that did not land stays unknown, and there is nothing in the cache.
        script.next(Op::Write, 1, Fault::Fails(StoreFault::Indeterminate));
        let error = webs.create(web("z", 1)).await.unwrap_err();
        assert_eq!((error.fault(), webs.get(&key("z"))), (StoreFault::Indeterminate, None));
    })
    .await;
}

/// The runs of one key, with the write of the first one held at the store.
struct Outliving {
    webs: Api<Web>,
    env: Environment,
    log: Log,
}

impl Reconciler for Outliving {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
        let began = self.env.now().since(Default::default()).as_secs();
        let Some(web) = self.webs.get(key) else { return Ok(Action::await_change()) };
        self.log.add(format!("at {began}: ready {}", web.status.ready));
        if web.status.ready == 0 {
            self.webs.update_status(&web, |status| status.ready = 1).await?;
        }
        Ok(Action::await_change())
    }
}

/// Where a slow write is when its run is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Slow {
    NotDone,
    DoneAndNotAnswered,
}

#[tokio::test(start_paused = true)]
async fn a_write_outlives_its_dropped_run_and_the_key_waits_until_it_has_settled() {
    for slow in [Slow::NotDone, Slow::DoneAndNotAnswered] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let log = Log::default();
        let reconciler = Outliving { webs: webs.clone(), env: env.clone(), log: log.clone() };
        let controller = Controller::for_objects("web", &webs, reconciler).run_limit(5 * SECOND);
        let handle = manager.add(controller).unwrap();
        run(manager, async {
            let script = store.of::<Web>();
            match slow {
                Slow::NotDone => script.hold(Op::Write),
                Slow::DoneAndNotAnswered => script.hold_replies(Op::Write),
            }
            script.hold_streams();
            foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
            env.sleep(6 * SECOND).await;
            // The run is over its limit and dropped; its write is on its way, so the key is not free.
            assert_eq!(handle.snapshot().outcomes, [], "{slow:?}");
            handle.enqueue(key("x"));
            env.sleep(9 * SECOND).await;
            assert_eq!(log.len(), 1, "{slow:?}");
            script.release(Op::Write);
            env.sleep(SECOND).await;
            assert_eq!(log.take(), ["at 0: ready 0", "at 15: ready 1"], "{slow:?}");
            assert_eq!(handle.snapshot().ended(OutcomeKind::TimedOut), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_settles_holds_its_key_for_one_store_limit() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let reconciler = Outliving { webs: webs.clone(), env: env.clone(), log: log.clone() };
    let controller = Controller::for_objects("web", &webs, reconciler).run_limit(5 * SECOND);
    let handle = manager.add(controller).unwrap();
    run(manager, async {
        store.of::<Web>().hold(Op::Write);
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        env.sleep(29 * SECOND).await;
        assert_eq!((log.len(), handle.snapshot().runs()), (1, 0));
        env.sleep(10 * SECOND).await;
        assert!(log.len() >= 2, "{:?}", log.take());
        assert!(handle.snapshot().ended(OutcomeKind::TimedOut) >= 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn store_io_inside_of_a_mapper_filter_or_index_function_fails_instead_of_waiting_for_itself() {
    let (mut manager, env, store) = world();
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let log = Log::default();
    let io = |what: &'static str, webs: &Api<Web>, log: &Log| {
        let (webs, log) = (webs.clone(), log.clone());
        move || {
            // Polled once, as `block_on` would: the call answers at once, and does not deadlock.
            let created = webs.create(web("inner", 1)).now_or_never().expect("it answers at once");
            let read = webs.get_live(&ObjectKey::new("w")).now_or_never().expect("it answers at once");
            let faults = [created.unwrap_err().fault(), read.unwrap_err().fault()];
            log.add(format!("{what}: {faults:?}"));
        }
    };
    let (in_mapper, in_filter, in_index) =
        (io("mapper", &webs, &log), io("filter", &webs, &log), io("index", &webs, &log));
    let _index = manager.index(&pods, move |pod: &Pod| {
        in_index();
        [pod.spec.node.clone()]
    });
    let watch = Watch::new(&pods, move |pod: &Pod| {
        in_mapper();
        [pod.key()]
    })
    .filter(move |_| {
        in_filter();
        true
    });
    let runs = Log::default();
    manager.add(Controller::for_keys("pod", runs_in(&runs)).watches_with(watch)).unwrap();
    run(manager, async {
        pods.create(pod("p", "n")).await.unwrap();
        let faults = "[Reentrant, Reentrant]";
        assert_eq!(log.take(), ["index", "filter", "mapper"].map(|what| format!("{what}: {faults}")));
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["run p"]);
        assert!(webs.is_empty());
    })
    .await;
}

/// Waits to be let in, then modifies its object, and fails: a failing key shows what counts as an input.
struct ModifyThenFail {
    webs: Api<Web>,
    env: Environment,
    may_write: Arc<Notify>,
    runs: Arc<Mutex<Vec<(u128, u32)>>>,
    first: AtomicUsize,
}

impl Reconciler for ModifyThenFail {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, run: &Run) -> Result<Action, Error> {
        let millis = self.env.now().since(Default::default()).as_millis();
        self.runs.lock().unwrap().push((millis, run.attempt()));
        if self.first.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(Action::await_change());
        }
        let _read = self.webs.get(key);
        self.may_write.notified().await;
        // Whether it worked is the test's to see.
        let _written = self.webs.modify(key, |web| web.spec.replicas += 100).await;
        Err("the world is not ready".into())
    }
}

/// What a foreign writer does between the read and the write of the run, and what the store does to the write.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Race {
    Nothing,
    ForeignEdit,
    /// The own write is done, nobody hears of it, and a listing brings it.
    OwnReplyLostThenListed,
}

#[tokio::test(start_paused = true)]
async fn c12_only_the_very_own_revision_is_own_and_a_foreign_edit_in_between_runs_the_key_at_once() {
    for race in [Race::Nothing, Race::ForeignEdit, Race::OwnReplyLostThenListed] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let others = foreign::<Web>(&store, &env);
        let (may_write, runs) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let reconciler = ModifyThenFail {
            webs: webs.clone(),
            env: env.clone(),
            may_write: may_write.clone(),
            runs: runs.clone(),
            first: AtomicUsize::new(0),
        };
        let backoff = Backoff::new(64 * SECOND, 64 * SECOND);
        manager.add(Controller::for_objects("web", &webs, reconciler).backoff(backoff)).unwrap();
        run(manager, async {
            let script = store.of::<Web>();
            env.sleep(SECOND).await;
            others.create(web("x", 1)).await.unwrap();
            env.sleep(SECOND).await;
            let at = webs.get(&key("x")).unwrap().meta.revision;
            script.hold_streams();
            match race {
                Race::Nothing => {}
                Race::ForeignEdit => {
                    let edited = others.modify(&key("x"), |web| web.spec.replicas = 2).await.unwrap();
                    assert_eq!(edited.meta.revision, Revision(at.0 + 1));
                    assert_eq!(
                        webs.get(&key("x")).unwrap().meta.revision,
                        at,
                        "the run has read what was before"
                    );
                }
                Race::OwnReplyLostThenListed => {
                    script.next(Op::Write, 1, Fault::LosesReply);
                    script.next(Op::Get, 1, Fault::Fails(StoreFault::Unavailable));
                }
            }
            may_write.notify_one();
            env.sleep(SECOND).await;
            if race == Race::OwnReplyLostThenListed {
                store.memory().compact();
            }
            // From here on the stream tells of everything again, and nobody takes it for news.
            script.release_streams();
            env.sleep(SECOND).await;
            let early = runs.lock().unwrap().clone();
            let stored = others.get(&key("x")).await.unwrap().unwrap();
            match race {
                Race::Nothing => {
                    assert_eq!(early, [(1000, 1)], "its own changes do not shorten its backoff");
                    assert_eq!(stored.spec.replicas, 101);
                }
                Race::ForeignEdit => {
                    assert_eq!(
                        early,
                        [(1000, 1), (2000, 1)],
                        "the foreign edit runs it at once, with failures cleared"
                    );
                    assert_eq!(stored.spec.replicas, 102, "and is not overwritten");
                }
                Race::OwnReplyLostThenListed => {
                    assert_eq!(early, [(1000, 1), (3000, 1)], "what a listing brings is nobody's own");
                }
            }
            env.sleep(64 * SECOND).await;
            let late = runs.lock().unwrap().clone();
            let expected = if race == Race::Nothing { 2 } else { early.len() };
            assert_eq!(late.len(), expected, "{race:?}: {late:?}");
        })
        .await;
    }
}
