//! An answer's rows as GeoJSON: one Point for each row, with the attributes as properties.

use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::{AnswerRow, v1};

use super::answer::RowJson;

/// A row as a GeoJSON Feature (RFC 7946).
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FeatureJson")]
pub struct FeatureJson<P = RowJson> {
    r#type: FeatureType,
    /// The object.
    id: String,
    geometry: Option<PointJson>,
    properties: P,
}

/// A position, longitude first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Point")]
struct PointJson {
    r#type: PointType,
    coordinates: [f64; 2],
}

/// The type of a feature.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
enum FeatureType {
    /// A feature.
    Feature,
}

/// The type of a point.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
enum PointType {
    /// A point.
    Point,
}

impl FeatureJson {
    /// `row` with its age at a clock.
    #[must_use]
    pub fn new(row: &AnswerRow, clock_ms: i64) -> Self {
        Self::with_properties(row, RowJson::new(row, clock_ms))
    }
}

impl<P> FeatureJson<P> {
    /// Object and position of `row` with these properties.
    #[must_use]
    pub fn with_properties(row: &AnswerRow, properties: P) -> Self {
        let point = |fix: &v1::FixRecord| PointJson {
            r#type: PointType::Point,
            coordinates: [fix.x, fix.y],
        };
        Self {
            r#type: FeatureType::Feature,
            id: row.label().into_owned(),
            geometry: row.fix.as_ref().map(point),
            properties,
        }
    }
}
