//! Bounds the memory of large request messages, from their first byte until the last reference is
//! dropped.
//!
//! A layer wraps the body of every call (`budgeted_body.rs`). The body charges a large message in
//! steps as its bytes arrive, at most four times the bytes that have arrived. Clients share the
//! budget fairly (`FairPlaces`). A call that waits does not read, so that HTTP/2 flow control stops
//! its sender.
//!
//! Calls that hold a part of their bytes and wait for more do not deadlock: room for one whole
//! message is set aside, and waiting messages get it one after the other. Each message returns it,
//! because its sender's time is limited.

use std::task::{Context, Poll};

use prometheus_client::metrics::gauge::Gauge;
use tonic::body::Body;
use tower::{Layer, Service};

use super::budgeted_body::BudgetedBody;
use super::large_message::{CallKind, LargeMessage};
use crate::access::requester;
use crate::error::ServiceError;
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGE_CHARGE_BYTES_MIN};
use crate::shares::{FairPlaces, PlacesPermit, Requester};

/// Each step multiplies the charge of a message by 4 up to this size and by 2 beyond it, so that
/// typical messages are copied rarely, and larger ones hold little more than they need.
const FOURFOLD_BYTES: usize = 1 << 20;

/// The budget, as a layer.
#[derive(Clone, Debug)]
pub struct MessageBudget {
    bytes: FairPlaces,
    /// The room for one whole message: a single place.
    whole: FairPlaces,
    gauge: Gauge,
}

impl MessageBudget {
    /// A budget of `bytes_max` bytes; `gauge` shows the bytes in use.
    #[must_use]
    pub fn new(bytes_max: usize, gauge: Gauge) -> Self {
        Self::with_whole(bytes_max, MESSAGE_BYTES_MAX, gauge)
    }

    /// As [`Self::new`]; a message has at most `whole_bytes` bytes, which are set aside for one.
    pub(crate) fn with_whole(bytes_max: usize, whole_bytes: usize, gauge: Gauge) -> Self {
        let bytes = FairPlaces::new(bytes_max.saturating_sub(whole_bytes));
        Self { bytes, whole: FairPlaces::new(1), gauge }
    }

    /// A charge of 0 bytes.
    pub(crate) fn charge(&self) -> Charge {
        let gauge = self.gauge.clone();
        Charge { bytes: 0, permits: Vec::new(), is_whole: false, gauge }
    }

    /// Waits for `bytes` more bytes, or for the room of a whole message, whichever is granted
    /// first.
    pub(crate) async fn reserve(
        self,
        client: Requester,
        bytes: usize,
    ) -> Result<Grant, ServiceError> {
        let granted = tokio::select! {
            biased;
            permit = self.bytes.reserve(client, bytes) => permit.map(Grant::Bytes),
            permit = self.whole.reserve(client, 1) => permit.map(Grant::Whole),
        };
        // The budget is never closed.
        granted.map_err(|_| ServiceError::ShuttingDown)
    }
}

/// What a message may charge.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Permission for the bytes of one step.
    Bytes(PlacesPermit),
    /// Permission for all bytes of the message.
    Whole(PlacesPermit),
}

/// The bytes charged for one message, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    permits: Vec<PlacesPermit>,
    is_whole: bool,
    gauge: Gauge,
}

impl Charge {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the next step of the charge, for a message of this length.
    pub(crate) fn step(&self, length: usize) -> usize {
        let factor = if self.bytes < FOURFOLD_BYTES { 4 } else { 2 };
        (factor * self.bytes).max(MESSAGE_CHARGE_BYTES_MIN).min(length) - self.bytes
    }

    /// Whether further steps need no grant.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn keep(&mut self, grant: Grant) {
        self.is_whole |= matches!(grant, Grant::Whole(_));
        let (Grant::Bytes(permit) | Grant::Whole(permit)) = grant;
        self.permits.push(permit);
    }

    /// Adds a step that is granted.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.gauge.inc_by(bytes as i64);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.gauge.dec_by(self.bytes as i64);
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

    fn call(&mut self, mut request: http::Request<Body>) -> S::Future {
        let client = requester(request.extensions());
        let kind = CallKind::of(request.uri().path());
        let handed = LargeMessage::default();
        if kind.handed_bytes_max > 0 {
            request.extensions_mut().insert(handed.clone());
        }
        let budget = self.budget.clone();
        self.inner.call(
            request.map(|body| Body::new(BudgetedBody::new(body, budget, client, (kind, handed)))),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::ready;
    use std::time::Duration;

    use bytes::Bytes;
    use http_body::{Body as HttpBody, Frame};
    use shoal_proto::raw::Raw;
    use tokio::time::{Interval, interval, timeout};
    use tonic::{Code, Status, Streaming};

    use super::*;
    use crate::limits::FIRST_MESSAGE_MS_MAX;

    const LARGE: usize = 100_000;
    const PREFIX_BYTES: usize = 5;
    const REPORT: &str = "/shoal.v1.PositionService/Report";
    const GET: &str = "/shoal.v1.QueryService/Get";
    const HOUR: Duration = Duration::from_secs(3600);

    /// A sender that keeps its stream open.
    struct Frames {
        frames: VecDeque<Bytes>,
        pace: Option<Interval>,
    }

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            if let Some(pace) = &mut self.pace {
                ready!(pace.poll_tick(context));
            }
            match self.frames.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Poll::Pending,
            }
        }
    }

    fn prefix(length: usize) -> [u8; PREFIX_BYTES] {
        let [a, b, c, d] = (length as u32).to_be_bytes();
        [0, a, b, c, d]
    }

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = prefix(length).to_vec();
        bytes.extend((0..length).map(|at| (at % 251) as u8));
        bytes
    }

    fn frames(bytes: &[u8], frame_bytes: usize) -> Frames {
        let frames = bytes.chunks(frame_bytes).map(Bytes::copy_from_slice).collect();
        Frames { frames, pace: None }
    }

    fn budget() -> MessageBudget {
        MessageBudget::new(2 * MESSAGE_BYTES_MAX, Gauge::default())
    }

    fn body(frames: Frames, path: &str, port: u16, budget: &MessageBudget) -> BudgetedBody {
        let call = (CallKind::of(path), LargeMessage::default());
        BudgetedBody::new(Body::new(frames), budget.clone(), Requester::at(port), call)
    }

    /// The messages of a report stream.
    fn stream(
        frames: Frames,
        port: u16,
        budget: &MessageBudget,
    ) -> (Streaming<Bytes>, LargeMessage) {
        let large = LargeMessage::default();
        let call = (CallKind::of(REPORT), large.clone());
        let body = BudgetedBody::new(Body::new(frames), budget.clone(), Requester::at(port), call);
        (Streaming::new_request(Raw, body, None, Some(MESSAGE_BYTES_MAX)), large)
    }

    async fn read((messages, large): &mut (Streaming<Bytes>, LargeMessage)) -> Bytes {
        let decoded = messages.message().await.unwrap().unwrap();
        large.take().unwrap_or(decoded)
    }

    async fn next(body: &mut BudgetedBody) -> Result<Bytes, Status> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        Ok(frame.unwrap()?.into_data().unwrap())
    }

    async fn refusal(body: &mut BudgetedBody) -> Status {
        loop {
            if let Err(status) = timeout(HOUR, next(body)).await.unwrap() {
                return status;
            }
        }
    }

    const LENGTHS: [usize; 9] = [0, 3, LARGE, 0, 65_535, LARGE + 1, 2_000_000, 70_000, 5];

    #[tokio::test]
    async fn bytes_pass_unchanged_in_frames_of_any_size() {
        let bytes = LENGTHS.into_iter().flat_map(message).collect::<Vec<_>>();
        for frame_bytes in [1, 4, 7, 1000, 65_536, 1 << 20] {
            let budget = budget();
            let mut body = body(frames(&bytes, frame_bytes), GET, 1, &budget);
            let mut passed = Vec::new();
            while passed.len() < bytes.len() {
                passed.extend(next(&mut body).await.unwrap());
            }
            assert_eq!(passed, bytes);
            // The decoder may hold the last large message.
            assert_eq!(budget.gauge.get(), 70_000);
            drop(body);
            assert_eq!((budget.gauge.get(), budget.bytes.held()), (0, 0));
        }
    }

    #[tokio::test]
    async fn messages_of_a_stream_arrive_whole_in_frames_of_any_size() {
        let bytes = LENGTHS.into_iter().flat_map(message).collect::<Vec<_>>();
        for frame_bytes in [1, 4, 7, 1000, 65_536, 1 << 20] {
            let budget = budget();
            let mut messages = stream(frames(&bytes, frame_bytes), 1, &budget);
            for length in LENGTHS {
                let read = read(&mut messages).await;
                assert_eq!(read, message(length)[PREFIX_BYTES..]);
                let is_large = length >= crate::limits::BUDGETED_MESSAGE_BYTES_MIN;
                assert_eq!(budget.gauge.get(), if is_large { length as i64 } else { 0 });
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_charged_until_its_last_copy_is_dropped() {
        let budget = budget();
        let mut messages = stream(frames(&message(LARGE), 1000), 1, &budget);
        let part = read(&mut messages).await.slice(10..20);
        // The stream waits for its next message.
        timeout(HOUR, messages.0.message()).await.unwrap_err();
        assert_eq!(budget.gauge.get(), LARGE as i64);
        drop(part);
        assert_eq!((budget.gauge.get(), budget.bytes.held()), (0, 0));
    }

    #[tokio::test]
    async fn the_decoder_of_a_stream_never_holds_a_large_message() {
        let budget = budget();
        let bytes = [message(7), message(LARGE), message(8)].concat();
        let mut body = body(frames(&bytes, 1 << 20), REPORT, 1, &budget);
        assert_eq!(next(&mut body).await.unwrap(), message(7));
        assert_eq!(next(&mut body).await.unwrap(), message(0));
        assert_eq!(next(&mut body).await.unwrap(), message(8));
    }

    #[tokio::test]
    async fn small_messages_reach_the_decoder_in_bounded_parts() {
        let bytes = message(100).repeat(2500);
        let mut body = body(frames(&bytes, 1 << 20), REPORT, 1, &budget());
        let mut passed = Vec::new();
        while passed.len() < bytes.len() {
            let part = next(&mut body).await.unwrap();
            assert!(part.len() <= crate::limits::PASSED_BYTES_MAX + PREFIX_BYTES);
            passed.extend(part);
        }
        assert_eq!(passed, bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn a_length_without_bytes_is_not_charged() {
        let budget = budget();
        let mut begun = prefix(MESSAGE_BYTES_MAX).to_vec();
        begun.resize(100, 0);
        let mut held = Vec::new();
        for _ in 0..200 {
            let mut body = body(frames(&begun, 1000), REPORT, 1, &budget);
            timeout(Duration::from_secs(1), next(&mut body)).await.unwrap_err();
            held.push(body);
        }
        assert_eq!(budget.gauge.get(), 200 * MESSAGE_CHARGE_BYTES_MIN as i64);
        let mut messages = stream(frames(&message(76_000), 1000), 2, &budget);
        assert_eq!(timeout(HOUR, read(&mut messages)).await.unwrap().len(), 76_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_leaves_room_for_others_and_is_not_blocked_itself() {
        let budget = budget();
        let whole = [message(MESSAGE_BYTES_MAX), message(MESSAGE_BYTES_MAX)].concat();
        let whole = Bytes::from(whole);
        let mut readers = Vec::new();
        for port in [1, 1, 1, 2] {
            let frames = (0..whole.len()).step_by(1 << 20);
            let frames =
                frames.map(|at| whole.slice(at..whole.len().min(at + (1 << 20)))).collect();
            let budget = budget.clone();
            readers.push(tokio::spawn(async move {
                let mut messages = stream(Frames { frames, pace: None }, port, &budget);
                for _ in 0..2 {
                    assert_eq!(read(&mut messages).await.len(), MESSAGE_BYTES_MAX);
                    tokio::task::yield_now().await;
                }
            }));
        }
        for reader in readers {
            timeout(HOUR, reader).await.unwrap().unwrap();
        }
        assert_eq!((budget.gauge.get(), budget.bytes.held(), budget.whole.held()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_or_slow_sender_loses_its_stream_and_its_share() {
        let slow = |millis| Some(interval(Duration::from_millis(millis)));
        let cut = Frames { pace: None, ..frames(&message(LARGE)[..5000], 1000) };
        let single = Frames { pace: slow(1000), ..frames(&message(LARGE), 1) };
        let steady = Frames { pace: slow(30), ..frames(&message(MESSAGE_BYTES_MAX), 10_000) };
        let small = Frames { pace: slow(1000), ..frames(&message(1000), 1) };
        for (frames, text) in [
            (cut, "4995 of 100000 bytes of a message have arrived, fewer than 65536 in a second"),
            (single, "of 100000 bytes of a message have arrived, fewer than 65536 in a second"),
            (steady, "message of 67108864 bytes is incomplete after 60000 ms"),
            (small, "message of 1000 bytes is incomplete after 60000 ms"),
        ] {
            let budget = budget();
            let mut body = body(frames, REPORT, 1, &budget);
            let status = refusal(&mut body).await;
            assert_eq!(status.code(), Code::Aborted);
            assert!(status.message().contains(text), "{status}");
            assert_eq!((budget.gauge.get(), budget.bytes.held()), (0, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_message_or_an_end_is_refused() {
        for (path, sent, text) in [
            (REPORT, Vec::new(), "the client sent no message for 60000 ms"),
            (REPORT, vec![0, 0], "the client sent no message for 60000 ms"),
            (GET, Vec::new(), "the client sent no message for 60000 ms"),
            (GET, message(3), "the client sent no end of the call for 60000 ms"),
        ] {
            let mut body = body(frames(&sent, 1000), path, 1, &budget());
            let status = refusal(&mut body).await;
            assert_eq!((status.code(), status.message()), (Code::Aborted, text));
        }
        let day = Duration::from_millis(1000 * FIRST_MESSAGE_MS_MAX);
        let mut messages = stream(frames(&message(3), 1000), 1, &budget());
        assert_eq!(read(&mut messages).await.len(), 3);
        timeout(day, messages.0.message()).await.unwrap_err();
    }
}
