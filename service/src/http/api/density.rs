//! Answers with squares of the map and the number of fixes in each.

use schemars::JsonSchema;
use serde::Serialize;
use shoal_proto::v1;

use super::answer::{Head, Message, Part, Writer};
use super::geometry::FeatureType;
use crate::json::PastHeaderJson;

/// Digits after the point of a coordinate: no space is finer.
const QUANTA: f64 = 1e7;

/// The header of an answer with squares.
#[derive(Debug)]
pub(super) struct DensityHead {
    header: v1::HistoryHeader,
    cell: f64,
}

/// Which version of the history an answer shows, and the size of its squares.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DensityHeader")]
pub(super) struct DensityHeaderJson {
    #[serde(flatten)]
    header: PastHeaderJson,
    /// The side of a square, in degrees, or metres in a planar fleet.
    cell: f64,
}

/// A square that has fixes during a step.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Square")]
pub(super) struct SquareJson {
    /// The first time of the step, Unix milliseconds.
    time_ms: i64,
    /// The square covers x from column * cell to (column + 1) * cell, without the upper end.
    column: i32,
    /// The same for y.
    row: i32,
    /// The least x of the square.
    x: f64,
    /// The least y of the square.
    y: f64,
    /// The number of fixes.
    fixes: u64,
}

/// A square as a GeoJSON Feature.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SquareFeature")]
pub(super) struct SquareFeature {
    r#type: FeatureType,
    geometry: Outline,
    properties: SquareJson,
}

/// The outline of a square.
#[derive(Serialize, JsonSchema)]
struct Outline {
    r#type: OutlineType,
    /// One ring: x, then y.
    coordinates: [[[f64; 2]; 5]; 1],
}

/// The type of an outline.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
enum OutlineType {
    /// A polygon.
    Polygon,
}

impl Head for DensityHead {
    fn json(&self) -> serde_json::Result<String> {
        let header = PastHeaderJson::from(&self.header);
        serde_json::to_string(&DensityHeaderJson { header, cell: self.cell })
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = self.header.headers();
        headers.push(("shoal-cell", self.cell.to_string()));
        headers
    }
}

impl Message for v1::DensityResponse {
    type Part = Self;
}

impl Part for v1::DensityResponse {
    type Header = DensityHead;

    fn take_header(&mut self) -> Option<DensityHead> {
        Some(DensityHead { header: self.header.take()?, cell: self.cell })
    }

    fn rows(&self) -> usize {
        self.time_ms.len()
    }

    fn write(&self, at: usize, header: &DensityHead, out: &mut Writer) -> serde_json::Result<()> {
        let (column, row) = (self.columns[at], self.rows[at]);
        let edge = |index: i64| (index as f64 * header.cell * QUANTA).round() / QUANTA;
        let (column_after, row_after) = (i64::from(column) + 1, i64::from(row) + 1);
        let (west, south) = (edge(column.into()), edge(row.into()));
        let (east, north) = (edge(column_after), edge(row_after));
        let (time_ms, fixes) = (self.time_ms[at], self.fixes[at]);
        let square = SquareJson { time_ms, column, row, x: west, y: south, fixes };
        out.row_or_feature(&square, || {
            let ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
            SquareFeature {
                r#type: FeatureType::Feature,
                geometry: Outline { r#type: OutlineType::Polygon, coordinates: [ring] },
                properties: square,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::api::answer::Form;

    #[test]
    fn squares_have_the_edges_of_their_cells() {
        let mut part = v1::DensityResponse {
            header: Some(v1::HistoryHeader::default()),
            cell: 0.1,
            time_ms: vec![5, 6],
            columns: vec![3, -1],
            rows: vec![-7, 0],
            fixes: vec![9, 1],
        };
        let head = part.take_header().unwrap();
        let mut lines = Writer::new(Form::Lines);
        let write = |out: &mut Writer| {
            (0..part.rows()).for_each(|row| part.write(row, &head, out).unwrap());
        };
        write(&mut lines);
        let text = String::from_utf8(lines.take()).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((first["x"].as_f64(), first["y"].as_f64()), (Some(0.3), Some(-0.7)));
        assert_eq!((first["fixes"].as_u64(), text.lines().count()), (Some(9), 2));
        let mut features = Writer::new(Form::GeoJson);
        write(&mut features);
        let list = format!("[{}]", String::from_utf8(features.take()).unwrap());
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let ring = &list[1]["geometry"]["coordinates"][0];
        let expected = [[-0.1, 0.0], [0.0, 0.0], [0.0, 0.1], [-0.1, 0.1], [-0.1, 0.0]];
        assert_eq!(*ring, serde_json::json!(expected));
        assert_eq!(list[1]["properties"]["column"], -1);
    }
}
