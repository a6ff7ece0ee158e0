//! A response stream whose chunks are made as the client reads them.
//!
//! A task makes one chunk ahead and waits until the client takes it. A client that takes none for a
//! minute loses its answer, which frees the memory; the stream then ends with an error, since
//! otherwise the answer would look complete.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::Status;

use crate::error::ServiceError;
use crate::limits::ANSWER_STALL_MS_MAX;

/// See the module documentation.
#[derive(Debug)]
pub struct ChunkStream<T> {
    receiver: mpsc::Receiver<Result<T, Status>>,
    is_whole: Arc<AtomicBool>,
    is_done: bool,
    task: JoinHandle<()>,
}

/// The end of the task that makes the chunks.
#[derive(Debug)]
pub(super) struct ChunkSender<T>(mpsc::Sender<Result<T, Status>>);

/// The client disconnected or stopped reading.
#[derive(Debug)]
pub(super) struct NotTaken;

impl<T> ChunkSender<T> {
    /// Waits until the client can take a chunk.
    pub(super) async fn send(&self, chunk: T) -> Result<(), NotTaken> {
        let stall = Duration::from_millis(ANSWER_STALL_MS_MAX);
        self.0.send_timeout(Ok(chunk), stall).await.map_err(|_| NotTaken)
    }
}

impl<T: Send + 'static> ChunkStream<T> {
    /// Runs `task` with the sending end; its result is the status of the stream.
    pub(super) fn spawn<F>(task: impl FnOnce(ChunkSender<T>) -> F) -> Self
    where
        F: Future<Output = Result<Result<(), Status>, NotTaken>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(1);
        let is_whole = Arc::new(AtomicBool::new(false));
        let whole = is_whole.clone();
        let making = task(ChunkSender(sender.clone()));
        let task = tokio::spawn(async move {
            match making.await {
                Ok(Ok(())) => whole.store(true, Ordering::Release),
                // An error means that the client disconnected.
                Ok(Err(status)) => drop(sender.send(Err(status)).await),
                Err(NotTaken) => {}
            }
        });
        Self { receiver, is_whole, is_done: false, task }
    }
}

impl<T> Stream for ChunkStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let chunk = ready!(self.receiver.poll_recv(context));
        self.is_done = !matches!(chunk, Some(Ok(_)));
        if chunk.is_none() && !self.is_whole.load(Ordering::Acquire) {
            return Poll::Ready(Some(Err(ServiceError::NotRead(ANSWER_STALL_MS_MAX).into())));
        }
        Poll::Ready(chunk)
    }
}

impl<T> Drop for ChunkStream<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_ends_with_an_error() {
        let mut stream = ChunkStream::spawn(|sender| async move {
            for chunk in 0..3 {
                sender.send(chunk).await?;
            }
            Ok(Ok(()))
        });
        tokio::time::sleep(Duration::from_millis(2 * ANSWER_STALL_MS_MAX)).await;
        assert_eq!(stream.next().await.unwrap().unwrap(), 0);
        let status = stream.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert!(stream.next().await.is_none());
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
