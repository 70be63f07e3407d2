//! The stop of a manager, as a pure machine.
//!
//! ```text
//! running ──stop──> draining ──drained──────────────────> stopped
//!                       └────grace over──> dropping ──┬──drained──> stopped
//!                                                     └──limit────> stopped
//! ```
//!
//! Promises: each order is given once, in this order: close the intake, drop the runs that are left, stop the
//! rest. A second request changes nothing; a failure stops the manager the same way as a request, so that the
//! runs in flight get their grace then, too.
//!
//! Not here: closing queues, dropping futures, ending tasks. The manager's run does what the orders say.

use std::time::Duration;

use crate::Time;

/// How long dropped runs may take to unwind, and their last writes to settle, before their tasks are aborted.
/// A dropped future unwinds at once; only a run that blocks its thread takes longer, and cannot be waited for.
pub(super) const DROP_LIMIT: Duration = Duration::from_secs(1);

/// Where the stop stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Draining { until: Time },
    Dropping { until: Time },
    Stopped,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// A stop is requested, or something failed for good.
    Stop(Time),
    /// No run is running or settling any more.
    Drained,
    /// It is this late.
    Clock(Time),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Nothing,
    CloseIntake,
    DropRuns,
    StopTheRest,
}

#[derive(Debug)]
pub(super) struct Stop {
    grace: Duration,
    phase: Phase,
}

impl Stop {
    pub(super) fn new(grace: Duration) -> Self {
        Stop { grace, phase: Phase::Running }
    }

    /// When the machine wants to hear the clock.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Draining { until } | Phase::Dropping { until } => Some(until),
            Phase::Running | Phase::Stopped => None,
        }
    }

    pub(super) fn on(&mut self, input: Input) -> Order {
        let (phase, order) = match (self.phase, input) {
            (Phase::Running, Input::Stop(now)) => {
                (Phase::Draining { until: now.saturating_add(self.grace) }, Order::CloseIntake)
            }
            (Phase::Draining { .. } | Phase::Dropping { .. }, Input::Drained) => {
                (Phase::Stopped, Order::StopTheRest)
            }
            (Phase::Draining { until }, Input::Clock(now)) if now >= until => {
                (Phase::Dropping { until: now.saturating_add(DROP_LIMIT) }, Order::DropRuns)
            }
            (Phase::Dropping { until }, Input::Clock(now)) if now >= until => {
                (Phase::Stopped, Order::StopTheRest)
            }
            (phase, _) => (phase, Order::Nothing),
        };
        self.phase = phase;
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Time {
        Time::after_start(Duration::from_secs(seconds))
    }

    /// Feeds the inputs and collects the orders that are not `Nothing`.
    fn orders(grace: Duration, inputs: &[Input]) -> Vec<Order> {
        let mut stop = Stop::new(grace);
        inputs.iter().map(|input| stop.on(*input)).filter(|order| *order != Order::Nothing).collect()
    }

    #[test]
    fn every_way_through_a_stop() {
        use Input::{Clock, Drained, Stop};
        use Order::{CloseIntake, DropRuns, StopTheRest};
        let cases: [(&str, &[Input], &[Order]); 6] = [
            ("r3: drained within the grace", &[Stop(at(1)), Drained], &[CloseIntake, StopTheRest]),
            (
                "grace over, runs dropped",
                &[Stop(at(1)), Clock(at(30)), Clock(at(31)), Drained],
                &[CloseIntake, DropRuns, StopTheRest],
            ),
            (
                "a run that does not even drop",
                &[Stop(at(1)), Clock(at(31)), Clock(at(31)), Clock(at(32))],
                &[CloseIntake, DropRuns, StopTheRest],
            ),
            ("r4: a second request", &[Stop(at(1)), Stop(at(9)), Clock(at(31))], &[CloseIntake, DropRuns]),
            ("not asked for", &[Drained, Clock(at(99))], &[]),
            (
                "nothing after the end",
                &[Stop(at(1)), Drained, Drained, Stop(at(2))],
                &[CloseIntake, StopTheRest],
            ),
        ];
        for (name, inputs, expected) in cases {
            assert_eq!(orders(GRACE, inputs), expected, "{name}");
        }
    }

    #[test]
    fn without_a_grace_the_runs_are_dropped_at_the_next_look_at_the_clock() {
        let mut stop = Stop::new(Duration::ZERO);
        stop.on(Input::Stop(at(5)));
        assert_eq!(stop.deadline(), Some(at(5)));
        assert_eq!(stop.on(Input::Clock(at(5))), Order::DropRuns);
        assert_eq!(stop.deadline(), Some(at(6)));
    }

    #[test]
    fn a_grace_beyond_the_clock_never_ends() {
        let mut stop = Stop::new(Duration::MAX);
        stop.on(Input::Stop(at(5)));
        assert_eq!(stop.deadline(), Some(Time::MAX));
    }
}
