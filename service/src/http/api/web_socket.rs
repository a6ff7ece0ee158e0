//! Events over a WebSocket (RFC 6455): those of Server-Sent Events as JSON texts, and changes of
//! the regions in the other direction.
//!
//! The query string states the first region or the token to resume. Without either, the first text
//! of the client is a [`Subscription`]. Later texts are [`Change`]s.

use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_stream::StreamExt as _;
use tonic::{Code, Streaming};

use super::call::Call;
use super::document::parse;
use super::events::{Data, event};
use super::param::encoded_token;
use super::region_id::RegionId;
use super::subscriptions::{FollowedRegion, Subscription, into_wire};
use crate::http::limits::{HTTP_HEARTBEAT_MS, HTTP_WRITE_STALL_MS_MAX, WEB_SOCKET_TEXT_BYTES_MAX};
use crate::http::listener::Upgrades;
use crate::http::problem::Problem;
use crate::limits::MESSAGE_READ_MS_MAX;

/// The protocol of the messages, in `Sec-WebSocket-Protocol`.
const PROTOCOL: &str = "shoal.events.v1";
/// Bytes of the buffers of a connection, each allocated once.
const BUFFER_BYTES: usize = 1 << 10;

/// A change of the regions of the session, all in one epoch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebSocketChange")]
pub(super) struct Change {
    /// Regions with new ids.
    #[serde(default)]
    add: Vec<FollowedRegion>,
    /// Regions with ids of the session, which they replace.
    #[serde(default)]
    change: Vec<FollowedRegion>,
    /// Ids of regions to remove.
    #[serde(default)]
    remove: Vec<RegionId>,
    /// A text that the client chooses; the answer repeats it.
    #[serde(default)]
    request_id: Option<String>,
}

/// The part of a wrong change that its answer repeats.
#[derive(Deserialize)]
struct Numbered {
    request_id: Option<String>,
}

/// A text that the server sends.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebSocketMessage")]
pub(super) struct Sent<D> {
    /// `opened`, `snapshot`, `events`, `progress`, `gap`, `lagged` or `error`, as of Server-Sent
    /// Events; `changed` or `refused` answers a change.
    event: &'static str,
    /// A connection that begins with this as `last_event_id` continues after the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// That of the change which this answers, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// An EventData, a Problem (`error`, `refused`), or a Changed (`changed`).
    data: D,
}

/// What a text of the server has as its data. Only the OpenAPI document uses this type.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[allow(dead_code, reason = "only its schema is used: each text is written with its own data")]
pub(super) enum AnyData {
    Event(Data),
    Changed(Changed),
    Problem(Problem),
}

/// The outcome of a change.
#[derive(Serialize, JsonSchema)]
pub(super) struct Changed {
    /// The first epoch in which the changes are in effect.
    epoch: u64,
    /// The regions that failed; the others are changed.
    errors: Vec<RefusedRegion>,
}

/// A region that could not be changed.
#[derive(Serialize, JsonSchema)]
struct RefusedRegion {
    region_id: String,
    problem: Problem,
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|it| it.to_str().ok());
    upgrade.is_some_and(|it| it.eq_ignore_ascii_case("websocket"))
}

/// Answers a request for a WebSocket. An error before it is open is a problem over HTTP.
///
/// # Errors
/// A wrong handshake, and those of the subscription.
pub(super) async fn open(
    call: &mut Call,
    request: v1::SubscribeRequest,
) -> Result<Response, Problem> {
    let mut parts = Request::new(()).into_parts().0;
    (parts.headers, parts.extensions) = (call.headers.clone(), call.extensions.clone());
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|rejection| {
        let detail = rejection.body_text();
        Problem::new(rejection.status(), "WEB_SOCKET", detail)
    })?;
    let no_upgrades = || Problem::new(StatusCode::UPGRADE_REQUIRED, "WEB_SOCKET", "not HTTP/1.1");
    let upgrades = call.extensions.get::<Upgrades>().cloned().ok_or_else(no_upgrades)?;
    let is_stated = !request.regions.is_empty() || !request.resume_token.is_empty();
    let messages = match is_stated {
        true => Some(call.subscribe(request).await?),
        false => None,
    };
    let session = Session { call: call.without_body(), id: Vec::new() };
    let upgrade = upgrade
        .protocols([PROTOCOL])
        // A text that is somewhat too long is answered, not cut.
        .max_message_size(2 * WEB_SOCKET_TEXT_BYTES_MAX)
        .max_frame_size(2 * WEB_SOCKET_TEXT_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES);
    Ok(upgrade.on_upgrade(async move |socket| {
        upgrades.run(serve(socket, session, messages)).await;
    }))
}

/// The session of a socket.
struct Session {
    call: Call,
    /// What identifies it to the service, once it is open.
    id: Vec<u8>,
}

/// What ends a socket.
enum End {
    /// The peer left, or takes nothing.
    Gone,
    /// The server ends it with a code and a reason.
    Closed(u16, &'static str),
}

type Messages = Streaming<v1::SubscribeResponse>;

/// Serves a socket until one side ends it.
async fn serve(mut socket: WebSocket, mut session: Session, messages: Option<Messages>) {
    let ended = match messages {
        Some(messages) => exchange(&mut socket, &mut session, messages).await,
        None => match begin(&mut socket, &mut session).await {
            Ok(messages) => exchange(&mut socket, &mut session, messages).await,
            Err(end) => end,
        },
    };
    if let End::Closed(code, reason) = ended {
        let frame = CloseFrame { code, reason: reason.into() };
        if send(&mut socket, Message::Close(Some(frame))).await.is_ok() {
            // The peer answers with its own frame, and closes.
            let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = timeout(Duration::from_millis(MESSAGE_READ_MS_MAX), answered).await;
        }
    }
}

/// Opens the session that the first text asks for.
async fn begin(socket: &mut WebSocket, session: &mut Session) -> Result<Messages, End> {
    let patience = Duration::from_millis(MESSAGE_READ_MS_MAX);
    let text = async {
        loop {
            match socket.recv().await {
                Some(Ok(Message::Text(text))) if text.len() > WEB_SOCKET_TEXT_BYTES_MAX => {
                    return Err(TOO_LONG);
                }
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_))) => return Err(NO_TEXT),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Gone),
            }
        }
    };
    let late = End::Closed(close_code::POLICY, "no subscription in time");
    let text = timeout(patience, text).await.map_err(|_| late)??;
    let beginning = session.begin(text.as_bytes());
    let opened = match beginning {
        Ok(request) => session.call.subscribe(request).await,
        Err(problem) => Err(problem),
    };
    match opened {
        Ok(messages) => Ok(messages),
        Err(problem) => {
            Sent::new("error", problem).send(socket).await?;
            Err(End::Closed(close_code::POLICY, "the subscription is refused"))
        }
    }
}

/// End of a socket whose peer sends bytes.
const NO_TEXT: End = End::Closed(close_code::UNSUPPORTED, "messages are texts");

/// End of a socket whose peer sends a text beyond the limit.
const TOO_LONG: End = End::Closed(close_code::SIZE, "a text has at most 65,536 bytes");

/// Sends events and takes changes.
async fn exchange(socket: &mut WebSocket, session: &mut Session, mut messages: Messages) -> End {
    let pause = Duration::from_millis(HTTP_HEARTBEAT_MS);
    let mut heartbeat = interval_at(Instant::now() + pause, pause);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A message may take as long to be sent, and its peer is not heard meanwhile.
    let patience = Duration::from_millis(HTTP_WRITE_STALL_MS_MAX) + pause;
    let mut heard = Instant::now();
    loop {
        let sent = tokio::select! {
            biased;
            // A change needs the session.
            received = socket.recv(), if !session.id.is_empty() => {
                heard = Instant::now();
                match received {
                    Some(Ok(Message::Text(text))) if text.len() > WEB_SOCKET_TEXT_BYTES_MAX => {
                        Err(TOO_LONG)
                    }
                    Some(Ok(Message::Text(text))) => session.change(socket, text.as_bytes()).await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Binary(_))) => Err(NO_TEXT),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => Err(End::Gone),
                }
            }
            _ = heartbeat.tick() => match heard.elapsed() > patience {
                true => Err(End::Gone),
                false => send(socket, Message::Ping(Vec::new().into())).await,
            },
            message = messages.next() => match message {
                Some(Ok(message)) => session.tell(socket, message).await,
                Some(Err(status)) => {
                    // After the first code a client connects again, after the second it does not.
                    let code = match status.code() {
                        Code::Unavailable => close_code::AWAY,
                        _ => close_code::POLICY,
                    };
                    let problem = Problem::from(status);
                    let sent = Sent::new("error", problem).send(socket).await;
                    sent.and(Err(End::Closed(code, "the stream has ended")))
                }
                None => Err(End::Closed(close_code::NORMAL, "the session is closed")),
            },
        };
        if let Err(end) = sent {
            return end;
        }
    }
}

impl Session {
    /// The request of a first text.
    fn begin(&self, text: &[u8]) -> Result<v1::SubscribeRequest, Problem> {
        let request = parse::<Subscription>(text)?.request(&self.call.fleet)?;
        if request.regions.is_empty() && request.resume_token.is_empty() {
            return Err(Problem::field("regions", "give a region, or last_event_id to resume"));
        }
        Ok(request)
    }

    /// Sends a message of the session.
    async fn tell(
        &mut self,
        socket: &mut WebSocket,
        mut message: v1::SubscribeResponse,
    ) -> Result<(), End> {
        if let Some(Kind::Opened(opened)) = &message.kind {
            self.id.clone_from(&opened.session);
        }
        let id = std::mem::take(&mut message.resume_token);
        let id = (!id.is_empty()).then(|| encoded_token(&id));
        match event(message) {
            Some((name, data)) => Sent { id, ..Sent::new(name, data) }.send(socket).await,
            None => Ok(()),
        }
    }

    /// Changes the regions, and answers. A refused change leaves them as they are.
    async fn change(&mut self, socket: &mut WebSocket, text: &[u8]) -> Result<(), End> {
        let (request_id, changed) = match parse::<Change>(text) {
            Ok(mut change) => (change.request_id.take(), self.modify(change).await),
            Err(problem) => {
                let numbered =
                    serde_json::from_slice(text).unwrap_or(Numbered { request_id: None });
                (numbered.request_id, Err(problem))
            }
        };
        match changed {
            Ok(data) => Sent { event: "changed", id: None, request_id, data }.send(socket).await,
            Err(data) => Sent { event: "refused", id: None, request_id, data }.send(socket).await,
        }
    }

    async fn modify(&self, change: Change) -> Result<Changed, Problem> {
        let Change { add, change, remove, .. } = change;
        let request = v1::ModifyRequest {
            fleet: self.call.fleet.clone(),
            session: self.id.clone(),
            add: into_wire("add", add)?,
            change: into_wire("change", change)?,
            remove: remove.into_iter().map(|id| id.0).collect(),
            close: false,
        };
        let reply = self.call.subscriptions().modify(self.call.request(request)).await;
        let reply = reply.map_err(|status| self.call.problem(status))?.into_inner();
        let errors = reply.errors.into_iter().map(|error| {
            let problem = self.call.problem_in_answer(&error.status.unwrap_or_default());
            RefusedRegion { region_id: error.region_id.to_string(), problem }
        });
        Ok(Changed { epoch: reply.epoch, errors: errors.collect() })
    }
}

impl<D: Serialize> Sent<D> {
    /// A message of the session.
    fn new(event: &'static str, data: D) -> Self {
        Self { event, id: None, request_id: None, data }
    }

    async fn send(&self, socket: &mut WebSocket) -> Result<(), End> {
        let wrong = |_| End::Closed(close_code::ERROR, "a message cannot be written");
        let text = serde_json::to_string(self).map_err(wrong)?;
        send(socket, Message::Text(text.into())).await
    }
}

/// Sends a message to a peer that takes it in time.
async fn send(socket: &mut WebSocket, message: Message) -> Result<(), End> {
    let patience = Duration::from_millis(HTTP_WRITE_STALL_MS_MAX);
    match timeout(patience, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Gone),
    }
}
