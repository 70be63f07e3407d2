//! The same seed, the same schedule, the same result: forty keys with objects, timers, failures, panics, pauses
//! and own writes, run twice on virtual time, leave the same trace byte for byte; also in two processes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fixture;

use std::{fmt::Write as _, process::Command};

use fixture::*;
use reconcile_runtime::{Client, Environment, RetryBudget, prelude::*};

const KEYS: usize = 40;
/// Set for the processes that the test starts: they print the trace and do nothing else.
const PRINT: &str = "RECONCILE_PRINT_TRACE";

/// Runs the scenario, and gives everything that can be seen of it as text.
async fn scenario(seed: u64) -> String {
    let env = Environment::seeded(seed);
    let store = MemoryStore::default();
    let client = Client::<Web>::in_environment(store.clone(), env.clone());
    let trace = Trace::new(&env);
    let mut manager = Manager::with_environment(env.clone());
    let (webs, pods) = (manager.api::<Web>(&store), manager.api::<Pod>(&store));
    let lives = {
        let (webs, pods, env) = (webs.clone(), pods.clone(), env.clone());
        scripted(&trace, move |call: Call<ObjectKey>| {
            let (webs, pods, env) = (webs.clone(), pods.clone(), env.clone());
            async move {
                let Some(web) = webs.get(&call.key) else { return Ok(Action::await_change()) };
                let dice = below(&env, 10);
                env.sleep(below(&env, 50) as u32 * MS).await;
                match dice {
                    0 => failed(),
                    1 => Err("busy").retry_after(SECOND)?,
                    2 => Err("bad").permanent()?,
                    3 => panic!("dice of {}", call.key),
                    4 => Ok(Action::requeue_now()),
                    5 => Ok(Action::requeue_after(7 * SECOND)),
                    6 => {
                        let pod = Pod::new(format!("{}-{}", call.key, call.nth), PodSpec);
                        let pod = pods.create_owned(&web, pod).await?;
                        pods.modify_status(&pod.key(), |status| *status += 1).await?;
                        Ok(Action::wait_for("a pod").recheck_after(3 * SECOND))
                    }
                    7 => {
                        webs.update_status(&web, |status| status.ready = call.nth).await?;
                        Ok(Action::await_change())
                    }
                    8 => Ok(std::future::pending().await),
                    _ => Ok(Action::await_change()),
                }
            }
        })
    };
    let controller = Controller::for_objects("d", &webs, lives)
        .owns(&pods)
        .concurrency(5)
        .run_limit(2 * SECOND)
        .min_interval(20 * MS)
        .retry_budget(RetryBudget::new(5, 50 * MS))
        .resync_every(20 * SECOND);
    let handle = manager.add(controller).unwrap();
    let mut text = String::new();
    let body = async {
        for key in 0..KEYS {
            client.create(Web::new(name(key), WebSpec::default())).await.unwrap();
        }
        for round in 0..120 {
            env.sleep(500 * MS).await;
            let key = ObjectKey::new(&name(below(&env, KEYS as u64) as usize));
            match round % 6 {
                0 => drop(client.modify(&key, |web| web.spec.replicas += 1).await),
                1 => drop(client.modify_status(&key, |status| status.note.push('.')).await),
                2 => handle.enqueue(key),
                3 if round % 4 == 1 => handle.pause(),
                3 => handle.resume(),
                4 => {
                    if let Ok(Some(web)) = client.get(&key).await {
                        client.delete(&web).await.unwrap();
                    }
                }
                _ => drop(client.create(Web::new(key.name(), WebSpec::default())).await),
            }
        }
        handle.resume();
        env.sleep(10 * SECOND).await;
        for ran in trace.runs() {
            writeln!(text, "{ran:?}").unwrap();
        }
        for key in 0..KEYS {
            writeln!(text, "{}", handle.explain(&ObjectKey::new(&name(key)))).unwrap();
        }
        let queue = handle.snapshot();
        writeln!(text, "{:?} {:?} {:?}", queue.outcomes, queue.adds, queue.depth).unwrap();
        for web in webs.list() {
            writeln!(text, "{web:?}").unwrap();
        }
        for pod in pods.list() {
            writeln!(text, "{pod:?}").unwrap();
        }
    };
    manager.run_until(body).await.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_trace() {
    let (one, two, other) = (scenario(1).await, scenario(1).await, scenario(2).await);
    let differs = one.lines().zip(two.lines()).find(|(one, two)| one != two);
    assert_eq!(differs, None, "the first step that is not the same");
    assert_eq!(one, two);
    assert_ne!(one, other, "another seed is another run");
    // The scenario shows what it is meant to show.
    for word in ["Failed", "Permanent", "Panicked", "TimedOut", "Again", "Waiting", "Requeued", "Done"] {
        assert!(one.contains(word), "no run ended as {word}");
    }
    assert!(one.lines().count() > 500, "{} lines", one.lines().count());
}

/// Two other processes, each with its own addresses, hash seeds and environment, print what this one sees.
#[test]
fn the_same_seed_gives_the_same_trace_in_every_process() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    if std::env::var_os(PRINT).is_some() {
        print!("{}", runtime().block_on(scenario(1)));
        return;
    }
    let printed = || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_same_seed_gives_the_same_trace_in_every_process", "--nocapture"]);
        let output = child.env(PRINT, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        // Without what the test's own frame prints around it.
        let lines = text.lines().filter(|line| line.starts_with("Ran ") || line.starts_with("Object "));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let (one, two) = (printed(), printed());
    assert!(one.lines().count() > 500, "{} lines", one.lines().count());
    assert_eq!(one, two);
    let here = runtime().block_on(scenario(1));
    let here: Vec<&str> =
        here.lines().filter(|line| line.starts_with("Ran ") || line.starts_with("Object ")).collect();
    assert_eq!(one.lines().skip(1).collect::<Vec<_>>(), here[1..], "and this process sees it too");
}
