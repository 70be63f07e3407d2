//! The codes that there have to be, and what each of them needs.

use std::fmt;

/// How a test proves its code; a letter in the page. Its table there says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the page has a table of them")]
pub enum Level {
    Unit,
    Simulation,
    EndToEnd,
    Types,
    Conformance,
    Interleavings,
    Performance,
}

impl Level {
    /// The level of a letter.
    pub fn of(letter: char) -> Option<Level> {
        Some(match letter {
            'U' => Level::Unit,
            'S' => Level::Simulation,
            'E' => Level::EndToEnd,
            'T' => Level::Types,
            'C' => Level::Conformance,
            'L' => Level::Interleavings,
            'P' => Level::Performance,
            _ => return None,
        })
    }

    /// Its letter.
    pub fn letter(self) -> char {
        match self {
            Level::Unit => 'U',
            Level::Simulation => 'S',
            Level::EndToEnd => 'E',
            Level::Types => 'T',
            Level::Conformance => 'C',
            Level::Interleavings => 'L',
            Level::Performance => 'P',
        }
    }
}

/// Levels of which one is enough.
pub type Need = &'static [Level];

/// A code behaves as promised: which of the ordinary levels shows it does not matter.
const BEHAVIOUR: Need = &[Level::Unit, Level::Simulation, Level::EndToEnd, Level::Types];
/// A bar may be a test or a benchmark.
const BAR: Need = &[Level::Unit, Level::Simulation, Level::EndToEnd, Level::Types, Level::Performance];
/// A promise of every store.
const EVERY_STORE: Need = &[Level::Conformance];
/// A race, which chance does not find.
const EVERY_INTERLEAVING: Need = &[Level::Interleavings, Level::Types];

/// The codes of one part.
struct Area {
    /// What stands before the number.
    prefix: &'static str,
    /// The letters of the levels that each number needs, from 1.
    levels: &'static [&'static str],
}

/// Every area whose part is there. A later part joins by a line of its own.
const AREAS: &[Area] = &[
    Area { prefix: "Q", levels: &["US", "S", "U", "US", "U", "L", "U", "U", "S", "US"] },
    Area { prefix: "B", levels: &["U", "U", "U", "U", "UL", "U", "U", "S", "S", "U", "U", "L", "U"] },
    Area {
        prefix: "C",
        levels: &["S", "US", "CS", "S", "CS", "S", "S", "U", "C", "S", "L", "S", "S", "S", "S"],
    },
    Area { prefix: "R", levels: &["U", "S", "U", "L", "S", "S", "LS", "S", "U", "S", "E", "U", "S"] },
    Area { prefix: "bar_p", levels: &["P"; 15] },
];

/// Codes whose part comes later, and why.
const DEFERRED: &[(&str, &str)] = &[
    ("C14", "what was deleted while nobody watched needs finalizers and garbage collection"),
    ("R5", "a store that goes away at shutdown needs the stores outside of the process"),
    ("R9", "cleanup that is repeated needs finalizers"),
    ("R11", "health and metrics endpoints come with observability"),
    ("R13", "start-up notifications come with observability"),
];

/// A scenario or a bar: `Q1`, `bar_p1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    area: usize,
    number: usize,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix(), self.number)
    }
}

impl Code {
    /// The code that reads so, if there has to be one.
    pub fn of(text: &str) -> Option<Code> {
        codes().find(|code| code.to_string() == text)
    }

    fn prefix(self) -> &'static str {
        AREAS.get(self.area).expect("codes are made from areas").prefix
    }

    /// How the name of a test of it starts.
    pub fn test_prefix(self) -> String {
        format!("{}_", self.to_string().to_lowercase())
    }

    /// What it needs: a row of one of the levels of each.
    pub fn needs(self) -> Vec<Need> {
        let levels = AREAS.get(self.area).and_then(|area| area.levels.get(self.number - 1));
        let has =
            |letters: &str| levels.is_some_and(|levels| levels.contains(|letter| letters.contains(letter)));
        let all = [("USE", BEHAVIOUR), ("C", EVERY_STORE), ("L", EVERY_INTERLEAVING), ("P", BAR)];
        all.into_iter().filter(|(letters, _)| has(letters)).map(|(_, need)| need).collect()
    }

    /// Why its part comes later, if it does.
    pub fn deferred(self) -> Option<&'static str> {
        DEFERRED.iter().find(|(code, _)| *code == self.to_string()).map(|(_, reason)| *reason)
    }
}

/// Every code that there has to be, by area and number.
pub fn codes() -> impl Iterator<Item = Code> {
    AREAS
        .iter()
        .enumerate()
        .flat_map(|(area, of)| (1..=of.levels.len()).map(move |number| Code { area, number }))
}
