//! Whether a watch that always fails slows another one.
//!
//! Bar P3: 200 objects have been listed and have run; a second watch of the same controller begins to fail each
//! time it is asked; then all 200 objects change.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use tokio::sync::oneshot;

use super::{Plan, feed, plan::PATIENCE, rounds::Rounds};
use crate::{
    clock::{self, Stopwatch},
    engine::{Engine, Setup, Sibling},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
};

/// Objects that change.
const EVENTS: u32 = 200;
/// Time between the sibling's first failure and the changes: any engine has noticed it by then.
const FAILING_BEFORE: Duration = Duration::from_millis(100);

struct Handled {
    events: usize,
    took: Duration,
}

fn measure(engine: Engine, limit: Duration) -> Result<Handled> {
    let work = Arc::new(Rounds::counted(EVENTS, 2));
    let (wave, changes) = feed::waves();
    let (fail, begin) = oneshot::channel::<()>();
    let begin = Box::pin(async move {
        // A dropped sender ends the measurement, and failing from then on changes nothing.
        begin.await.unwrap_or(());
    });
    let setup = Setup::listing(EVENTS).changes(changes).sibling(Sibling::FailsAfter(begin));
    session::drive(Threads::One, engine, setup, work.clone(), async {
        work.tally.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        ensure!(fail.send(()).is_ok(), "{} gave its second watch up before it failed", engine.name());
        clock::pause(FAILING_BEFORE).await;
        let started = Stopwatch::start();
        wave.send(0..EVENTS).await?;
        let within = clock::within(limit, work.tally.last_goal(PATIENCE + limit)).await;
        if let Some(reached) = within {
            reached?;
        }
        Ok(Handled { events: work.tally.keys_with(2), took: started.spent().wall })
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "failing-sibling",
        "200 changes beside a watch that always fails",
        vec![plain("engine"), plain("events"), plain("handled"), figure("within", "ms")],
    );
    let limit = plan.effort.pick(Duration::from_secs(5), Duration::from_secs(20));
    let results = plan.interleaved("failing-sibling", "200 changes", 1, |engine| measure(engine, limit))?;
    for (engine, samples) in results.iter() {
        for handled in samples {
            report.row([
                engine.name().into(),
                EVENTS.into(),
                handled.events.into(),
                (handled.took.as_secs_f64() * 1e3).into(),
            ]);
        }
    }
    let missing = |handled: &Handled| f64::from(EVENTS) - handled.events as f64;
    let took = |handled: &Handled| handled.took.as_secs_f64() * 1e3;
    let own = results.median(plan.subject, missing);
    let bar = Bar::new("P3", "events not handled", own, Limit::at_most(0.0, 0.0), "");
    report.bar(bar.beside(results.of_peer(plan, missing)));
    let own = results.median(plan.subject, took);
    let bar = Bar::new("P3", "time for 200 events", own, Limit::at_most(50.0, 50.0), "ms");
    report.bar(bar.beside(results.of_peer(plan, took)));
    report.note(format!("Given up after {limit:?}."));
    Ok(report)
}
