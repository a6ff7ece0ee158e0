//! The answer as a GeoJSON FeatureCollection (RFC 7946): one Point a row, attributes as properties.
//!
//! Only for geographic fleets; the caller checks. The header is the foreign member `shoal`, which
//! readers of GeoJSON skip.

use std::io::{self, Write};

use shoal_client::{AnswerRow, v1};
use shoal_service::json::{FeatureJson, HeaderJson};

use super::writer::AnswerWriter;

/// Writes one FeatureCollection, each feature on its own line.
#[derive(Clone, Debug, Default)]
pub struct GeoJsonWriter {
    clock_ms: i64,
    rows: u64,
}

impl AnswerWriter for GeoJsonWriter {
    fn begin(&mut self, header: &v1::AnswerHeader, out: &mut dyn Write) -> io::Result<()> {
        self.clock_ms = header.clock_ms;
        let header = serde_json::to_string(&HeaderJson::from(header))?;
        write!(out, r#"{{"type":"FeatureCollection","shoal":{header},"features":["#)
    }

    fn rows(&mut self, rows: Vec<AnswerRow>, out: &mut dyn Write) -> io::Result<()> {
        for row in &rows {
            out.write_all(if self.rows == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &FeatureJson::new(row, self.clock_ms))?;
            self.rows += 1;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows > 0 {
            writeln!(out)?;
        }
        writeln!(out, "]}}")
    }
}

#[cfg(test)]
mod tests {
    use geojson::FeatureCollection;

    use super::*;

    #[test]
    fn what_is_written_reads_back_as_geojson() {
        let header = v1::AnswerHeader { fleet: "default".to_owned(), ..Default::default() };
        let fix = v1::FixRecord { x: -97.5, y: 30.25, ..Default::default() };
        let row = AnswerRow { object: 7, fix: Some(fix), ..AnswerRow::default() };
        for rows in [vec![], vec![row.clone()], vec![row.clone(), row]] {
            let (count, mut out) = (rows.len(), Vec::new());
            let mut writer = GeoJsonWriter::default();
            writer.begin(&header, &mut out).unwrap();
            writer.rows(rows, &mut out).unwrap();
            writer.end(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let read: FeatureCollection = text.parse().unwrap();
            assert_eq!(read.features.len(), count);
            for feature in &read.features {
                assert_eq!(feature.property("object").unwrap(), "7");
            }
            assert!(read.foreign_members.unwrap().contains_key("shoal"));
        }
    }
}
