//! What the comparison says: about each code, and about each row that is not as it says.

use std::fmt;

use super::{
    code::{Code, Level, Need, codes},
    found::{Found, Ignored},
    page::{Row, Unclear},
};

/// How a code stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Every level that it needs has a test.
    There,
    /// Its part comes later, for this reason.
    Deferred(&'static str),
    /// It lacks these.
    Missing(Vec<Need>),
}

/// One code, and its rows that hold.
#[derive(Debug, Clone)]
pub struct Line {
    /// The code.
    pub code: Code,
    /// How it stands.
    pub standing: Standing,
    /// The rows whose tests are as they say, in the page's order.
    pub rows: Vec<Row>,
}

/// The whole comparison. `Display` prints a table, and then what is missing and why.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Every code.
    pub lines: Vec<Line>,
    /// What is wrong with rows.
    pub faults: Vec<Unclear>,
    /// Rows of the model checker's that were taken at their word, as its target was not looked at.
    pub unchecked: usize,
}

impl Verdict {
    /// Compares the page with what was found.
    pub fn of(rows: Vec<Row>, unclear: Vec<Unclear>, found: &Found) -> Verdict {
        let (mut faults, mut unchecked) = (unclear, 0);
        let mut good = Vec::new();
        for row in rows {
            match check(&row, found) {
                Ok(checked) => {
                    unchecked += usize::from(checked == Checked::AtItsWord);
                    good.push(row);
                }
                Err(what) => faults.push(Unclear { line: row.line, what: format!("{}: {what}", row.code) }),
            }
        }
        faults.sort_by_key(|fault| fault.line);
        let lines = codes().map(|code| {
            let rows: Vec<_> = good.iter().filter(|row| row.code == code).cloned().collect();
            let has = |need: &Need| rows.iter().any(|row| need.contains(&row.level));
            let lacks: Vec<_> = code.needs().into_iter().filter(|need| !has(need)).collect();
            let standing = match code.deferred() {
                Some(reason) => Standing::Deferred(reason),
                None if lacks.is_empty() => Standing::There,
                None => Standing::Missing(lacks),
            };
            Line { code, standing, rows }
        });
        Verdict { lines: lines.collect(), faults, unchecked }
    }

    /// Whether nothing is missing and every row is as it says.
    pub fn is_good(&self) -> bool {
        let missing = |line: &Line| matches!(line.standing, Standing::Missing(_));
        self.faults.is_empty() && !self.lines.iter().any(missing)
    }
}

/// What is known of a row that is not wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    Seen,
    AtItsWord,
}

/// Whether a row's test is there, and is what its level says.
fn check(row: &Row, found: &Found) -> Result<Checked, String> {
    let test = &row.test;
    let tests = match row.level {
        Level::Interleavings => match &found.loom {
            Some(tests) => tests,
            None => return Ok(Checked::AtItsWord),
        },
        Level::Performance => return benchmark(row, found),
        _ => &found.tests,
    };
    match tests.get(test) {
        None => {
            let like = tests.keys().find(|other| other.name() == test.name());
            let hint = like.map_or_else(String::new, |other| format!("; there is {other}"));
            return Err(format!("there is no test {test}{hint}"));
        }
        Some(Ignored::Yes) => return Err(format!("{test} is ignored, and an ignored test proves nothing")),
        Some(Ignored::No) => {}
    }
    if row.level == Level::Conformance && !found.conformance.contains(test.name()) {
        return Err(format!(
            "{test} is no case of the conformance suite, so other stores do not run it; name one that is, or give \
             the row another level"
        ));
    }
    Ok(Checked::Seen)
}

fn benchmark(row: &Row, found: &Found) -> Result<Checked, String> {
    let (suite, bar) = (&row.test.target, row.code.to_string().to_uppercase().replace("BAR_", ""));
    match found.benchmarks.get(suite) {
        _ if row.test.package != "reconcile-benches" => {
            Err("a benchmark is in `reconcile-benches`".to_owned())
        }
        None => Err(format!("there is no benchmark `{suite}` in benches/src/suites")),
        Some(bars) if !bars.contains(&bar) => Err(format!("the benchmark `{suite}` does not name \"{bar}\"")),
        Some(_) => Ok(Checked::Seen),
    }
}

fn letters(levels: impl IntoIterator<Item = Level>, between: &str) -> String {
    let letters: Vec<_> = levels.into_iter().map(|level| level.letter().to_string()).collect();
    letters.join(between)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8} {:<8} {:<6} promise", "code", "is", "levels")?;
        let (mut there, mut tests) = (0, 0);
        for line in &self.lines {
            let is = match line.standing {
                Standing::There => "there",
                Standing::Deferred(_) => "deferred",
                Standing::Missing(_) => "missing",
            };
            there += usize::from(line.standing == Standing::There);
            tests += line.rows.len();
            let mut levels: Vec<_> = line.rows.iter().map(|row| row.level).collect();
            levels.sort_unstable();
            levels.dedup();
            let promise = line.rows.first().map_or("", |row| &row.title);
            let (code, levels) = (line.code.to_string(), letters(levels, ""));
            writeln!(f, "{}", format!("{code:<8} {is:<8} {levels:<6} {promise}").trim_end())?;
        }
        writeln!(f, "\n{there} of {} codes are there, by {tests} tests", self.lines.len())?;
        for line in &self.lines {
            if let Standing::Deferred(reason) = line.standing {
                writeln!(f, "deferred {}: {reason}", line.code)?;
            }
        }
        if self.unchecked > 0 {
            writeln!(f, "unchecked: {} rows of level L, which take `--with-loom`", self.unchecked)?;
        }
        for fault in &self.faults {
            writeln!(f, "fault {fault}")?;
        }
        for line in &self.lines {
            if let Standing::Missing(needs) = &line.standing {
                let needs: Vec<_> = needs.iter().map(|need| letters(need.iter().copied(), " or ")).collect();
                writeln!(f, "missing {}: no row that holds of level {}", line.code, needs.join(", nor of "))?;
            }
        }
        Ok(())
    }
}
