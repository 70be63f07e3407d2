//! How many retries a controller may spend: a token bucket on virtual time, without a ticker.
//!
//! The generic cell rate algorithm: one instant says it all, the theoretical arrival time of the next token.
//! Only a retry that is put on a timer reserves; a signal that is merged into it reserves nothing.

use std::time::Duration;

use crate::environment::Time;

use super::RetryBudget;

/// The state of a [`RetryBudget`].
#[derive(Debug)]
pub(super) struct Budget {
    interval: Duration,
    /// How far ahead of now the arrival time may run: the burst.
    slack: Duration,
    /// When the next token would arrive if tokens came evenly.
    arrival: Time,
}

impl Budget {
    pub(super) fn new(budget: RetryBudget) -> Self {
        let slack = budget.interval().saturating_mul(budget.burst() - 1);
        Budget { interval: budget.interval(), slack, arrival: Time::ZERO }
    }

    /// Reserves one retry; answers the earliest instant at which it may start.
    pub(super) fn reserve(&mut self, now: Time) -> Time {
        let arrival = self.arrival.max(now);
        self.arrival = arrival.saturating_add(self.interval);
        now.saturating_add(arrival.since(now).saturating_sub(self.slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_the_rest_comes_evenly() {
        let mut budget = Budget::new(RetryBudget::new(3, Duration::from_secs(1)));
        let now = Time::after_start(Duration::from_secs(100));
        let starts: Vec<u64> = (0..6).map(|_| budget.reserve(now).since(now).as_secs()).collect();
        assert_eq!(starts, [0, 0, 0, 1, 2, 3]);
        let later = Time::after_start(Duration::from_secs(200));
        assert_eq!(budget.reserve(later), later, "an idle bucket fills up again");
    }
}
