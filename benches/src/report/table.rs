//! The report as text for a terminal.

use std::fmt::{self, Display};

use comfy_table::{CellAlignment, Table, presets};

use super::{Cell, Column, Report};

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.suite, self.title)?;
        writeln!(f, "{}", self.machine.line())?;
        writeln!(f, "{}", self.table())?;
        if !self.bars.is_empty() {
            writeln!(f, "{}", self.bar_table())?;
        }
        for note in &self.notes {
            writeln!(f, "- {note}")?;
        }
        Ok(())
    }
}

impl Report {
    fn table(&self) -> Table {
        let mut table = empty(self.columns.iter().map(head));
        for row in &self.rows {
            table.add_row(row.iter().map(shown));
        }
        table
    }

    fn bar_table(&self) -> Table {
        let titles = ["bar", "what", "measured", "peer", "aim", "gate", "reached"];
        let mut table = empty(titles.map(str::to_owned));
        for bar in &self.bars {
            let height = |height: f64| Cell::Text(format!("{} {}", bar.limit.sign(), number(height)));
            let with_unit = |figure: f64| format!("{} {}", number(figure), bar.unit).trim_end().to_owned();
            let cells = [
                bar.code.into(),
                bar.what.as_str().into(),
                bar.measured.map(with_unit).into(),
                bar.peer.map(with_unit).into(),
                height(bar.limit.aim()),
                height(bar.limit.gate()),
                bar.verdict().word().into(),
            ];
            table.add_row(cells.iter().map(shown));
        }
        table
    }
}

fn empty(titles: impl IntoIterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(titles);
    table
}

fn head(column: &Column) -> String {
    if column.unit.is_empty() {
        column.title.to_owned()
    } else {
        format!("{}\n{}", column.title, column.unit)
    }
}

fn shown(cell: &Cell) -> comfy_table::Cell {
    match cell {
        Cell::Text(text) => comfy_table::Cell::new(text),
        Cell::Count(count) => right(grouped(*count)),
        Cell::Figure(figure) => right(number(*figure)),
        Cell::Nothing => right("–".to_owned()),
    }
}

fn right(text: String) -> comfy_table::Cell {
    comfy_table::Cell::new(text).set_alignment(CellAlignment::Right)
}

/// About three significant digits, which is more than a shared machine gives.
fn number(figure: f64) -> String {
    let size = figure.abs();
    if !figure.is_finite() {
        "–".to_owned()
    } else if size >= 100.0 {
        let whole = grouped(size.round() as u64);
        if figure < 0.0 { format!("-{whole}") } else { whole }
    } else if size >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

/// Digits in groups of three.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::tests::sample, *};

    #[test]
    fn numbers_keep_three_digits_and_group_the_rest() {
        let cases = [
            (0.123, "0.12"),
            (12.34, "12.3"),
            (1_234.5, "1 235"),
            (-1_234_567.0, "-1 234 567"),
            (999.0, "999"),
            (f64::NAN, "–"),
        ];
        for (figure, text) in cases {
            assert_eq!(number(figure), text);
        }
        assert_eq!(grouped(1_000_000), "1 000 000");
    }

    #[test]
    fn the_text_has_units_figures_bars_and_notes() {
        let text = sample().to_string();
        for part in ["sample: A sample.", "µs/run", "1.50", "P0", "≤ 2.00", "gate", "- a note", "–"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
