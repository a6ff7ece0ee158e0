//! The calls of one connection: how many are in progress, and when the connection should end.
//!
//! A call is in progress until its response was sent or dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;

use super::limits::{HTTP_CONNECTION_REQUESTS_MAX, HTTP_IDLE_MS_MAX};

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    in_progress: AtomicU64,
    worn: Notify,
}

/// A call, until this is dropped.
#[derive(Debug)]
pub(super) struct Call(Arc<Counts>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Activity {
    /// Counts a call.
    pub(super) fn begin(&self) -> Call {
        self.0.in_progress.fetch_add(1, Ordering::Relaxed);
        if self.0.begun.fetch_add(1, Ordering::Relaxed) + 1 == HTTP_CONNECTION_REQUESTS_MAX {
            self.0.worn.notify_one();
        }
        Call(self.0.clone())
    }

    /// Waits until the connection has had its maximum number of requests, or none for a while.
    pub(super) async fn over(&self) {
        tokio::select! {
            () = self.0.worn.notified() => {}
            () = self.idle_for(Duration::from_millis(HTTP_IDLE_MS_MAX)) => {}
        }
    }

    /// Waits until there was no call for this time, or for up to twice as long. A request with
    /// incomplete headers is not a call, so slow headers are bounded as well.
    pub(super) async fn idle_for(&self, time: Duration) {
        loop {
            let begun = self.0.begun.load(Ordering::Relaxed);
            tokio::time::sleep(time).await;
            let is_idle = self.0.in_progress.load(Ordering::Relaxed) == 0;
            if is_idle && self.0.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

/// Wraps a response so that `held` is dropped once the body was sent or dropped.
pub(super) fn holding<T: Send + Unpin + 'static>(
    response: Response<Body>,
    held: T,
) -> Response<Body> {
    response.map(|inner| Body::new(Holding { inner, _held: held }))
}

struct Holding<T> {
    inner: Body,
    _held: T,
}

impl<T: Unpin> HttpBody for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
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
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_over_without_calls_but_not_during_one() {
        let activity = Activity::default();
        let idle = Duration::from_millis(HTTP_IDLE_MS_MAX);
        let call = activity.begin();
        tokio::time::timeout(10 * idle, activity.over()).await.unwrap_err();
        drop(call);
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
}
