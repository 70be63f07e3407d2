//! Bars: what a figure is held against.
//!
//! A bar has two heights. The gate is where a release stops; the aim is what the engine is built for. Both are
//! printed, and only the gate decides the exit status under `--gate`.

/// The two heights of a bar, and the side on which a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtMost { gate: f64, aim: f64 },
    AtLeast { gate: f64, aim: f64 },
}

impl Limit {
    pub(crate) const fn at_most(gate: f64, aim: f64) -> Self {
        Limit::AtMost { gate, aim }
    }

    pub(crate) const fn at_least(gate: f64, aim: f64) -> Self {
        Limit::AtLeast { gate, aim }
    }

    pub(crate) fn gate(self) -> f64 {
        match self {
            Limit::AtMost { gate, .. } | Limit::AtLeast { gate, .. } => gate,
        }
    }

    pub(crate) fn aim(self) -> f64 {
        match self {
            Limit::AtMost { aim, .. } | Limit::AtLeast { aim, .. } => aim,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Limit::AtMost { .. } => "≤",
            Limit::AtLeast { .. } => "≥",
        }
    }

    fn holds(self, measured: f64, height: f64) -> bool {
        match self {
            Limit::AtMost { .. } => measured <= height,
            Limit::AtLeast { .. } => measured >= height,
        }
    }
}

/// How a figure stands to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Over the aim.
    Aim,
    /// Over the gate only.
    Gate,
    Missed,
    /// The engine that is judged, or the peer it is compared with, was not in this run.
    NotMeasured,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Aim => "aim",
            Verdict::Gate => "gate",
            Verdict::Missed => "MISSED",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// One figure beside its limits.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// The bar's code, such as `P4`.
    pub(crate) code: &'static str,
    /// What is compared.
    pub(crate) what: String,
    pub(crate) measured: Option<f64>,
    /// The same figure of the peer, which is not judged.
    pub(crate) peer: Option<f64>,
    pub(crate) limit: Limit,
    pub(crate) unit: &'static str,
}

impl Bar {
    pub(crate) fn new(
        code: &'static str,
        what: impl Into<String>,
        measured: Option<f64>,
        limit: Limit,
        unit: &'static str,
    ) -> Self {
        Bar { code, what: what.into(), measured, peer: None, limit, unit }
    }

    /// Beside the peer's figure. A ratio of the two has none.
    pub(crate) fn beside(self, peer: Option<f64>) -> Self {
        Bar { peer, ..self }
    }

    /// A figure that is no number (a ratio to nothing) misses: it must never pass a gate by accident.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.measured {
            None => Verdict::NotMeasured,
            Some(measured) if self.limit.holds(measured, self.limit.aim()) => Verdict::Aim,
            Some(measured) if self.limit.holds(measured, self.limit.gate()) => Verdict::Gate,
            Some(_) => Verdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_both_heights_on_both_sides() {
        let low = Limit::at_most(50.0, 20.0);
        let high = Limit::at_least(4.0, 8.0);
        let cases = [
            (low, Some(20.0), Verdict::Aim),
            (low, Some(20.1), Verdict::Gate),
            (low, Some(50.1), Verdict::Missed),
            (low, Some(f64::NAN), Verdict::Missed),
            (high, Some(8.0), Verdict::Aim),
            (high, Some(7.9), Verdict::Gate),
            (high, Some(3.9), Verdict::Missed),
            (high, Some(f64::NAN), Verdict::Missed),
            (high, None, Verdict::NotMeasured),
        ];
        for (limit, measured, expected) in cases {
            assert_eq!(
                Bar::new("P0", "x", measured, limit, "").verdict(),
                expected,
                "{limit:?} {measured:?}"
            );
        }
    }
}
