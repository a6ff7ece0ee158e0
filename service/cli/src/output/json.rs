//! The answer as one JSON document: header first, then each row on its own line.
//!
//! Ids and terms are strings, because JavaScript and jq round 64-bit numbers. Every row has the
//! same keys; unknown attributes are null. Rows are written as they arrive.

use std::io::{self, Write};

use shoal_client::{AnswerRow, v1};
use shoal_service::json::{HeaderJson, RowJson};

use super::writer::AnswerWriter;

/// Writes `{header..., "rows": [...]}`; without `rows` for a count.
#[derive(Clone, Debug)]
pub struct JsonWriter {
    count_only: bool,
    clock_ms: i64,
    rows: u64,
}

impl JsonWriter {
    /// A writer; `count_only` leaves the rows out.
    #[must_use]
    pub fn new(count_only: bool) -> Self {
        Self { count_only, clock_ms: 0, rows: 0 }
    }
}

impl AnswerWriter for JsonWriter {
    fn begin(&mut self, header: &v1::AnswerHeader, out: &mut dyn Write) -> io::Result<()> {
        self.clock_ms = header.clock_ms;
        let text = serde_json::to_string(&HeaderJson::from(header))?;
        if self.count_only {
            return write!(out, "{text}");
        }
        write!(out, "{},\"rows\":[", text.trim_end_matches('}'))
    }

    fn rows(&mut self, rows: Vec<AnswerRow>, out: &mut dyn Write) -> io::Result<()> {
        for row in &rows {
            out.write_all(if self.rows == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &RowJson::new(row, self.clock_ms))?;
            self.rows += 1;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (self.count_only, self.rows) {
            (true, _) => writeln!(out),
            (false, 0) => writeln!(out, "]}}"),
            (false, _) => writeln!(out, "\n]}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn written(mut writer: JsonWriter, rows: Vec<AnswerRow>) -> Value {
        let header = v1::AnswerHeader {
            fleet: "a}".to_owned(),
            term: u64::MAX,
            clock_ms: 5_000,
            total: 2,
            ..Default::default()
        };
        let mut out = Vec::new();
        writer.begin(&header, &mut out).unwrap();
        if !writer.count_only {
            writer.rows(rows, &mut out).unwrap();
            writer.rows(Vec::new(), &mut out).unwrap();
        }
        writer.end(&mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn documents_are_json_with_ids_as_strings_and_unknown_as_null() {
        let fix = v1::FixRecord { time_ms: 2_000, x: -97.5, y: 30.0, ..Default::default() };
        let row = AnswerRow { object: u64::MAX - 1, fix: Some(fix), ..AnswerRow::default() };
        let id_only = AnswerRow { object: 7, distance_m: Some(1.5), ..AnswerRow::default() };
        let document = written(JsonWriter::new(false), vec![row, id_only]);
        assert_eq!(document["term"], "18446744073709551615");
        assert_eq!(document["rows"][0]["object"], "18446744073709551614");
        assert_eq!(document["rows"][0]["age_ms"], 3_000);
        assert_eq!(document["rows"][0]["x"], -97.5);
        assert_eq!(document["rows"][0]["speed_mps"], Value::Null);
        assert_eq!(document["rows"][1]["distance_m"], 1.5);
        assert_eq!(document["rows"][1].as_object().unwrap().len(), 2);
        assert_eq!(written(JsonWriter::new(false), Vec::new())["rows"], serde_json::json!([]));
        let count = written(JsonWriter::new(true), Vec::new());
        assert_eq!((count["total"].as_u64(), count.get("rows")), (Some(2), None));
    }
}
