//! Whether events cancel the backoff of a failing key.
//!
//! Bar P7: a key fails and is to be retried in a minute; its object then changes a hundred times in a second.
//! Counted are the runs in that second, for changes beside what the user wants and for changes of it.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};

use super::{Plan, feed, plan::PATIENCE};
use crate::{
    clock,
    engine::{Change, Engine, Part, Setup, Urgency},
    report::{Bar, Limit, Report, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// Changes while the key is in backoff.
const CHANGES: u32 = 100;
/// Time between two of them.
const PACE: Duration = Duration::from_millis(10);
/// What the key's policy asks for after a failure.
const RETRY: Duration = Duration::from_secs(60);

struct Failing(Tally);

impl Work for Failing {
    async fn run(&self, id: u32) -> Verdict {
        self.0.record(id);
        Verdict::Failed(RETRY)
    }
}

fn measure(engine: Engine, part: Part) -> Result<u64> {
    let work = Arc::new(Failing(Tally::new(1, 1)));
    let (sender, changes) = feed::single();
    session::drive(Threads::One, engine, Setup::listing(1).changes(changes), work.clone(), async {
        work.0.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        let had = work.0.total();
        ensure!(had == 1, "the failing key ran {had} times before anything changed");
        let mut ticks = clock::ticks(PACE);
        for _ in 0..CHANGES {
            ticks.tick().await;
            sender.send(Change { id: 0, part, urgency: Urgency::Normal }).await?;
        }
        clock::settle(PATIENCE).await?;
        Ok(work.0.total() - had)
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "backoff",
        "a key that is to be retried in 60 s, and 100 changes in a second",
        vec![plain("engine"), plain("changes of"), plain("changes"), plain("runs in that second")],
    );
    for (part, name) in [(Part::Status, "its status"), (Part::Spec, "its spec")] {
        let results = plan.interleaved("backoff", name, 1, |engine| measure(engine, part))?;
        for (engine, samples) in results.iter() {
            for runs in samples {
                report.row([engine.name().into(), name.into(), CHANGES.into(), (*runs).into()]);
            }
        }
        let own = results.median(plan.subject, |runs| *runs as f64);
        // A changed spec may run at once and, while the key keeps failing, once a second.
        let limit = if part == Part::Status { Limit::at_most(1.0, 1.0) } else { Limit::at_most(3.0, 2.0) };
        report.bar(
            Bar::new("P7", format!("runs caused by changes of {name}"), own, limit, "")
                .beside(results.of_peer(plan, |runs| *runs as f64)),
        );
    }
    Ok(report)
}
