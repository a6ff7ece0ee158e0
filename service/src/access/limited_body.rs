//! The answer to a call with a token: it ends when the token does, and is sent as fast as the quota
//! of answer bytes allows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::account::Account;
use super::open_calls::OpenCall;
use super::quota_meter::MeteredQuota;
use crate::error::ServiceError;

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the file's head.
pub(super) struct LimitedBody {
    open: OpenCall,
    account: Option<Arc<Account>>,
    wait: Option<Wait>,
}

impl LimitedBody {
    /// The answer `body` of a call.
    pub(super) fn new(body: Body, open: OpenCall, account: Option<Arc<Account>>) -> Self {
        open.answer(body);
        Self { open, account, wait: None }
    }

    /// The last frame, once the token has ended: it states the reason.
    fn poll_end(&self, context: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let last = |reason: ServiceError| {
            let mut trailers = HeaderMap::new();
            // This fails only for bytes that a header may not contain, and tonic encodes these.
            let _ = Status::from(reason).add_header(&mut trailers);
            Ok(Frame::trailers(trailers))
        };
        self.open.poll_end(context).map(|reason| reason.map(last))
    }

    /// Waits while earlier frames have used up the quota.
    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(())
    }

    fn charge(&mut self, bytes: usize) {
        let Some(account) = &self.account else { return };
        if account.is_free(MeteredQuota::AnswerBytes) {
            return;
        }
        account.charge(MeteredQuota::AnswerBytes, bytes as u64);
        let account = account.clone();
        self.wait = Some(Box::pin(async move { account.wait(MeteredQuota::AnswerBytes, 0).await }));
    }
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Poll::Ready(last) = this.poll_end(context) {
            return Poll::Ready(last);
        }
        ready!(this.poll_wait(context));
        let frame = this.open.with_answer(|body| Pin::new(body).poll_frame(context));
        let Some(frame) = frame else {
            // The token has ended since the beginning of this poll.
            return this.poll_end(context);
        };
        let frame = ready!(frame);
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.charge(data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.open.is_read()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::oneshot;

    use super::*;
    use crate::access::open_calls::OpenCalls;
    use crate::access::{Access, Peer};
    use crate::error::TokenProblem;

    /// A body that never has a frame, and tells when it is dropped.
    struct Silent(#[expect(dead_code, reason = "dropped with the body")] oneshot::Sender<()>);

    impl HttpBody for Silent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    /// The answer of a call, and what tells when it is dropped.
    fn limited(calls: &OpenCalls) -> (LimitedBody, oneshot::Receiver<()>) {
        let (dropped, is_dropped) = oneshot::channel();
        let access = Access::open_to_all().unwrap();
        let path = "/shoal.v1.FleetService/ListFleets";
        let call = access.admit(path, &HeaderMap::new(), &Peer::default()).unwrap();
        (LimitedBody::new(Body::new(Silent(dropped)), calls.open(call), None), is_dropped)
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_is_dropped_at_the_end_of_the_token() {
        let calls = OpenCalls::default();
        let (mut body, mut is_dropped) = limited(&calls);
        calls.end(|_| None);
        assert!(is_dropped.try_recv().is_err_and(|error| error.to_string().contains("empty")));
        calls.end(|_| Some(TokenProblem::Withdrawn));
        assert!(is_dropped.await.is_err(), "without a poll of the body");
        calls.end(|_| Some(TokenProblem::Expired));
        assert!(!body.is_end_stream());
        let last = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(last["grpc-status"], "16");
        assert!(last["grpc-message"].to_str().unwrap().contains("withdrawn"));
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }

    #[tokio::test]
    async fn a_waiting_reader_gets_the_reason() {
        let calls = OpenCalls::default();
        let (mut body, is_dropped) = limited(&calls);
        let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap() });
        tokio::task::yield_now().await;
        calls.end(|_| Some(TokenProblem::Expired));
        assert!(reading.await.unwrap().is_trailers());
        assert!(is_dropped.await.is_err());
    }
}
