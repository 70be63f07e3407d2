//! The report as JSON: the same rows, each an object keyed by column title; the columns keep their order and
//! units in a list of their own.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Cell, Report};

impl Report {
    /// The whole report as one JSON value.
    pub(crate) fn json(&self) -> Value {
        let columns: Vec<Value> =
            self.columns.iter().map(|column| json!({ "title": column.title, "unit": column.unit })).collect();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                self.columns
                    .iter()
                    .zip(row)
                    .map(|(column, cell)| (column.title.to_owned(), value(cell)))
                    .collect()
            })
            .collect();
        let bars: Vec<Value> = self
            .bars
            .iter()
            .map(|bar| {
                json!({
                    "bar": bar.code, "what": bar.what, "measured": bar.measured, "peer": bar.peer, "unit": bar.unit,
                    "sign": bar.limit.sign(), "aim": bar.limit.aim(), "gate": bar.limit.gate(),
                    "reached": bar.verdict().word(),
                })
            })
            .collect();
        json!({
            "suite": self.suite, "title": self.title, "machine": self.machine,
            "columns": columns, "rows": rows, "bars": bars, "notes": self.notes,
        })
    }

    /// Writes the JSON to `path`, making its folder where it is missing.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(&self.json()).context("cannot encode the report")?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write the report to {}", path.display()))
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Count(count) => (*count).into(),
        Cell::Figure(figure) => (*figure).into(),
        Cell::Nothing => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    #[test]
    fn rows_are_objects_by_title_and_columns_keep_their_order() {
        let json = sample().json();
        assert_eq!(json["rows"][0]["wall"], 1.5);
        assert_eq!(json["rows"][1]["wall"], serde_json::Value::Null);
        assert_eq!(json["columns"][2], serde_json::json!({ "title": "wall", "unit": "µs/run" }));
        assert_eq!(json["bars"][0]["reached"], "gate");
    }
}
