//! The region of a request: a circle or rectangle of its parameters, or GeoJSON of its body.
//!
//! A document is parsed by its type, so that an error names the path of what is wrong.

use schemars::JsonSchema;
use serde::Deserialize;
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
type Position = Vec<f64>;

/// A GeoJSON geometry that is a region (RFC 7946).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(rename = "RegionGeometry")]
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
    geometry: Geometry,
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

/// The geometry of a document.
fn geometry(bytes: &[u8]) -> Result<Geometry, Problem> {
    let Typed { r#type } = parse(bytes)?;
    Ok(match r#type.as_str() {
        "Polygon" => {
            let Coordinates { coordinates } = parse(bytes)?;
            Geometry::Polygon { coordinates }
        }
        "MultiPolygon" => {
            let Coordinates { coordinates } = parse(bytes)?;
            Geometry::MultiPolygon { coordinates }
        }
        "Feature" => parse::<RegionFeature>(bytes)?.geometry,
        "FeatureCollection" => {
            let mut features = parse::<RegionFeatures>(bytes)?.features;
            if features.len() != 1 {
                let why = format!("{} features; give one", features.len());
                return Err(Problem::field("features", why));
            }
            features.remove(0).geometry
        }
        other => {
            let why = format!("`{other}` is no region: give a Polygon or a MultiPolygon");
            return Err(Problem::field("type", why));
        }
    })
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
        let kind = geometry(&document)?.into_kind();
        let kind = kind.map_err(|why| Problem::field("coordinates", why))?;
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
    /// The region.
    ///
    /// # Errors
    /// Names a position with fewer than two numbers.
    pub(super) fn into_kind(self) -> Result<RegionKind, String> {
        match self {
            Self::Polygon { coordinates } => polygon(&coordinates).map(RegionKind::Polygon),
            Self::MultiPolygon { coordinates } => {
                let polygons = coordinates.iter().map(|rings| polygon(rings));
                let polygons = polygons.collect::<Result<_, _>>()?;
                Ok(RegionKind::MultiPolygon(v1::MultiPolygon { polygons }))
            }
        }
    }
}

fn polygon(rings: &[Vec<Position>]) -> Result<v1::Polygon, String> {
    let rings = rings.iter().map(|ring| {
        let mut converted = v1::Ring::default();
        for position in ring {
            let [x, y, ..] = position[..] else {
                return Err(format!("a position of {} numbers; it needs two", position.len()));
            };
            converted.x.push(x);
            converted.y.push(y);
        }
        Ok(converted)
    });
    Ok(v1::Polygon { rings: rings.collect::<Result<_, _>>()? })
}
