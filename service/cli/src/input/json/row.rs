//! The members of one JSON object by their paths, and its position if that is a GeoJSON point.

use serde_json::{Map, Value as Json};

use crate::input::value::{NESTED, Value};

/// Maximum bytes of the path of a member that is read.
const PATH_BYTES_MAX: usize = 256;

/// A GeoJSON geometry of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Geometry {
    /// The path of its member.
    pub(super) name: String,
    /// x, y and perhaps z, or why it is no point.
    pub(super) point: Result<Point, String>,
}

/// A position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: Option<f64>,
}

/// The members of an object that have one value, nested ones with their path, as in `position.lat`.
/// The properties of a GeoJSON feature are members of the feature.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonRow<'json> {
    pub(super) members: Vec<(String, &'json Json)>,
    pub(super) geometry: Option<Geometry>,
}

impl<'json> JsonRow<'json> {
    pub(super) fn of(object: &'json Map<String, Json>) -> Self {
        let mut row = Self::default();
        if object.get("type").and_then(Json::as_str) == Some("Feature") {
            if object.get("geometry").is_some_and(Json::is_null) {
                let point = Err("the feature has no geometry".to_owned());
                row.geometry = Some(Geometry { name: "geometry".to_owned(), point });
            }
            if let Some(Json::Object(properties)) = object.get("properties") {
                row.add("", properties);
            }
            let outside =
                object.iter().filter(|(name, _)| *name != "properties" && *name != "type");
            for (name, value) in outside {
                row.add_member(name.clone(), value);
            }
        } else {
            row.add("", object);
        }
        row
    }

    fn add(&mut self, prefix: &str, object: &'json Map<String, Json>) {
        for (name, value) in object {
            self.add_member(format!("{prefix}{name}"), value);
        }
    }

    fn add_member(&mut self, path: String, value: &'json Json) {
        match value {
            // A name that no one gives, and memory for each member below it.
            _ if path.len() > PATH_BYTES_MAX => {}
            Json::Object(object) if is_geometry(object) => {
                self.geometry.get_or_insert_with(|| Geometry { name: path, point: point(object) });
            }
            Json::Object(object) => self.add(&format!("{path}."), object),
            value => self.members.push((path, value)),
        }
    }

    /// Adds the members of the object around the row that it has not itself.
    pub(super) fn add_around(&mut self, around: &'json [(String, Json)]) {
        for (name, json) in around {
            if self.value(name).is_none() {
                self.members.retain(|(member, _)| member != name);
                self.members.push((name.clone(), json));
            }
        }
    }

    /// The value of a member; `None` if it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<Value<'json>> {
        let (_, json) = self.members.iter().find(|(path, _)| path == name)?;
        match json {
            Json::Null => None,
            Json::Number(number) => Some(match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Value::Integer(integer),
                (None, Some(integer)) => Value::Natural(integer),
                (None, None) => Value::Real(number.as_f64().unwrap_or(f64::NAN)),
            }),
            Json::String(text) => Some(Value::Bytes(text.as_bytes())),
            Json::Bool(true) => Some(Value::Bytes(b"true")),
            Json::Bool(false) => Some(Value::Bytes(b"false")),
            Json::Array(_) | Json::Object(_) => Some(Value::Bytes(NESTED)),
        }
    }
}

fn is_geometry(object: &Map<String, Json>) -> bool {
    object.contains_key("coordinates") && object.get("type").is_some_and(Json::is_string)
}

fn point(geometry: &Map<String, Json>) -> Result<Point, String> {
    let kind = geometry.get("type").and_then(Json::as_str).unwrap_or_default();
    let mut coordinates = geometry.get("coordinates").and_then(Json::as_array);
    // Programs that write columns of one type have points as lists of one point.
    if let ("MultiPoint", Some([Json::Array(point)])) = (kind, coordinates.map(Vec::as_slice)) {
        coordinates = Some(point);
    } else if kind != "Point" {
        return Err(format!("a {kind} is no position, which is a Point"));
    }
    let numbers: Option<Vec<f64>> =
        coordinates.and_then(|list| list.iter().map(Json::as_f64).collect());
    match numbers.as_deref() {
        Some([x, y, rest @ ..]) => Ok(Point { x: *x, y: *y, z: rest.first().copied() }),
        _ => Err("its coordinates are not two or more numbers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(json: &Json) -> JsonRow<'_> {
        JsonRow::of(json.as_object().unwrap())
    }

    fn names<'row>(row: &'row JsonRow<'_>) -> Vec<&'row str> {
        row.members.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn members_have_paths_and_a_point_is_the_position() {
        let nested = json!({ "id": 1, "position": { "lat": 2.5, "fix": { "ok": true } } });
        assert_eq!(names(&row(&nested)), ["id", "position.fix.ok", "position.lat"]);
        let point = json!({ "type": "Point", "coordinates": [1, 2.5, 3] });
        let feature = json!({
            "type": "Feature", "id": "a", "geometry": point, "properties": { "t": 1, "id": "b" }
        });
        let feature = row(&feature);
        assert_eq!(names(&feature), ["id", "t", "id"]);
        assert!(matches!(feature.value("id"), Some(Value::Bytes(b"b"))));
        let expected = Point { x: 1.0, y: 2.5, z: Some(3.0) };
        let found = Geometry { name: "geometry".to_owned(), point: Ok(expected) };
        assert_eq!(feature.geometry, Some(found));
        let line = json!({ "where": { "type": "LineString", "coordinates": [[1, 2]] } });
        let fault = row(&line).geometry.unwrap().point.unwrap_err();
        assert_eq!(fault, "a LineString is no position, which is a Point");
        let many = json!({ "where": { "type": "MultiPoint", "coordinates": [[1, 2]] } });
        assert_eq!(row(&many).geometry.unwrap().point.unwrap().y, 2.0);
        let empty = json!({ "type": "Feature", "geometry": null, "properties": {} });
        assert!(row(&empty).geometry.unwrap().point.is_err());
        let short = json!({ "where": { "type": "Point", "coordinates": [1] } });
        assert!(row(&short).geometry.unwrap().point.is_err());
    }
}
