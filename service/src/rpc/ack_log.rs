//! Passes the acknowledgements of a report stream from its task to the transport.
//!
//! The task adds acknowledgements; the transport takes them when the client reads. Acknowledgements
//! that were not taken are merged into one range, so that adding never waits and the memory is
//! bounded.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use shoal_proto::v1::ReportResponse;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::Status;

use super::ack_range::{AckRange, Settled};

#[derive(Debug, Default)]
struct Log {
    range: AckRange,
    end: Option<Result<(), Status>>,
    waker: Option<Waker>,
}

/// The sending end of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct AckLog(Arc<Mutex<Log>>);

impl AckLog {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Log)) {
        let waker = {
            let mut log = self.lock();
            change(&mut log);
            log.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds the outcome of the next message.
    pub(super) fn add(&self, message: u64, settled: Settled) {
        self.change(|log| log.range.add(message, settled));
    }

    /// Ends the stream with the status `end` after the last acknowledgement.
    pub(super) fn close(&self, end: Result<(), Status>) {
        self.change(|log| log.end = Some(end));
    }

    /// Returns the receiving end. `task` adds the acknowledgements; it is aborted when the client
    /// disconnects.
    pub(super) fn stream(&self, task: JoinHandle<()>) -> AckStream {
        AckStream { log: self.clone(), is_done: false, task }
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct AckStream {
    log: AckLog,
    is_done: bool,
    task: JoinHandle<()>,
}

impl Stream for AckStream {
    type Item = Result<ReportResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let mut log = self.log.lock();
        if !log.range.is_empty() {
            let range = std::mem::take(&mut log.range);
            return Poll::Ready(Some(Ok(ReportResponse { ack: Some(range.into_ack()) })));
        }
        let Some(end) = log.end.take() else {
            log.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(log);
        self.is_done = true;
        Poll::Ready(end.err().map(Err))
    }
}

impl Drop for AckStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}
