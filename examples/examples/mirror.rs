//! Keeps one directory equal to another: a control loop over real files, without any store. The keys are paths.
//!
//! `cargo run --example mirror -- SRC DST` copies what differs, follows every change of either directory until
//! Ctrl-C, and retries what fails, with backoff; `--once` ends when they are equal. What was changed in DST by
//! somebody else is set right as well: SRC wins.
#![allow(clippy::print_stdout, reason = "reports to the reader of the terminal")]

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};
use std::{collections::BTreeSet, fs, io::IsTerminal, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use clap::{CommandFactory, Parser, error::ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use reconcile_examples::files::{self, Done, off_thread};
use reconcile_runtime::{Environment, Trigger, prelude::*};
use tracing_subscriber::EnvFilter;

/// Keeps DST equal to SRC until Ctrl-C.
#[derive(Parser)]
#[command(name = "mirror")]
struct Args {
    /// The directory to copy from; it is only read.
    src: PathBuf,
    /// The directory to make equal: made if it is not there, and what SRC does not have is removed from it.
    dst: PathBuf,
    /// Ends as soon as both are equal; with exit code 1 if something cannot be copied.
    #[arg(long)]
    once: bool,
    /// How often everything is compared, in case an event was missed; in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    resync: u64,
}

/// How long a path that cannot be had yet is left alone if no event tells of it.
const RECHECK: Duration = Duration::from_millis(500);
/// How often progress is shown, and failing paths are looked for.
const TICK: Duration = Duration::from_millis(200);

struct Mirror {
    roots: [PathBuf; 2],
    /// Set before the first run: for children of new directories, which no event may have told of.
    handle: OnceLock<Handle<PathBuf>>,
    /// Files and links, since the start.
    copied: AtomicU64,
}

impl Reconciler for Mirror {
    type Key = PathBuf;

    async fn reconcile(&self, path: &PathBuf, run: &Run) -> Result<Action, Error> {
        let ([src, dst], key, asked) = (self.roots.clone(), path.clone(), run.clone());
        let done = off_thread(move || files::make_equal(&src, &dst, &key, &|| !asked.is_cancelled())).await?;
        let wait = |reason| Ok(Action::wait_for(reason).recheck_after(RECHECK));
        match done {
            Done::Equal => return Ok(Action::await_change()),
            Done::NoDirectory => return wait("its directory to be made"),
            Done::Changing => return wait("the file to stop changing"),
            // A stop, or a newer event of this file: no failure.
            Done::Stopped => return Err(Retry::Cancelled.into()),
            Done::Special => Err("a pipe, a socket or a device has no content to copy").permanent()?,
            Done::MadeDirectory(children) => {
                let handle = self.handle.get().context("runs start after the handle is set")?;
                children.into_iter().for_each(|child| handle.enqueue(child));
            }
            Done::Copied(_) | Done::Linked => {
                self.copied.fetch_add(1, Ordering::Relaxed);
            }
            Done::Removed => {}
        }
        Ok(Action::await_change())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let refuse = |what: String| -> ! { Args::command().error(ErrorKind::ValueValidation, what).exit() };
    let full = |path| files::full(path).unwrap_or_else(|error| refuse(format!("{error:#}")));
    let (src, dst) = (full(&args.src), full(&args.dst));
    if !src.is_dir() {
        refuse(format!("SRC has to be a directory, and {} is none", src.display()));
    }
    if dst.starts_with(&src) || src.starts_with(&dst) {
        refuse(format!("one of {} and {} is in the other", src.display(), dst.display()));
    }
    fs::create_dir_all(&dst)
        .unwrap_or_else(|error| refuse(format!("cannot make {}: {error}", dst.display())));
    let (ours, colours) = ("warn,reconcile_runtime::worker=error", std::io::stderr().is_terminal());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(ours));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();

    let roots = [src, dst];
    let mirror =
        Arc::new(Mirror { roots: roots.clone(), handle: OnceLock::new(), copied: AtomicU64::new(0) });
    let (listed, watched) = (roots.clone(), roots.clone());
    let controller = Controller::for_keys("mirror", mirror.clone())
        .trigger_with(Trigger::new("file events", move || files::events(watched.clone())))
        .resync_from(Duration::from_secs(args.resync), move || {
            let roots = listed.clone();
            async { Ok(off_thread(move || files::list(&roots)).await?) }
        });
    let mut manager = Manager::new();
    let handle = manager.add(controller)?;
    mirror.handle.get_or_init(|| handle.clone());

    let mut ended = Ok("stopped");
    let stop = async {
        tokio::select! {
            biased;
            _ = shutdown_signal() => {}
            equal = follow(&handle, args.once.then_some(roots)) => ended = equal.map(|()| "equal"),
        }
    };
    manager.run_until(stop).await?;
    println!("{}: {} files and links were copied", ended?, mirror.copied.load(Ordering::Relaxed));
    Ok(())
}

/// Shows progress and explains every path that fails. Ends once the roots are equal, if they are given.
async fn follow(handle: &Handle<PathBuf>, until_equal: Option<[PathBuf; 2]>) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?;
    let bar = ProgressBar::new(0).with_style(style); // on stderr, and only where that is a terminal
    let (clock, once) = (Environment::tokio(), until_equal.is_some());
    if let Some(roots) = until_equal {
        off_thread(move || files::list(&roots)).await?.into_iter().for_each(|path| handle.enqueue(path));
    }
    let mut told = BTreeSet::new();
    loop {
        clock.sleep(TICK).await;
        let queue = handle.snapshot();
        let (depth, runs) = (queue.depth, queue.runs());
        let due = depth.ready() + depth.active();
        bar.set_length(runs + due as u64);
        bar.set_position(runs);
        bar.set_message(format!("{} fail, {} wait", depth.backing_off + depth.permanent, depth.scheduled));
        if due > 0 {
            continue;
        }
        let failing: BTreeSet<_> = handle.idle().await.failing.into_iter().map(|(path, _)| path).collect();
        for path in failing.difference(&told) {
            bar.suspend(|| println!("{}", handle.explain(path)));
        }
        match failing.len() {
            0 if once && depth.scheduled == 0 => return Ok(()),
            count if once && count > 0 => bail!("not equal: {count} of the paths could not be copied"),
            _ => told = failing,
        }
    }
}
