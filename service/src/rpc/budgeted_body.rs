//! The request body of a call; its large messages are charged to the message budget.
//!
//! It follows the length prefixes of gRPC. Small messages pass unchanged. A large one is assembled
//! in a buffer of its own (`large_message.rs`), or passes to the decoder if the call has one
//! message. The time that a sender has for each message is limited; the time that a message waits
//! for the budget does not count.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;

use super::large_message::{CallKind, LargeMessage};
use super::message_budget::{Charge, Grant, MessageBudget};
use crate::error::ServiceError;
use crate::limits::{
    BUDGETED_MESSAGE_BYTES_MIN, FIRST_MESSAGE_MS_MAX, MESSAGE_BYTES_MAX, MESSAGE_GRACE_MS,
    MESSAGE_RATE_MIN_BYTES, MESSAGE_READ_MS_MAX, PASSED_BYTES_MAX,
};
use crate::shares::Requester;

/// Bytes of the compression flag and the length before a message.
const PREFIX_BYTES: usize = 5;
/// The encoding of an empty message.
const EMPTY: [u8; PREFIX_BYTES] = [0; PREFIX_BYTES];
/// The decoder's own error text, so that both truncation errors read the same.
const CUT: &str = "Unexpected EOF decoding stream.";

type Reserving = Pin<Box<dyn Future<Output = Result<Grant, ServiceError>> + Send>>;

pub(super) struct BudgetedBody {
    inner: Body,
    budget: MessageBudget,
    client: Requester,
    kind: CallKind,
    /// Passes assembled large messages to the call.
    handed: LargeMessage,
    /// Received data that has not been passed on.
    held: Bytes,
    /// The first bytes of a prefix that has not arrived completely.
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    has_begun: bool,
    /// Length of the current message. `remaining` is the number of its bytes not yet passed on if
    /// it is a small message, else 0.
    length: usize,
    remaining: usize,
    /// The current message if it is a large one.
    large: Option<Large>,
    reserving: Option<Reserving>,
    /// Charge of a large message that was passed to the decoder; held until this body is dropped.
    passed: Option<Charge>,
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// A large message that is being read.
struct Large {
    received: usize,
    charge: Charge,
    /// The received bytes of a message that is assembled here, at most the charged bytes; `None`
    /// for a message that passes to the decoder.
    buffer: Option<Vec<u8>>,
}

/// A complete message and its charge.
struct Charged {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What the body does next.
enum Step {
    Pass(Bytes),
    /// Charges more bytes, which must happen before more are read.
    Charge,
    Read,
}

/// The length of a message that is charged; `None` for a small one or one that the call refuses.
fn large_length(prefix: [u8; PREFIX_BYTES]) -> Option<usize> {
    let length = length(prefix);
    let is_plain = prefix[0] == 0;
    (is_plain && (BUDGETED_MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&length))
        .then_some(length)
}

fn length([_, length @ ..]: [u8; PREFIX_BYTES]) -> usize {
    u32::from_be_bytes(length) as usize
}

impl BudgetedBody {
    pub(super) fn new(
        inner: Body,
        budget: MessageBudget,
        client: Requester,
        (kind, handed): (CallKind, LargeMessage),
    ) -> Self {
        Self {
            inner,
            budget,
            client,
            kind,
            handed,
            held: Bytes::new(),
            prefix: EMPTY,
            prefix_bytes: 0,
            has_begun: false,
            length: 0,
            remaining: 0,
            large: None,
            reserving: None,
            passed: None,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    fn step(&mut self) -> Step {
        while !self.held.is_empty() {
            if self.large.is_some() {
                match self.read_large() {
                    Some(step) => return step,
                    None => continue,
                }
            }
            let small = self.small_bytes();
            if small > 0 {
                return Step::Pass(self.held.split_to(small));
            }
            if let Some(prefix) = self.read_prefix() {
                return Step::Pass(prefix);
            }
        }
        Step::Read
    }

    /// The number of bytes at the start of `held` that belong to small messages and can pass. A
    /// prefix that is incomplete does not count.
    fn small_bytes(&mut self) -> usize {
        let mut at = 0;
        while self.prefix_bytes == 0 && at < self.held.len().min(PASSED_BYTES_MAX) {
            if self.remaining == 0 {
                let Some(prefix) = self.held[at..].first_chunk() else { break };
                if large_length(*prefix).is_some() {
                    break;
                }
                self.begin(length(*prefix));
                at += PREFIX_BYTES;
            }
            let part = self.remaining.min(self.held.len() - at);
            let part = part.min(PASSED_BYTES_MAX.saturating_sub(at));
            self.remaining -= part;
            at += part;
        }
        at
    }

    fn begin(&mut self, length: usize) {
        (self.length, self.remaining) = (length, length);
        self.has_begun = true;
        self.waited = Duration::ZERO;
    }

    /// Reads the prefix of a large message, or a prefix that arrives in several parts. Returns it
    /// once it is complete, unless the message is assembled here.
    fn read_prefix(&mut self) -> Option<Bytes> {
        let missing = PREFIX_BYTES - self.prefix_bytes;
        let part = self.held.split_to(missing.min(self.held.len()));
        if self.prefix_bytes == 0 {
            self.waited = Duration::ZERO;
        }
        self.prefix[self.prefix_bytes..][..part.len()].copy_from_slice(&part);
        self.prefix_bytes += part.len();
        if self.prefix_bytes < PREFIX_BYTES {
            return None;
        }
        self.prefix_bytes = 0;
        let is_first = !self.has_begun;
        self.begin(length(self.prefix));
        if large_length(self.prefix).is_some() {
            // Other messages go to the decoder: it refuses those that are too large, and a call of
            // one message ignores later ones.
            let is_handed =
                self.length <= self.kind.handed_bytes_max && (self.kind.is_stream || is_first);
            let buffer = is_handed.then(Vec::new);
            self.remaining = 0;
            self.large = Some(Large { received: 0, charge: self.budget.charge(), buffer });
            if is_handed {
                return None;
            }
        }
        Some(Bytes::copy_from_slice(&self.prefix))
    }

    /// Reads as much of the large message as is charged. Returns `None` to continue with the held
    /// data.
    fn read_large(&mut self) -> Option<Step> {
        let large = self.large.as_mut()?;
        let part = self.held.len().min(large.charge.bytes() - large.received);
        if part == 0 {
            return Some(Step::Charge);
        }
        let data = self.held.split_to(part);
        large.received += part;
        if let Some(buffer) = &mut large.buffer {
            buffer.extend_from_slice(&data);
        }
        let is_handed = large.buffer.is_some();
        if large.received == self.length {
            self.finish_large();
            return Some(Step::Pass(if is_handed { Bytes::from_static(&EMPTY) } else { data }));
        }
        (!is_handed).then_some(Step::Pass(data))
    }

    fn finish_large(&mut self) {
        let Some(Large { charge, buffer, .. }) = self.large.take() else { return };
        match buffer {
            Some(bytes) => {
                self.handed.put(Bytes::from_owner(Charged { bytes, _charge: charge }));
            }
            None => self.passed = Some(charge),
        }
    }

    fn poll_charge(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Some(large) = &mut self.large else { return Poll::Ready(Ok(())) };
        let step = large.charge.step(self.length);
        if !large.charge.is_whole() {
            let reserving = self
                .reserving
                .get_or_insert_with(|| Box::pin(self.budget.clone().reserve(self.client, step)));
            let grant = ready!(reserving.as_mut().poll(context));
            self.reserving = None;
            large.charge.keep(grant?);
        }
        large.charge.add(step);
        if let Some(buffer) = &mut large.buffer {
            buffer.reserve_exact(large.charge.bytes() - buffer.len());
        }
        Poll::Ready(Ok(()))
    }

    /// The time that the sender has for the current message or for the end of the call, in
    /// milliseconds, and the error after it; `None` between the messages of a stream.
    fn patience(&self) -> Option<(u64, ServiceError)> {
        let (bytes, limit_ms) = (self.length as u64, MESSAGE_READ_MS_MAX);
        if let Some(Large { received, .. }) = &self.large {
            let received = *received as u64;
            let slow_ms = MESSAGE_GRACE_MS + 1000 * received / MESSAGE_RATE_MIN_BYTES;
            if slow_ms < limit_ms {
                let rate_min = MESSAGE_RATE_MIN_BYTES;
                return Some((slow_ms, ServiceError::MessageSlow { received, bytes, rate_min }));
            }
            return Some((limit_ms, ServiceError::MessageStalled { bytes, limit_ms }));
        }
        if self.remaining > 0 {
            return Some((limit_ms, ServiceError::MessageStalled { bytes, limit_ms }));
        }
        let (what, limit_ms) = match self.kind.is_stream {
            _ if !self.has_begun || self.prefix_bytes > 0 => ("message", FIRST_MESSAGE_MS_MAX),
            false => ("end of the call", limit_ms),
            true => return None,
        };
        Some((limit_ms, ServiceError::CallStalled { what, limit_ms }))
    }

    /// Ready with an error once the sender has exceeded its time.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let Some((limit_ms, error)) = self.patience() else { return Poll::Pending };
        let left = Duration::from_millis(limit_ms).saturating_sub(self.waited);
        let now = Instant::now();
        let (_, timer) =
            self.waiting.get_or_insert_with(|| (now, Box::pin(sleep_until(now + left))));
        ready!(timer.as_mut().poll(context));
        self.large = None;
        Poll::Ready(error.into())
    }

    fn received(&mut self, data: Bytes) {
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        self.held = data;
    }

    /// True if a message has begun and the decoder has received nothing of it.
    fn is_cut(&self) -> bool {
        self.prefix_bytes > 0 || self.large.as_ref().is_some_and(|large| large.buffer.is_some())
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            match this.step() {
                Step::Pass(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Step::Charge => {
                    if let Err(status) = ready!(this.poll_charge(context)) {
                        return Poll::Ready(Some(Err(status)));
                    }
                    continue;
                }
                Step::Read => {}
            }
            match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) if frame.is_data() => {
                    this.received(frame.into_data().unwrap_or_default());
                }
                Poll::Ready(Some(Ok(_)) | None) if this.is_cut() => {
                    return Poll::Ready(Some(Err(Status::internal(CUT))));
                }
                Poll::Ready(end) => return Poll::Ready(end),
                Poll::Pending => {
                    return this.poll_stalled(context).map(|status| Some(Err(status)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && !self.is_cut() && self.inner.is_end_stream()
    }
}
