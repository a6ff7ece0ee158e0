//! Answers of queries as GeoJSON or lines of JSON, written part by part as the client reads.
//!
//! The header is known before the first byte, so it is also in the headers of the response. A later
//! error aborts the body, so that a client does not take a part for the whole answer.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::{AnswerRow, QueryAnswer};
use shoal_proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Response as Reply, Status, Streaming};

use super::call::{Call, add};
use super::route::Media;
use crate::http::problem::Problem;
use crate::json::{FeatureJson, HeaderJson, PastHeaderJson, RowJson};

const GEOJSON: &str = "application/geo+json";
const NDJSON: &str = "application/x-ndjson";

/// Media types of an answer with rows.
pub(super) const ROWS: &[Media] = &[
    Media::new(GEOJSON, |generator| generator.subschema_for::<Features<HeaderJson>>()),
    Media::text(NDJSON),
];

/// Like [`ROWS`], but for queries of the past.
pub(super) const PAST_ROWS: &[Media] = &[
    Media::new(GEOJSON, |generator| generator.subschema_for::<Features<PastHeaderJson>>()),
    Media::text(NDJSON),
];

/// Headers of an answer.
pub(super) const HEADERS: &[(&str, &str)] = &[
    ("Shoal-Fleet", "The fleet"),
    ("Shoal-Term", "The term of the fleet"),
    ("Shoal-Epoch", "The answer shows the state after this epoch"),
    ("Shoal-Clock-Ms", "The clock of the fleet at that epoch, Unix milliseconds"),
];

/// A FeatureCollection (RFC 7946). Only the OpenAPI document uses this type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Features_of_{H}")]
#[allow(dead_code, reason = "only its schema is used: an answer is written as it arrives")]
pub(super) struct Features<H> {
    r#type: super::geometry::CollectionType,
    /// Where and when the answer holds.
    shoal: H,
    features: Vec<FeatureJson>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    GeoJson,
    Lines,
}

/// One message of an answer.
pub(super) trait Part: Send + 'static {
    type Header: Head;

    fn take_header(&mut self) -> Option<Self::Header>;

    /// The lists of the message.
    fn into_answer(self) -> QueryAnswer;
}

/// Where and when an answer holds.
pub(super) trait Head {
    /// As JSON.
    fn json(&self) -> serde_json::Result<String>;

    /// As headers of the response.
    fn headers(&self) -> Vec<(&'static str, String)>;

    fn clock_ms(&self) -> i64;
}

impl Head for v1::AnswerHeader {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&HeaderJson::from(self))
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = common(&self.fleet, self.term, self.epoch, self.clock_ms);
        headers.push(("shoal-total", self.total.to_string()));
        headers.push(("shoal-truncated", self.truncated.to_string()));
        headers.push(("shoal-staleness-epochs", self.staleness_epochs.to_string()));
        if let Some(staleness) = &self.staleness {
            headers.push(("shoal-stale-ms", staleness.stale_ms.to_string()));
        }
        headers
    }

    fn clock_ms(&self) -> i64 {
        self.clock_ms
    }
}

impl Head for v1::HistoryHeader {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&PastHeaderJson::from(self))
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        common(&self.fleet, self.term, self.epoch, self.clock_ms)
    }

    fn clock_ms(&self) -> i64 {
        self.clock_ms
    }
}

fn common(fleet: &str, term: u64, epoch: u64, clock_ms: i64) -> Vec<(&'static str, String)> {
    vec![
        ("shoal-fleet", fleet.to_owned()),
        ("shoal-term", term.to_string()),
        ("shoal-epoch", epoch.to_string()),
        ("shoal-clock-ms", clock_ms.to_string()),
    ]
}

macro_rules! parts {
    ($($part:ident: $header:ident $(, $distances:ident)?;)*) => {$(
        impl Part for v1::$part {
            type Header = v1::$header;

            fn take_header(&mut self) -> Option<v1::$header> {
                self.header.take()
            }

            fn into_answer(self) -> QueryAnswer {
                let Self { objects, fixes, names, $($distances,)? .. } = self;
                QueryAnswer { objects, fixes, names, $($distances,)? ..QueryAnswer::default() }
            }
        }
    )*};
}

parts! {
    GetResponse: AnswerHeader;
    RangeResponse: AnswerHeader;
    NearestResponse: AnswerHeader, distance_m;
    TrajectoryResponse: HistoryHeader;
    PassedResponse: HistoryHeader;
    AsOfResponse: HistoryHeader;
}

/// The rows of a message.
pub(super) fn rows<P: Part>(part: P) -> impl Iterator<Item = AnswerRow> {
    part.into_answer().into_rows()
}

/// Writes rows, the first one in another way than those after it.
struct Writer {
    form: Form,
    clock_ms: i64,
    has_rows: bool,
}

impl Writer {
    fn write<P: Part>(&mut self, part: P) -> Result<Bytes, Status> {
        let mut text = Vec::new();
        for row in rows(part) {
            let written = match self.form {
                Form::GeoJson => {
                    text.extend_from_slice(if self.has_rows { b",\n" } else { b"\n" });
                    serde_json::to_writer(&mut text, &FeatureJson::new(&row, self.clock_ms))
                }
                Form::Lines => serde_json::to_writer(&mut text, &RowJson::new(&row, self.clock_ms)),
            };
            written.map_err(|error| Status::internal(error.to_string()))?;
            if self.form == Form::Lines {
                text.push(b'\n');
            }
            self.has_rows = true;
        }
        Ok(text.into())
    }
}

/// The first message of an answer and the others.
///
/// # Errors
/// That of the service.
pub(super) async fn begin<P: Part>(
    call: &Call,
    reply: Result<Reply<Streaming<P>>, Status>,
) -> Result<(P::Header, P, Streaming<P>), Problem> {
    let mut stream = reply.map_err(|status| call.problem(status))?.into_inner();
    let first = stream.message().await.map_err(|status| call.problem(status))?;
    let first = first.and_then(|mut part| Some((part.take_header()?, part)));
    let (header, part) = first.ok_or_else(|| {
        let detail = "an answer has no header";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
    })?;
    Ok((header, part, stream))
}

/// Writes an answer in the form that the client requests.
///
/// # Errors
/// That of the service before the first byte.
pub(super) async fn answer<P: Part>(
    call: &Call,
    reply: Result<Reply<Streaming<P>>, Status>,
) -> Result<Response, Problem> {
    let form = form(call)?;
    let (header, first, stream) = begin(call, reply).await?;
    let internal = |error: serde_json::Error| call.problem(Status::internal(error.to_string()));
    let (begin, end) = match form {
        Form::GeoJson => {
            let header = header.json().map_err(internal)?;
            let begin = format!(r#"{{"type":"FeatureCollection","shoal":{header},"features":["#);
            (Bytes::from(begin), Bytes::from_static(b"\n]}\n"))
        }
        Form::Lines => (Bytes::new(), Bytes::new()),
    };
    let mut writer = Writer { form, clock_ms: header.clock_ms(), has_rows: false };
    let first = writer.write(first).map_err(|status| call.problem(status))?;
    let parts = stream.map(move |part| writer.write(part?));
    let body = tokio_stream::iter([Ok(begin), Ok(first)])
        .chain(parts)
        .chain(tokio_stream::once(Ok(end)))
        // In HTTP/1.1 an empty chunk would mean the end of the body.
        .filter(|bytes: &Result<Bytes, Status>| bytes.as_ref().map_or(true, |it| !it.is_empty()));
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    let name = if form == Form::GeoJson { GEOJSON } else { NDJSON };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(name));
    add(headers, &header.headers());
    Ok(response)
}

/// The form that the parameter `format` names, otherwise the one that the header `Accept` prefers.
fn form(call: &Call) -> Result<Form, Problem> {
    match call.query.word("format") {
        Some("ndjson") => return Ok(Form::Lines),
        Some(_) => return Ok(Form::GeoJson),
        None => {}
    }
    let Some(accept) = call.headers.get(header::ACCEPT) else { return Ok(Form::GeoJson) };
    let accept = accept.to_str().unwrap_or_default();
    accepted(accept).ok_or_else(|| {
        let detail = format!("`{accept}` is neither {GEOJSON} nor {NDJSON}");
        Problem::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", detail)
    })
}

/// The form with the greatest weight in `Accept`, the first one if several have it; `None` if none
/// is accepted (RFC 9110, section 12.5.1).
fn accepted(accept: &str) -> Option<Form> {
    let mut best: Option<(f32, Form)> = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let form = match parts.next()?.to_ascii_lowercase().as_str() {
            "*/*" | "application/*" | "application/json" | GEOJSON => Form::GeoJson,
            NDJSON | "application/jsonl" => Form::Lines,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if weight > best.map_or(0.0, |(weight, _)| weight) {
            best = Some((weight, form));
        }
    }
    best.map(|(_, form)| form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_form() {
        for (accept, form) in [
            ("*/*", Some(Form::GeoJson)),
            ("application/x-ndjson", Some(Form::Lines)),
            ("text/html, application/xhtml+xml, */*;q=0.8", Some(Form::GeoJson)),
            ("application/geo+json;q=0.5, application/x-ndjson", Some(Form::Lines)),
            ("Application/JSON; charset=utf-8", Some(Form::GeoJson)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("", None),
        ] {
            assert_eq!(accepted(accept), form, "{accept}");
        }
    }
}
