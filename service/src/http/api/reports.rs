//! Reports and removals: documents in one message, lines in a stream of messages.
//!
//! The answer says what became of every row, and has the token of the change.

use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use jiff::fmt::strtime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1;
use shoal_table::{FixFileOptions, TimeUnit};

use super::call::{Call, TOKEN, json};
use super::document::bounded_list;
use super::filter::EXACT_MAX;
use super::lines::report_lines;
use super::param::{Kind, Param, Query, encoded_token};
use super::row::{ObjectId, of_document};
use crate::http::limits::HTTP_DOCUMENT_BYTES_MAX;
use crate::http::problem::Problem;
use crate::limits::PRODUCER_BYTES_MAX;

/// Lines of rows or features.
pub(super) const NDJSON: &str = "application/x-ndjson";
/// A form in the body.
pub(super) const FORM_TYPE: &str = "application/x-www-form-urlencoded";
/// Lines of CSV after a header with the names of the columns.
pub(super) const CSV: &str = "text/csv";

/// What an acknowledgement stands for.
pub(super) const DURABILITY: &[Param] = &[Param::new(
    "durability",
    Kind::OneOf(&["applied", "logged"]),
    "What the answer stands for; the default of the fleet if absent",
)];

/// What becomes of measures that cannot be stored.
pub(super) const MEASURES: &[Param] = &[Param::new(
    "drop_invalid_measures",
    Kind::Flag,
    "True: drop a speed, heading, altitude or validity that cannot be stored, and keep the rest of its row; \
     false, the default: refuse the row",
)];

/// How CSV is read.
pub(super) const CSV_TIMES: &[Param] = &[
    Param::new(
        "time_format",
        Kind::Text(64),
        "Of text/csv: the form of times that are texts, as of strptime; ISO 8601 if absent",
    ),
    Param::new(
        "time_unit",
        Kind::OneOf(TIME_UNITS),
        "Of text/csv: the unit of times that are numbers; that of the first time if absent",
    ),
];

/// The words of [`TimeUnit`].
const TIME_UNITS: &[&str] = &["s", "ms", "us", "ns"];

/// How the CSV of a call is read.
///
/// # Errors
/// The form of times is none.
pub(super) fn csv_options(query: &Query) -> Result<FixFileOptions, Problem> {
    let time_format = query.text("time_format");
    let is_form =
        |form: &str| !form.is_empty() && strtime::format(form, Timestamp::UNIX_EPOCH).is_ok();
    if let Some(wrong) = time_format.filter(|form| !is_form(form)) {
        return Err(Problem::field("time_format", format!("`{wrong}` is no form as of strptime")));
    }
    let unit = |word| match word {
        "s" => TimeUnit::Seconds,
        "us" => TimeUnit::Microseconds,
        "ns" => TimeUnit::Nanoseconds,
        _ => TimeUnit::Milliseconds,
    };
    Ok(FixFileOptions {
        time_format: time_format.map(str::to_owned),
        time_unit: query.word("time_unit").map(unit),
        is_strict: true,
        ..FixFileOptions::default()
    })
}

/// Numbers for safe retries.
pub(super) const NUMBER: &[Param] = &[
    Param::new("producer", Kind::Text(PRODUCER_BYTES_MAX), "The sender, for safe retries"),
    Param::new("batch_seq", Kind::Integer(1, EXACT_MAX), "The number of this report, from 1"),
];

/// Rows by outcome.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(super) struct RowsJson {
    applied: u64,
    duplicate: u64,
    superseded: u64,
    late: u64,
    expired: u64,
    refused: u64,
}

/// A refused row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct RefusedJson {
    /// The row, counted from 0.
    row: u64,
    /// Its wrong member.
    field: String,
    /// Why: a reason of RefusalReason without its prefix.
    reason: String,
}

/// Dropped measures.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(super) struct DroppedCountsJson {
    speed: u64,
    heading: u64,
    altitude: u64,
    validity: u64,
}

/// A dropped measure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct DroppedJson {
    /// The row, counted from 0.
    row: u64,
    /// Its member.
    field: String,
}

/// What became of a report.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Report")]
pub(super) struct ReportJson {
    /// The fleet.
    fleet: String,
    /// Its term; absent, as the next three, if the report has no rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<String>,
    /// The epoch in which the last row was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// A query with this as `min_token` sees the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The durability of the report: `applied` or `logged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<&'static str>,
    /// Rows by outcome.
    rows: RowsJson,
    /// The first refused rows, at most 256.
    refused_rows: Vec<RefusedJson>,
    /// Dropped measures, see `drop_invalid_measures`.
    dropped: DroppedCountsJson,
    /// The first dropped measures, at most 256.
    dropped_measures: Vec<DroppedJson>,
    /// True if this number of the producer had been applied before.
    duplicate: bool,
}

impl ReportJson {
    /// The outcome of a report of which nothing is acknowledged yet.
    pub(super) fn new(fleet: &str) -> Self {
        Self { fleet: fleet.to_owned(), ..Self::default() }
    }

    /// Adds an acknowledgement; `row_of` returns the number in the whole report of a row of a
    /// message.
    pub(super) fn add(&mut self, ack: &v1::ReportAck, row_of: impl Fn(u64, u32) -> u64) {
        let rows = ack.rows.unwrap_or_default();
        self.rows.applied += rows.applied;
        self.rows.duplicate += rows.duplicate;
        self.rows.superseded += rows.superseded;
        self.rows.late += rows.late;
        self.rows.expired += rows.expired;
        self.rows.refused += rows.refused;
        let room = crate::limits::REFUSED_ROWS_REPORTED_MAX - self.refused_rows.len();
        self.refused_rows.extend(ack.refused_rows.iter().take(room).map(|row| RefusedJson {
            row: row_of(row.message, row.row),
            field: if row.field == "name" { "object".to_owned() } else { row.field.clone() },
            reason: row.reason().as_str_name().trim_start_matches("REFUSAL_REASON_").to_owned(),
        }));
        let dropped = ack.dropped.unwrap_or_default();
        self.dropped.speed += dropped.speed;
        self.dropped.heading += dropped.heading;
        self.dropped.altitude += dropped.altitude;
        self.dropped.validity += dropped.validity;
        let room = crate::limits::REFUSED_ROWS_REPORTED_MAX - self.dropped_measures.len();
        self.dropped_measures.extend(ack.dropped_measures.iter().take(room).map(|measure| {
            DroppedJson { row: row_of(measure.message, measure.row), field: measure.field.clone() }
        }));
        self.duplicate |= ack.duplicate_messages > 0;
        if !ack.token.is_empty() {
            self.term = Some(ack.term.to_string());
            self.epoch = Some(ack.epoch);
            self.token = Some(encoded_token(&ack.token));
            self.durability = Some(durability_name(ack.durability()));
        }
    }

    /// As the response.
    pub(super) fn respond(&self) -> Result<Response, Problem> {
        let token = self.token.clone().map(|token| (TOKEN, token));
        json(StatusCode::OK, self, token.as_slice())
    }
}

fn durability_name(durability: v1::Durability) -> &'static str {
    match durability {
        v1::Durability::Logged => "logged",
        v1::Durability::Applied | v1::Durability::Unspecified => "applied",
    }
}

/// The level that a parameter names.
pub(super) fn durability(word: Option<&str>) -> v1::Durability {
    match word {
        Some("applied") => v1::Durability::Applied,
        Some("logged") => v1::Durability::Logged,
        _ => v1::Durability::Unspecified,
    }
}

pub(super) async fn report(call: &mut Call) -> Result<Response, Problem> {
    let media_type = call.media_type()?;
    let of_csv = CSV_TIMES.iter().find(|param| call.query.has(param.name));
    if let Some(param) = of_csv.filter(|_| media_type != CSV) {
        return Err(Problem::field(param.name, "it is for text/csv"));
    }
    if matches!(media_type, NDJSON | CSV) {
        return report_lines(call).await;
    }
    let is_named = call.is_named().await?;
    let document = call.document(HTTP_DOCUMENT_BYTES_MAX).await?;
    let fixes = of_document(&document, is_named)?;
    drop(document);
    let request = v1::ReportOnceRequest {
        fleet: call.fleet.clone(),
        producer: call.query.text("producer").unwrap_or_default().to_owned(),
        batch_seq: call.query.count("batch_seq").unwrap_or(0),
        payload: Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes })),
        durability: durability(call.query.word("durability")).into(),
        drop_invalid_measures: call.query.flag("drop_invalid_measures").unwrap_or(false),
        block_names: Vec::new(),
    };
    let reply = call.positions().report_once(call.request(request)).await;
    let ack = reply.map_err(|status| call.problem(status))?.into_inner().ack.unwrap_or_default();
    let mut report = ReportJson::new(&call.fleet);
    report.add(&ack, |_, row| row.into());
    report.respond()
}

/// Objects to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    /// The objects. Repeated ones count once.
    #[schemars(length(max = 65_536))]
    #[serde(deserialize_with = "bounded_list::<_, _, GET_OBJECTS_MAX>")]
    objects: Vec<ObjectId>,
}

/// What was removed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Removed")]
pub(super) struct RemovedJson {
    /// The fleet.
    fleet: String,
    /// Its term.
    term: String,
    /// The epoch in which the removal took effect.
    epoch: u64,
    /// A query with this as `min_token` sees the removal.
    token: String,
    /// Objects that were removed.
    removed: u64,
    /// Objects that did not exist.
    missing: u64,
    /// True if this number of the producer had been applied before.
    duplicate: bool,
}

pub(super) async fn remove(call: &mut Call) -> Result<Response, Problem> {
    let removal: Removal = call.parsed(HTTP_DOCUMENT_BYTES_MAX).await?;
    let is_named = call.is_named().await?;
    let (mut objects, mut names) = (Vec::new(), Vec::new());
    for (at, object) in removal.objects.into_iter().enumerate() {
        let (object, name) = object
            .identify(is_named)
            .map_err(|why| Problem::field(&format!("objects[{at}]"), why))?;
        if is_named {
            names.push(name);
        } else {
            objects.push(object);
        }
    }
    remove_objects(call, objects, names).await
}

pub(super) async fn remove_one(call: &mut Call) -> Result<Response, Problem> {
    let (objects, names) = call.identified("object", std::slice::from_ref(&call.object)).await?;
    remove_objects(call, objects, names).await
}

async fn remove_objects(
    call: &mut Call,
    objects: Vec<u64>,
    names: Vec<String>,
) -> Result<Response, Problem> {
    let request = v1::RemoveRequest {
        fleet: call.fleet.clone(),
        objects,
        producer: call.query.text("producer").unwrap_or_default().to_owned(),
        batch_seq: call.query.count("batch_seq").unwrap_or(0),
        names,
    };
    let reply = call.positions().remove(call.request(request)).await;
    let reply = reply.map_err(|status| call.problem(status))?.into_inner();
    let token = encoded_token(&reply.token);
    let removed = RemovedJson {
        fleet: call.fleet.clone(),
        term: reply.term.to_string(),
        epoch: reply.epoch,
        token: token.clone(),
        removed: reply.removed_count,
        missing: reply.missing_count,
        duplicate: reply.duplicate,
    };
    json(StatusCode::OK, &removed, &[(TOKEN, token)])
}

pub(super) async fn clear(call: &mut Call) -> Result<Response, Problem> {
    let request = call.request(v1::ClearFleetRequest { name: call.fleet.clone() });
    let reply = call.fleets().clear_fleet(request).await;
    let reply = reply.map_err(|status| call.problem(status))?.into_inner();
    let token = encoded_token(&reply.token);
    let removed = RemovedJson {
        fleet: call.fleet.clone(),
        term: reply.term.to_string(),
        epoch: reply.epoch,
        token: token.clone(),
        removed: reply.removed_count,
        missing: 0,
        duplicate: false,
    };
    json(StatusCode::OK, &removed, &[(TOKEN, token)])
}
