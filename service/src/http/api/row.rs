//! Rows of a report: one JSON object each, or a GeoJSON Feature of a point.
//!
//! A row of an answer can be reported again, because members that only answers have are ignored.
//! Other unknown members of a row are errors. Unknown members of a Feature are ignored, because
//! other programs add their own.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, de};
use shoal_proto::v1;

use super::document::parse;
use super::geometry::{CollectionType, FeatureType};
use super::param::object;
use crate::http::problem::Problem;
use crate::timestamp;

/// An object, as digits in a string or as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectId(pub(super) u64);

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = ObjectId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object: a whole number below 2^64, or a string of its digits")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<ObjectId, E> {
                Ok(ObjectId(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ObjectId, E> {
                object(text)
                    .map(ObjectId)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

impl JsonSchema for ObjectId {
    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An object: a whole number below 2^64, or a string of its digits.",
            "anyOf": [
                { "type": "string", "pattern": "^[0-9]{1,20}$" },
                { "type": "integer", "minimum": 0, "maximum": u64::MAX }
            ]
        })
    }
}

/// Members of a row, or of the properties of a feature, other than object and position.
macro_rules! measured {
    ($(#[$attribute:meta])* $name:ident { $($(#[$on:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        $(#[$attribute])*
        pub(super) struct $name {
            $($(#[$on])* $field: $type,)*
            /// Event time, Unix milliseconds. This or `time` is required.
            time_ms: Option<i64>,
            /// Event time in RFC 3339, or `now`.
            time: Option<String>,
            /// Metres per second.
            speed_mps: Option<f64>,
            /// Degrees clockwise from north.
            heading_deg: Option<f64>,
            /// Metres.
            altitude_m: Option<f64>,
            /// Bit flags of the application.
            state: Option<u32>,
        }

        impl $name {
            /// The fix of an object at a position.
            fn fix(&self, ObjectId(object): ObjectId, [x, y]: [f64; 2]) -> Result<v1::Fix, Wrong> {
                let time_ms = match (self.time_ms, &self.time) {
                    (Some(time_ms), _) => time_ms,
                    (None, Some(time)) => {
                        timestamp::parse(time).map_err(|why| Wrong("time", why))?
                    }
                    (None, None) => return Err(Wrong("time_ms", "missing".to_owned())),
                };
                Ok(v1::Fix {
                    object,
                    time_ms,
                    x,
                    y,
                    speed_mps: self.speed_mps.map(|speed| speed as f32),
                    heading_deg: self.heading_deg.map(|heading| heading as f32),
                    altitude_m: self.altitude_m,
                    state: self.state.unwrap_or(0),
                    name: String::new(),
                })
            }
        }
    };
}

/// A wrong member and what is wrong with it.
#[derive(Debug)]
struct Wrong(&'static str, String);

measured! {
    /// A position of an object.
    #[serde(deny_unknown_fields)]
    Row {
        /// The object. Required.
        object: Option<ObjectId>,
        /// Longitude in degrees, or metres. Required.
        x: Option<f64>,
        /// Latitude in degrees, or metres. Required.
        y: Option<f64>,
        /// Ignored: what a query answered.
        #[serde(rename = "age_ms")]
        _age_ms: Option<i64>,
        /// Ignored: what a query answered.
        #[serde(rename = "distance_m")]
        _distance_m: Option<f64>,
    }
}

measured! {
    /// What a feature states of its object; other properties are ignored.
    Properties {
        /// The object, if the feature has no `id`.
        object: Option<ObjectId>,
    }
}

/// A position of an object as GeoJSON.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct PointFeature {
    #[serde(rename = "type")]
    _type: FeatureType,
    /// The object.
    id: Option<ObjectId>,
    /// Where it is.
    geometry: Point,
    /// Time and measures.
    properties: Properties,
}

/// A point: longitude, then latitude, or x, then y, in metres; then, if the properties have no
/// altitude, the altitude in metres. Further numbers are ignored.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ReportedPoint")]
struct Point {
    #[serde(rename = "type")]
    _type: PointType,
    #[schemars(length(min = 2))]
    coordinates: Vec<f64>,
}

/// The type of a point.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum PointType {
    /// A point.
    Point,
}

/// Positions of objects as GeoJSON.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PointCollection {
    #[serde(rename = "type")]
    _type: CollectionType,
    #[schemars(with = "Vec<PointFeature>")]
    features: Fixes<PointFeature>,
}

/// A report in GeoJSON.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) enum GeoReport {
    /// One position.
    Feature(PointFeature),
    /// Several.
    FeatureCollection(PointCollection),
}

/// A report in JSON.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) enum RowReport {
    /// One position.
    Row(Row),
    /// Several.
    Rows(Vec<Row>),
    /// GeoJSON.
    GeoJson(GeoReport),
}

/// The type of a document, if it has one.
#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    r#type: Option<String>,
}

impl Reported for Row {
    fn into_fix(self) -> Result<v1::Fix, Wrong> {
        let missing = |name| Wrong(name, "missing".to_owned());
        let object = self.object.ok_or_else(|| missing("object"))?;
        let x = self.x.ok_or_else(|| missing("x"))?;
        let y = self.y.ok_or_else(|| missing("y"))?;
        self.fix(object, [x, y])
    }
}

impl Reported for PointFeature {
    fn into_fix(mut self) -> Result<v1::Fix, Wrong> {
        let object = self.id.or(self.properties.object);
        let object = object.ok_or_else(|| Wrong("id", "missing".to_owned()))?;
        let [x, y, ref further @ ..] = self.geometry.coordinates[..] else {
            let why = format!("{} numbers; give two", self.geometry.coordinates.len());
            return Err(Wrong("geometry.coordinates", why));
        };
        self.properties.altitude_m = self.properties.altitude_m.or(further.first().copied());
        self.properties.fix(object, [x, y]).map_err(|Wrong(name, why)| {
            Wrong(if name == "time" { "properties.time" } else { "properties.time_ms" }, why)
        })
    }
}

/// What a document lists.
trait Reported: DeserializeOwned {
    fn into_fix(self) -> Result<v1::Fix, Wrong>;
}

/// The fixes of a list in a document. Each element is converted as soon as it is parsed, and none
/// is kept after a wrong one, so that the memory of a list is a few times the bytes of its text.
#[derive(Debug)]
struct Fixes<T> {
    fixes: Vec<v1::Fix>,
    /// The first wrong one.
    wrong: Option<Wrong>,
    of: PhantomData<T>,
}

impl<'de, T: Reported> Deserialize<'de> for Fixes<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Reported> Visitor<'de> for List<T> {
            type Value = Fixes<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fixes<T>, A::Error> {
                let mut fixes = Vec::new();
                while let Some(row) = list.next_element::<T>()? {
                    match row.into_fix() {
                        Ok(fix) => fixes.push(fix),
                        Err(wrong) => {
                            while list.next_element::<IgnoredAny>()?.is_some() {}
                            return Ok(Fixes { fixes, wrong: Some(wrong), of: PhantomData });
                        }
                    }
                }
                Ok(Fixes { fixes, wrong: None, of: PhantomData })
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}

impl<T> Fixes<T> {
    /// The fixes of the list at a path, or the path of the first that is wrong.
    fn of(self, path: &str) -> Result<Vec<v1::Fix>, Problem> {
        let Some(Wrong(name, why)) = self.wrong else { return Ok(self.fixes) };
        Err(Problem::field(&format!("{path}[{}].{name}", self.fixes.len()), why))
    }
}

/// The fixes of a document.
///
/// # Errors
/// Names the first wrong member by its path.
pub(super) fn of_document(bytes: &[u8]) -> Result<Vec<v1::Fix>, Problem> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return parse::<Fixes<Row>>(bytes)?.of("");
    }
    match parse::<Probe>(bytes)?.r#type.as_deref() {
        Some("FeatureCollection") => parse::<PointCollection>(bytes)?.features.of("features"),
        _ => Ok(vec![one(bytes)?]),
    }
}

/// The fix of an object or a Feature.
///
/// # Errors
/// As [`of_document`].
pub(super) fn one(bytes: &[u8]) -> Result<v1::Fix, Problem> {
    const TYPE: &[u8] = b"\"type\"";
    // A row has no type, and most lines are rows.
    let has_type = bytes.windows(TYPE.len()).any(|word| word == TYPE);
    let fix = match has_type && parse::<Probe>(bytes)?.r#type.is_some() {
        true => parse::<PointFeature>(bytes)?.into_fix(),
        false => parse::<Row>(bytes)?.into_fix(),
    };
    fix.map_err(|Wrong(name, why)| Problem::field(name, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str =
        r#"{"object":"7","time_ms":5,"x":1.5,"y":2,"altitude_m":9,"speed_mps":null,"state":3}"#;
    const FEATURE: &str = r#"{"type":"Feature","id":7,"geometry":{"type":"Point",
        "coordinates":[1.5,2,9]},"properties":{"time_ms":5,"state":3,"colour":"red"}}"#;

    #[test]
    fn rows_and_features_are_the_same_fix() {
        let fix = v1::Fix { object: 7, time_ms: 5, x: 1.5, y: 2.0, state: 3, ..v1::Fix::default() };
        let fix = v1::Fix { altitude_m: Some(9.0), ..fix };
        let collection = format!(r#"{{"type":"FeatureCollection","features":[{FEATURE}]}}"#);
        let array = format!(" [{ROW}]");
        for text in [ROW, FEATURE, &collection, &array] {
            assert_eq!(of_document(text.as_bytes()).unwrap(), std::slice::from_ref(&fix), "{text}");
        }
        let time = r#"{"object":18446744073709551615,"time":"1970-01-01T00:00:01Z","x":0,"y":0}"#;
        let read = one(time.as_bytes()).unwrap();
        assert_eq!((read.object, read.time_ms), (u64::MAX, 1_000));
        assert!(of_document(b"[]").unwrap().is_empty());
    }

    #[test]
    fn wrong_members_are_named_by_their_path() {
        let collection = |feature: &str| {
            format!(r#"{{"type":"FeatureCollection","features":[{FEATURE},{feature}]}}"#)
        };
        for (text, path) in [
            (r#"[{"object":1,"x":0,"y":0}]"#.to_owned(), "[0].time_ms"),
            (r#"{"object":-1,"time_ms":5,"x":0,"y":0}"#.to_owned(), "object"),
            (r#"{"object":1.5,"time_ms":5,"x":0,"y":0}"#.to_owned(), "object"),
            (r#"{"object":"+1","time_ms":5,"x":0,"y":0}"#.to_owned(), "object"),
            (r#"{"object":1,"time_ms":5,"x":0,"y":0,"z":0}"#.to_owned(), "z"),
            (r#"{"object":1,"time_ms":5,"x":"0","y":0}"#.to_owned(), "x"),
            (r#"{"object":1,"time":"soon","x":0,"y":0}"#.to_owned(), "time"),
            (r#"{"time_ms":5,"x":0,"y":0}"#.to_owned(), "object"),
            (collection(&FEATURE.replace("[1.5,2,9]", "[1]")), "features[1].geometry.coordinates"),
            (collection(&FEATURE.replace("\"Point\"", "\"Line\"")), "features[1].geometry.type"),
            (collection(&FEATURE.replace("\"id\":7,", "")), "features[1].id"),
            (collection(ROW), "features[1]"),
            (format!("[{ROW},{}]", ["{}"; 9].join(",")), "[1].object"),
            (format!("[{ROW},{{}},{{\"x\":\"late\"}}]"), "[1].object"),
        ] {
            let problem = of_document(text.as_bytes()).unwrap_err();
            let named = problem.named().unwrap();
            assert!(named.starts_with(path), "{text}: {named}");
        }
    }
}
