//! Whether deletes reach the reconciler.
//!
//! Bar P10: a hundred objects have been listed and have run; then all of them are deleted. Counted are the keys
//! that run because of it.

use std::{sync::Arc, time::Duration};

use anyhow::Result;

use super::{Plan, feed, plan::PATIENCE, rounds::Rounds};
use crate::{
    clock,
    engine::{Change, Engine, Part, Setup, Urgency},
    report::{Bar, Limit, Report, plain},
    session::{self, Threads},
};

/// Objects that are deleted.
const KEYS: u32 = 100;
/// Time in which their runs have to come.
const WATCHED: Duration = Duration::from_secs(2);

fn measure(engine: Engine) -> Result<usize> {
    let work = Arc::new(Rounds::counted(KEYS, 2));
    let (sender, changes) = feed::single();
    session::drive(Threads::One, engine, Setup::listing(KEYS).changes(changes), work.clone(), async {
        let tally = &work.tally;
        tally.first_goal(PATIENCE).await?;
        clock::settle(PATIENCE).await?;
        for id in 0..KEYS {
            sender.send(Change { id, part: Part::Deleted, urgency: Urgency::Normal }).await?;
        }
        // What did not come by then is counted as missing, not as an error.
        let _all_came = clock::until(WATCHED, || tally.keys_with(2) == KEYS as usize).await;
        Ok(tally.keys_with(2))
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "deletes",
        "a hundred objects are deleted",
        vec![plain("engine"), plain("deleted"), plain("keys that ran because of it")],
    );
    let results = plan.interleaved("deletes", "100 objects", 1, measure)?;
    for (engine, samples) in results.iter() {
        for ran in samples {
            report.row([engine.name().into(), KEYS.into(), (*ran).into()]);
        }
    }
    let own = results.median(plan.subject, |ran| *ran as f64);
    let limit = Limit::at_least(f64::from(KEYS), f64::from(KEYS));
    report.bar(
        Bar::new("P10", "keys that ran because of their delete", own, limit, "")
            .beside(results.of_peer(plan, |ran| *ran as f64)),
    );
    report.note(format!(
        "Watched for {WATCHED:?}. The chain of kube-runtime is the documented one for own streams."
    ));
    Ok(report)
}
