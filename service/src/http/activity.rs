//! The calls of one connection: which are in progress, and when the connection should end: when
//! there is none, after many, or when the peer does not take an answer.
//!
//! A call is in progress until its response was sent or dropped.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::{
    HTTP_CALL_STALL_MS_MAX, HTTP_CONNECTION_REQUESTS_MAX, HTTP_IDLE_MS_MAX, HTTP_WRITE_STALL_MS_MAX,
};

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    since: Instant,
    begun: AtomicU64,
    /// When the protocol last took a part of an answer, milliseconds after `since`.
    progressed_ms: AtomicU64,
    /// When a part of each answer was given to the protocol, which has not asked for more since:
    /// milliseconds after `since`, or [`ASKED`].
    calls: Mutex<Slab<Arc<AtomicU64>>>,
    /// Whether bytes wait until the peer takes some.
    waits_for_peer: AtomicBool,
    worn: Notify,
}

/// The protocol asks for the next part of an answer.
const ASKED: u64 = u64::MAX;

/// A call, until this is dropped.
#[derive(Debug)]
pub(super) struct Call {
    counts: Arc<Counts>,
    number: usize,
    given_ms: Arc<AtomicU64>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.counts.calls().try_remove(self.number);
    }
}

impl Default for Activity {
    fn default() -> Self {
        let (begun, progressed_ms, calls, waits_for_peer, worn) = Default::default();
        let since = Instant::now();
        Self(Arc::new(Counts { since, begun, progressed_ms, calls, waits_for_peer, worn }))
    }
}

impl Counts {
    fn calls(&self) -> MutexGuard<'_, Slab<Arc<AtomicU64>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }
}

impl Activity {
    /// Counts a call.
    pub(super) fn begin(&self) -> Call {
        if self.0.begun.fetch_add(1, Ordering::Relaxed) + 1 == HTTP_CONNECTION_REQUESTS_MAX {
            self.0.worn.notify_one();
        }
        let given_ms = Arc::new(AtomicU64::new(ASKED));
        let number = self.0.calls().insert(given_ms.clone());
        Call { counts: self.0.clone(), number, given_ms }
    }

    /// Notes whether bytes wait until the peer takes some. The end of an answer may wait when its
    /// call is over.
    pub(super) fn waits_for_peer(&self, waits: bool) {
        self.0.waits_for_peer.store(waits, Ordering::Relaxed);
    }

    /// Waits until the connection has had its maximum number of requests, or none for a while.
    pub(super) async fn over(&self) {
        tokio::select! {
            () = self.0.worn.notified() => {}
            () = self.idle_for(Duration::from_millis(HTTP_IDLE_MS_MAX)) => {}
        }
    }

    /// Waits until there was no call for this time, or for up to twice as long. A request with
    /// incomplete headers is not a call, so slow headers are bounded as well. While bytes of an
    /// answer wait for the peer it waits on, up to [`HTTP_CALL_STALL_MS_MAX`].
    pub(super) async fn idle_for(&self, time: Duration) {
        let patience = Duration::from_millis(HTTP_CALL_STALL_MS_MAX);
        let mut since_call = Duration::ZERO;
        loop {
            let begun = self.0.begun.load(Ordering::Relaxed);
            tokio::time::sleep(time).await;
            let has_calls = !self.0.calls().is_empty();
            if has_calls || self.0.begun.load(Ordering::Relaxed) != begun {
                since_call = Duration::ZERO;
                continue;
            }
            since_call += time;
            if since_call >= patience || !self.0.waits_for_peer.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Waits until the peer has not taken a part of an answer for too long, which is longer while
    /// it takes parts of other answers: it may be a proxy, whose other clients would lose their
    /// calls. A peer that opens no window, or takes some bytes from time to time, does not stall a
    /// write.
    pub(super) async fn stalled(&self) {
        let stall_ms = HTTP_WRITE_STALL_MS_MAX;
        loop {
            tokio::time::sleep(Duration::from_millis(stall_ms / 4)).await;
            let now_ms = self.0.now_ms();
            let progressed_ms = self.0.progressed_ms.load(Ordering::Relaxed);
            let takes_others = now_ms.saturating_sub(progressed_ms) < stall_ms;
            let patience_ms = if takes_others { HTTP_CALL_STALL_MS_MAX } else { stall_ms };
            let is_late = |given: u64| given != ASKED && now_ms.saturating_sub(given) > patience_ms;
            if self.0.calls().iter().any(|(_, call)| is_late(call.load(Ordering::Relaxed))) {
                return;
            }
        }
    }
}

impl Call {
    /// The response of the call, which is in progress until its body was sent or dropped.
    pub(super) fn answered(self, response: Response<Body>) -> Response<Body> {
        self.given();
        holding_watched(response, self, |call, is_given| match is_given {
            true => call.given(),
            false => call.given_ms.store(ASKED, Ordering::Relaxed),
        })
    }

    /// The protocol has a part of the answer.
    fn given(&self) {
        let now_ms = self.counts.now_ms();
        self.given_ms.store(now_ms, Ordering::Relaxed);
        self.counts.progressed_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// Wraps a response so that `held` is dropped once the body was sent or dropped.
pub(super) fn holding<T: Send + Unpin + 'static>(
    response: Response<Body>,
    held: T,
) -> Response<Body> {
    holding_watched(response, held, |_, _| {})
}

/// As [`holding`]; calls `watch` whenever the protocol asks for a part, with whether it got one.
fn holding_watched<T: Send + Unpin + 'static>(
    response: Response<Body>,
    held: T,
    watch: fn(&T, bool),
) -> Response<Body> {
    response.map(|inner| Body::new(Holding { inner, held, watch }))
}

struct Holding<T> {
    inner: Body,
    held: T,
    watch: fn(&T, bool),
}

impl<T: Unpin> HttpBody for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        (self.watch)(&self.held, frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_over_without_calls_but_not_during_one() {
        let activity = Activity::default();
        let idle = Duration::from_millis(HTTP_IDLE_MS_MAX);
        let call = activity.begin();
        tokio::time::timeout(10 * idle, activity.over()).await.unwrap_err();
        drop(call);
        activity.waits_for_peer(true);
        tokio::time::timeout(3 * idle, activity.over()).await.unwrap_err();
        // A peer that takes a byte from time to time is cut as well.
        let since = Instant::now();
        activity.over().await;
        assert!(since.elapsed() >= Duration::from_millis(HTTP_CALL_STALL_MS_MAX));
        activity.waits_for_peer(false);
        let since = Instant::now();
        activity.over().await;
        assert!(since.elapsed() >= idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_a_bounded_number_of_requests() {
        let activity = Activity::default();
        for _ in 1..HTTP_CONNECTION_REQUESTS_MAX {
            activity.begin();
        }
        let _call = activity.begin();
        let since = Instant::now();
        activity.over().await;
        assert_eq!(since.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_no_part_of_an_answer_stalls_its_connection() {
        let activity = Activity::default();
        let patience = Duration::from_millis(HTTP_WRITE_STALL_MS_MAX);
        let parts = tokio_stream::iter([Ok::<_, axum::Error>("a"), Ok("b")]);
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, axum::Error>>(1);
        let mut answers = [
            Body::from_stream(parts),
            Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)),
        ]
        .map(|body| activity.begin().answered(Response::new(body)).into_body());
        let poll = |body: &mut Body| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            Pin::new(body).poll_frame(&mut context).is_ready()
        };
        // The second answer waits for its source: it may do so for ever.
        assert!(poll(&mut answers[0]) && !poll(&mut answers[1]));
        let since = Instant::now();
        activity.stalled().await;
        assert!(since.elapsed() > patience && since.elapsed() < 2 * patience);
        assert!(poll(&mut answers[0]));
        tokio::time::timeout(patience / 2, activity.stalled()).await.unwrap_err();
        assert!(poll(&mut answers[0]));
        // While the second is taken, the first may wait longer.
        sender.send(Ok("c".into())).await.unwrap();
        let since = Instant::now();
        let taking = async {
            loop {
                tokio::time::sleep(patience / 2).await;
                while poll(&mut answers[1]) {}
                let _ = sender.try_send(Ok("d".into()));
            }
        };
        tokio::select! {
            () = activity.stalled() => {}
            () = taking => {}
        }
        assert!(since.elapsed() > Duration::from_millis(HTTP_CALL_STALL_MS_MAX));
        let [first, mut second] = answers;
        while poll(&mut second) {}
        drop(first);
        tokio::time::timeout(10 * patience, activity.stalled()).await.unwrap_err();
        sender.send(Ok("c".into())).await.unwrap();
        assert!(poll(&mut second));
        activity.stalled().await;
    }
}
