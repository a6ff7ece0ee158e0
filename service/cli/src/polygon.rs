//! Reads the region that a GeoJSON document describes.
//!
//! Takes a Polygon or MultiPolygon, bare, in a Feature, or in a FeatureCollection of one. Rings are
//! sent unchanged (either winding, closed or not); the server validates them. Coordinates after the
//! second are ignored, as RFC 7946 allows.

use std::io::Read as _;

use geojson::{Feature, GeoJson, Geometry, GeometryValue, Position};
use shoal_client::v1::{self, region::Kind};
use shoal_service::file_watch::without_mark;

use super::error::CliError;

/// The largest document that is read, in bytes: 4,096 vertices need far less.
pub const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// Reads `file`, or standard input for `-`.
///
/// # Errors
/// [`CliError::Input`] if it cannot be read, is too large, or does not hold exactly one polygon.
pub fn read(file: &str) -> Result<Kind, CliError> {
    let wrong = |reason: String| CliError::Input { file: file.to_owned(), reason };
    let mut text = String::new();
    let bytes = if file == "-" {
        std::io::stdin().take(DOCUMENT_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        let opened = std::fs::File::open(file).map_err(|error| wrong(error.to_string()))?;
        opened.take(DOCUMENT_BYTES_MAX + 1).read_to_string(&mut text)
    };
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    if bytes as u64 > DOCUMENT_BYTES_MAX {
        return Err(wrong(format!("longer than {DOCUMENT_BYTES_MAX} bytes")));
    }
    parse(&without_mark(text)).map_err(wrong)
}

/// The polygon or multipolygon in `text`, as a kind of region.
///
/// # Errors
/// Names what was found instead.
pub fn parse(text: &str) -> Result<Kind, String> {
    let document: GeoJson = text.parse().map_err(|error| format!("not GeoJSON: {error}"))?;
    let geometry = match document {
        GeoJson::Geometry(geometry) => geometry,
        GeoJson::Feature(feature) => of_feature(feature)?,
        GeoJson::FeatureCollection(collection) => {
            let count = collection.features.len();
            let mut features = collection.features.into_iter();
            match (features.next(), count) {
                (Some(feature), 1) => of_feature(feature)?,
                _ => return Err(format!("{count} features; give one")),
            }
        }
    };
    match geometry.value {
        GeometryValue::Polygon { coordinates } => to_polygon(&coordinates).map(Kind::Polygon),
        GeometryValue::MultiPolygon { coordinates } => {
            let polygons = coordinates.iter().map(|rings| to_polygon(rings));
            let polygons = polygons.collect::<Result<_, _>>()?;
            Ok(Kind::MultiPolygon(v1::MultiPolygon { polygons }))
        }
        other => Err(format!("a {}; give a Polygon or a MultiPolygon", other.type_name())),
    }
}

fn to_polygon(rings: &[Vec<Position>]) -> Result<v1::Polygon, String> {
    let rings = rings.iter().map(|ring| to_ring(ring)).collect::<Result<_, _>>()?;
    Ok(v1::Polygon { rings })
}

fn of_feature(feature: Feature) -> Result<Geometry, String> {
    feature.geometry.ok_or_else(|| "a feature without geometry".to_owned())
}

fn to_ring(positions: &[Position]) -> Result<v1::Ring, String> {
    let mut ring = v1::Ring::default();
    for position in positions {
        match position.as_slice() {
            [x, y, ..] => {
                ring.x.push(*x);
                ring.y.push(*y);
            }
            short => {
                return Err(format!("a position of {} numbers; it needs two", short.len()));
            }
        }
    }
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: &str = "[[-1,0],[1,0,5],[0,1.5],[-1,0]]";

    #[test]
    fn polygons_are_taken_bare_in_a_feature_and_in_a_collection_of_one() {
        let bare = format!(r#"{{"type":"Polygon","coordinates":[{RING}]}}"#);
        let feature = format!(r#"{{"type":"Feature","properties":null,"geometry":{bare}}}"#);
        let one = format!(r#"{{"type":"FeatureCollection","features":[{feature}]}}"#);
        let multi = format!(r#"{{"type":"MultiPolygon","coordinates":[[{RING}],[{RING}]]}}"#);
        let ring = v1::Ring { x: vec![-1.0, 1.0, 0.0, -1.0], y: vec![0.0, 0.0, 1.5, 0.0] };
        let polygon = v1::Polygon { rings: vec![ring] };
        for text in [&bare, &feature, &one] {
            assert_eq!(parse(text).unwrap(), Kind::Polygon(polygon.clone()), "{text}");
        }
        let union = v1::MultiPolygon { polygons: vec![polygon.clone(), polygon] };
        assert_eq!(parse(&multi).unwrap(), Kind::MultiPolygon(union));
        let two = format!(r#"{{"type":"FeatureCollection","features":[{feature},{feature}]}}"#);
        assert!(parse(&two).unwrap_err().contains("2 features"));
    }

    #[test]
    fn everything_else_is_named() {
        let point = r#"{"type":"Point","coordinates":[1,2]}"#;
        assert!(parse(point).unwrap_err().contains("Point"));
        let empty = r#"{"type":"Feature","properties":null,"geometry":null}"#;
        assert!(parse(empty).unwrap_err().contains("without geometry"));
        for bad in ["", "{", "[1,2]", r#"{"type":"Polygon"}"#] {
            assert!(!parse(bad).unwrap_err().is_empty(), "{bad}");
        }
        let folder = tempfile::tempdir().unwrap();
        let marked = folder.path().join("marked.geojson");
        let polygon = format!(r#"{{"type":"Polygon","coordinates":[{RING}]}}"#);
        std::fs::write(&marked, ["\u{feff}", &polygon].concat()).unwrap();
        assert_eq!(read(&marked.display().to_string()).unwrap(), parse(&polygon).unwrap());
        let missing = read("no-such-file.geojson").unwrap_err();
        assert!(missing.to_string().contains("no-such-file.geojson"));
    }
}
