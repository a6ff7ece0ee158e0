//! Calls of reports with a body of arbitrary bytes that stays open.
//!
//! The client library sends only whole messages. This module decides when each byte is sent.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use prost::Message as _;
use shoal_client::Client;
use shoal_client::v1::ReportResponse;
use tokio::time::{Duration, Interval, interval};
use tonic::Status;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http::{HeaderValue, Request, header};

use super::target::Target;
use crate::error::status_text;
use crate::report::wire::REPORT_PATH;

/// Bytes of a gRPC message's head: a flag and the length.
pub const HEAD_BYTES: usize = 5;
/// Time between two bytes of a slow message.
const SLOW_BYTE: Duration = Duration::from_secs(1);
/// Zeros that are handed to HTTP/2 at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A body with one message, which may be incomplete. After it the body sends nothing, and the
/// stream stays open.
#[derive(Debug)]
pub struct OpenBody {
    head: Option<Bytes>,
    zeros: usize,
    /// Set if the zeros are sent one by one.
    ticks: Option<Interval>,
}

impl OpenBody {
    /// A message that declares `declared` bytes and sends `sent` zeros.
    #[must_use]
    pub fn message(declared: u32, sent: usize) -> Self {
        let mut head = BytesMut::with_capacity(HEAD_BYTES);
        head.put_u8(0);
        head.put_u32(declared);
        Self { head: Some(head.freeze()), zeros: sent, ticks: None }
    }

    /// A message of `bytes` zeros of which one is sent each second.
    #[must_use]
    pub fn slow(bytes: u32) -> Self {
        Self { ticks: Some(interval(SLOW_BYTE)), ..Self::message(bytes, bytes as usize) }
    }

    /// A body without any byte.
    #[must_use]
    pub fn empty() -> Self {
        Self { head: None, zeros: 0, ticks: None }
    }
}

impl HttpBody for OpenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        if self.zeros == 0 {
            // No waker is stored: the body sends nothing until the server or the attack ends the
            // stream.
            return Poll::Pending;
        }
        let mut bytes = self.zeros.min(ZEROS.len());
        if let Some(ticks) = &mut self.ticks {
            ready!(ticks.poll_tick(context));
            bytes = 1;
        }
        let chunk = &ZEROS[..bytes];
        self.zeros -= chunk.len();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(chunk)))))
    }
}

/// Path of the call of one report.
pub const ONCE_PATH: &str = "/shoal.v1.PositionService/ReportOnce";

/// Calls `Report` with a body and counts acks until the server ends the call; `opened` is called
/// when the server accepts it.
pub async fn report(target: &Target, client: &Client, body: OpenBody, opened: impl FnOnce()) {
    call_of(target, client, (REPORT_PATH, body), opened).await;
}

/// Calls `ReportOnce` with a body until the server ends the call.
pub async fn report_once(target: &Target, client: &Client, body: OpenBody) {
    call_of(target, client, (ONCE_PATH, body), || ()).await;
}

async fn call_of(
    target: &Target,
    client: &Client,
    request: (&'static str, OpenBody),
    opened: impl FnOnce(),
) {
    let ended = call(target, client, request, opened).await;
    if let Err(status) = ended {
        target.failed(status).await;
    }
}

async fn call(
    target: &Target,
    client: &Client,
    (path, body): (&'static str, OpenBody),
    opened: impl FnOnce(),
) -> Result<(), Status> {
    let mut body = pin!(open(client, path, Body::new(body)).await?);
    opened();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        match frame?.into_data() {
            Ok(data) => count_ack(target, &data),
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return Status::from_header_map(&trailers).map_or(Ok(()), Err);
            }
        }
    }
    Ok(())
}

/// Begins a call with a body; returns the body of the response.
///
/// # Errors
/// The connection broke, or the server refused the call.
pub async fn open(client: &Client, path: &'static str, body: Body) -> Result<Body, Status> {
    send(client, Request::new(body), path).await
}

/// As [`open`], with a token in place of that of the client, which must have none.
///
/// # Errors
/// As [`open`].
pub async fn call_with_token(
    client: &Client,
    path: &'static str,
    body: Body,
    token: &str,
) -> Result<Body, Status> {
    let mut request = Request::new(body);
    let token = HeaderValue::try_from(format!("Bearer {token}"));
    let token = token.map_err(|error| Status::internal(error.to_string()))?;
    request.headers_mut().insert(header::AUTHORIZATION, token);
    send(client, request, path).await
}

async fn send(
    client: &Client,
    mut request: Request<Body>,
    path: &'static str,
) -> Result<Body, Status> {
    let broken = |error: tonic::transport::Error| Status::from_error(error.into());
    let mut channel = client.channel();
    poll_fn(|context| GrpcService::<Body>::poll_ready(&mut channel, context))
        .await
        .map_err(broken)?;
    *request.method_mut() = tonic::codegen::http::Method::POST;
    *request.uri_mut() = tonic::codegen::http::Uri::from_static(path);
    let content = HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(header::CONTENT_TYPE, content);
    request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
    let response = GrpcService::call(&mut channel, request).await.map_err(broken)?;
    match Status::from_header_map(response.headers()) {
        Some(status) => Err(status),
        None => Ok(response.into_body()),
    }
}

/// Counts an ack, which is small enough for one frame.
fn count_ack(target: &Target, data: &Bytes) {
    let message = data.get(HEAD_BYTES..).unwrap_or_default();
    let ack = ReportResponse::decode(message).ok().and_then(|response| response.ack);
    let Some(ack) = ack else { return };
    count(target, &ack);
}

/// Counts the messages of an ack.
pub(super) fn count(target: &Target, ack: &shoal_client::v1::ReportAck) {
    let messages = (ack.last_message + 1).saturating_sub(ack.first_message);
    target.answered(messages.saturating_sub(ack.failed_messages));
    if ack.failed_messages > 0 {
        let cause = || status_text(ack.failed.first().and_then(|failed| failed.status.as_ref()));
        target.refused(ack.failed_messages, cause);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_body_sends_what_it_says_and_stays_open() {
        let mut body = OpenBody::message(64 << 20, 100_000);
        let mut context = Context::from_waker(Waker::noop());
        let mut bytes = Vec::new();
        while let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(&mut context) {
            bytes.extend(frame.expect("stays open").unwrap().into_data().unwrap());
        }
        assert_eq!(bytes[..HEAD_BYTES], [0, 4, 0, 0, 0]);
        assert_eq!(bytes.len(), HEAD_BYTES + 100_000);
        assert!(!body.is_end_stream());
        let mut empty = OpenBody::empty();
        assert!(Pin::new(&mut empty).poll_frame(&mut context).is_pending());
    }
}
