//! Answers of queries as GeoJSON or lines of JSON, written part by part as the client reads.
//!
//! The header is known before the first byte, so it is also in the headers of the response. A later
//! error aborts the body, so that a client does not take a part for the whole answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use shoal_proto::v1;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Response as Reply, Status, Streaming};

use super::call::{Call, add, json_text};
use super::density::{DensityHeaderJson, SquareFeature};
use super::param::Query;
use super::route::{Header, Media};
use crate::access::{Account, MeteredQuota};
use crate::http::problem::Problem;
use crate::json::{FeatureJson, HeaderJson, PastHeaderJson, RowRef, RowText};
use crate::rpc::{Handover, RowMessage, StoredRows};

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

/// Media types of an answer with squares.
pub(super) const SQUARES: &[Media] = &[
    Media::new(GEOJSON, |generator| {
        generator.subschema_for::<Features<DensityHeaderJson, SquareFeature>>()
    }),
    Media::text(NDJSON),
];

/// Headers of an answer.
pub(super) const HEADERS: &[Header] = &[
    Header::new("Shoal-Fleet", "The fleet"),
    Header::new("Shoal-Term", "The term of the fleet"),
    Header::new("Shoal-Epoch", "The answer shows the state after this epoch"),
    Header::new("Shoal-Clock-Ms", "The clock of the fleet at that epoch, Unix milliseconds"),
];

/// A FeatureCollection (RFC 7946). Only the OpenAPI document uses this type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Features_of_{H}")]
#[allow(dead_code, reason = "only its schema is used: an answer is written as it arrives")]
pub(super) struct Features<H, F = FeatureJson> {
    r#type: super::geometry::CollectionType,
    /// Where and when the answer holds.
    shoal: H,
    features: Vec<F>,
}

/// Bytes of most rows.
const ROW_BYTES: usize = 384;

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// A FeatureCollection.
    #[default]
    GeoJson,
    /// One JSON object a line.
    Lines,
}

/// A message of an answer.
pub(super) trait Message: Default + Send + 'static {
    /// What a caller in this process takes instead.
    type Part: Part;
}

impl<T: RowMessage<Header: RowHead>> Message for T {
    type Part = StoredRows<T::Header>;
}

/// A part of an answer.
pub(super) trait Part: Send + Unpin + 'static {
    type Header: Head;

    fn take_header(&mut self) -> Option<Self::Header>;

    /// The number of rows.
    fn rows(&self) -> usize;

    /// Writes a row.
    fn write(&self, row: usize, header: &Self::Header, out: &mut Writer) -> serde_json::Result<()>;
}

/// Where and when an answer holds.
pub(super) trait Head: Send + Unpin + 'static {
    /// As JSON.
    fn json(&self) -> serde_json::Result<String>;

    /// As headers of the response.
    fn headers(&self) -> Vec<(&'static str, String)>;
}

/// The header of an answer whose rows are objects.
pub(super) trait RowHead: Head {
    /// The clock of the fleet, Unix milliseconds.
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
}

impl Head for v1::HistoryHeader {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&PastHeaderJson::from(self))
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        common(&self.fleet, self.term, self.epoch, self.clock_ms)
    }
}

impl RowHead for v1::AnswerHeader {
    fn clock_ms(&self) -> i64 {
        self.clock_ms
    }
}

impl RowHead for v1::HistoryHeader {
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

impl<H: RowHead> Part for StoredRows<H> {
    type Header = H;

    fn take_header(&mut self) -> Option<H> {
        self.header.take()
    }

    fn rows(&self) -> usize {
        self.len()
    }

    fn write(&self, row: usize, header: &H, out: &mut Writer) -> serde_json::Result<()> {
        if let Some(row) = self.row(row) {
            out.object(row, header.clock_ms());
        }
        Ok(())
    }
}

/// Writes rows, the first one in another way than those after it.
#[derive(Debug, Default)]
pub(super) struct Writer {
    form: Form,
    has_rows: bool,
    row_text: RowText,
    /// What is written and not taken yet.
    text: Vec<u8>,
}

impl Writer {
    pub(super) fn new(form: Form) -> Self {
        Self { form, ..Self::default() }
    }

    /// Writes one object.
    fn object(&mut self, row: RowRef<'_>, clock_ms: i64) {
        self.begin_row();
        match self.form {
            Form::GeoJson => self.row_text.feature(&mut self.text, row, clock_ms),
            Form::Lines => {
                self.row_text.row(&mut self.text, row, clock_ms);
                self.text.push(b'\n');
            }
        }
    }

    /// Writes what is before a row.
    fn begin_row(&mut self) {
        if self.form == Form::GeoJson {
            self.text.extend_from_slice(if self.has_rows { b",\n" } else { b"\n" });
        }
        self.has_rows = true;
    }

    /// Writes one row in the form of the answer.
    pub(super) fn row_or_feature<F: Serialize>(
        &mut self,
        row: &impl Serialize,
        feature: impl FnOnce() -> F,
    ) -> serde_json::Result<()> {
        self.begin_row();
        match self.form {
            Form::GeoJson => serde_json::to_writer(&mut self.text, &feature())?,
            Form::Lines => {
                serde_json::to_writer(&mut self.text, row)?;
                self.text.push(b'\n');
            }
        }
        Ok(())
    }

    /// What was written since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// The parts of an answer.
struct Parts<T: Message> {
    /// Has an empty message for each part.
    stream: Streaming<T>,
    handover: Handover<T::Part>,
    /// The account that pays for their text, if the caller has one.
    account: Option<Arc<Account>>,
}

impl<T: Message> Parts<T> {
    /// Charges the text of a part. The next part waits until the quota allows it.
    fn charge(&self, text: &[u8]) {
        if let Some(account) = &self.account {
            account.charge(MeteredQuota::AnswerBytes, text.len() as u64);
        }
    }
}

impl<T: Message> Stream for Parts<T> {
    type Item = Result<T::Part, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(Pin::new(&mut self.stream).poll_next(context));
        Poll::Ready(message.map(|message| {
            let part = message.map(|_| self.handover.take())?;
            part.ok_or_else(|| Status::internal("a message has no part"))
        }))
    }
}

/// An answer whose first part has arrived.
pub(super) struct Begun<T: Message> {
    pub(super) header: <T::Part as Part>::Header,
    pub(super) first: T::Part,
    parts: Parts<T>,
}

/// Waits for the first part of an answer.
///
/// # Errors
/// That of the service.
pub(super) async fn begin<T: Message>(
    call: &Call,
    reply: Result<Reply<Streaming<T>>, Status>,
) -> Result<Begun<T>, Problem> {
    let (_, stream, mut extensions) = reply.map_err(|status| call.problem(status))?.into_parts();
    let internal = |detail| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail);
    let handover = extensions.remove().ok_or_else(|| internal("an answer is not handed over"))?;
    let mut parts = Parts { stream, handover, account: extensions.remove() };
    let first = parts.next().await.transpose().map_err(|status| call.problem(status))?;
    let first = first.and_then(|mut part: T::Part| Some((part.take_header()?, part)));
    let (header, first) = first.ok_or_else(|| internal("an answer has no header"))?;
    Ok(Begun { header, first, parts })
}

impl<T: Message> Begun<T> {
    /// A document that is the whole answer.
    pub(super) fn document(&self, text: Vec<u8>) -> Response {
        self.parts.charge(&text);
        json_text(StatusCode::OK, text, &self.header.headers())
    }
}

/// The text of an answer, part by part.
struct Pieces<T: Message> {
    header: <T::Part as Part>::Header,
    /// The part that is written next.
    part: Option<T::Part>,
    parts: Parts<T>,
    writer: Writer,
    /// What follows the last row.
    end: Option<&'static [u8]>,
}

impl<T: Message> Pieces<T> {
    /// Writes the part.
    fn write(&mut self) -> serde_json::Result<()> {
        let Some(part) = self.part.take() else { return Ok(()) };
        self.writer.text.reserve(part.rows() * ROW_BYTES);
        (0..part.rows()).try_for_each(|row| part.write(row, &self.header, &mut self.writer))
    }
}

impl<T: Message> Stream for Pieces<T> {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Err(error) = this.write() {
                return Poll::Ready(Some(Err(Status::internal(error.to_string()))));
            }
            // In HTTP/1.1 an empty chunk would mean the end of the body.
            if !this.writer.text.is_empty() {
                let piece = this.writer.take();
                this.parts.charge(&piece);
                return Poll::Ready(Some(Ok(piece.into())));
            }
            if this.end.is_none() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut this.parts).poll_next(context)) {
                Some(Ok(part)) => this.part = Some(part),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => this.writer.text.extend_from_slice(this.end.take().unwrap_or_default()),
            }
        }
    }
}

/// Writes an answer in the form that the client requests.
///
/// # Errors
/// That of the service before the first byte.
pub(super) async fn answer<T: Message>(
    call: &Call,
    reply: Result<Reply<Streaming<T>>, Status>,
) -> Result<Response, Problem> {
    let Begun { header, first, parts } = begin(call, reply).await?;
    let mut writer = Writer::new(call.form);
    let (name, end): (_, &[u8]) = match call.form {
        Form::GeoJson => {
            let json = header.json();
            let json = json.map_err(|error| call.problem(Status::internal(error.to_string())))?;
            let begin = format!(r#"{{"type":"FeatureCollection","shoal":{json},"features":["#);
            writer.text = begin.into();
            (GEOJSON, b"\n]}\n")
        }
        Form::Lines => (NDJSON, b""),
    };
    let headers_of_answer = header.headers();
    let (part, end) = (Some(first), Some(end));
    let body = Pieces { header, part, parts, writer, end };
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(name));
    add(headers, &headers_of_answer);
    Ok(response)
}

/// The form that the parameter `format` names, otherwise the one that the header `Accept` prefers.
///
/// # Errors
/// 406 if no form is accepted.
pub(super) fn form(query: &Query, headers: &HeaderMap) -> Result<Form, Problem> {
    match query.word("format") {
        Some("ndjson") => return Ok(Form::Lines),
        Some(_) => return Ok(Form::GeoJson),
        None => {}
    }
    if !headers.contains_key(header::ACCEPT) {
        return Ok(Form::GeoJson);
    }
    let accept: Vec<_> =
        headers.get_all(header::ACCEPT).iter().flat_map(HeaderValue::to_str).collect();
    let accept = accept.join(",");
    accepted(&accept).ok_or_else(|| {
        let detail = format!("`{accept}` is neither {GEOJSON} nor {NDJSON}");
        Problem::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", detail)
    })
}

/// The form with the greatest weight in `Accept`, the one that is named first if both have it;
/// `None` if none is accepted. The most specific range that matches a form states its weight (RFC
/// 9110, section 12.5.1).
fn accepted(accept: &str) -> Option<Form> {
    struct Range<'a> {
        name: String,
        parameters: std::str::Split<'a, char>,
    }
    let ranges = accept.split(',').map(|range| {
        let mut parameters = range.split(';');
        let name = parameters.next().unwrap_or_default().trim().to_ascii_lowercase();
        Range { name, parameters }
    });
    let ranges: Vec<_> = ranges.collect();
    let weight = |range: &Range<'_>| {
        range
            .parameters
            .clone()
            .filter_map(|parameter| parameter.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
            .map_or(1.0, |(_, weight)| weight.trim().parse::<f32>().unwrap_or(1.0))
    };
    // The weight of a form, how specific the range with it is, and its place.
    let of_form = |names: &[&str]| {
        let matching = |name: &str| ranges.iter().position(|range| range.name == name);
        let exact = names.iter().filter_map(|name| matching(name)).map(|place| (2, place));
        let named = exact.min_by(|(_, one), (_, next)| {
            weight(&ranges[*next]).total_cmp(&weight(&ranges[*one])).then(one.cmp(next))
        });
        let any = |name, rank| matching(name).map(|place| (rank, place));
        let (rank, place) = named.or_else(|| any("application/*", 1)).or_else(|| any("*/*", 0))?;
        Some((weight(&ranges[place]), rank, place)).filter(|(weight, ..)| *weight > 0.0)
    };
    let geojson = of_form(&[GEOJSON, "application/json"]);
    let lines = of_form(&[NDJSON, "application/jsonl"]);
    match (geojson, lines) {
        (Some((weight, rank, place)), Some((of_lines, rank_of_lines, place_of_lines))) => {
            let order = of_lines.total_cmp(&weight);
            let order = order.then(rank_of_lines.cmp(&rank)).then(place.cmp(&place_of_lines));
            Some(if order.is_gt() { Form::Lines } else { Form::GeoJson })
        }
        (geojson, lines) => geojson.map(|_| Form::GeoJson).or(lines.map(|_| Form::Lines)),
    }
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
            ("application/geo+json;q=0, */*", Some(Form::Lines)),
            ("application/x-ndjson; Q=0, */*;q=0.1", Some(Form::GeoJson)),
            ("*/*, application/x-ndjson", Some(Form::Lines)),
            ("application/jsonl, application/json", Some(Form::Lines)),
            ("application/json, application/x-ndjson", Some(Form::GeoJson)),
            ("application/*;q=0.2, application/x-ndjson;q=0.1", Some(Form::GeoJson)),
            ("", None),
        ] {
            assert_eq!(accepted(accept), form, "{accept}");
        }
    }
}
