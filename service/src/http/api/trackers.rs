//! Reports of phones in the forms of their programs: OwnTracks over HTTP, and the query form of
//! OsmAnd, which the clients of Traccar send too.
//!
//! A phone keeps a report for which it gets an error, and sends nothing else before it. So a report
//! that no retry can change, such as a row that the server refuses, is answered as received; the
//! header `Shoal-Refused` says what was refused. Errors are for what its user can correct.
//!
//! The forms are those of <https://owntracks.org/booklet/tech/json/> and
//! <https://www.traccar.org/osmand/>.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;
use shoal_proto::v1;

use super::call::{Call, TOKEN, add, json};
use super::document::parse;
use super::param::{Kind, Param, encoded_token, object, object_number, pairs};
use super::reports::FORM_TYPE;
use crate::http::limits::HTTP_REGION_BYTES_MAX;
use crate::http::problem::Problem;
use crate::timestamp;

/// Knots and kilometres per hour in metres per second.
const KNOT: f64 = 1852.0 / 3600.0;
const KMH: f64 = 1.0 / 3.6;
/// Numbers below are seconds, others milliseconds: 2^31 s is in the year 2038, 2^31 ms in 1970.
const SECONDS_MAX: u64 = 1 << 31;

/// Header of what the server did not take.
const REFUSED: &str = "shoal-refused";

/// Units of the parameter `speed`.
const SPEED_UNITS: &[&str] = &["kn", "kmh", "mps"];

/// What OwnTracks may state in the address.
pub(super) const OWN_TRACKS: &[Param] = &[
    Param::new("u", Kind::AnyText, "The user, if the header X-Limit-U does not name it"),
    Param::new("d", Kind::AnyText, "The device, if the header X-Limit-D does not name it"),
    CREDENTIAL,
];

/// The fields of a report in the form of OsmAnd. Others are ignored.
pub(super) const OSM_AND: &[Param] = &[
    Param::new("id", Kind::AnyText, "The object; `deviceid` means the same"),
    Param::new("lat", Kind::Number(f64::NEG_INFINITY, f64::INFINITY), "Latitude"),
    Param::new("lon", Kind::Number(f64::NEG_INFINITY, f64::INFINITY), "Longitude"),
    Param::new("timestamp", Kind::AnyText, "Unix seconds or milliseconds, or ISO 8601; or now"),
    Param::new("speed", Kind::AnyText, "See speed_unit"),
    Param::new("bearing", Kind::AnyText, "Degrees from north"),
    Param::new("altitude", Kind::AnyText, "Metres"),
    Param::new("valid", Kind::AnyText, "false or 0: the position is not used"),
    Param::new(
        "speed_unit",
        Kind::OneOf(SPEED_UNITS),
        "Unit of speed: kn, which Traccar sends, if absent; OsmAnd sends mps",
    ),
    CREDENTIAL,
];

const CREDENTIAL: Param = Param::new(
    "token",
    Kind::AnyText,
    "The token of the caller, if the program cannot send it as the password",
);

/// A message of OwnTracks; other members are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OwnTracksMessage")]
pub(super) struct OwnTracksMessage {
    /// The kind; only `location` is a position.
    #[serde(rename = "_type")]
    kind: String,
    /// `owntracks/USER/DEVICE`.
    topic: Option<String>,
    /// A short name of the device.
    tid: Option<String>,
    /// Latitude.
    lat: Option<f64>,
    /// Longitude.
    lon: Option<f64>,
    /// Unix seconds.
    tst: Option<i64>,
    /// Kilometres per hour.
    vel: Option<f64>,
    /// Course, degrees from north.
    cog: Option<f64>,
    /// Metres.
    alt: Option<f64>,
}

/// A report of Traccar's client in JSON; other members are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TraccarReport")]
pub(super) struct TraccarReport {
    /// The object.
    device_id: String,
    /// Where it is.
    location: TraccarLocation,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TraccarLocation {
    /// ISO 8601.
    timestamp: String,
    /// The position, if it is known.
    coords: Option<TraccarCoords>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TraccarCoords {
    latitude: f64,
    longitude: f64,
    /// Metres per second; negative if unknown.
    speed: Option<f64>,
    /// Degrees from north; negative if unknown.
    heading: Option<f64>,
    /// Metres.
    altitude: Option<f64>,
}

/// A message for a phone: there is none.
#[derive(serde::Serialize, JsonSchema)]
pub(super) enum NoMessage {}

/// A position of a phone.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    object: String,
    /// The field that names the object.
    named_by: &'static str,
    fix: v1::Fix,
}

/// A message of OwnTracks. The answer is a list of messages for the phone, which is empty.
pub(super) async fn own_tracks(call: &mut Call) -> Result<Response, Problem> {
    let body = call.document(HTTP_REGION_BYTES_MAX).await?;
    let answer = |headers: &[_]| json(StatusCode::OK, &Vec::<NoMessage>::new(), headers);
    // A phone sends an empty body to delete what was kept of it.
    if body.trim_ascii().is_empty() {
        return answer(&[]);
    }
    let message: OwnTracksMessage = parse(&body)?;
    let query = query(call)?;
    match message.seen(&call.headers, &query)? {
        Some(seen) => answer(&report(call, seen).await?),
        None => answer(&[]),
    }
}

/// A report in the form of OsmAnd, in the query string, a form or JSON.
pub(super) async fn osm_and(call: &mut Call) -> Result<Response, Problem> {
    let media_type = call.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
    let has_body = !call.route.body.is_empty();
    let body = match has_body {
        true => call.document(HTTP_REGION_BYTES_MAX).await?,
        false => Vec::new(),
    };
    let mut fields = query(call)?;
    let seen = if has_body && media_type.starts_with("application/json") {
        fields.check()?;
        parse::<TraccarReport>(&body)?.seen()?
    } else {
        if media_type.starts_with(FORM_TYPE) {
            let text =
                std::str::from_utf8(&body).map_err(|_| Problem::field("body", "not UTF-8"))?;
            fields.0.extend(Fields::read(text)?.0);
        }
        fields.seen()?
    };
    let headers = match seen {
        Some(seen) => report(call, seen).await?,
        None => Vec::new(),
    };
    let mut response = StatusCode::OK.into_response();
    add(response.headers_mut(), &headers);
    Ok(response)
}

fn query(call: &Call) -> Result<Fields, Problem> {
    Fields::read(&call.query_text)
}

/// Reports a position; the headers say what became of it.
async fn report(call: &Call, seen: Seen) -> Result<Vec<(&'static str, String)>, Problem> {
    let Seen { object: name, named_by, mut fix } = seen;
    object(&name).map_err(|why| Problem::field(named_by, why))?;
    if call.is_named().await? {
        fix.name = name;
    } else {
        fix.object = object_number(&name).map_err(|why| {
            let hint = "objects of this fleet are numbers: create a fleet of the kind named";
            Problem::field(named_by, format!("{why}; {hint}"))
        })?;
    }
    let request = v1::ReportOnceRequest {
        fleet: call.fleet.clone(),
        payload: Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes: vec![fix] })),
        drop_invalid_measures: true,
        ..v1::ReportOnceRequest::default()
    };
    let reply = call.positions().report_once(call.request(request)).await;
    let ack = reply.map_err(|status| call.problem(status))?.into_inner().ack.unwrap_or_default();
    let mut headers = vec![(TOKEN, encoded_token(&ack.token))];
    headers.extend(ack.refused_rows.first().map(|row| {
        let reason = row.reason().as_str_name().trim_start_matches("REFUSAL_REASON_");
        (REFUSED, format!("{} {reason}", row.field))
    }));
    Ok(headers)
}

/// A measure that is not negative; phones send -1 for an unknown one.
fn known(measure: Option<f64>) -> Option<f64> {
    measure.filter(|measure| *measure >= 0.0)
}

impl OwnTracksMessage {
    /// The position, if the message is one.
    fn seen(self, headers: &HeaderMap, query: &Fields) -> Result<Option<Seen>, Problem> {
        if self.kind == "encrypted" {
            let why = "encrypted messages cannot be read: remove the encryption key of the phone";
            return Err(Problem::field("_type", why));
        }
        if self.kind != "location" {
            return Ok(None);
        }
        let header = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let given = |name: Option<String>, field| {
            name.or_else(|| query.get(field).map(str::to_owned)).filter(|it| !it.is_empty())
        };
        let (user, device) = (given(header("x-limit-u"), "u"), given(header("x-limit-d"), "d"));
        let topic = self.topic.as_deref().map(|topic| topic.trim_start_matches('/'));
        let of_topic = topic.map(|topic| topic.strip_prefix("owntracks/").unwrap_or(topic));
        let (object, named_by) = match (user, device) {
            (Some(user), Some(device)) => (format!("{user}/{device}"), "d"),
            (Some(user), None) => (user, "u"),
            (None, Some(device)) => (device, "d"),
            (None, None) => match (of_topic, self.tid) {
                (Some(topic), _) => (topic.to_owned(), "topic"),
                (None, Some(tid)) => (tid, "tid"),
                (None, None) => {
                    let why = "missing: name the phone by X-Limit-U and X-Limit-D, or ?u=&d=";
                    return Err(Problem::field("topic", why));
                }
            },
        };
        let missing = |name| move || Problem::field(name, "missing");
        let fix = v1::Fix {
            time_ms: self.tst.ok_or_else(missing("tst"))?.saturating_mul(1_000),
            x: self.lon.ok_or_else(missing("lon"))?,
            y: self.lat.ok_or_else(missing("lat"))?,
            speed_mps: known(self.vel).map(|speed| (speed * KMH) as f32),
            heading_deg: known(self.cog).map(|heading| heading as f32),
            altitude_m: self.alt,
            ..v1::Fix::default()
        };
        Ok(Some(Seen { object, named_by, fix }))
    }
}

impl TraccarReport {
    /// The position, if it is known.
    fn seen(self) -> Result<Option<Seen>, Problem> {
        let Self { device_id: object, location: TraccarLocation { timestamp, coords } } = self;
        let Some(coords) = coords else { return Ok(None) };
        let time_ms = timestamp::parse(&timestamp);
        let fix = v1::Fix {
            time_ms: time_ms.map_err(|why| Problem::field("location.timestamp", why))?,
            x: coords.longitude,
            y: coords.latitude,
            speed_mps: known(coords.speed).map(|speed| speed as f32),
            heading_deg: known(coords.heading).map(|heading| heading as f32),
            altitude_m: coords.altitude,
            ..v1::Fix::default()
        };
        Ok(Some(Seen { object, named_by: "device_id", fix }))
    }
}

/// Names and values of a form.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn read(text: &str) -> Result<Self, Problem> {
        let read = pairs(text).map(|(name, value)| {
            // People write blanks into the template of an address.
            let name = name.trim().to_owned();
            let value = value.map_err(|_| Problem::field(&name, "not UTF-8"))?;
            Ok((name, value.trim().to_owned()))
        });
        read.collect::<Result<_, Problem>>().map(Self)
    }

    /// The last value of a name, since a form beats the address.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let why = || Problem::field(name, format!("`{text}` is not a finite number"));
        number.map(Some).ok_or_else(why)
    }

    /// A measure; none if it is no number: the position counts without it.
    fn measure(&self, name: &str) -> Option<f64> {
        self.number(name).ok().flatten()
    }

    /// The position, if there is one that counts.
    fn seen(&self) -> Result<Option<Seen>, Problem> {
        let (field, object) = match (self.get("id"), self.get("deviceid")) {
            (Some(id), _) => ("id", id),
            (None, Some(id)) => ("deviceid", id),
            (None, None) => return Err(Problem::field("id", "missing")),
        };
        let object = self::object(object).map_err(|why| Problem::field(field, why))?;
        let place = match (self.number("lat")?, self.number("lon")?) {
            (Some(lat), Some(lon)) => Some((lat, lon)),
            (None, None) => self.location()?,
            (Some(_), None) => return Err(Problem::field("lon", "missing")),
            (None, Some(_)) => return Err(Problem::field("lat", "missing")),
        };
        let unit = self.speed_unit()?;
        let heading = self.measure("bearing").or_else(|| self.measure("heading"));
        let (speed, altitude_m) = (self.measure("speed"), self.measure("altitude"));
        let time_ms = self.time_ms()?;
        let is_valid = !matches!(self.get("valid"), Some("false" | "0"));
        let Some((lat, lon)) = place.filter(|_| is_valid) else { return Ok(None) };
        let fix = v1::Fix {
            time_ms,
            x: lon,
            y: lat,
            speed_mps: known(speed).map(|speed| (speed * unit) as f32),
            heading_deg: known(heading).map(|heading| heading as f32),
            altitude_m,
            ..v1::Fix::default()
        };
        Ok(Some(Seen { object, named_by: field, fix }))
    }

    /// Confirms that the fields have their types, also those that a body replaces.
    fn check(&self) -> Result<(), Problem> {
        for name in ["lat", "lon"] {
            self.number(name)?;
        }
        self.speed_unit()?;
        self.time_ms().map(|_| ())
    }

    /// The unit of `speed` in metres per second.
    fn speed_unit(&self) -> Result<f64, Problem> {
        match self.get("speed_unit") {
            None | Some("kn") => Ok(KNOT),
            Some("kmh") => Ok(KMH),
            Some("mps") => Ok(1.0),
            Some(other) => {
                let why = format!("`{other}` is none of {}", SPEED_UNITS.join(", "));
                Err(Problem::field("speed_unit", why))
            }
        }
    }

    /// The position of `location=LAT,LON`.
    fn location(&self) -> Result<Option<(f64, f64)>, Problem> {
        let Some(text) = self.get("location") else { return Ok(None) };
        let numbers = text
            .split_once(',')
            .and_then(|(lat, lon)| Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?)));
        let why = || Problem::field("location", format!("`{text}` is not LAT,LON"));
        numbers.map(Some).ok_or_else(why)
    }

    fn time_ms(&self) -> Result<i64, Problem> {
        let text = self.get("timestamp").unwrap_or("now");
        if let Ok(number) = text.parse::<i64>() {
            let is_seconds = number.unsigned_abs() < SECONDS_MAX;
            return Ok(if is_seconds { number * 1_000 } else { number });
        }
        timestamp::parse(text).map_err(|why| Problem::field("timestamp", why))
    }
}
