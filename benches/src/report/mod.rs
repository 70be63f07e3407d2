//! What a suite gives: rows, the bars they are held against, and notes; as a table and as JSON.
//!
//! Table and JSON are made from the same rows, so they cannot differ.

mod bar;
mod json;
mod table;

pub(crate) use bar::{Bar, Limit, Verdict};

use crate::machine::Machine;

/// One column: what is measured, and in which unit. An empty unit is for text and plain counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
}

/// A column of text or of plain counts.
pub(crate) const fn plain(title: &'static str) -> Column {
    Column { title, unit: "" }
}

/// A column of figures.
pub(crate) const fn figure(title: &'static str, unit: &'static str) -> Column {
    Column { title, unit }
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    Figure(f64),
    /// Not measured, or it never happened.
    Nothing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Cell::Count(u64::from(count))
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Cell::Count(count as u64)
    }
}

impl From<f64> for Cell {
    fn from(figure: f64) -> Self {
        if figure.is_finite() { Cell::Figure(figure) } else { Cell::Nothing }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Cell::Nothing, Into::into)
    }
}

/// The outcome of one suite.
#[derive(Debug)]
pub(crate) struct Report {
    /// The suite's name on the command line.
    suite: &'static str,
    /// What the suite measures, in a sentence.
    title: &'static str,
    columns: Vec<Column>,
    /// Each as long as `columns`.
    rows: Vec<Vec<Cell>>,
    bars: Vec<Bar>,
    /// What a reader has to know to read the rows rightly.
    notes: Vec<String>,
    machine: Machine,
}

impl Report {
    pub(crate) fn new(suite: &'static str, title: &'static str, columns: Vec<Column>) -> Self {
        Report {
            suite,
            title,
            columns,
            rows: Vec::new(),
            bars: Vec::new(),
            notes: Vec::new(),
            machine: Machine::read(),
        }
    }

    /// Adds a row; missing cells at its end stay empty, and cells beyond the columns are dropped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::Nothing);
        self.rows.push(row);
    }

    pub(crate) fn bar(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn suite(&self) -> &'static str {
        self.suite
    }

    pub(crate) fn bars(&self) -> &[Bar] {
        &self.bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> Report {
        let mut report = Report::new(
            "sample",
            "A sample.",
            vec![plain("engine"), plain("runs"), figure("wall", "µs/run")],
        );
        report.row(["one".into(), 7_u64.into(), 1.5.into()]);
        report.row(["two".into(), 7_u64.into()]);
        report.bar(Bar::new("P0", "wall of one", Some(1.5), Limit::at_most(2.0, 1.0), "µs"));
        report.note("a note");
        report
    }

    #[test]
    fn rows_are_as_long_as_the_columns() {
        let mut report = sample();
        report.row(vec![Cell::Count(1); 9]);
        assert!(report.rows.iter().all(|row| row.len() == 3));
    }

    #[test]
    fn figures_that_are_no_number_are_nothing() {
        assert_eq!(Cell::from(f64::NAN), Cell::Nothing);
        assert_eq!(Cell::from(Some(f64::INFINITY)), Cell::Nothing);
        assert_eq!(Cell::from(None::<u64>), Cell::Nothing);
    }
}
