//! The answer as a GeoJSON FeatureCollection (RFC 7946): one Point a row, attributes as properties.
//!
//! Only for geographic fleets; the caller checks. The header is the foreign member `shoal`, which
//! readers of GeoJSON skip.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::{AnswerRow, v1};

use super::json::{HeaderJson, RowJson};
use super::writer::AnswerWriter;

/// A row as a GeoJSON Feature.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FeatureJson {
    r#type: FeatureType,
    /// The object.
    id: String,
    geometry: Option<PointJson>,
    properties: RowJson,
}

/// A position, longitude first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Point")]
pub(super) struct PointJson {
    pub(super) r#type: PointType,
    pub(super) coordinates: [f64; 2],
}

/// The type of a feature.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) enum FeatureType {
    /// A feature.
    Feature,
}

/// The type of a point.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) enum PointType {
    /// A point.
    Point,
}

impl FeatureJson {
    /// `row` with its age at a clock.
    #[must_use]
    pub fn new(row: &AnswerRow, clock_ms: i64) -> Self {
        let coordinates = row.fix.as_ref().map(|fix| [fix.x, fix.y]);
        let point = |coordinates| PointJson { r#type: PointType::Point, coordinates };
        Self {
            r#type: FeatureType::Feature,
            id: row.label().into_owned(),
            geometry: coordinates.map(point),
            properties: RowJson::new(row, clock_ms),
        }
    }
}

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
