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
use serde::{Deserialize, Deserializer, Serialize};
use shoal_proto::v1;

use super::document::parse;
use super::geometry::{CollectionType, FeatureType};
use super::param::object_number;
use crate::http::problem::Problem;
use crate::limits::NAME_BYTES_MAX;
use crate::timestamp;

/// An object: its name in a named fleet; its number, or a string of its digits, in a numeric one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectId {
    number: u64,
    /// What was sent, unless it is `number` in decimal digits.
    text: Option<Box<str>>,
}

impl ObjectId {
    /// The fields `object` and `name` of a fix.
    ///
    /// # Errors
    /// Why the text is no number, in a numeric fleet.
    pub(super) fn identify(self, is_named: bool) -> Result<(u64, String), String> {
        let Self { number, text } = self;
        Ok(match (text, is_named) {
            (Some(text), true) => (0, text.into()),
            (None, true) => (0, number.to_string()),
            (Some(text), false) => (object_number(&text)?, String::new()),
            (None, false) => (number, String::new()),
        })
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = ObjectId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object: a string, or a whole number below 2^64")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<ObjectId, E> {
                Ok(ObjectId { number, text: None })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ObjectId, E> {
                let has_zeros = text.len() > 1 && text.starts_with('0');
                Ok(match object_number(text) {
                    Ok(number) if !has_zeros => ObjectId { number, text: None },
                    _ => ObjectId { number: 0, text: Some(text.into()) },
                })
            }
        }
        deserializer.deserialize_any(Id)
    }
}

impl JsonSchema for ObjectId {
    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An object: its name in a named fleet; its number, a whole number below \
                            2^64 or a string of its digits, in a numeric one.",
            "anyOf": [
                { "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX },
                { "type": "integer", "minimum": 0, "maximum": u64::MAX }
            ]
        })
    }
}

/// A row states its time in one of two members.
const TIMED: [Stated; 2] = [Stated { required: ["time_ms"] }, Stated { required: ["time"] }];

/// A schema that demands a member.
#[derive(Serialize)]
struct Stated {
    required: [&'static str; 1],
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
            /// How long the fix is valid after its time, in seconds.
            valid_s: Option<f64>,
            /// Bit flags of the application.
            state: Option<u32>,
        }

        impl $name {
            /// The fix at a position, without its object.
            fn fix(&self, [x, y]: [f64; 2]) -> Result<v1::Fix, Wrong> {
                let time_ms = match (self.time_ms, &self.time) {
                    (Some(time_ms), _) => time_ms,
                    (None, Some(time)) => {
                        timestamp::parse(time).map_err(|why| Wrong("time", why))?
                    }
                    (None, None) => return Err(Wrong("time_ms", "missing".to_owned())),
                };
                Ok(v1::Fix {
                    time_ms,
                    x,
                    y,
                    speed_mps: self.speed_mps.map(|speed| speed as f32),
                    heading_deg: self.heading_deg.map(|heading| heading as f32),
                    altitude_m: self.altitude_m,
                    valid_s: self.valid_s,
                    state: self.state.unwrap_or(0),
                    ..v1::Fix::default()
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
    #[schemars(extend("anyOf" = TIMED))]
    Row {
        /// The object.
        #[schemars(required)]
        object: Option<ObjectId>,
        /// Ignored: what a query answered.
        #[serde(rename = "number")]
        _number: Option<String>,
        /// Longitude in degrees, or metres.
        #[schemars(required)]
        x: Option<f64>,
        /// Latitude in degrees, or metres.
        #[schemars(required)]
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
    #[schemars(extend("anyOf" = TIMED))]
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
    fn into_unidentified(self) -> Result<Unidentified, Wrong> {
        let missing = |name| Wrong(name, "missing".to_owned());
        let x = self.x.ok_or_else(|| missing("x"))?;
        let y = self.y.ok_or_else(|| missing("y"))?;
        Ok(Unidentified { fix: self.fix([x, y])?, object: self.object, member: "object" })
    }
}

impl Reported for PointFeature {
    fn into_unidentified(mut self) -> Result<Unidentified, Wrong> {
        let [x, y, ref further @ ..] = self.geometry.coordinates[..] else {
            let why = format!("{} numbers; give two", self.geometry.coordinates.len());
            return Err(Wrong("geometry.coordinates", why));
        };
        self.properties.altitude_m = self.properties.altitude_m.or(further.first().copied());
        let fix = self.properties.fix([x, y]).map_err(|Wrong(name, why)| {
            Wrong(if name == "time" { "properties.time" } else { "properties.time_ms" }, why)
        })?;
        let (member, object) = match self.id {
            None => ("properties.object", self.properties.object),
            id => ("id", id),
        };
        let member = if object.is_none() { "id" } else { member };
        Ok(Unidentified { fix, object, member })
    }
}

/// A fix whose object is as it was sent.
#[derive(Debug)]
struct Unidentified {
    fix: v1::Fix,
    object: Option<ObjectId>,
    /// Path of the member with the object.
    member: &'static str,
}

impl Unidentified {
    /// The fix for a fleet whose objects have names or numbers.
    fn identify(self, is_named: bool) -> Result<v1::Fix, Wrong> {
        let Self { fix, object, member } = self;
        let object = object.ok_or_else(|| Wrong(member, "missing".to_owned()))?;
        let (object, name) = object.identify(is_named).map_err(|why| Wrong(member, why))?;
        Ok(v1::Fix { object, name, ..fix })
    }
}

/// What a document lists.
trait Reported: DeserializeOwned {
    fn into_unidentified(self) -> Result<Unidentified, Wrong>;
}

/// The fixes of a list in a document. Each element is converted as soon as it is parsed, and none
/// is kept after a wrong one, so that the memory of a list is a few times the bytes of its text.
#[derive(Debug)]
struct Fixes<T> {
    fixes: Vec<Unidentified>,
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
                    match row.into_unidentified() {
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
    fn of(self, path: &str, is_named: bool) -> Result<Vec<v1::Fix>, Problem> {
        let field = |at: usize, Wrong(name, why): Wrong| {
            Problem::field(&format!("{path}[{at}].{name}"), why)
        };
        let mut fixes = Vec::with_capacity(self.fixes.len());
        for fix in self.fixes {
            match fix.identify(is_named) {
                Ok(fix) => fixes.push(fix),
                Err(wrong) => return Err(field(fixes.len(), wrong)),
            }
        }
        match self.wrong {
            Some(wrong) => Err(field(fixes.len(), wrong)),
            None => Ok(fixes),
        }
    }
}

/// The fixes of a document, for a fleet whose objects have names or numbers.
///
/// # Errors
/// Names the first wrong member by its path.
pub(super) fn of_document(bytes: &[u8], is_named: bool) -> Result<Vec<v1::Fix>, Problem> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return parse::<Fixes<Row>>(bytes)?.of("", is_named);
    }
    match parse::<Probe>(bytes)?.r#type.as_deref() {
        Some("FeatureCollection") => {
            parse::<PointCollection>(bytes)?.features.of("features", is_named)
        }
        _ => Ok(vec![one(bytes, is_named)?]),
    }
}

/// A row, first without the path of an error. Its members have no structures, so that an object is
/// all that [`parse`] demands.
fn row(bytes: &[u8]) -> Result<Row, Problem> {
    let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
    match serde_json::from_slice(bytes) {
        Ok(row) if is_object => Ok(row),
        _ => parse(bytes),
    }
}

/// The fix of an object or a Feature.
///
/// # Errors
/// As [`of_document`].
pub(super) fn one(bytes: &[u8], is_named: bool) -> Result<v1::Fix, Problem> {
    const TYPE: &[u8] = b"\"type\"";
    // A row has no type, and most lines are rows.
    let has_type = bytes.windows(TYPE.len()).any(|word| word == TYPE);
    let fix = match has_type && parse::<Probe>(bytes)?.r#type.is_some() {
        true => parse::<PointFeature>(bytes)?.into_unidentified(),
        false => row(bytes)?.into_unidentified(),
    };
    fix.and_then(|fix| fix.identify(is_named)).map_err(|Wrong(name, why)| Problem::field(name, why))
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
            assert_eq!(
                of_document(text.as_bytes(), false).unwrap(),
                std::slice::from_ref(&fix),
                "{text}"
            );
        }
        let time = r#"{"object":18446744073709551615,"time":"1970-01-01T00:00:01Z","x":0,"y":0}"#;
        let read = one(time.as_bytes(), false).unwrap();
        assert_eq!((read.object, read.time_ms), (u64::MAX, 1_000));
        assert!(of_document(b"[]", false).unwrap().is_empty());
    }

    #[test]
    fn objects_of_a_named_fleet_are_texts() {
        let named = |text: &str| one(text.as_bytes(), true).unwrap();
        for (row, name) in [
            (ROW.to_owned(), "7"),
            (ROW.replace("\"7\"", "\"007\""), "007"),
            (ROW.replace("\"7\"", "42"), "42"),
            (ROW.replace("\"7\"", "\"truck-42\""), "truck-42"),
            // As in an answer.
            (ROW.replace('{', "{\"number\":\"1\","), "7"),
            (FEATURE.to_owned(), "7"),
            (FEATURE.replace("\"id\":7", "\"id\":\"truck-42\""), "truck-42"),
            (FEATURE.replace("\"colour\"", "\"name\""), "7"),
        ] {
            let fix = named(&row);
            assert_eq!((fix.object, fix.name.as_str()), (0, name), "{row}");
        }
        // In a numeric fleet zeros before a number are not part of it.
        let numeric = |text: &str| one(text.as_bytes(), false).unwrap();
        let fix = numeric(&ROW.replace("\"7\"", "\"007\""));
        assert_eq!((fix.object, fix.name.as_str()), (7, ""));
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
            (format!("[{ROW},{}]", ["{}"; 9].join(",")), "[1].x"),
            (format!("[{ROW},{{}},{{\"x\":\"late\"}}]"), "[1].x"),
        ] {
            let problem = of_document(text.as_bytes(), false).unwrap_err();
            let named = problem.named().unwrap();
            assert!(named.starts_with(path), "{text}: {named}");
        }
    }
}
