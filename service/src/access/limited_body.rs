//! The answer to a call with a token. It is sent as fast as the quota of answer bytes allows, and a
//! stream ends when the token does.
//!
//! A task waits for the end of the token and then drops the answer of the handler: HTTP/2 does not
//! poll an answer while the client takes no data.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;

use super::account::Account;
use super::quota_meter::MeteredQuota;
use crate::error::ServiceError;

/// Completes with the reason when the token ends.
pub(super) type Ended = Pin<Box<dyn Future<Output = ServiceError> + Send>>;
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The answer of the handler.
enum Answer {
    /// In progress; `reader` is the task that reads it.
    Open { body: Body, reader: Option<Waker> },
    /// The token has ended; the client has not been told why.
    Ended(ServiceError),
    /// The client has been told.
    Cut,
}

/// See the file's head.
pub(super) struct LimitedBody {
    answer: Arc<Mutex<Answer>>,
    watch: Option<AbortHandle>,
    account: Option<Arc<Account>>,
    wait: Option<Wait>,
}

impl Drop for LimitedBody {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

fn lock(answer: &Mutex<Answer>) -> MutexGuard<'_, Answer> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends an answer when the token ends.
async fn watch(ended: Ended, answer: Arc<Mutex<Answer>>) {
    let reason = ended.await;
    let before = mem::replace(&mut *lock(&answer), Answer::Ended(reason));
    if let Answer::Open { body, reader } = before {
        // Dropping the body also ends the work that produces it.
        drop(body);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl LimitedBody {
    /// The answer `body`; `ended` is given if it is a stream of a token that can end.
    pub(super) fn new(body: Body, ended: Option<Ended>, account: Option<Arc<Account>>) -> Self {
        let answer = Arc::new(Mutex::new(Answer::Open { body, reader: None }));
        let watch = ended.map(|ended| tokio::spawn(watch(ended, answer.clone())).abort_handle());
        Self { answer, watch, account, wait: None }
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

impl Answer {
    /// The last frame, if the token has ended; otherwise the task of `context` is woken at its end.
    fn poll_end(&mut self, context: &Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Self::Open { reader, .. } = self {
            reader.get_or_insert_with(|| context.waker().clone()).clone_from(context.waker());
            return Poll::Pending;
        }
        let Self::Ended(reason) = mem::replace(self, Self::Cut) else { return Poll::Ready(None) };
        let mut trailers = HeaderMap::new();
        // This fails only for bytes that a header may not contain, and tonic encodes these.
        let _ = Status::from(reason).add_header(&mut trailers);
        Poll::Ready(Some(Frame::trailers(trailers)))
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
        if let Poll::Ready(last) = lock(&this.answer).poll_end(context) {
            return Poll::Ready(last.map(Ok));
        }
        ready!(this.poll_wait(context));
        let frame = match &mut *lock(&this.answer) {
            Answer::Open { body, .. } => ready!(Pin::new(body).poll_frame(context)),
            ended => return ended.poll_end(context).map(|last| last.map(Ok)),
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.charge(data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &*lock(&self.answer) {
            Answer::Open { body, .. } => body.is_end_stream(),
            Answer::Ended(_) => false,
            Answer::Cut => true,
        }
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

    fn limited() -> (LimitedBody, oneshot::Sender<TokenProblem>, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let (dropped, is_dropped) = oneshot::channel();
        let ended = async move { ServiceError::Unauthenticated(ended.await.unwrap()) };
        let body = Body::new(Silent(dropped));
        (LimitedBody::new(body, Some(Box::pin(ended)), None), end, is_dropped)
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_is_dropped_at_the_end_of_the_token() {
        let (mut body, end, is_dropped) = limited();
        end.send(TokenProblem::Withdrawn).unwrap();
        assert!(is_dropped.await.is_err(), "without a poll of the body");
        assert!(!body.is_end_stream());
        let last = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(last["grpc-status"], "16");
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }

    #[tokio::test]
    async fn a_waiting_reader_gets_the_reason() {
        let (mut body, end, is_dropped) = limited();
        let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap() });
        tokio::task::yield_now().await;
        end.send(TokenProblem::Expired).unwrap();
        assert!(reading.await.unwrap().is_trailers());
        assert!(is_dropped.await.is_err());
    }

    #[tokio::test]
    async fn nothing_waits_for_the_token_of_an_answer_that_was_dropped() {
        let (body, end, is_dropped) = limited();
        drop(body);
        assert!(is_dropped.await.is_err());
        while !end.is_closed() {
            tokio::task::yield_now().await;
        }
    }
}
