//! Runs one case on one fresh store.

use std::{fmt, future::Future, pin::Pin, sync::mpsc::RecvTimeoutError, time::Duration};

use reconcile_runtime::Environment;

use super::{ClockMode, Failure, Harness, Power, check::Check, lab::Lab};

/// How long a case may take: some hundred times what the slowest one takes on a busy machine with a durable
/// store, so that only a store that hangs gets there.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a case may hold its thread: a little more, so that the limit above, which knows what was done
/// last, comes first where it can.
const HARD_LIMIT: Duration = Duration::from_secs(130);

/// The body of a case.
pub(super) type Body = fn(Lab) -> Pin<Box<dyn Future<Output = Check>>>;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) needs: &'static [Power],
    pub(super) body: Body,
}

impl Case {
    /// The group: `rule1` to `rule9`, `fencing`, or `declared`.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The name, unique in the suite.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The powers without which it cannot run.
    pub fn needs(&self) -> &'static [Power] {
        self.needs
    }

    /// The rule it checks, as text.
    fn rule(&self) -> &'static str {
        match self.group {
            "rule1" => "rule 1 (a create fails if the key exists, an update if uid or revision differ)",
            "rule2" => "rule 2 (an update leaves the status, a status update all else; generation)",
            "rule3" => "rule 3 (a write that changes nothing has no revision and no event)",
            "rule4" => "rule 4 (revisions rise strictly; a delete has one, and the last state)",
            "rule5" => "rule 5 (finalizers and the mark of deletion)",
            "rule6" => "rule 6 (a watch gives every change once, in order, or expires; listings are fresh)",
            "rule7" => "rule 7 (defaults and validation)",
            "rule8" => "rule 8 (an unreadable object is present)",
            "rule9" => "rule 9 (no acknowledged write is lost; lost replies)",
            "fencing" => "the rules of leases and fencing",
            _ => "the declaration of its harness",
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// What came of a case that found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The store keeps the rule.
    Passed,
    /// It could not run: the harness declares that it does not have this power, and why.
    NotRun {
        /// The power.
        power: Power,
        /// The reason that the harness gives.
        why: &'static str,
    },
}

/// Runs one case on a fresh store.
///
/// # Errors
///
/// The [`Failure`] if the store breaks the rule, or does not answer in time.
///
/// # Panics
///
/// If the store or the harness does, or no runtime can be made.
///
/// # Examples
///
/// See the [module](crate::conformance).
pub fn run<H: Harness>(case: &Case, factory: impl Fn() -> H) -> Result<Outcome, Failure> {
    let harness = factory();
    let missing = harness.missing();
    if let Some(missing) = missing.iter().find(|missing| case.needs.contains(&missing.power)) {
        return Ok(Outcome::NotRun { power: missing.power, why: missing.why });
    }
    let other = factory();
    let (case, clock) = (*case, harness.clock());
    let (answer, answered) = std::sync::mpsc::sync_channel(1);
    // On a thread of its own, so that a store that blocks its caller for ever is found out, too.
    let thread = std::thread::spawn(move || {
        // Nobody listens any more only if the hard limit has passed, which is reported instead.
        let _ = answer.send(on_this_thread(&case, clock, Box::new(harness), Box::new(other)));
    });
    let checked = match answered.recv_timeout(HARD_LIMIT) {
        Ok(checked) => checked,
        Err(RecvTimeoutError::Timeout) => Err(Failure::new(
            "an operation of the store",
            format!("a return to the caller within {} s", HARD_LIMIT.as_secs()),
            "none: it blocks, or never lets others run",
        )),
        // The case panicked before it could answer.
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => Err(Failure::new("the case", "an answer", "none")),
        },
    };
    checked.map(|()| Outcome::Passed).map_err(|failure| failure.of(case.name, case.rule()))
}

fn on_this_thread(
    case: &Case,
    clock: ClockMode,
    harness: Box<dyn Harness>,
    other: Box<dyn Harness>,
) -> Check {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(clock == ClockMode::Paused);
    let runtime = builder.build().expect("the system gives a runtime");
    let checked = runtime.block_on(async {
        let lab = Lab::new(harness, other).await;
        let doing = lab.doing();
        let late = Environment::tokio().sleep(LIMIT);
        tokio::select! {
            biased;
            checked = (case.body)(lab) => checked,
            () = late => Err(Failure::new(
                doing.last(),
                format!("an answer within {} s", LIMIT.as_secs()),
                "none",
            )),
        }
    });
    // Threads that hang in a store must not hang the suite.
    runtime.shutdown_background();
    checked
}

/// Runs one case by its name, as a test does. Prints why a case could not run.
///
/// # Panics
///
/// With the failure, if there is one, or if there is no case of this name.
#[allow(clippy::print_stdout, reason = "this is a test's body: what it prints is the test's output")]
pub fn check<H: Harness>(name: &str, factory: impl Fn() -> H) {
    let case = super::cases().into_iter().find(|case| case.name == name);
    let Some(case) = case else { panic!("the suite has no case {name}") };
    match run(&case, factory) {
        Ok(Outcome::Passed) => {}
        Ok(Outcome::NotRun { power, why }) => {
            println!("{name}: not run, the store is declared as not {power}: {why}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// What a power gave, as a check.
pub(super) fn powered(power: Power, used: Result<(), super::PowerError>) -> Check {
    use std::error::Error as _;
    used.map_err(|error| {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        Failure::new(format!("{power}, by the harness"), "success", format!("{error}{cause}"))
    })
}
