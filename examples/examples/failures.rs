//! Every way in which a run can end, one small reconciler for each row of the table on `Reconciler`.
//!
//! `cargo run --example failures` shows on stderr what the log says (set `RUST_LOG=debug` for every run), and
//! then prints for each row what happened within two seconds, and how the engine explains the key. It ends by
//! itself.
#![allow(clippy::print_stdout, reason = "the table is for the reader of the terminal")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::{io::IsTerminal, sync::Arc, time::Duration};

use reconcile_runtime::{Environment, prelude::*};
use tracing_subscriber::EnvFilter;

#[derive(Clone, Debug, PartialEq)]
struct Counter(u64);
impl Spec for Counter {
    const KIND: &'static str = "Counter";
    type Status = ();
}

/// How long the rows are watched.
const WATCHED: Duration = Duration::from_secs(2);
/// How long a run may take here: the default of five minutes is too long for a demonstration.
const RUN_LIMIT: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_millis(500);

/// The rows, in the order in which they were added, each with its controller's handle.
struct Rows {
    manager: Manager,
    rows: Vec<(&'static str, Handle<&'static str>)>,
}

impl Rows {
    /// Adds a controller with one key; `reconcile` is called with the run and the number of runs before it.
    fn add<F, Fut>(&mut self, row: &'static str, reconcile: F) -> Result<(), ConfigError>
    where
        F: Fn(Run, u32) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, Error>> + Send + 'static,
    {
        let runs = AtomicU32::new(0);
        let reconciler =
            reconcile_fn(move |_: &'static str, run| reconcile(run, runs.fetch_add(1, Ordering::SeqCst)));
        let controller = Controller::for_keys(row, reconciler).enqueued_by_hand().run_limit(RUN_LIMIT);
        self.rows.push((row, self.manager.add(controller)?));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    // The engine logs a panic with its controller, key and payload; the default hook would say it again.
    std::panic::set_hook(Box::new(|_| {}));

    let mut manager = Manager::new();
    let counters = manager.api::<Object<Counter>>(&MemoryStore::default());
    let mut rows = Rows { manager, rows: Vec::new() };

    rows.add("await_change", |_, _| async { Ok(Action::await_change()) })?;
    rows.add("requeue_now", |_, before| async move {
        // Three steps of work; a reconciler that goes on like this without effect is slowed down.
        Ok(if before < 2 { Action::requeue_now() } else { Action::await_change() })
    })?;
    rows.add("requeue_after", |_, _| async { Ok(Action::requeue_after(SOON)) })?;
    rows.add("requeue_at", |run, before| async move {
        Ok(if before == 0 { Action::requeue_at(run.now() + SOON) } else { Action::await_change() })
    })?;
    rows.add("wait_for", |_, _| async { Ok(Action::wait_for("the database to be up").recheck_after(SOON)) })?;
    rows.add("Err", |_, _| async { Err("connection refused".into()) })?;
    rows.add("Err retry_after", |_, _| async {
        Err("too many requests").retry_after(Duration::from_secs(1))?;
        Ok(Action::await_change())
    })?;
    rows.add("Err permanent", |_, _| async {
        "many".parse::<u16>().permanent().map_err(|error| error.while_doing("reading the port"))?;
        Ok(Action::await_change())
    })?;
    let (api, stale) = (counters.clone(), Arc::new(tokio::sync::OnceCell::<Object<Counter>>::new()));
    let read_once = stale.clone();
    rows.add("Err conflict", move |_, before| {
        let (api, stale) = (api.clone(), read_once.clone());
        async move {
            // The first run decides on what was read long ago. The engine then reads it and runs the key at once.
            let fresh = api.get(&ObjectKey::new("visits")).map(|counter| Object::clone(&counter));
            let read = if before == 0 { stale.get().cloned() } else { fresh };
            let Some(mut counter) = read else { return Err("there is no counter".into()) };
            counter.spec.0 += 1;
            api.update(counter).await?;
            Ok(Action::await_change())
        }
    })?;
    rows.add("Err cancelled", |run, before| async move {
        if before == 0 {
            run.until_cancelled(std::future::pending::<()>()).await?; // a newer input supersedes the run
        }
        Ok(Action::await_change())
    })?;
    rows.add("panic", |_, _| async { panic!("index out of bounds, say") })?;
    rows.add("too long", |_, _| std::future::pending())?;

    let Rows { manager, rows } = rows;
    let mut ended = Ok(());
    let story = async {
        let first = counters.create(Object::new("visits", Counter(0))).await?;
        counters.modify(&ObjectKey::new("visits"), |counter| counter.spec.0 = 41).await?;
        stale.set(Object::clone(&first))?;
        for (_, handle) in &rows {
            handle.enqueue("key");
        }
        let clock = Environment::tokio();
        clock.sleep(SOON / 10).await;
        for (_, handle) in rows.iter().filter(|(row, _)| *row == "Err cancelled") {
            handle.enqueue("key"); // the newer input
        }
        clock.sleep(WATCHED).await;
        for (row, handle) in &rows {
            let outcomes = handle.snapshot().outcomes;
            let ended: Vec<_> = outcomes.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            println!("{row:<16} runs: {}\n{:<16} {}", ended.join(", "), "", handle.explain(&"key"));
        }
        anyhow::Ok(())
    };
    manager.grace(Duration::ZERO).run_until(async { ended = story.await }).await?;
    ended
}
