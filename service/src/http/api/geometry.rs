//! The region of a request: a circle or rectangle of its parameters, or GeoJSON of its body.
//!
//! A document is parsed by its type, so that an error names the path of what is wrong.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use shoal_proto::v1::{self, region::Kind as RegionKind};

use super::call::Call;
use super::document::parse;
use super::param::{Kind, Param, Query};
use crate::http::limits::HTTP_REGION_BYTES_MAX;
use crate::http::problem::Problem;

/// Regions that a query string can state.
pub(super) const REGION: &[Param] = &[
    Param::new(
        "circle",
        Kind::Numbers(3),
        "X,Y,RADIUS: all points within RADIUS metres of a point",
    ),
    Param::new("rectangle", Kind::Numbers(4), "WEST,SOUTH,EAST,NORTH"),
];

/// x, then y: longitude, then latitude, or metres. Further numbers are ignored.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(inline)]
pub(super) struct Position(#[schemars(with = "Vec<f64>", length(min = 2))] [f64; 2]);

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Position;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a position: a list of two numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Position, A::Error> {
                let mut next = |count| {
                    let number = list.next_element()?;
                    number.ok_or_else(|| A::Error::invalid_length(count, &self))
                };
                let position = Position([next(0)?, next(1)?]);
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(position)
            }
        }
        deserializer.deserialize_seq(Numbers)
    }
}

/// A GeoJSON geometry that is a region (RFC 7946).
#[derive(Debug, JsonSchema)]
#[schemars(rename = "RegionGeometry", tag = "type")]
pub(super) enum Geometry {
    /// Rings; the first is usually the outline, further ones are holes.
    Polygon {
        /// The rings.
        coordinates: Vec<Vec<Position>>,
    },
    /// The union of polygons.
    MultiPolygon {
        /// The polygons.
        coordinates: Vec<Vec<Vec<Position>>>,
    },
}

/// A GeoJSON document that states one region.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "RegionDocument")]
#[allow(dead_code, reason = "only its schema is used: the type decides what is parsed")]
pub(super) enum RegionDocument {
    /// A geometry.
    Geometry(Geometry),
    /// A feature.
    Feature(TypedFeature),
    /// A collection of one feature.
    FeatureCollection(TypedCollection),
}

/// A feature whose geometry is the region.
#[derive(JsonSchema)]
#[schemars(rename = "RegionFeature")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct TypedFeature {
    r#type: FeatureType,
    #[serde(flatten)]
    feature: RegionFeature,
}

/// A collection of one feature.
#[derive(JsonSchema)]
#[schemars(rename = "RegionCollection")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct TypedCollection {
    r#type: CollectionType,
    #[schemars(length(equal = 1))]
    features: Vec<TypedFeature>,
}

/// The type of a feature.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize, JsonSchema)]
pub(super) enum FeatureType {
    /// A feature.
    Feature,
}

/// The type of a collection.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize, JsonSchema)]
pub(super) enum CollectionType {
    /// A collection.
    FeatureCollection,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct RegionFeature {
    /// Parsed when its type is known, so that an error in it has its path.
    #[schemars(with = "Geometry")]
    geometry: Box<RawValue>,
}

#[derive(Deserialize)]
struct RegionFeatures {
    features: Vec<RegionFeature>,
}

#[derive(Deserialize)]
struct Coordinates<T> {
    coordinates: T,
}

/// The type of a GeoJSON document; the rest is read when it is known.
#[derive(Deserialize)]
pub(super) struct Typed {
    pub(super) r#type: String,
}

/// A region, and the path of its geometry in its document.
struct Placed {
    kind: RegionKind,
    path: &'static str,
}

/// The region of a GeoJSON document.
fn region(bytes: &[u8]) -> Result<Placed, Problem> {
    let within = |RegionFeature { geometry }, path| {
        let kind = shape(geometry.get().as_bytes());
        kind.map(|kind| Placed { kind, path }).map_err(|problem| problem.under(path))
    };
    match parse::<Typed>(bytes)?.r#type.as_str() {
        "Feature" => within(parse(bytes)?, "geometry."),
        "FeatureCollection" => {
            let mut features = parse::<RegionFeatures>(bytes)?.features;
            if features.len() != 1 {
                let why = format!("{} features; give one", features.len());
                return Err(Problem::field("features", why));
            }
            within(features.remove(0), "features[0].geometry.")
        }
        _ => Ok(Placed { kind: shape(bytes)?, path: "" }),
    }
}

/// The region of a GeoJSON geometry.
///
/// # Errors
/// Names what is wrong.
pub(super) fn shape(bytes: &[u8]) -> Result<RegionKind, Problem> {
    let Typed { r#type } = parse(bytes)?;
    let geometry = match r#type.as_str() {
        "Polygon" => {
            let Coordinates { coordinates } = parse(bytes)?;
            Geometry::Polygon { coordinates }
        }
        "MultiPolygon" => {
            let Coordinates { coordinates } = parse(bytes)?;
            Geometry::MultiPolygon { coordinates }
        }
        other => {
            let why = format!("`{other}` is no region: give a Polygon or a MultiPolygon");
            return Err(Problem::field("type", why));
        }
    };
    Ok(geometry.into_kind())
}

impl Call {
    /// Like [`Call::region`], but a region is required.
    ///
    /// # Errors
    /// Names what is wrong or missing.
    pub(super) async fn required_region(&mut self) -> Result<v1::Region, Problem> {
        let region = self.region().await?;
        region.ok_or_else(|| Problem::field("circle", "give it or rectangle"))
    }

    /// The region of the body, or else of the query string.
    ///
    /// # Errors
    /// Names what is wrong.
    pub(super) async fn region(&mut self) -> Result<Option<v1::Region>, Problem> {
        if self.route.body.is_empty() {
            return of_query(&self.query);
        }
        self.media_type()?;
        let document = self.document(HTTP_REGION_BYTES_MAX).await?;
        let Placed { kind, path } = region(&document)?;
        self.region_path = path;
        Ok(Some(v1::Region { kind: Some(kind) }))
    }
}

/// The region of the query string, if there is one.
pub(super) fn of_query(query: &Query) -> Result<Option<v1::Region>, Problem> {
    let circle = query.numbers("circle").map(circle);
    let rectangle = query.numbers("rectangle").map(rectangle);
    match (circle, rectangle) {
        (Some(_), Some(_)) => Err(Problem::field("rectangle", "give it or circle, not both")),
        (circle, rectangle) => Ok(circle.or(rectangle).map(|kind| v1::Region { kind: Some(kind) })),
    }
}

pub(super) fn circle([x, y, radius_m]: [f64; 3]) -> RegionKind {
    RegionKind::Circle(v1::Circle { x, y, radius_m })
}

pub(super) fn rectangle([west, south, east, north]: [f64; 4]) -> RegionKind {
    RegionKind::Rectangle(v1::Rectangle { west, south, east, north })
}

impl Geometry {
    fn into_kind(self) -> RegionKind {
        match self {
            Self::Polygon { coordinates } => RegionKind::Polygon(polygon(&coordinates)),
            Self::MultiPolygon { coordinates } => {
                let polygons = coordinates.iter().map(|rings| polygon(rings)).collect();
                RegionKind::MultiPolygon(v1::MultiPolygon { polygons })
            }
        }
    }
}

fn polygon(rings: &[Vec<Position>]) -> v1::Polygon {
    let rings = rings.iter().map(|ring| v1::Ring {
        x: ring.iter().map(|Position([x, _])| *x).collect(),
        y: ring.iter().map(|Position([_, y])| *y).collect(),
    });
    v1::Polygon { rings: rings.collect() }
}
