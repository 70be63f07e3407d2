//! What a cache shows after gaps in what it was told.

use super::*;

/// How a cache learns what happened while its stream was down.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gap {
    /// The stream goes on and delivers what happened.
    Resumes,
    /// The stream says that its history is gone.
    ExpiresInTheStream,
    /// The stream broke, and the new one cannot start.
    ExpiresAtTheStart,
}

/// What happens in a gap is told to the cache of `R` in this way.
async fn in_gap<R: Resource>(
    gap: Gap,
    store: &ScriptedStore,
    env: &Environment,
    what: impl Future<Output = ()>,
) {
    let script = store.of::<R>();
    match gap {
        Gap::Resumes | Gap::ExpiresInTheStream => script.hold_streams(),
        Gap::ExpiresAtTheStart => {
            script.hold(Op::Watch);
            script.break_open_streams(Break::Ends);
        }
    }
    what.await;
    // What is in the gap must not have come through.
    env.sleep(5 * SECOND).await;
    if gap != Gap::Resumes {
        store.memory().compact();
    }
    script.release_streams();
    script.release(Op::Watch);
    env.sleep(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn c1_a_recreate_while_disconnected_is_a_delete_and_an_add_and_readers_never_see_nothing() {
    for gap in [Gap::Resumes, Gap::ExpiresInTheStream, Gap::ExpiresAtTheStart] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let others = foreign::<Web>(&store, &env);
        let (log, told, cache) = (Log::default(), Log::default(), webs.clone());
        let tells = told.clone();
        let watch = logging(&webs, &log, web_words).filter(move |change| {
            // Seen by a reader at the moment in which the change is told.
            let held = cache.get(&change.object().key());
            tells.add(held.map_or_else(|| "nothing".to_owned(), |web| web_words(&web)));
            true
        });
        let handle =
            manager.add(Controller::for_keys("web", runs_in(&Log::default())).watches_with(watch)).unwrap();
        run(manager, async {
            let first = others.create(web("x", 1)).await.unwrap();
            handle.converged(&key("x")).await.unwrap();
            env.sleep(SECOND).await;
            log.take();
            told.take();
            in_gap::<Web>(gap, &store, &env, async {
                others.delete(&first).await.unwrap();
                others.create(web("x", 2)).await.unwrap();
                assert_eq!(webs.get(&key("x")).unwrap().meta.uid, first.meta.uid, "{gap:?}");
            })
            .await;
            assert_eq!(log.take(), ["deleted x/1", "added x/2"], "{gap:?}");
            assert_eq!(told.take(), ["x/2", "x/2"], "{gap:?}");
            assert_ne!(webs.get(&key("x")).unwrap().meta.uid, first.meta.uid);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c2_a_delete_in_a_gap_comes_with_the_last_object_and_wakes_its_owner() {
    for gap in [Gap::Resumes, Gap::ExpiresInTheStream, Gap::ExpiresAtTheStart] {
        let (mut manager, env, store) = world();
        let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
        let log = Log::default();
        let (reads, children) = (webs.clone(), pods.clone());
        let keeps_one_pod = reconcile_fn(move |key: ObjectKey, _run| {
            let (webs, pods) = (reads.clone(), children.clone());
            async move {
                if let Some(web) = webs.get(&key)
                    && pods.owned_by(&web).is_empty()
                {
                    pods.create_owned(&web, pod("p", "n")).await?;
                }
                Ok(Action::await_change())
            }
        });
        manager.add(Controller::for_objects("web", &webs, keeps_one_pod).owns(&pods)).unwrap();
        let watch = logging(&pods, &log, pod_words);
        manager.add(Controller::for_keys("pod", runs_in(&Log::default())).watches_with(watch)).unwrap();
        run(manager, async {
            webs.create(web("w", 1)).await.unwrap();
            env.sleep(SECOND).await;
            let first = pods.get(&key("p")).expect("the web has made its pod");
            assert_eq!(log.take(), ["added p/n"]);
            in_gap::<Pod>(gap, &store, &env, async {
                foreign::<Pod>(&store, &env).delete(&first).await.unwrap();
            })
            .await;
            assert_eq!(log.take(), ["deleted p/n", "added p/n"], "{gap:?}");
            let second = pods.get(&key("p")).expect("the owner was woken and has made it again");
            assert_ne!(second.meta.uid, first.meta.uid);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c9_a_delete_that_compaction_swallowed_is_found_by_listing() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let others = foreign::<Web>(&store, &env);
    run(manager, async {
        let gone = others.create(web("gone", 1)).await.unwrap();
        others.create(web("stays", 1)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(webs.len(), 2);
        let listed = store.of::<Web>().count(Op::List);
        in_gap::<Web>(Gap::ExpiresAtTheStart, &store, &env, async {
            others.delete(&gone).await.unwrap();
            // So that the delete is not even the newest change.
            others.create(web("new", 1)).await.unwrap();
        })
        .await;
        let names: Vec<String> = webs.list().iter().map(|web| web.meta.name.clone()).collect();
        assert_eq!(names, ["new", "stays"]);
        assert_eq!(store.of::<Web>().count(Op::List), listed + 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c8_a_failed_write_leaves_the_cache_as_the_store_is_and_is_tried_again() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let (reads, runs) = (webs.clone(), log.clone());
    let reconciler = reconcile_fn(move |key: ObjectKey, _run| {
        let (webs, runs) = (reads.clone(), runs.clone());
        async move {
            let Some(found) = webs.get(&key) else { return Ok(Action::await_change()) };
            runs.add(format!("ready {}", found.status.ready));
            // Its own copy: the cached object cannot be written to.
            let mut mine = (*found).clone();
            mine.status.ready = 7;
            webs.update_status(&found, |status| *status = mine.status).await?;
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_objects("web", &webs, reconciler)).unwrap();
    run(manager, async {
        let script = store.of::<Web>();
        foreign::<Web>(&store, &env).create(web("x", 1)).await.unwrap();
        script.next(Op::Write, 2, Fault::Fails(StoreFault::Unavailable));
        assert_eq!(handle.next_outcome(&key("x")).await.unwrap().kind, OutcomeKind::Failed);
        assert_eq!(webs.get(&key("x")).unwrap().status.ready, 0);
        env.sleep(60 * SECOND).await;
        assert_eq!(webs.get(&key("x")).unwrap().status.ready, 7);
        // Two failed tries, the one that worked, and the run that its own change caused.
        assert_eq!(log.take(), ["ready 0", "ready 0", "ready 0", "ready 7"]);
        assert_eq!(script.count(Op::Write), 3);
    })
    .await;
}

/// Cleans up what belongs to children that are gone: by the difference of two sets, not by what it saw happen.
#[tokio::test(start_paused = true)]
async fn c10_a_child_that_was_marked_and_gone_before_the_run_is_cleaned_up_after() {
    for gap in [Gap::Resumes, Gap::ExpiresInTheStream] {
        let (mut manager, env, store) = world();
        let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
        let log = Log::default();
        // Outside of the store: one volume for each pod.
        let volumes: Arc<Mutex<Vec<String>>> = Arc::default();
        let (reads, children, outside) = (webs.clone(), pods.clone(), volumes.clone());
        let reconciler = reconcile_fn(move |key: ObjectKey, _run| {
            let (webs, pods, outside) = (reads.clone(), children.clone(), outside.clone());
            async move {
                let Some(web) = webs.get(&key) else { return Ok(Action::await_change()) };
                let wanted = pods.owned_by(&web).iter().map(|pod| pod.meta.name.clone()).collect();
                *outside.lock().unwrap() = wanted;
                Ok(Action::await_change())
            }
        });
        let handle = manager.add(Controller::for_objects("web", &webs, reconciler).owns(&pods)).unwrap();
        let marks = |pod: &Pod| format!("{} deleting: {}", pod.meta.name, pod.meta.is_deleting());
        let watch = logging(&pods, &log, marks);
        manager.add(Controller::for_keys("pod", runs_in(&Log::default())).watches_with(watch)).unwrap();
        run(manager, async {
            let owner = webs.create(web("w", 1)).await.unwrap();
            let others = foreign::<Pod>(&store, &env);
            let mut child = pod("p", "n");
            child.meta.finalizers.push("volume".into());
            let child = others.create_owned(&owner, child).await.unwrap();
            env.sleep(SECOND).await;
            assert_eq!(*volumes.lock().unwrap(), ["p"]);
            log.take();
            handle.pause();
            in_gap::<Pod>(gap, &store, &env, async {
                others.delete(&child).await.unwrap();
                let mut marked = (*others.get(&key("p")).await.unwrap().unwrap()).clone();
                assert!(marked.meta.is_deleting());
                marked.meta.finalizers.clear();
                others.update(marked).await.unwrap();
            })
            .await;
            // The mark is told if the store tells it, and nothing depends on that.
            match gap {
                Gap::Resumes => {
                    assert_eq!(
                        log.take(),
                        ["updated p deleting: false to p deleting: true", "deleted p deleting: true"]
                    );
                }
                _ => assert_eq!(log.take(), ["deleted p deleting: false"]),
            }
            assert_eq!(*volumes.lock().unwrap(), ["p"], "its owner is paused");
            handle.resume();
            env.sleep(SECOND).await;
            assert!(volumes.lock().unwrap().is_empty(), "{gap:?}");
        })
        .await;
    }
}

/// What tells the cache of a delete that came after an own write which its stream never told.
#[derive(Debug, Clone, Copy)]
enum Told {
    OnlyTheDelete,
    ByListing,
}

#[tokio::test(start_paused = true)]
async fn c13_an_object_that_the_controller_wrote_and_another_deleted_is_not_seen_any_more() {
    for told in [Told::OnlyTheDelete, Told::ByListing] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let by_replicas = manager.index(&webs, |web: &Web| [web.spec.replicas]);
        run(manager, async {
            let script = store.of::<Web>();
            webs.create(web("x", 1)).await.unwrap();
            env.sleep(SECOND).await;
            script.hold_streams();
            let written = webs.modify(&key("x"), |web| web.spec.replicas = 2).await.unwrap();
            script.hide(written.meta.revision);
            foreign::<Web>(&store, &env).delete(&written).await.unwrap();
            // The own write is seen, since nobody has told of the delete yet.
            assert_eq!(webs.get(&key("x")).unwrap().spec.replicas, 2);
            if matches!(told, Told::ByListing) {
                store.memory().compact();
            }
            script.release_streams();
            env.sleep(SECOND).await;
            assert_eq!(webs.get(&key("x")), None, "{told:?}");
            assert!(webs.is_empty() && by_replicas.get(&2).is_empty(), "{told:?}");
            // Neither is it brought back by anything later.
            env.sleep(600 * SECOND).await;
            assert!(webs.is_empty(), "{told:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c13_older_states_from_the_stream_do_not_bring_back_what_was_deleted_here() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    let watch = logging(&webs, &log, web_words);
    manager.add(Controller::for_keys("web", runs_in(&Log::default())).watches_with(watch)).unwrap();
    run(manager, async {
        let script = store.of::<Web>();
        webs.create(web("x", 1)).await.unwrap();
        env.sleep(SECOND).await;
        script.hold_streams();
        for replicas in 2..5 {
            webs.modify(&key("x"), |web| web.spec.replicas = replicas).await.unwrap();
        }
        let last = webs.get(&key("x")).unwrap();
        webs.delete(&last).await.unwrap();
        assert_eq!(webs.get(&key("x")), None);
        log.take();
        // Now the stream tells of all the states before.
        script.release_streams();
        env.sleep(SECOND).await;
        assert_eq!((webs.get(&key("x")), log.take()), (None, vec![]));
        // A new incarnation is another matter.
        foreign::<Web>(&store, &env).create(web("x", 9)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["added x/9"]);
    })
    .await;
}
