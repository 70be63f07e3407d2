//! The page `docs/scenarios.md`, as rows.

use std::{fmt, path::PathBuf};

use super::code::{Code, Level};

/// The heading under which the rows stand: tables above it explain the page.
const HEADING: &str = "## Rows";

/// One row: a test that proves a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it stands, from 1.
    pub line: usize,
    /// What it proves.
    pub code: Code,
    /// The promise, in words.
    pub title: String,
    /// How it proves it.
    pub level: Level,
    /// Which test.
    pub test: TestId,
}

/// A test: `package/target::path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TestId {
    /// The package's name.
    pub package: String,
    /// `lib`, the name of a file under `tests/`, `bin:name` or `example:name`.
    pub target: String,
    /// With its modules, as the test program lists it.
    pub path: String,
}

impl TestId {
    /// Reads `package/target::path`.
    pub fn of(text: &str) -> Option<TestId> {
        let (package, rest) = text.split_once('/')?;
        // A target may have one colon of its own, as in `bin:name`.
        let (target, path) = rest.split_once("::")?;
        let whole = [package, target, path].iter().all(|part| !part.is_empty());
        whole.then(|| TestId { package: package.into(), target: target.into(), path: path.into() })
    }

    /// The test's own name, without modules.
    pub fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }
}

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}::{}", self.package, self.target, self.path)
    }
}

/// The page could not be read as rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// Which line, from 1; zero for the page as a whole.
    pub line: usize,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", path().display(), self.line, self.what)
    }
}

/// Where the page is, from the root of the workspace.
pub fn path() -> PathBuf {
    PathBuf::from("docs/scenarios.md")
}

/// The rows of the page in their order, and what is no row.
pub fn rows(text: &str) -> (Vec<Row>, Vec<Unclear>) {
    let (mut rows, mut unclear): (Vec<Row>, Vec<Unclear>) = (Vec::new(), Vec::new());
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| line.trim_end() != HEADING).skip(1);
    for (line, text) in lines {
        let Some(cells) = cells(text) else { continue };
        match row(line, &cells) {
            Ok(row) if rows.iter().any(|other| (other.code, &other.test) == (row.code, &row.test)) => {
                unclear
                    .push(Unclear { line, what: format!("{} names {} a second time", row.code, row.test) });
            }
            Ok(row) => rows.push(row),
            Err(what) => unclear.push(Unclear { line, what }),
        }
    }
    if rows.is_empty() && unclear.is_empty() {
        unclear.push(Unclear { line: 0, what: format!("there are no rows under a heading `{HEADING}`") });
    }
    (rows, unclear)
}

/// The cells of a line of a table; none for other lines, and for the two lines of a table's head.
fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?;
    let cells: Vec<_> = line.strip_suffix('|').unwrap_or(line).split('|').map(str::trim).collect();
    let head = cells.first() == Some(&"code");
    let rule =
        cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|char| matches!(char, '-' | ':')));
    (!head && !rule).then_some(cells)
}

fn row(line: usize, cells: &[&str]) -> Result<Row, String> {
    let &[code, title, level, test, mutation] = cells else {
        return Err(format!(
            "a row has five cells (code, title, level, test, mutation), and this has {}",
            cells.len()
        ));
    };
    let code = Code::of(code).ok_or_else(|| {
        format!("`{code}` is no code of ours; write it as in `Q1` or `bar_p1`, one for each row")
    })?;
    let letter = |text: &str| {
        let mut letters = text.chars();
        letters.next().filter(|_| letters.next().is_none()).and_then(Level::of)
    };
    let level = letter(level)
        .ok_or_else(|| format!("{code}: `{level}` is no level; write one letter of the page's table"))?;
    let test = test
        .strip_prefix('`')
        .and_then(|test| test.strip_suffix('`'))
        .and_then(TestId::of)
        .ok_or_else(|| format!("{code}: {test} is no test; write `package/target::path` in backticks"))?;
    let start = match level {
        Level::Interleavings => format!("loom_{}", code.test_prefix()),
        _ => code.test_prefix(),
    };
    // A benchmark has no name of its own, so the bar itself stands there.
    let named = match level {
        Level::Performance => test.path == code.to_string(),
        _ => test.name().starts_with(&start),
    };
    if !named {
        return Err(format!("{code}: the name `{}` does not start with `{start}`", test.name()));
    }
    for (column, cell) in [("title", title), ("mutation", mutation)] {
        if cell.chars().filter(|char| char.is_alphanumeric()).count() < 3 {
            return Err(format!("{code}: the {column} is missing"));
        }
    }
    Ok(Row { line, code, title: title.into(), level, test })
}
