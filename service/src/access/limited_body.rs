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
use super::quota_meter::MeteredQuota;
use crate::error::ServiceError;
use crate::error::TokenProblem;

/// Completes when the token ends.
pub(super) type Ended = Pin<Box<dyn Future<Output = TokenProblem> + Send>>;
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the file's head.
pub(super) struct LimitedBody {
    inner: Body,
    ended: Ended,
    account: Option<Arc<Account>>,
    wait: Option<Wait>,
    is_cut: bool,
}

impl LimitedBody {
    pub(super) fn new(inner: Body, ended: Ended, account: Option<Arc<Account>>) -> Self {
        Self { inner, ended, account, wait: None, is_cut: false }
    }

    /// Ends the answer with the reason.
    fn cut(&mut self, problem: TokenProblem) -> Frame<Bytes> {
        // Dropping the body also ends the work that produces it.
        (self.inner, self.is_cut) = (Body::empty(), true);
        let mut trailers = HeaderMap::new();
        // This fails only for bytes that a header may not contain, and tonic encodes these.
        let _ = Status::from(ServiceError::Unauthenticated(problem)).add_header(&mut trailers);
        Frame::trailers(trailers)
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
        if this.is_cut {
            return Poll::Ready(None);
        }
        if let Poll::Ready(problem) = this.ended.as_mut().poll(context) {
            return Poll::Ready(Some(Ok(this.cut(problem))));
        }
        ready!(this.poll_wait(context));
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.charge(data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.is_cut || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
