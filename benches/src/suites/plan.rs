//! What a run of the program is to do, and the taking of turns.

use std::time::Duration;

use anyhow::Result;

use crate::{engine::Engine, progress, samples};

/// Small sizes for a check, or the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}

/// What the figures are of, in suites that have the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    Time,
    Instructions,
}

/// What to run, and how large.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) effort: Effort,
    pub(crate) counting: Counting,
    /// In the order in which they take turns.
    pub(crate) engines: Vec<Engine>,
    /// The engine held against the bars; always one of `engines`.
    pub(crate) subject: Option<Engine>,
    /// Empty for the suite's own.
    pub(crate) sizes: Vec<u32>,
    /// Empty for the suite's own.
    pub(crate) threads: Vec<usize>,
    /// Absent for the suite's own.
    pub(crate) repetitions: Option<usize>,
}

impl Plan {
    pub(crate) fn sizes(&self, quick: &[u32], full: &[u32]) -> Vec<u32> {
        if self.sizes.is_empty() { self.effort.pick(quick, full).to_vec() } else { self.sizes.clone() }
    }

    pub(crate) fn threads(&self, own: &[usize]) -> Vec<usize> {
        if self.threads.is_empty() { own.to_vec() } else { self.threads.clone() }
    }

    pub(crate) fn repetitions(&self, quick: usize, full: usize) -> usize {
        self.repetitions.unwrap_or(self.effort.pick(quick, full))
    }

    /// The peer that the subject is compared with, when both are in the run.
    pub(crate) fn peer(&self) -> Option<Engine> {
        let peer = Engine::PEER;
        (self.subject.is_some_and(|subject| subject != peer) && self.engines.contains(&peer)).then_some(peer)
    }

    /// Measures every engine `repetitions` times, the engines taking turns.
    pub(crate) fn interleaved<T>(
        &self,
        suite: &str,
        what: &str,
        repetitions: usize,
        mut measure: impl FnMut(Engine) -> Result<T>,
    ) -> Result<Results<T>> {
        let mut results = Results(self.engines.iter().map(|engine| (*engine, Vec::new())).collect());
        for repetition in 1..=repetitions {
            for (engine, samples) in &mut results.0 {
                progress::step(suite, format!("{what}: {}, {repetition} of {repetitions}", engine.name()));
                samples.push(measure(*engine)?);
            }
        }
        Ok(results)
    }
}

/// Repetitions per engine.
#[derive(Debug)]
pub(crate) struct Results<T>(Vec<(Engine, Vec<T>)>);

impl<T> Results<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Engine, &[T])> {
        self.0.iter().map(|(engine, samples)| (*engine, samples.as_slice()))
    }

    /// Median of one figure of one engine; `None` when the engine was not in the run.
    pub(crate) fn median(&self, engine: Option<Engine>, figure: impl Fn(&T) -> f64) -> Option<f64> {
        let engine = engine?;
        self.0
            .iter()
            .find(|(of, _)| *of == engine)
            .and_then(|(_, samples)| samples::median_of(samples, figure))
    }

    /// Median of one figure of the peer; `None` when the subject has none beside it.
    pub(crate) fn of_peer(&self, plan: &Plan, figure: impl Fn(&T) -> f64) -> Option<f64> {
        self.median(plan.peer(), figure)
    }

    /// How many times the peer's median the subject's goes into it: above one, the subject is the cheaper one.
    pub(crate) fn advantage(&self, plan: &Plan, figure: impl Fn(&T) -> f64) -> Option<f64> {
        ratio(self.median(plan.peer(), &figure), self.median(plan.subject, &figure))
    }
}

/// `upper / lower`, where both were measured.
pub(crate) fn ratio(upper: Option<f64>, lower: Option<f64>) -> Option<f64> {
    Some(upper? / lower?)
}

/// Microseconds per item.
pub(crate) fn micros_each(time: Duration, items: u64) -> f64 {
    time.as_secs_f64() * 1e6 / items as f64
}

/// The longest a phase of a benchmark may take before it counts as hung. A million objects take a slow engine ten
/// seconds on an idle machine, and ten times that on a busy one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_take_turns_and_medians_are_per_engine() {
        let plan = Plan {
            effort: Effort::Quick,
            counting: Counting::Time,
            engines: vec![Engine::PEER],
            subject: Some(Engine::PEER),
            sizes: Vec::new(),
            threads: vec![3],
            repetitions: None,
        };
        let mut next = 0.0;
        let results = plan
            .interleaved("test", "turns", plan.repetitions(3, 9), |_| {
                next += 1.0;
                Ok(next)
            })
            .unwrap();
        assert_eq!(results.median(plan.subject, |figure| *figure), Some(2.0));
        assert_eq!(results.median(None, |figure| *figure), None);
        assert_eq!(plan.peer(), None, "an engine is not its own peer");
        assert_eq!((plan.threads(&[1, 2]), plan.sizes(&[1], &[2])), (vec![3], vec![1]));
        assert_eq!((ratio(Some(3.0), Some(2.0)), ratio(None, Some(2.0))), (Some(1.5), None));
    }
}
