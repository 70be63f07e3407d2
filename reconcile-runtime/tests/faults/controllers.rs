//! Controllers beside each other: idle ones, paused ones, two managers, and kinds that all list at once.

use std::sync::atomic::{AtomicU32, Ordering};

use reconcile_runtime::{KeyState, NotConverged, PAUSE_ANNOTATION};

use super::*;

#[tokio::test(start_paused = true)]
async fn r8_idle_does_not_wait_for_keys_that_fail_for_ever_and_lists_them() {
    let (mut manager, env, _store) = world();
    let reconciler = reconcile_fn(|key: u32, _run| async move {
        if key % 400 == 1 { Err(format!("{key} never works").into()) } else { Ok(Action::await_change()) }
    });
    let handle = manager.add(Controller::for_keys("many", reconciler).enqueued_by_hand()).unwrap();
    for number in 0..1000 {
        handle.enqueue(number);
    }
    let began = env.now();
    run(manager, async {
        // At first, in the middle of retries, and hours later.
        for wait in [Duration::ZERO, 90 * SECOND, 7200 * SECOND] {
            env.sleep(wait).await;
            let asked = env.now();
            let idle = handle.idle().await;
            assert!(env.now().since(asked) < SECOND, "{:?}", env.now().since(asked));
            let failing: Vec<(u32, String)> =
                idle.failing.iter().map(|(key, error)| (*key, error.as_ref().unwrap().to_string())).collect();
            assert_eq!(failing, [1, 401, 801].map(|key| (key, format!("{key} never works"))));
        }
        let snapshot = handle.snapshot();
        assert_eq!((snapshot.depth.backing_off, snapshot.ended(OutcomeKind::Done)), (3, 997));
        assert!(snapshot.retries > 30, "they go on failing: {}", snapshot.retries);
        assert!(env.now().since(began) >= 7290 * SECOND);
    })
    .await;
}

/// What runs while a key is running is not idle.
#[tokio::test(start_paused = true)]
async fn r8_idle_waits_for_a_run_that_goes_on() {
    let (mut manager, env, _store) = world();
    let sleeps = env.clone();
    let reconciler = reconcile_fn(move |seconds: u64, _run| {
        let slept = sleeps.sleep(Duration::from_secs(seconds));
        async move {
            slept.await;
            Ok(Action::await_change())
        }
    });
    let handle = manager.add(Controller::for_keys("slow", reconciler).enqueued_by_hand()).unwrap();
    handle.enqueue(40);
    let began = env.now();
    run(manager, async {
        env.sleep(SECOND).await;
        assert!(handle.idle().await.failing.is_empty());
        assert_eq!(env.now().since(began), 40 * SECOND);
    })
    .await;
}

fn pause(web: &mut Web, value: Option<&str>) {
    match value {
        Some(value) => drop(web.meta.annotations.insert(PAUSE_ANNOTATION.into(), value.into())),
        None => drop(web.meta.annotations.remove(PAUSE_ANNOTATION)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_object_keeps_its_causes_is_explained_and_runs_when_the_pause_ends() {
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let log = Log::default();
    // A filter that no change passes, but the first: the pause is read ahead of it.
    let controller = Controller::for_objects("web", &webs, runs_in(&log))
        .filter(|change| matches!(change, Change::Added(_)));
    let handle = manager.add(controller).unwrap();
    run(manager, async {
        let others = foreign::<Web>(&store, &env);
        let x = key("x");
        others.create(web("x", 1)).await.unwrap();
        others.create(web("y", 1)).await.unwrap();
        env.sleep(SECOND).await;
        log.take();
        others.modify(&x, |web| pause(web, Some("true"))).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(handle.explain(&x).state, KeyState::Paused);
        assert!(matches!(handle.converged(&x).await, Err(NotConverged::Paused)));
        handle.enqueue(x.clone());
        handle.enqueue(key("y"));
        env.sleep(3600 * SECOND).await;
        assert_eq!(log.take(), ["run y"], "the others run");
        let explained = handle.explain(&x).to_string();
        assert!(explained.starts_with("x is paused because of enqueued"), "{explained}");
        others.modify(&x, |web| pause(web, None)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["run x"], "once, for all that came meanwhile");
        // Only the very value pauses.
        others.modify(&x, |web| pause(web, Some("yes"))).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(handle.explain(&x).state, KeyState::Idle);
        // An object that is deleted while it is paused pauses nothing: its successor runs.
        let paused = others.modify(&x, |web| pause(web, Some("true"))).await.unwrap();
        env.sleep(SECOND).await;
        others.delete(&paused).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["run x"]);
        others.create(web("x", 2)).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(log.take(), ["run x"]);
    })
    .await;
}

/// Does what its key says.
async fn by_name(key: ObjectKey, env: Environment) -> Result<Action, Error> {
    match key.name() {
        "slow" => {
            env.sleep(60 * SECOND).await;
            Ok(Action::await_change())
        }
        "polls" => Ok(Action::requeue_after(600 * SECOND)),
        "waits" => Ok(Action::wait_for("its certificate")),
        "fails" => Err("connection refused".into()),
        "wrong" => Err("no such size".permanent_error()),
        _ => Ok(Action::await_change()),
    }
}

trait PermanentError {
    fn permanent_error(self) -> Error;
}

impl PermanentError for &'static str {
    fn permanent_error(self) -> Error {
        Err::<(), _>(self).permanent().expect_err("it is an error").into()
    }
}

#[tokio::test(start_paused = true)]
async fn explain_says_why_a_key_is_running_waiting_or_not_running() {
    let (mut manager, env, _store) = world();
    let sleeps = env.clone();
    let reconciler = reconcile_fn(move |key: ObjectKey, _run| by_name(key, sleeps.clone()));
    let controller = Controller::for_keys("explains", reconciler)
        .enqueued_by_hand()
        .concurrency(1)
        .no_requeue_spread()
        .backoff(Backoff::new(90 * SECOND, 90 * SECOND));
    let handle = manager.add(controller).unwrap();
    let says = |name: &str| handle.explain(&key(name)).to_string();
    run(manager, async {
        assert_eq!(says("new"), "new has nothing to do, no record of a run");
        for name in ["polls", "waits", "fails", "wrong", "good"] {
            handle.enqueue(key(name));
        }
        env.sleep(SECOND).await;
        let starts = [
            ("good", "good has nothing to do; last run: done, 1.0s ago"),
            ("polls", "polls is as wanted and looks again, next run in 599.0s; last run: requeued"),
            ("waits", "waits waits for its certificate; last run: waiting"),
            ("wrong", "wrong failed for good and waits for a new input; last run: permanent"),
            ("fails", "fails backs off after 1 failed run, next run in "),
        ];
        for (name, start) in starts {
            assert!(says(name).starts_with(start), "{}", says(name));
        }
        assert!(says("fails").ends_with(": connection refused"), "{}", says("fails"));
        assert!(says("fails").contains(", attempt 2; last run: failed"), "{}", says("fails"));
        handle.enqueue(key("slow"));
        env.sleep(2 * SECOND).await;
        handle.enqueue(key("good"));
        env.sleep(2 * SECOND).await;
        assert_eq!(says("slow"), "slow runs since 4.0s, attempt 1 because of enqueued");
        assert!(says("good").starts_with("good is due since 2.0s because of enqueued"), "{}", says("good"));
        handle.enqueue(key("slow"));
        assert_eq!(says("slow"), "slow runs since 4.0s, and will run once more because of enqueued");
        handle.pause();
        assert!(says("good").starts_with("good is paused because of enqueued"), "{}", says("good"));
        handle.resume();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_managers_in_one_process_share_nothing() {
    let env = Environment::seeded(3);
    let store = ScriptedStore::new();
    let (mut one, mut two) = (Manager::with_environment(env.clone()), Manager::with_environment(env.clone()));
    let (webs_of_one, webs_of_two) = (one.api::<Web>(&store), two.api::<Web>(&store));
    let (log_of_one, log_of_two) = (Log::default(), Log::default());
    // The same name in both.
    let handle_of_one = one.add(Controller::for_objects("web", &webs_of_one, runs_in(&log_of_one))).unwrap();
    let handle_of_two = two.add(Controller::for_objects("web", &webs_of_two, runs_in(&log_of_two))).unwrap();
    let health_of_two = two.handle();
    handle_of_one.pause();
    let second = two.run_until(async {
        env.sleep(120 * SECOND).await;
        assert_eq!(log_of_two.take(), ["run x", "run x"]);
        assert_eq!(webs_of_two.get(&key("x")).unwrap().spec.replicas, 2);
        assert!(health_of_two.readiness().is_ready());
        assert_eq!(handle_of_two.snapshot().runs(), 2);
    });
    let first = async {
        let story = async {
            env.sleep(SECOND).await;
            assert_eq!(store.of::<Web>().open_streams(), 2, "each watches for itself");
            webs_of_one.create(web("x", 1)).await.unwrap();
            assert_eq!((webs_of_one.len(), webs_of_two.len()), (1, 0), "own writes are those of one manager");
            env.sleep(SECOND).await;
            assert_eq!(webs_of_two.len(), 1);
            handle_of_one.enqueue(key("only-one"));
        };
        one.run_until(story).await.unwrap();
        assert_eq!(store.of::<Web>().open_streams(), 1, "the end of one is not the end of the other");
        foreign::<Web>(&store, &env).modify(&key("x"), |web| web.spec.replicas = 2).await.unwrap();
        env.sleep(SECOND).await;
        // The cache of the ended one stays as it was.
        assert_eq!(webs_of_one.get(&key("x")).unwrap().spec.replicas, 1);
    };
    let (second, ()) = tokio::join!(second, first);
    second.unwrap();
    assert!(log_of_one.take().is_empty(), "it was paused");
    assert_eq!(handle_of_one.snapshot().runs(), 0);
}

/// On real threads: three kinds list again and again while runs write, mappers read every cache, and managers
/// come and go. A lock that is taken in two orders would hang it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r7_listings_writes_and_managers_that_come_and_go_do_not_wait_for_each_other() {
    const ROUNDS: u32 = 16;
    let env = Environment::tokio();
    let store = ScriptedStore::new();
    let templates = foreign::<Template>(&store, &env);
    templates.create(template("t", "0")).await.unwrap();
    let scripts = [store.of::<Web>(), store.of::<Pod>(), store.of::<Template>()];
    let ran = Arc::new(AtomicU32::new(0));
    let manager = |env: &Environment| {
        let mut manager = Manager::with_environment(env.clone());
        let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
        let templates = manager.api::<Template>(&store);
        let by_node = manager.index(&pods, |pod: &Pod| [pod.spec.node.clone()]);
        let (all_webs, all_pods, all_templates) = (webs.clone(), pods.clone(), templates.clone());
        // Reads all the caches, its own kind's too, in the middle of a delivery.
        let reads = move |_: &Pod| {
            let sizes = all_webs.list().len() + all_pods.list().len() + all_templates.list().len();
            // What cannot be read is looked up under the very lock that writers take.
            let unreadable = [
                all_webs.unreadable(&key("w1")).is_some(),
                all_pods.unreadable(&key("w1")).is_some(),
                all_templates.unreadable(&key("t")).is_some(),
            ];
            assert_eq!(unreadable, [false; 3]);
            let keys: Vec<ObjectKey> = all_webs.list().iter().map(|web| web.key()).collect();
            let _indexed = by_node.get("n").len() + sizes;
            keys
        };
        let (api, children, source, count) = (webs.clone(), pods.clone(), templates.clone(), ran.clone());
        let reconciler = reconcile_fn(move |key: ObjectKey, _run| {
            let (webs, pods, templates, count) =
                (api.clone(), children.clone(), source.clone(), count.clone());
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                let Some(web) = webs.get(&key) else { return Ok(Action::await_change()) };
                let Some(template) = templates.get(&ObjectKey::new("t")) else {
                    return Ok(Action::wait_for("the template"));
                };
                let name = key.name().to_owned();
                if pods.owned_by(&web).is_empty() {
                    pods.create_owned(&web, pod(&name, &template.spec.text)).await?;
                }
                pods.modify(&ObjectKey::new(&name), |pod| pod.spec.node = template.spec.text.clone()).await?;
                let ready = template.spec.text.parse::<u32>()?;
                webs.modify_status(&key, |status| status.ready = ready).await?;
                Ok(Action::await_change())
            }
        });
        let controller =
            Controller::for_objects("web", &webs, reconciler).owns(&pods).watches(&pods, reads).watches_with(
                Watch::new(&templates, {
                    let webs = webs.clone();
                    move |_: &Template| webs.list().iter().map(|web| web.key()).collect::<Vec<_>>()
                })
                .as_input(),
            );
        let handle = manager.add(controller).unwrap();
        (manager, handle, (webs, pods, templates))
    };
    let (first, handle, (webs, _pods, _templates)) = manager(&env);
    let (other_webs, other_pods) = (foreign::<Web>(&store, &env), foreign::<Pod>(&store, &env));
    let seed = key("seed");
    other_webs.create(web("seed", 0)).await.unwrap();
    other_pods.create(pod("seed-pod", "0")).await.unwrap();
    templates.create(template("seed", "0")).await.unwrap();
    let story = async {
        for round in 1..=ROUNDS {
            if round % 5 == 1 {
                webs.create(web(&format!("w{round}"), round)).await.unwrap();
            }
            // Each watch brings something before it breaks, so that none is a loop of listings in vain.
            let mut count = 0;
            while !scripts.iter().all(|script| script.is_delivering()) {
                count += 1;
                other_webs.modify(&seed, |web| web.spec.replicas = 1000 * round + count).await.unwrap();
                let text = format!("{round}-{count}");
                other_pods.modify(&key("seed-pod"), |pod| pod.spec.node = text.clone()).await.unwrap();
                templates.modify(&seed, |found| found.spec.text = text.clone()).await.unwrap();
                tokio::task::yield_now().await;
            }
            // The history is gone: every kind lists again, all at once, while the writes of the last round land.
            scripts.iter().for_each(|script| script.break_open_streams(Break::Fails(StoreFault::Expired)));
            // A second manager with the same controllers comes up, writes the same, and goes.
            let (second, other, _apis) = manager(&env);
            second
                .run_until(async {
                    templates.modify(&key("t"), |found| found.spec.text = round.to_string()).await.unwrap();
                    let first = key("w1");
                    let (mine, others) = tokio::join!(handle.converged(&first), other.converged(&first));
                    mine.unwrap();
                    others.unwrap();
                })
                .await
                .unwrap();
        }
        // In the end all of them are as the last template says.
        loop {
            let stored = foreign::<Web>(&store, &env).list().await.unwrap();
            assert_eq!(stored.len(), 5);
            if stored.iter().all(|web| web.status.ready == ROUNDS) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    first.run_until(story).await.unwrap();
    assert!(ran.load(Ordering::SeqCst) >= ROUNDS);
    // Once for each manager, and once more for nearly every time that the history was gone: two expiries may
    // meet in one listing, and the last one is not waited for.
    let lists: usize = scripts.iter().map(|script| script.count(Op::List)).sum();
    assert!(lists >= 3 * (2 * ROUNDS as usize - 4), "{lists} listings");
}
