//! Events as Server-Sent Events (WHATWG HTML, section 9.2).
//!
//! Each message of a session is one event, whose `id` is the token that resumes after it. A browser
//! that connects again sends the last one as `Last-Event-ID`, so nothing is lost or repeated.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use schemars::JsonSchema;
use serde::Serialize;
use shoal_client::{QueryAnswer, duration};
use shoal_proto::raw::IdleStreamCodec;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use tokio::time::{Instant, interval_at};
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Status, Streaming};

use super::call::Call;
use super::param::{self, encoded_token};
use super::route::{EVENT_STREAM, Media};
use super::subscriptions::event_word;
use super::web_socket;
use crate::http::limits::{HTTP_EVENTS_RETRY_MS, HTTP_HEARTBEAT_MS};
use crate::http::problem::Problem;
use crate::json::RowJson;
use crate::limits::MESSAGE_BYTES_MAX;

/// The method of a subscription.
const SUBSCRIBE: &str = "/shoal.v1.SubscriptionService/Subscribe";
/// Media type of an answer with events.
pub(super) const EVENTS: &[Media] = &[Media::text(EVENT_STREAM)];

/// The data of an event.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "EventData")]
pub(super) enum Data {
    /// `event: opened`. The stream begins.
    Opened {
        /// The fleet.
        fleet: String,
        /// Its term.
        term: String,
        /// Regions are evaluated from this epoch on; 0 if the stream resumes.
        epoch: u64,
        /// Whether the stream resumes a session.
        resumed: bool,
        /// How long the session continues without a stream.
        retention_ms: u64,
        /// Identifies the session to `SubscriptionService.Modify`: keep it secret.
        session: String,
    },
    /// `event: snapshot`. Members of regions.
    Snapshot {
        /// The place of the message.
        #[serde(flatten)]
        at: At,
        /// The regions.
        regions: Vec<Members>,
    },
    /// `event: events`. What happened.
    Events {
        /// The place of the message.
        #[serde(flatten)]
        at: At,
        /// The first epoch of a coalesced batch: the client did not keep up.
        #[serde(skip_serializing_if = "Option::is_none")]
        coalesced_from_epoch: Option<u64>,
        /// The regions.
        regions: Vec<RegionEvents>,
    },
    /// `event: progress`. Nothing happened up to this epoch.
    Progress {
        /// The epoch.
        epoch: u64,
        /// The clock of the fleet, Unix milliseconds.
        clock_ms: i64,
        /// From a follower: milliseconds since it last knew that it was up to date.
        #[serde(skip_serializing_if = "Option::is_none")]
        stale_ms: Option<u64>,
    },
    /// `event: gap`. Messages before this one are missing.
    Gap {
        /// Why: `retention`, `session` or `term`.
        reason: &'static str,
        /// The number of the next message.
        next_sequence: u64,
    },
    /// `event: lagged`. Messages of some regions are missing.
    Lagged {
        /// The regions; all if empty.
        region_ids: Vec<String>,
    },
}

/// The place of a message.
#[derive(Serialize, JsonSchema)]
pub(super) struct At {
    /// Messages are numbered from 1; this one covers the numbers from here
    first_sequence: u64,
    /// to here.
    last_sequence: u64,
    /// The epoch.
    epoch: u64,
    /// The clock of the fleet, Unix milliseconds.
    clock_ms: i64,
    /// True if nothing of this epoch follows.
    epoch_done: bool,
}

/// A part of the members of a region.
#[derive(Serialize, JsonSchema)]
pub(super) struct Members {
    /// The region.
    region_id: String,
    /// Members of the whole snapshot.
    total: u64,
    /// True for the first part: discard what is known of the region.
    first: bool,
    /// True for the last part.
    last: bool,
    /// The members.
    members: Vec<RowJson>,
}

/// Events of a region.
#[derive(Serialize, JsonSchema)]
pub(super) struct RegionEvents {
    /// The region.
    region_id: String,
    /// The events.
    events: Vec<EventRow>,
}

/// An event.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub(super) struct EventRow {
    /// What happened.
    event: &'static str,
    #[serde(flatten)]
    row: RowJson,
}

fn object_rows(
    objects: Vec<u64>,
    fixes: Vec<v1::FixRecord>,
    names: Vec<String>,
    clock_ms: i64,
) -> impl Iterator<Item = RowJson> {
    let rows = QueryAnswer { objects, fixes, names, ..QueryAnswer::default() };
    rows.into_rows().map(move |row| RowJson::new(&row, clock_ms))
}

/// Name and data of a message.
pub(super) fn event(message: v1::SubscribeResponse) -> Option<(&'static str, Data)> {
    let (first_sequence, last_sequence) = (message.first_sequence, message.last_sequence);
    let epoch_done = message.epoch_done;
    let at = |epoch, clock_ms| At { first_sequence, last_sequence, epoch, clock_ms, epoch_done };
    Some(match message.kind? {
        Kind::Opened(opened) => {
            let retention = opened.retention.as_ref().and_then(|it| duration::to_millis(it).ok());
            let data = Data::Opened {
                fleet: opened.fleet,
                term: opened.term.to_string(),
                epoch: opened.epoch,
                resumed: opened.resumed,
                retention_ms: retention.unwrap_or(0).unsigned_abs(),
                session: encoded_token(&opened.session),
            };
            ("opened", data)
        }
        Kind::Snapshot(v1::SnapshotChunk { epoch, clock_ms, regions }) => {
            let regions = regions.into_iter().map(|of| Members {
                region_id: of.region_id.to_string(),
                total: of.total,
                first: of.first,
                last: of.last,
                members: object_rows(of.objects, of.fixes, of.names, clock_ms).collect(),
            });
            ("snapshot", Data::Snapshot { at: at(epoch, clock_ms), regions: regions.collect() })
        }
        Kind::Events(v1::EventBatch { epoch, clock_ms, regions, coalesced_from_epoch }) => {
            let regions = regions.into_iter().map(|of| {
                let kinds: Vec<_> = of.kinds().map(event_word).collect();
                let rows = object_rows(of.objects, of.fixes, of.names, clock_ms);
                let events =
                    kinds.into_iter().zip(rows).map(|(event, row)| EventRow { event, row });
                RegionEvents { region_id: of.region_id.to_string(), events: events.collect() }
            });
            let coalesced_from_epoch = Some(coalesced_from_epoch).filter(|epoch| *epoch > 0);
            let (at, regions) = (at(epoch, clock_ms), regions.collect());
            ("events", Data::Events { at, coalesced_from_epoch, regions })
        }
        Kind::Progress(v1::Progress { epoch, clock_ms, staleness }) => {
            let stale_ms = staleness.map(|staleness| staleness.stale_ms);
            ("progress", Data::Progress { epoch, clock_ms, stale_ms })
        }
        Kind::Gap(gap) => {
            let reason = match gap.reason() {
                v1::GapReason::Retention => "retention",
                v1::GapReason::Term => "term",
                v1::GapReason::Session | v1::GapReason::Unspecified => "session",
            };
            ("gap", Data::Gap { reason, next_sequence: gap.next_sequence })
        }
        Kind::Lagged(v1::Lagged { region_ids }) => {
            let region_ids = region_ids.iter().map(ToString::to_string).collect();
            ("lagged", Data::Lagged { region_ids })
        }
    })
}

/// An event in the form of the stream.
fn text(name: &str, id: &[u8], data: &impl Serialize) -> Result<Bytes, Status> {
    let data = serde_json::to_string(data).map_err(|error| Status::internal(error.to_string()))?;
    let mut text = String::with_capacity(data.len() + 256);
    // Writing to a string cannot fail, and JSON has no line feeds.
    let _ = writeln!(text, "event: {name}");
    if !id.is_empty() {
        let _ = writeln!(text, "id: {}", encoded_token(id));
    }
    let _ = writeln!(text, "data: {data}\n");
    Ok(text.into())
}

impl Call {
    /// The messages of a session.
    ///
    /// # Errors
    /// Those of the service.
    pub(super) async fn subscribe(
        &self,
        request: v1::SubscribeRequest,
    ) -> Result<Streaming<v1::SubscribeResponse>, Problem> {
        let path = PathAndQuery::from_static(SUBSCRIBE);
        let codec = IdleStreamCodec::<_, v1::SubscribeResponse>::default();
        let mut grpc = Grpc::new(self.app.services()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let reply = grpc.server_streaming(self.request(request), path, codec).await;
        Ok(reply.map_err(|status| self.problem(status))?.into_inner())
    }
}

/// Streams the events of regions, or resumes.
pub(super) async fn events(call: &mut Call) -> Result<Response, Problem> {
    let mut request = call.subscription().await?;
    if let Some(last) = call.headers.get("last-event-id") {
        let token = last.to_str().map_err(|_| "not text".to_owned()).and_then(param::token);
        request.resume_token = token.map_err(|why| Problem::field("Last-Event-ID", why))?;
    }
    if web_socket::is_asked(&call.headers) {
        return web_socket::open(call, request).await;
    }
    if request.regions.is_empty() && request.resume_token.is_empty() {
        let name = if call.route.body.is_empty() { "circle" } else { "regions" };
        return Err(Problem::field(name, "give a region, or Last-Event-ID to resume"));
    }
    let messages = call.subscribe(request).await?;
    let heartbeat = Duration::from_millis(HTTP_HEARTBEAT_MS);
    let events = messages.map(|message| match message {
        Ok(mut message) => {
            let id = std::mem::take(&mut message.resume_token);
            event(message).map_or(Ok(Bytes::new()), |(name, data)| text(name, &id, &data))
        }
        // The client connects again, after this time, unless the reason tells it not to.
        Err(status) => text("error", &[], &Problem::from(status)),
    });
    let events = events
        .timeout_repeating(interval_at(Instant::now() + heartbeat, heartbeat))
        .map(|event| event.unwrap_or(Ok(Bytes::from_static(b": heartbeat\n\n"))));
    let begin = Bytes::from(format!("retry: {HTTP_EVENTS_RETRY_MS}\n\n"));
    let body = tokio_stream::once(Ok(begin)).chain(events);
    let body =
        body.filter(|text: &Result<Bytes, Status>| text.as_ref().map_or(true, |it| !it.is_empty()));
    Ok(headers().map(|_| Body::from_stream(body)))
}

/// The answer without its body.
pub(super) fn headers() -> Response {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
