//! The answer as a table for people.
//!
//! Columns without values are left out. Widths depend on all rows, so rows are held until the end;
//! the default limit bounds their number.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use shoal_client::{AnswerRow, v1};
use shoal_service::timestamp::{age, rfc3339};
use shoal_table::printable;

use super::writer::AnswerWriter;
use crate::measures::MEASURE_COLUMNS;

/// An empty table in the style of this program; columns that are not in `left` are right-aligned.
#[must_use]
pub fn plain_table(header: &[&str], left: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    for (index, name) in header.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
            if !left.contains(name) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// One possible column: its name, and its text in a row.
pub type OutputColumn = (&'static str, fn(&AnswerRow, i64) -> Option<String>);

/// Collects rows and writes one table.
#[derive(Clone, Debug)]
pub struct TableWriter {
    geographic: bool,
    header: v1::AnswerHeader,
    rows: Vec<AnswerRow>,
}

impl TableWriter {
    /// A writer for a fleet whose space is `geographic` or planar.
    #[must_use]
    pub fn new(geographic: bool) -> Self {
        Self { geographic, header: v1::AnswerHeader::default(), rows: Vec::new() }
    }
}

/// The columns of rows that have a value.
pub(super) fn columns(geographic: bool, rows: &[AnswerRow]) -> Vec<OutputColumn> {
    let position: [OutputColumn; 2] = if geographic {
        [
            ("lon", |row, _| row.fix.as_ref().map(|fix| format!("{:.7}", fix.x))),
            ("lat", |row, _| row.fix.as_ref().map(|fix| format!("{:.7}", fix.y))),
        ]
    } else {
        [
            ("x m", |row, _| row.fix.as_ref().map(|fix| format!("{:.2}", fix.x))),
            ("y m", |row, _| row.fix.as_ref().map(|fix| format!("{:.2}", fix.y))),
        ]
    };
    let mut columns: Vec<OutputColumn> =
        vec![("object", |row, _| Some(printable(&row.label()).into_owned()))];
    columns.extend(position.iter().chain(&TIME).chain(MEASURE_COLUMNS).chain(&LAST));
    columns.retain(|(_, text)| rows.iter().any(|row| text(row, 0).is_some()));
    columns
}

/// Rows as a table, with ages at a clock.
pub(super) fn table_text(columns: &[OutputColumn], rows: &[AnswerRow], clock_ms: i64) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut table = plain_table(&names, &["time"]);
    for row in rows {
        let cell = |(_, text): &OutputColumn| text(row, clock_ms);
        table.add_row(columns.iter().map(|column| cell(column).unwrap_or_default()));
    }
    table.trim_fmt()
}

const TIME: [OutputColumn; 2] = [
    ("time", |row, _| row.fix.as_ref().map(|fix| rfc3339(fix.time_ms))),
    ("age", |row, clock_ms| row.fix.as_ref().map(|fix| age(clock_ms.saturating_sub(fix.time_ms)))),
];

/// Columns after the measures.
const LAST: [OutputColumn; 2] = [
    ("state", |row, _| {
        let state = row.fix.as_ref()?.state;
        (state != 0).then(|| format!("0x{state:x}"))
    }),
    ("distance m", |row, _| row.distance_m.map(|metres| format!("{metres:.2}"))),
];

impl AnswerWriter for TableWriter {
    fn begin(&mut self, header: &v1::AnswerHeader, _out: &mut dyn Write) -> io::Result<()> {
        self.header = header.clone();
        Ok(())
    }

    fn rows(&mut self, rows: Vec<AnswerRow>, _out: &mut dyn Write) -> io::Result<()> {
        self.rows.extend(rows);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.rows.is_empty() {
            let columns = columns(self.geographic, &self.rows);
            writeln!(out, "{}", table_text(&columns, &self.rows, self.header.clock_ms))?;
        }
        let header = &self.header;
        let objects = if header.total == 1 { "object" } else { "objects" };
        write!(out, "{} {objects} at epoch {}", header.total, header.epoch)?;
        if header.clock_ms != 0 {
            write!(out, ", clock {}", rfc3339(header.clock_ms))?;
        }
        if header.truncated {
            write!(out, "; {} shown, --limit 0 shows all", self.rows.len())?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_values_are_left_out() {
        let fix = v1::FixRecord {
            time_ms: 1_480_140_066_000,
            x: -97.5,
            y: 30.0,
            speed_mps: Some(4.25),
            ..Default::default()
        };
        let header = v1::AnswerHeader {
            clock_ms: 1_480_140_067_500,
            total: 9,
            truncated: true,
            ..Default::default()
        };
        let mut out = Vec::new();
        let mut writer = TableWriter::new(true);
        writer.begin(&header, &mut out).unwrap();
        writer
            .rows(vec![AnswerRow { object: 7, fix: Some(fix), ..AnswerRow::default() }], &mut out)
            .unwrap();
        writer.end(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let head: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(head, ["object", "lon", "lat", "time", "age", "speed", "m/s"], "{text}");
        assert!(text.contains("2016-11-26T06:01:06.000Z") && text.contains("1.500s"), "{text}");
        assert!(text.contains("9 objects at epoch 0") && text.contains("1 shown"), "{text}");
    }
}
