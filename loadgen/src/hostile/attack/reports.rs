//! Attacks by reports: large messages, messages that never end, and streams that send nothing.
//!
//! Calls that the server ends are made again.

use std::sync::Arc;

use bytes::Bytes;
use shoal_client::Client;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::queries::ended_early;
use super::raw_call::{OpenBody, count, report, report_once};
use super::target::{Target, together};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::report::wire::{REPORT_PATH, ReportCodec, ReportMessage};

/// Connections of most attacks.
const CONNECTIONS: usize = 8;
/// Streams of [`held_messages`], on one connection.
const HELD_STREAMS: usize = 40;
/// Streams of [`declared_messages`], on one connection.
const DECLARED_STREAMS: usize = 8;
/// Bytes that each of these streams sends of its message.
const DECLARED_SENT_BYTES: usize = 100;
/// Calls that wait for the last bytes of their messages, on one connection.
const WAITING_CALLS: usize = 63;
/// Connections of [`filled_windows`], and calls on each: as many as fill the windows of one.
const FILLED_CONNECTIONS: usize = 200;
const FILLED_CALLS: usize = 10;
/// Bytes that these messages declare, and bytes of them that are not sent.
const WAITING_BYTES: usize = 4 << 20;
const WAITING_MISSING_BYTES: usize = 1 << 10;
/// Connections of the attack with calls that send headers only, and calls per connection. The
/// server allows no more calls per connection.
const HEADER_CONNECTIONS: usize = 40;
const HEADER_CALLS: usize = 256;
/// Bytes of a message that arrives slowly: the largest that is not charged as it arrives. Streams
/// with such messages, on one connection.
const SLOW_BYTES: u32 = (64 << 10) - 1;
const SLOW_STREAMS: usize = 50;
/// Streams that send nothing, on one connection.
const OPEN_STREAMS: usize = 250;

/// 8 connections with a Report stream each send a message back to back.
pub async fn back_to_back(target: Arc<Target>, message: Bytes) {
    together(CONNECTIONS, || back_to_back_on_one(Arc::clone(&target), message.clone())).await;
}

async fn back_to_back_on_one(target: Arc<Target>, message: Bytes) {
    let client = target.connect().await;
    loop {
        let ended = stream(&target, &client, message.clone()).await;
        target.failed(ended.err().unwrap_or_else(ended_early)).await;
    }
}

/// Repeats a message on a stream and counts acks.
async fn stream(target: &Target, client: &Client, message: Bytes) -> Result<(), Status> {
    let messages = std::iter::repeat_with(move || ReportMessage::Whole(message.clone()));
    let request = Request::new(tokio_stream::iter(messages));
    let mut grpc = Grpc::new(client.channel());
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static(REPORT_PATH);
    let mut acks = grpc.streaming(request, path, ReportCodec).await?.into_inner();
    while let Some(response) = acks.message().await? {
        count(target, &response.ack.unwrap_or_default());
    }
    Ok(())
}

/// One connection with 40 Report streams that stay open. Each sends one message of 64 MiB of zeros,
/// which is not a valid report. A stream that the server ends is opened again.
pub async fn held_messages(target: Arc<Target>) {
    let body = || OpenBody::message(MESSAGE_BYTES_MAX as u32, MESSAGE_BYTES_MAX);
    let client = target.connect().await;
    together(HELD_STREAMS, || reports(Arc::clone(&target), client.clone(), body)).await;
}

/// 8 streams of one connection that declare a message of 64 MiB, send 100 bytes and stay open. A
/// stream that the server ends is opened again.
pub async fn declared_messages(target: Arc<Target>) {
    let body = || OpenBody::message(MESSAGE_BYTES_MAX as u32, DECLARED_SENT_BYTES);
    let client = target.connect().await;
    together(DECLARED_STREAMS, || reports(Arc::clone(&target), client.clone(), body)).await;
}

/// Calls Report again and again.
async fn reports(target: Arc<Target>, client: Client, body: impl Fn() -> OpenBody) {
    loop {
        report(&target, &client, body(), || ()).await;
    }
}

/// 8 connections with 63 calls of ReportOnce each, whose messages lack their last bytes.
pub async fn waiting_reports(target: Arc<Target>) {
    let connection = || calls_on_one(Arc::clone(&target), WAITING_CALLS, almost_whole);
    together(CONNECTIONS, connection).await;
}

/// 200 connections with 10 such calls each.
pub async fn filled_windows(target: Arc<Target>) {
    let connection = || calls_on_one(Arc::clone(&target), FILLED_CALLS, almost_whole);
    together(FILLED_CONNECTIONS, connection).await;
}

/// A message that lacks its last bytes.
fn almost_whole() -> OpenBody {
    OpenBody::message(WAITING_BYTES as u32, WAITING_BYTES - WAITING_MISSING_BYTES)
}

/// 8 connections with 50 Report streams each, whose messages arrive a byte a second. A stream that
/// the server ends is opened again.
pub async fn slow_messages(target: Arc<Target>) {
    together(CONNECTIONS, || slow_on_one(Arc::clone(&target))).await;
}

async fn slow_on_one(target: Arc<Target>) {
    let client = target.connect().await;
    let body = || OpenBody::slow(SLOW_BYTES);
    together(SLOW_STREAMS, || reports(Arc::clone(&target), client.clone(), body)).await;
}

/// 40 connections with 256 calls of ReportOnce each that send headers only.
pub async fn header_only(target: Arc<Target>) {
    let connection = || calls_on_one(Arc::clone(&target), HEADER_CALLS, OpenBody::empty);
    together(HEADER_CONNECTIONS, connection).await;
}

/// Keeps `calls` concurrent ReportOnce calls open; a call that the server ends is made again.
async fn calls_on_one(target: Arc<Target>, calls: usize, body: fn() -> OpenBody) {
    let client = target.connect().await;
    let call = || {
        let (target, client) = (Arc::clone(&target), client.clone());
        async move {
            loop {
                report_once(&target, &client, body()).await;
            }
        }
    };
    together(calls, call).await;
}

/// 8 connections with 250 Report streams each that send headers only and stay open. An open stream
/// counts as answered; one that the server ends is opened again.
pub async fn open_streams(target: Arc<Target>) {
    together(CONNECTIONS, || open_streams_on_one(Arc::clone(&target))).await;
}

async fn open_streams_on_one(target: Arc<Target>) {
    let client = target.connect().await;
    let open = || {
        let (target, client) = (Arc::clone(&target), client.clone());
        async move {
            loop {
                report(&target, &client, OpenBody::empty(), || target.answered(1)).await;
            }
        }
    };
    together(OPEN_STREAMS, open).await;
}
