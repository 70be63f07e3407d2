//! Whether one object's panic touches the others.
//!
//! Bar P2: three keys run every ten milliseconds; from its third run on, one of them panics. Counted are the
//! runs of the two others in the time after.

use std::{
    panic::{PanicHookInfo, panic_any},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail};
use futures::future::{Either, select};

use super::{Plan, plan::PATIENCE};
use crate::{
    clock,
    engine::{Engine, Setup},
    report::{Bar, Limit, Report, figure, plain},
    session::{self, Threads},
    tally::Tally,
    work::{Verdict, Work},
};

/// The one that panics.
const SICK: u32 = 1;
/// Keys in all.
const KEYS: u32 = 3;
/// The run in which it begins to.
const SICK_FROM: u32 = 3;
/// Time between two runs of a healthy key.
const INTERVAL: Duration = Duration::from_millis(10);

/// The payload of the intended panic, by which the hook knows it.
struct Intended;

struct Fragile(Tally);

impl Work for Fragile {
    async fn run(&self, id: u32) -> Verdict {
        let run = self.0.record(id);
        if id == SICK && run >= SICK_FROM {
            panic_any(Intended);
        }
        Verdict::After(INTERVAL)
    }
}

struct After {
    /// Why the engine ended, if it did.
    ended: Option<String>,
    healthy: u32,
    sick: u32,
}

fn measure(engine: Engine, watched: Duration) -> Result<After> {
    let work = Arc::new(Fragile(Tally::new(KEYS, SICK_FROM)));
    let healthy = || (0..KEYS).filter(|id| *id != SICK).map(|id| work.0.of(id)).sum::<u32>();
    session::observe(Threads::One, engine, Setup::listing(KEYS), work.clone(), |mut ended| {
        let (work, healthy) = (&work, &healthy);
        async move {
            // Engines differ in whether they outlive the panic, so only its run is waited for.
            if !clock::until(PATIENCE, || work.0.of(SICK) >= SICK_FROM).await {
                bail!("the key that is to panic did not come to run within {PATIENCE:?}");
            }
            let (had, sick_had) = (healthy(), work.0.of(SICK));
            let reason = match select(&mut ended, Box::pin(clock::pause(watched))).await {
                Either::Left((reason, rest)) => {
                    rest.await;
                    Some(reason)
                }
                Either::Right(_) => None,
            };
            Ok(After { ended: reason, healthy: healthy() - had, sick: work.0.of(SICK) - sick_had })
        }
    })
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "panic",
        "one of three keys panics from its third run on",
        vec![
            plain("engine"),
            plain("engine after it"),
            plain("runs of the two others"),
            plain("further runs of the one"),
            figure("share of expected runs", "%"),
        ],
    );
    let watched = plan.effort.pick(Duration::from_millis(500), Duration::from_secs(2));
    let results = quietly(|| plan.interleaved("panic", "three keys", 1, |engine| measure(engine, watched)))?;
    let expected = watched.as_secs_f64() / INTERVAL.as_secs_f64() * f64::from(KEYS - 1);
    let share = |after: &After| f64::from(after.healthy) / expected * 100.0;
    for (engine, samples) in results.iter() {
        for after in samples {
            report.row([
                engine.name().into(),
                after
                    .ended
                    .as_ref()
                    .map_or_else(|| "runs on".to_owned(), |reason| format!("ended: {reason}"))
                    .into(),
                after.healthy.into(),
                after.sick.into(),
                share(after).into(),
            ]);
        }
    }
    // An interval of 10 ms becomes 11 or 12 on a timer of milliseconds, so the whole of it is out of reach.
    let own = results.median(plan.subject, share);
    let what = "runs of the healthy keys, of those expected";
    report.bar(
        Bar::new("P2", what, own, Limit::at_least(50.0, 75.0), "%").beside(results.of_peer(plan, share)),
    );
    report.note(format!("Watched for {watched:?} after the panic; a healthy key runs every {INTERVAL:?}."));
    Ok(report)
}

/// Keeps the intended panics from printing; others still do.
fn quietly<T>(measure: impl FnOnce() -> T) -> T {
    let usual: Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync> = std::panic::take_hook().into();
    let others = usual.clone();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Intended>() {
            others(info);
        }
    }));
    let result = measure();
    std::panic::set_hook(Box::new(move |info| usual(info)));
    result
}
