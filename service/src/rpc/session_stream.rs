//! How does a subscriber read its session?
//!
//! Messages are taken from the session when the transport has room for them, so a reader that
//! stops costs nothing here. When nothing comes for a second it is told how far the fleet is. The
//! stream ends when another reader comes, the session or its fleet ends, at the deadline, and when
//! the server goes down.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;
use tonic::Status;

use super::deadline::Deadline;
use super::door::{Door, OpenStream};
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::PROGRESS_INTERVAL_MS;
use crate::subscription::{Session, SessionEnd, Take, unnumbered};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(PROGRESS_INTERVAL_MS);

/// One reader of a session, from its coming to its going.
#[derive(Debug)]
pub(super) struct Reading {
    fleet: Arc<Fleet>,
    session: Arc<Session>,
    reader: u64,
    /// A client that was never told of its session cannot come back to it.
    is_told: bool,
}

impl Reading {
    pub(super) fn new(fleet: Arc<Fleet>, session: Arc<Session>, reader: u64) -> Self {
        Self { fleet, session, reader, is_told: reader > 1 }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let is_last = self.session.detach(self.reader);
        if is_last && (!self.is_told || self.session.retention.is_zero()) {
            self.fleet.sessions().close(&self.session, SessionEnd::Left);
        }
    }
}

/// The messages of a session, encoded.
pub struct SessionStream {
    reading: Reading,
    /// Come before those of the session.
    first: VecDeque<Bytes>,
    stop: Pin<Box<dyn Future<Output = ServiceError> + Send>>,
    told_at: Instant,
    progress: Pin<Box<Sleep>>,
    is_done: bool,
    _open: OpenStream,
}

impl fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream").field("reading", &self.reading).finish_non_exhaustive()
    }
}

impl SessionStream {
    /// A stream that begins with these messages.
    pub(super) fn new(
        door: Arc<Door>,
        open: OpenStream,
        deadline: Deadline,
        reading: Reading,
        first: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let stop = async move {
            tokio::select! {
                () = door.stopped() => ServiceError::ShuttingDown,
                () = deadline.passed() => ServiceError::Deadline,
            }
        };
        Self {
            reading,
            first: first.into_iter().collect(),
            stop: Box::pin(stop),
            told_at: Instant::now(),
            progress: Box::pin(tokio::time::sleep(PROGRESS_INTERVAL)),
            is_done: false,
            _open: open,
        }
    }

    /// The next message, or how the stream ends.
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Option<ServiceError>>> {
        if let Poll::Ready(error) = self.stop.as_mut().poll(context) {
            return Poll::Ready(Err(Some(error)));
        }
        if let Some(message) = self.first.pop_front() {
            self.reading.is_told = true;
            return Poll::Ready(Ok(message));
        }
        // Before the session is looked at: what it does not hold then was taken.
        let told = self.reading.fleet.sessions().told();
        let Reading { fleet, session, reader, .. } = &self.reading;
        match session.take(*reader, context.waker()) {
            Take::Message(message) => Poll::Ready(Ok(message)),
            Take::Lagged(message, regions) => {
                fleet.sessions().chores.snapshot(regions);
                Poll::Ready(Ok(message))
            }
            Take::Wait => Poll::Pending,
            Take::TakenOver => Poll::Ready(Err(Some(ServiceError::SessionTakenOver))),
            Take::Ended(SessionEnd::Closed) => Poll::Ready(Err(None)),
            Take::Ended(SessionEnd::Left) => Poll::Ready(Err(Some(ServiceError::SessionGone))),
            Take::Ended(SessionEnd::FleetGone) => Poll::Ready(Err(Some(fleet.gone()))),
            Take::Nothing => {
                let progress = v1::Progress { epoch: told.epoch, clock_ms: told.clock_ms };
                self.silent(context).map(|()| Ok(self.unnumbered(Kind::Progress(progress))))
            }
        }
    }

    /// Ready when nothing was told for a while.
    fn silent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.progress.as_mut().poll(context).is_ready() {
            let due = self.told_at + PROGRESS_INTERVAL;
            let is_due = due <= Instant::now();
            let next = if is_due { Instant::now() + PROGRESS_INTERVAL } else { due };
            self.progress.as_mut().reset(next);
            if is_due {
                let regions = self.reading.session.retry();
                self.reading.fleet.sessions().chores.snapshot(regions);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn unnumbered(&self, kind: Kind) -> Bytes {
        let session = &self.reading.session;
        unnumbered(&session.handle, session.read_sequence(), kind)
    }
}

impl Stream for SessionStream {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        self.next(context).map(|next| match next {
            Ok(message) => {
                self.told_at = Instant::now();
                Some(Ok(message))
            }
            Err(end) => {
                self.is_done = true;
                end.map(|error| Err(error.into()))
            }
        })
    }
}
