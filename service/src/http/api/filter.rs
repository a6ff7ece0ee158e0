//! Parameters that all queries share: the filter, what to return and in which form.
//!
//! Each is stated once; a row of the table of routes lists the groups that its call takes.

use prost_types::Duration;
use shoal_client::duration::from_millis;
use shoal_proto::v1;

use super::param::{Kind, Param, Query};
use crate::http::problem::Problem;

/// The greatest whole number that JSON readers hold exactly.
pub(super) const EXACT_MAX: i64 = 1 << 53;
/// Longest time span of a parameter: a century.
const SPAN_MS_MAX: i64 = 100 * 366 * 86_400_000;

/// Conditions on the record of an object.
pub(super) const FILTER: &[Param] = &[
    Param::new(
        "state_mask",
        Kind::Integer(0, u32::MAX as i64),
        "Only state & state_mask == state_value",
    ),
    Param::new("state_value", Kind::Integer(0, u32::MAX as i64), "See state_mask"),
    Param::new("speed_mps", Kind::Interval, "MIN,MAX in metres per second; an empty side is open"),
    Param::new(
        "heading_deg",
        Kind::Interval,
        "MIN,MAX in degrees, 0 to 360; with MIN > MAX through north",
    ),
    Param::new("altitude_m", Kind::Interval, "MIN,MAX in metres; an empty side is open"),
    Param::new("valid_s", Kind::Interval, "MIN,MAX in seconds; an empty side is open"),
    Param::new(
        "name_pattern",
        Kind::Pattern,
        "Of a named fleet: only names that match, as `truck-*`; `?` is one character",
    ),
];

/// The greatest age of a record. Only queries of the current state take it.
pub(super) const AGE: &[Param] = &[Param::new(
    "age_max_ms",
    Kind::Integer(0, SPAN_MS_MAX),
    "Only records of at most this age, in milliseconds",
)];

/// The words of `projection`, in the order of `v1::Projection`.
const PROJECTIONS: &[&str] = &["ids", "fixes", "count"];

/// What a query of the current state returns.
pub(super) const OPTIONS: &[Param] = &[
    Param::new(
        "projection",
        Kind::OneOf(PROJECTIONS),
        "What to return of each object; fixes if absent",
    ),
    MIN_TOKEN[0],
];

/// The state that an answer shows at least.
pub(super) const MIN_TOKEN: &[Param] =
    &[Param::new("min_token", Kind::Token, "The answer shows at least the state of this token")];

/// Like [`OPTIONS`], but for a query of one object, which cannot return a count.
pub(super) const OBJECT_OPTIONS: &[Param] = &[
    Param::new(
        "projection",
        Kind::OneOf(&["fixes", "ids"]),
        "What to return of the object; fixes if absent",
    ),
    MIN_TOKEN[0],
];

/// Pages of a listing.
pub(super) const PAGE: &[Param] = &[
    Param::new("limit", Kind::Integer(0, EXACT_MAX), "The most objects to return; 0 returns all"),
    Param::new(
        "after_object",
        Kind::Number64,
        "Only objects with a greater number, to continue a listing",
    ),
];

/// The form of an answer.
pub(super) const FORM: &[Param] = &[
    Param::new("format", Kind::OneOf(&["geojson", "ndjson"]), "Form of the answer; beats Accept"),
    TIMEOUT[0],
];

/// The deadline of a call.
pub(super) const TIMEOUT: &[Param] = &[Param::new(
    "timeout_ms",
    Kind::Integer(1, 3_600_000),
    "The call fails if its answer has not begun after this time, in milliseconds; reports and \
     answers of the history also if they have not ended",
)];

/// A window of time, both ends included.
pub(super) const WINDOW: &[Param] = &[
    Param::new("from", Kind::Time, "First time, RFC 3339 or `now`; or give from_ms"),
    Param::new("from_ms", UNIX_MS, "First time, Unix milliseconds"),
    Param::new("to", Kind::Time, "Last time, RFC 3339 or `now`; or give to_ms"),
    Param::new("to_ms", UNIX_MS, "Last time, Unix milliseconds"),
];

/// A time in Unix milliseconds.
pub(super) const UNIX_MS: Kind = Kind::Integer(-EXACT_MAX, EXACT_MAX);

/// The condition, if a parameter states one.
pub(super) fn filter(query: &Query) -> Option<v1::Filter> {
    let interval = |name| query.numbers(name).map(|[min, max]| v1::Interval { min, max });
    let bits = |name| query.count(name).unwrap_or(0) as u32;
    let filter = v1::Filter {
        state_mask: bits("state_mask"),
        state_value: bits("state_value"),
        age_max: millis(query, "age_max_ms"),
        speed_mps: interval("speed_mps"),
        heading_deg: query.numbers("heading_deg").map(|[min, max]: [f64; 2]| {
            // An open side is north.
            let open = |side: f64, north| if side.is_finite() { side } else { north };
            v1::Interval { min: open(min, 0.0), max: open(max, 360.0) }
        }),
        altitude_m: interval("altitude_m"),
        valid_s: interval("valid_s"),
        name_pattern: query.text("name_pattern").unwrap_or_default().to_owned(),
    };
    (filter != v1::Filter::default()).then_some(filter)
}

/// A span of time.
pub(super) fn millis(query: &Query, name: &str) -> Option<Duration> {
    query.count(name).map(from_millis)
}

/// The options of a query.
pub(super) fn options(query: &Query, fleet: &str) -> v1::QueryOptions {
    v1::QueryOptions {
        fleet: fleet.to_owned(),
        min_token: query.bytes("min_token").unwrap_or_default().to_vec(),
        filter: filter(query),
        projection: projection(query).into(),
        limit: query.count("limit").unwrap_or(0),
        after_object: query.number64("after_object"),
    }
}

/// What to return; records if nothing is asked for.
pub(super) fn projection(query: &Query) -> v1::Projection {
    match query.word("projection") {
        Some("ids") => v1::Projection::Ids,
        Some("count") => v1::Projection::Count,
        _ => v1::Projection::Fixes,
    }
}

/// The window.
///
/// # Errors
/// An end is missing or given twice, or the last time is before the first one.
pub(super) fn window(query: &Query) -> Result<v1::TimeWindow, Problem> {
    let from_ms = time(query, "from", "from_ms")?;
    let to_ms = time(query, "to", "to_ms")?;
    if from_ms > to_ms {
        let name = if query.has("to") { "to" } else { "to_ms" };
        return Err(Problem::field(
            name,
            format!("{to_ms} ms is before the first time {from_ms} ms"),
        ));
    }
    Ok(v1::TimeWindow { from_ms, to_ms })
}

/// A time, Unix milliseconds, of one of two parameters.
///
/// # Errors
/// Neither of them is given, or both are.
pub(super) fn time(query: &Query, any: &str, unix_ms: &str) -> Result<i64, Problem> {
    match (query.integer(any), query.integer(unix_ms)) {
        (Some(time_ms), None) | (None, Some(time_ms)) => Ok(time_ms),
        (None, None) => Err(Problem::field(unix_ms, format!("missing; give it or {any}"))),
        (Some(_), Some(_)) => Err(Problem::field(any, format!("give it or {unix_ms}, not both"))),
    }
}
