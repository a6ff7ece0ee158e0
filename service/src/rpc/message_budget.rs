//! Bounds the memory of partly read messages.
//!
//! A layer under every call. It follows the length prefixes of gRPC messages in request bodies; a
//! large message takes its length from a server-wide budget before its bytes pass, and returns it
//! when the call asks for the next one. A call waits by not reading, so HTTP/2 stops its sender. No
//! call waits while it holds a share, and a stalled sender loses its stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::error::ServiceError;
use crate::limits::{BUDGETED_MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX, MESSAGE_READ_MS_MAX};

/// Compression flag and length.
const PREFIX_BYTES: usize = 5;

/// The budget, as a layer.
#[derive(Clone, Debug)]
pub struct MessageBudget {
    bytes: Arc<Semaphore>,
    gauge: Gauge,
}

impl MessageBudget {
    /// A budget of `bytes_max` bytes; `gauge` shows the bytes in use.
    #[must_use]
    pub fn new(bytes_max: usize, gauge: Gauge) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes_max)), gauge }
    }
}

impl<S> Layer<S> for MessageBudget {
    type Service = Budgeted<S>;

    fn layer(&self, inner: S) -> Budgeted<S> {
        Budgeted { inner, budget: self.clone() }
    }
}

/// A service whose request bodies are budgeted.
#[derive(Clone, Debug)]
pub struct Budgeted<S> {
    inner: S,
    budget: MessageBudget,
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Budgeted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let budget = self.budget.clone();
        self.inner.call(request.map(|body| Body::new(BudgetedBody::new(body, budget))))
    }
}

/// A share of the budget.
struct Share {
    permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.gauge.dec_by(self.permit.num_permits() as i64);
    }
}

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

struct BudgetedBody {
    inner: Body,
    budget: MessageBudget,
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix read so far.
    prefix_seen: usize,
    /// Length of the current message.
    message_bytes: u64,
    /// Its bytes that are not read yet.
    remaining: u64,
    /// Data to be passed on, and how much of it was scanned.
    held: Bytes,
    scanned: usize,
    acquiring: Option<Acquiring>,
    share: Option<Share>,
    /// The message of `share` was passed on; the next poll means that the call took it.
    is_taken: bool,
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// The result of scanning the held data.
enum Scan {
    /// So many bytes may pass.
    Pass(usize),
    /// A large message begins, which needs a share.
    Acquire,
}

impl BudgetedBody {
    fn new(inner: Body, budget: MessageBudget) -> Self {
        Self {
            inner,
            budget,
            prefix: [0; PREFIX_BYTES],
            prefix_seen: 0,
            message_bytes: 0,
            remaining: 0,
            held: Bytes::new(),
            scanned: 0,
            acquiring: None,
            share: None,
            is_taken: false,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    fn scan(&mut self) -> Scan {
        while self.scanned < self.held.len() {
            if self.remaining == 0 {
                self.prefix[self.prefix_seen] = self.held[self.scanned];
                self.prefix_seen += 1;
                self.scanned += 1;
                if self.prefix_seen == PREFIX_BYTES && self.begin_message() {
                    return Scan::Acquire;
                }
                continue;
            }
            let here = (self.held.len() - self.scanned) as u64;
            let part = here.min(self.remaining);
            self.remaining -= part;
            self.scanned += part as usize;
            if self.remaining == 0 && self.share.is_some() {
                // Cut here, so that the next poll means that the message was taken.
                self.is_taken = true;
                break;
            }
        }
        Scan::Pass(self.scanned)
    }

    /// True when the message needs a share. The call refuses one that is too large.
    fn begin_message(&mut self) -> bool {
        let [_, length @ ..] = self.prefix;
        self.prefix_seen = 0;
        self.message_bytes = u32::from_be_bytes(length).into();
        self.remaining = self.message_bytes;
        self.waited = Duration::ZERO;
        let budgeted = BUDGETED_MESSAGE_BYTES_MIN as u64..=MESSAGE_BYTES_MAX as u64;
        if !budgeted.contains(&self.message_bytes) {
            return false;
        }
        let permits = self.message_bytes as u32;
        self.acquiring = Some(Box::pin(self.budget.bytes.clone().acquire_many_owned(permits)));
        true
    }

    fn poll_acquire(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if let Some(acquiring) = &mut self.acquiring {
            let permit = ready!(acquiring.as_mut().poll(context));
            self.acquiring = None;
            // The budget is never closed.
            let permit = permit.map_err(|_| Status::from(ServiceError::ShuttingDown))?;
            let gauge = self.budget.gauge.clone();
            gauge.inc_by(permit.num_permits() as i64);
            self.share = Some(Share { permit, gauge });
        }
        Poll::Ready(Ok(()))
    }

    /// Limits the time that a message with a share waits for its sender.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if self.share.is_none() {
            return Poll::Pending;
        }
        let left = Duration::from_millis(MESSAGE_READ_MS_MAX).saturating_sub(self.waited);
        let now = Instant::now();
        let (_, timer) =
            self.waiting.get_or_insert_with(|| (now, Box::pin(sleep_until(now + left))));
        ready!(timer.as_mut().poll(context));
        let (bytes, limit_ms) = (self.message_bytes, MESSAGE_READ_MS_MAX);
        self.share = None;
        Poll::Ready(ServiceError::MessageStalled { bytes, limit_ms }.into())
    }

    fn received(&mut self, data: Bytes) {
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        self.held = data;
        self.scanned = 0;
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
        if this.is_taken {
            this.is_taken = false;
            this.share = None;
        }
        loop {
            if let Err(status) = ready!(this.poll_acquire(context)) {
                return Poll::Ready(Some(Err(status)));
            }
            if !this.held.is_empty() {
                match this.scan() {
                    Scan::Acquire => continue,
                    Scan::Pass(bytes) => {
                        this.scanned = 0;
                        return Poll::Ready(Some(Ok(Frame::data(this.held.split_to(bytes)))));
                    }
                }
            }
            match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.received(data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(end) => return Poll::Ready(end),
                Poll::Pending => {
                    return this.poll_stalled(context).map(|status| Some(Err(status)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const LARGE: usize = 100_000;

    struct Frames(VecDeque<Bytes>);

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            // As a sender that keeps its stream open.
            match self.0.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Poll::Pending,
            }
        }
    }

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((length as u32).to_be_bytes());
        bytes.resize(PREFIX_BYTES + length, 7);
        bytes
    }

    fn body(bytes: &[u8], frame_bytes: usize, budget: &MessageBudget) -> BudgetedBody {
        let frames = bytes.chunks(frame_bytes).map(Bytes::copy_from_slice).collect();
        BudgetedBody::new(Body::new(Frames(frames)), budget.clone())
    }

    async fn next(body: &mut BudgetedBody) -> Result<Bytes, Status> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        Ok(frame.unwrap()?.into_data().unwrap())
    }

    #[tokio::test]
    async fn bytes_pass_unchanged_in_frames_of_any_size() {
        let mut bytes = Vec::new();
        for length in [0, 3, LARGE, 0, LARGE + 1, 70_000, 5] {
            bytes.extend(message(length));
        }
        for frame_bytes in [1, 4, 7, 1000, 65_536, 1 << 20] {
            let budget = MessageBudget::new(MESSAGE_BYTES_MAX, Gauge::default());
            let mut body = body(&bytes, frame_bytes, &budget);
            let mut passed = Vec::new();
            while passed.len() < bytes.len() {
                passed.extend(next(&mut body).await.unwrap());
                assert!(budget.gauge.get() <= LARGE as i64 + 1);
            }
            assert_eq!(passed, bytes);
            assert_eq!(budget.gauge.get(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_wait_for_the_budget_and_return_it() {
        let budget = MessageBudget::new(LARGE, Gauge::default());
        let whole = message(LARGE);
        let mut first = body(&whole, 1000, &budget);
        next(&mut first).await.unwrap();
        assert_eq!(budget.gauge.get(), LARGE as i64);
        let mut second = body(&whole, 1000, &budget);
        let waiting = tokio::time::timeout(Duration::from_secs(1), next(&mut second)).await;
        assert!(waiting.is_err());
        drop(first);
        assert_eq!(next(&mut second).await.unwrap().len(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_sender_loses_its_stream_and_its_share() {
        let budget = MessageBudget::new(LARGE, Gauge::default());
        let mut body = body(&message(LARGE)[..5000], 1000, &budget);
        for _ in 0..5 {
            next(&mut body).await.unwrap();
        }
        let status = next(&mut body).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert!(status.message().contains("100000 bytes"), "{status}");
        assert_eq!(budget.gauge.get(), 0);
    }
}
