//! The response stream of a subscriber.
//!
//! The stream takes messages from the session only when the transport can send them, so that
//! messages for a slow reader are not buffered here. After a second without messages it sends the
//! progress of the fleet. The stream ends when another reader takes over, when the session or its
//! fleet ends, at the deadline and at shutdown.

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

use super::checked_fleet::CheckedFleet;
use super::deadline::Deadline;
use super::fleet_message::staleness_message;
use super::service_context::{OpenStream, ServiceContext};
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::PROGRESS_INTERVAL_MS;
use crate::subscription::{EpochStamp, Session, SessionEnd, SessionPoll, unnumbered};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(PROGRESS_INTERVAL_MS);

/// A reader of a session. Dropping it detaches it.
#[derive(Debug)]
pub(super) struct Reader {
    fleet: Arc<Fleet>,
    session: Arc<Session>,
    number: u64,
    /// Whether the client received the handle of its session: without it, the client cannot resume.
    has_handle: bool,
}

impl Reader {
    pub(super) fn new(fleet: Arc<Fleet>, session: Arc<Session>, number: u64) -> Self {
        Self { fleet, session, number, has_handle: number > 1 }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let is_last = self.session.detach(self.number);
        if is_last && (!self.has_handle || self.session.retention.is_zero()) {
            self.fleet.sessions().close(&self.session, SessionEnd::Left);
        }
    }
}

/// The messages of a session, encoded.
pub struct SessionStream {
    reader: Reader,
    checked: CheckedFleet,
    /// Messages to send before the messages of the session.
    first: VecDeque<Bytes>,
    stop: Pin<Box<dyn Future<Output = ServiceError> + Send>>,
    sent_at: Instant,
    progress: Pin<Box<Sleep>>,
    is_done: bool,
    _open: OpenStream,
}

impl fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl SessionStream {
    /// A stream that begins with the messages `first`.
    pub(super) fn new(
        context: ServiceContext,
        checked: CheckedFleet,
        open: OpenStream,
        deadline: Deadline,
        reader: Reader,
        first: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let stop = async move {
            tokio::select! {
                () = context.stopped() => ServiceError::ShuttingDown,
                () = deadline.passed() => ServiceError::Deadline,
            }
        };
        Self {
            checked,
            reader,
            first: first.into_iter().collect(),
            stop: Box::pin(stop),
            sent_at: Instant::now(),
            progress: Box::pin(tokio::time::sleep(PROGRESS_INTERVAL)),
            is_done: false,
            _open: open,
        }
    }

    /// The next message, or the end of the stream.
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Option<ServiceError>>> {
        if let Poll::Ready(error) = self.stop.as_mut().poll(context) {
            return Poll::Ready(Err(Some(error)));
        }
        if let Err(error) = self.checked.check() {
            return Poll::Ready(Err(Some(error)));
        }
        if let Some(message) = self.first.pop_front() {
            self.reader.has_handle = true;
            return Poll::Ready(Ok(message));
        }
        // Read `delivered` before the session: if the session then has no message, everything up to
        // this epoch was read.
        let delivered = self.reader.fleet.sessions().delivered();
        let Reader { fleet, session, number, .. } = &self.reader;
        match session.take(*number, context.waker()) {
            SessionPoll::Message(message) => Poll::Ready(Ok(message)),
            SessionPoll::Lagged(message, regions) => {
                fleet.sessions().pending.snapshot(session.handle.session, regions);
                Poll::Ready(Ok(message))
            }
            SessionPoll::Wait => Poll::Pending,
            SessionPoll::TakenOver => Poll::Ready(Err(Some(ServiceError::SessionTakenOver))),
            SessionPoll::Ended(SessionEnd::Closed) => Poll::Ready(Err(None)),
            SessionPoll::Ended(SessionEnd::Left) => {
                Poll::Ready(Err(Some(ServiceError::SessionGone)))
            }
            SessionPoll::Ended(SessionEnd::FleetGone) => {
                Poll::Ready(Err(Some(fleet.gone().of_fleet(&self.checked.name))))
            }
            SessionPoll::Nothing => {
                let EpochStamp { epoch, clock_ms } = delivered;
                self.silent(context).map(|()| {
                    let staleness = self.reader.fleet.staleness().map(staleness_message);
                    let progress = v1::Progress { epoch, clock_ms, staleness };
                    Ok(self.unnumbered(Kind::Progress(progress)))
                })
            }
        }
    }

    /// Ready once nothing was sent for the progress interval.
    fn silent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.progress.as_mut().poll(context).is_ready() {
            let due = self.sent_at + PROGRESS_INTERVAL;
            let is_due = due <= Instant::now();
            let next = if is_due { Instant::now() + PROGRESS_INTERVAL } else { due };
            self.progress.as_mut().reset(next);
            if is_due {
                let regions = self.reader.session.take_deferred();
                let session = self.reader.session.handle.session;
                self.reader.fleet.sessions().pending.snapshot(session, regions);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn unnumbered(&self, kind: Kind) -> Bytes {
        let session = &self.reader.session;
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
                self.sent_at = Instant::now();
                Some(Ok(message))
            }
            Err(end) => {
                self.is_done = true;
                end.map(|error| Err(error.into()))
            }
        })
    }
}
