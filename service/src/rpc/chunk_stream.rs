//! A response stream whose chunks are computed as the client reads them.
//!
//! A task computes one chunk ahead and waits until the client takes it. If the client takes none
//! for a minute, or for two seconds while other requests wait for memory, the rest of the answer is
//! dropped, with the chunk that waits. The stream then ends with an error, so that the answer does
//! not look complete.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::Stream;
use tonic::{Response, Status};

use super::handover::Handover;
use super::records::{RowMessage, StoredRows};
use crate::access::Call;
use crate::answer_budget::AnswerBudget;
use crate::error::ServiceError;
use crate::limits::{ANSWER_STALL_MS_MAX, ANSWER_STALL_MS_MIN, CHUNK_BYTES_TARGET, TEXT_SHARE};

/// Value of `end` for a stream that is complete.
const WHOLE: u64 = 0;

/// A chunk on its way, until the client takes it or its time is over.
type Held<T, H> = Arc<Mutex<Option<Chunk<T, H>>>>;

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Chunk<T, H = T> {
    Message(T),
    /// What a caller in this process takes instead.
    Handed(H),
}

/// The answer to a call whose messages have rows.
pub type RowStream<T> = ChunkStream<T, StoredRows<<T as RowMessage>::Header>>;

/// See the module documentation. A caller in this process takes chunks of type `H`.
#[derive(Debug)]
pub struct ChunkStream<T, H = T> {
    receiver: mpsc::Receiver<Result<Held<T, H>, Status>>,
    /// [`WHOLE`], or the time in milliseconds after which the rest was dropped because the client
    /// took nothing.
    end: Arc<AtomicU64>,
    is_done: bool,
    /// Where chunks go whose receiver is in this process.
    handover: Option<Handover<H>>,
    task: JoinHandle<()>,
}

/// The sending end, for the task that computes the chunks.
#[derive(Debug)]
pub(super) struct ChunkSender<T, H = T> {
    sender: mpsc::Sender<Result<Held<T, H>, Status>>,
    /// The last chunk that was sent.
    last: Mutex<Option<Held<T, H>>>,
    /// The budget that provides the memory of the answer, if any.
    budget: Option<Arc<AnswerBudget>>,
    end: Arc<AtomicU64>,
}

/// Bytes that the chunks of the answer to a call are filled to.
pub(super) fn chunk_bytes(call: &Call) -> usize {
    if call.is_in_process() { CHUNK_BYTES_TARGET / TEXT_SHARE } else { CHUNK_BYTES_TARGET }
}

impl<T, H> Chunk<T, H> {
    /// What the caller takes; others than those in this process take a message of it.
    pub(super) fn of(call: &Call, handed: H, message: impl FnOnce(H) -> T) -> Self {
        if call.is_in_process() { Self::Handed(handed) } else { Self::Message(message(handed)) }
    }
}

impl<T> From<T> for Chunk<T> {
    fn from(message: T) -> Self {
        Self::Message(message)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client disconnected or stopped reading.
#[derive(Debug)]
pub(super) struct NotTaken;

impl<T, H> ChunkSender<T, H> {
    /// Sends a chunk; waits until there is room for it. Fails if the client disconnected or did not
    /// take a chunk in time.
    pub(super) async fn send(&self, chunk: impl Into<Chunk<T, H>>) -> Result<(), NotTaken> {
        let chunk = Arc::new(Mutex::new(Some(chunk.into())));
        tokio::select! {
            biased;
            sent = self.sender.send(Ok(chunk.clone())) => {
                *lock(&self.last) = Some(chunk);
                sent.map_err(|_| NotTaken)
            }
            limit_ms = self.stalled() => {
                self.end.store(limit_ms, Ordering::Release);
                if let Some(last) = lock(&self.last).take() {
                    drop(lock(&last).take());
                }
                Err(NotTaken)
            }
        }
    }

    /// Completes when the client's time to take a chunk is over; returns that time in milliseconds.
    async fn stalled(&self) -> u64 {
        sleep(Duration::from_millis(ANSWER_STALL_MS_MIN)).await;
        let rest = sleep(Duration::from_millis(ANSWER_STALL_MS_MAX - ANSWER_STALL_MS_MIN));
        let Some(budget) = &self.budget else {
            rest.await;
            return ANSWER_STALL_MS_MAX;
        };
        tokio::select! {
            () = budget.is_wanted() => ANSWER_STALL_MS_MIN,
            () = rest => ANSWER_STALL_MS_MAX,
        }
    }
}

impl<T: Send + 'static, H: Send + 'static> ChunkStream<T, H> {
    /// Runs `task` with the sending end; its result is the status of the stream.
    pub(super) fn spawn<F>(task: impl FnOnce(ChunkSender<T, H>) -> F) -> Self
    where
        F: Future<Output = Result<Result<(), Status>, NotTaken>> + Send + 'static,
    {
        Self::spawn_with(None, task)
    }

    /// Like [`ChunkStream::spawn`], but for an answer that may hold memory of `budget`.
    pub(super) fn spawn_with<F>(
        budget: Option<Arc<AnswerBudget>>,
        task: impl FnOnce(ChunkSender<T, H>) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Result<(), Status>, NotTaken>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(1);
        let end = Arc::new(AtomicU64::new(ANSWER_STALL_MS_MAX));
        let whole = end.clone();
        let last = Mutex::default();
        let making = task(ChunkSender { sender: sender.clone(), last, budget, end: end.clone() });
        let task = tokio::spawn(async move {
            match making.await {
                Ok(Ok(())) => whole.store(WHOLE, Ordering::Release),
                // An error means that the client disconnected.
                Ok(Err(status)) => drop(sender.send(Err(status)).await),
                Err(NotTaken) => {}
            }
        });
        Self { receiver, end, is_done: false, handover: None, task }
    }

    /// The answer to a call.
    pub(super) fn answer(mut self, call: &Call) -> Response<Self> {
        self.handover = call.is_in_process().then(Handover::default);
        let handover = self.handover.clone();
        let mut response = Response::new(self);
        if let Some(handover) = handover {
            response.extensions_mut().insert(handover);
        }
        response
    }
}

impl<T: Default, H> Stream for ChunkStream<T, H> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        if let Some(handover) = &self.handover {
            ready!(handover.poll_room(context));
        }
        let chunk = match ready!(self.receiver.poll_recv(context)) {
            Some(Ok(chunk)) => lock(&chunk).take().map(Ok),
            Some(Err(status)) => Some(Err(status)),
            None => None,
        };
        self.is_done = !matches!(chunk, Some(Ok(_)));
        match (&chunk, self.end.load(Ordering::Acquire)) {
            (None, limit_ms) if limit_ms != WHOLE => {
                Poll::Ready(Some(Err(ServiceError::NotRead(limit_ms).into())))
            }
            _ => Poll::Ready(chunk.map(|chunk| chunk.and_then(|chunk| self.message(chunk)))),
        }
    }
}

impl<T: Default, H> ChunkStream<T, H> {
    /// The message that the stream returns for a chunk.
    fn message(&self, chunk: Chunk<T, H>) -> Result<T, Status> {
        match (chunk, &self.handover) {
            (Chunk::Message(message), _) => Ok(message),
            (Chunk::Handed(part), Some(handover)) => {
                handover.put(part);
                Ok(T::default())
            }
            (Chunk::Handed(_), None) => Err(Status::internal("a part has no handover")),
        }
    }
}

impl<T, H> Drop for ChunkStream<T, H> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;
    use tokio_stream::StreamExt as _;

    use super::*;
    use crate::shares::Requester;

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_ends_with_an_error() {
        let mut stream = ChunkStream::spawn(|sender| async move {
            for chunk in 0..3 {
                sender.send(chunk).await?;
            }
            Ok(Ok(()))
        });
        sleep(Duration::from_millis(2 * ANSWER_STALL_MS_MAX)).await;
        let status = stream.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_gives_way_to_a_request_that_waits_for_memory() {
        let budget = Arc::new(AnswerBudget::new(10 << 10, Gauge::default()));
        let room = budget.try_room(Requester::at(1), 10 << 10).unwrap();
        let mut stream = ChunkStream::spawn_with(Some(budget.clone()), |sender| async move {
            let _room = room;
            for chunk in 0..3 {
                sender.send(chunk).await?;
            }
            Ok(Ok(()))
        });
        let started = tokio::time::Instant::now();
        assert!(budget.room(Requester::at(2), 4 << 10).await.is_ok());
        assert_eq!(started.elapsed().as_millis() as u64 / 100, ANSWER_STALL_MS_MIN / 100);
        let status = stream.next().await.unwrap().unwrap_err();
        assert!(status.message().contains("2000"), "{status}");
    }

    #[tokio::test]
    async fn chunks_arrive_in_order_before_the_end() {
        let stream = ChunkStream::spawn(|sender| async move {
            for chunk in 0..100 {
                sender.send(chunk).await?;
            }
            Ok(Ok(()))
        });
        let chunks: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(chunks, (0..100).collect::<Vec<_>>());
    }
}
