//! Fixes of the past: a table for people, ids, CSV, JSON or GeoJSON for programs.
//!
//! Everything but the table is written as it arrives. A table shows the first rows and counts the
//! others.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::{Value, json};
use shoal_client::{AnswerRow, v1};
use shoal_service::json::{FeatureJson, PastHeaderJson, RowJson};
use shoal_service::timestamp::rfc3339;

use super::table::{columns, table_text};
use crate::query::TABLE_ROWS;

/// The form in which fixes of the past are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastForm {
    /// A table for people.
    Table,
    /// One id a line.
    Ids,
    /// A header and one fix a line.
    Csv,
    /// One JSON document, each fix on its own line.
    Json,
    /// A GeoJSON FeatureCollection.
    GeoJson,
}

/// Writes one answer.
#[derive(Debug)]
pub struct PastWriter {
    form: PastForm,
    is_geographic: bool,
    header: v1::HistoryHeader,
    /// Reference time of ages, Unix milliseconds.
    now_ms: i64,
    /// Rows of a table.
    shown: Vec<AnswerRow>,
    rows: u64,
}

impl PastWriter {
    /// Begins the output, with ages at `now_ms`, by default the clock of the header.
    ///
    /// # Errors
    /// Whatever writing gives.
    pub fn begin(
        form: PastForm,
        is_geographic: bool,
        header: v1::HistoryHeader,
        now_ms: Option<i64>,
        out: &mut dyn Write,
    ) -> io::Result<Self> {
        let now_ms = now_ms.unwrap_or(header.clock_ms);
        match form {
            PastForm::Table | PastForm::Ids => {}
            PastForm::Csv => {
                let position = if is_geographic { "lon,lat" } else { "x,y" };
                writeln!(out, "object_id,t_ms,{position},speed,heading,altitude,state,valid_s")?;
            }
            PastForm::Json => {
                let text = header_json(&header).to_string();
                write!(out, "{},\"rows\":[", text.trim_end_matches('}'))?;
            }
            PastForm::GeoJson => {
                let header = header_json(&header);
                write!(out, r#"{{"type":"FeatureCollection","shoal":{header},"features":["#)?;
            }
        }
        Ok(Self { form, is_geographic, header, now_ms, shown: Vec::new(), rows: 0 })
    }

    /// Takes the next rows.
    ///
    /// # Errors
    /// Whatever writing gives.
    pub fn rows(
        &mut self,
        rows: impl Iterator<Item = AnswerRow>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for row in rows {
            self.row(row, out)?;
            self.rows += 1;
        }
        Ok(())
    }

    fn row(&mut self, row: AnswerRow, out: &mut dyn Write) -> io::Result<()> {
        let between: &[u8] = if self.rows == 0 { b"\n" } else { b",\n" };
        match self.form {
            PastForm::Table if self.rows < TABLE_ROWS => self.shown.push(row),
            PastForm::Table => {}
            PastForm::Ids => writeln!(out, "{}", row.label())?,
            PastForm::Csv => write_csv(&row, out)?,
            PastForm::Json => {
                out.write_all(between)?;
                serde_json::to_writer(out, &RowJson::new(&row, self.now_ms))?;
            }
            PastForm::GeoJson => {
                out.write_all(between)?;
                serde_json::to_writer(out, &FeatureJson::new(&row, self.now_ms))?;
            }
        }
        Ok(())
    }

    /// Completes the output.
    ///
    /// # Errors
    /// Whatever writing gives.
    pub fn end(self, out: &mut dyn Write) -> io::Result<()> {
        match self.form {
            PastForm::Ids | PastForm::Csv => Ok(()),
            PastForm::Json | PastForm::GeoJson => {
                writeln!(out, "{}]}}", if self.rows > 0 { "\n" } else { "" })
            }
            PastForm::Table => self.write_table(out),
        }
    }

    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let v1::HistoryHeader { epoch, clock_ms, .. } = self.header;
        if !self.shown.is_empty() {
            let columns = columns(self.is_geographic, &self.shown);
            writeln!(out, "{}", table_text(&columns, &self.shown, self.now_ms))?;
        }
        let fixes = if self.rows == 1 { "fix" } else { "fixes" };
        write!(out, "{} {fixes} of the history up to epoch {epoch}", self.rows)?;
        if clock_ms != 0 {
            write!(out, ", clock {}", rfc3339(clock_ms))?;
        }
        if let Some(from_ms) = self.header.kept_from_ms {
            write!(out, ", kept from {} on", rfc3339(from_ms))?;
        }
        for gap in &self.header.gaps {
            write!(out, "; it lacks {}", gap_text(gap))?;
        }
        if self.rows > TABLE_ROWS {
            write!(out, "; {TABLE_ROWS} shown, --csv or --json writes all")?;
        }
        writeln!(out)
    }
}

/// A gap for people.
pub(super) fn gap_text(gap: &v1::HistoryGap) -> String {
    let v1::HistoryGap { first_epoch, last_epoch, from_ms, to_ms } = *gap;
    let from = from_ms.map_or_else(|| "the beginning".to_owned(), rfc3339);
    format!("epochs {first_epoch} to {last_epoch}, {from} to {}", rfc3339(to_ms))
}

/// The header as a value.
pub(crate) fn header_json(header: &v1::HistoryHeader) -> Value {
    json!(PastHeaderJson::from(header))
}

/// Unknown measures are empty.
fn write_csv(row: &AnswerRow, out: &mut dyn Write) -> io::Result<()> {
    let fix = row.fix.unwrap_or_default();
    let v1::FixRecord { time_ms, x, y, speed_mps, heading_deg, altitude_m, state, valid_s } = fix;
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let (speed, heading, altitude) = (text(speed_mps), text(heading_deg), text(altitude_m));
    let validity = text(valid_s);
    let object = row.label();
    let object = csv_field(&object);
    writeln!(out, "{object},{time_ms},{x},{y},{speed},{heading},{altitude},{state},{validity}")
}

/// A text as a field of CSV (RFC 4180): quoted if a reader could take it for something else.
fn csv_field(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !matches!(c, ',' | ';' | '"' | '\t' | '|');
    let has_ends = |c: char| !c.is_whitespace();
    if text.chars().all(is_plain) && text.starts_with(has_ends) && text.ends_with(has_ends) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: PastForm, rows: &[AnswerRow]) -> String {
        let header = v1::HistoryHeader {
            fleet: "a}".into(),
            epoch: 7,
            clock_ms: 5_000,
            ..v1::HistoryHeader::default()
        };
        let mut out = Vec::new();
        let mut writer = PastWriter::begin(form, true, header, None, &mut out).unwrap();
        writer.rows(rows.iter().cloned(), &mut out).unwrap();
        writer.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_form_has_all_fixes() {
        let fix = v1::FixRecord { time_ms: 2_000, x: -97.5, y: 30.0, ..Default::default() };
        let fix = v1::FixRecord { speed_mps: Some(1.5), state: 3, ..fix };
        let row = AnswerRow { object: u64::MAX - 1, fix: Some(fix), ..AnswerRow::default() };
        for count in [0, 1, 2] {
            let rows = vec![row.clone(); count];
            for (form, list) in [(PastForm::Json, "rows"), (PastForm::GeoJson, "features")] {
                let document: Value = serde_json::from_str(&written(form, &rows)).unwrap();
                assert_eq!(document[list].as_array().unwrap().len(), count);
            }
            assert_eq!(written(PastForm::Ids, &rows).lines().count(), count);
            let csv = written(PastForm::Csv, &rows);
            assert!(
                csv.starts_with("object_id,t_ms,lon,lat,speed,heading,altitude,state,valid_s\n")
            );
            let line = "18446744073709551614,2000,-97.5,30,1.5,,,3,";
            assert!(csv.lines().skip(1).eq(std::iter::repeat_n(line, count)), "{csv}");
            assert!(written(PastForm::Table, &rows).contains("up to epoch 7"));
        }
        let json: Value = serde_json::from_str(&written(PastForm::Json, &[row])).unwrap();
        assert_eq!((&json["fleet"], &json["rows"][0]["age_ms"]), (&json!("a}"), &json!(3_000)));
    }

    #[test]
    fn a_long_table_names_what_it_leaves_out() {
        let rows = vec![AnswerRow { object: 7, fix: None, ..AnswerRow::default() }; 1_001];
        let text = written(PastForm::Table, &rows);
        assert!(text.contains("1001 fixes") && text.contains("1000 shown"), "{text}");
    }
}
