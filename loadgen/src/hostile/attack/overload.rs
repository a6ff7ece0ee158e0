//! An attack by more valid rows than the server can apply, from a client that reads no acks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use shoal_client::ConnectOptions;
use tokio::sync::oneshot;
use tonic::body::Body;

use super::messages::OverloadRows;
use super::queries::ended_early;
use super::raw_call::{HEAD_BYTES, open};
use super::target::{Target, together_numbered};
use crate::login::logged_in;
use crate::report::wire::REPORT_PATH;

/// Connections of the attack, with one stream each.
const CONNECTIONS: u64 = 8;
/// Window of each stream: a few acks fill it.
const WINDOW_BYTES: u32 = 1 << 10;
/// Time of the first rows before now, milliseconds. Each message is a millisecond later than the
/// one before, and rows of the future are refused.
const BEFORE_NOW_MS: i64 = 3_600_000;

/// Messages without end, each sent when the server takes it; a message that is sent counts as
/// answered.
struct Messages {
    rows: OverloadRows,
    time_ms: i64,
    target: Arc<Target>,
    /// Closed when the stream ends.
    _open: oneshot::Sender<()>,
}

impl HttpBody for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.time_ms += 1;
        self.target.answered(1);
        let rows = self.rows.at(self.time_ms);
        let mut message = BytesMut::with_capacity(HEAD_BYTES + rows.len());
        message.put_u8(0);
        message.put_u32(rows.len() as u32);
        message.put(rows);
        Poll::Ready(Some(Ok(Frame::data(message.freeze()))))
    }
}

/// 8 connections with a Report stream each send messages as fast as the server takes them and read
/// no acks. A stream that the server refuses or ends is opened again.
pub async fn overload(target: Arc<Target>, fleet: String, now_ms: i64) {
    let one = |connection| {
        let rows = OverloadRows::new(&fleet, connection);
        overload_on_one(Arc::clone(&target), rows, now_ms - BEFORE_NOW_MS)
    };
    together_numbered(CONNECTIONS, one).await;
}

async fn overload_on_one(target: Arc<Target>, rows: OverloadRows, time_ms: i64) {
    let options = ConnectOptions { stream_window_bytes: Some(WINDOW_BYTES), ..logged_in() };
    let client = target.connect_with(options).await;
    loop {
        let (_open, ended) = oneshot::channel();
        let (rows, target) = (rows.clone(), Arc::clone(&target));
        let messages = Messages { rows, time_ms, target: Arc::clone(&target), _open };
        let opened = open(&client, REPORT_PATH, Body::new(messages)).await;
        if opened.is_ok() {
            // The response is held and not read until the server ends the stream.
            let _ = ended.await;
        }
        target.failed(opened.err().unwrap_or_else(ended_early)).await;
    }
}
